import assert from 'node:assert/strict';
import { test } from 'node:test';
import { writeSidecar } from '../../../src/journal/keys/sidecar.ts';
import { hashKey, KeyTable } from '../../../src/journal/keys/table.ts';
import { segmentName, sidecarName } from '../../../src/journal/segments.ts';
import { flip, makeLines } from '../../support/segments.ts';
import { readSidecar } from '../../support/standard-limits.ts';
import { eachCall, remainsOf } from '../../world/power.ts';
import { SimulatedDisk } from '../../world/simulated-disk.ts';

const FIRST_SEQ = 101;
const FILE = segmentName(FIRST_SEQ);
const SIDECAR = sidecarName(FIRST_SEQ);

/** A disk with a closed file of 20 lines, and a table with the keys of every second line in, before and after the file. */
function setUp() {
  const disk = new SimulatedDisk();
  const { bytes, chain } = makeLines(20, { seq: FIRST_SEQ, crc: 0 });
  disk.put(FILE, bytes);
  const keys = new KeyTable();
  for (let seq = 91; seq <= 130; seq += 2) keys.add(hashKey(`k${seq}`), { seq, offset: 7 * seq }, 5_000 + seq);
  return { disk, file: { firstSeq: FIRST_SEQ, bytes: bytes.length, chain }, keys };
}

test('a sidecar has the keys of its segment in order, and says whether these are all', async () => {
  const { disk, file, keys } = setUp();
  await writeSidecar(disk, file, keys, 10);
  const sidecar = await readSidecar(disk, FIRST_SEQ);
  assert.ok(sidecar?.isComplete);
  assert.equal(sidecar.size, 10);
  for (let index = 0; index < 10; index += 1) {
    const seq = FIRST_SEQ + 2 * index;
    const { high, low } = hashKey(`k${seq}`);
    assert.deepEqual(sidecar.at(index), { high, low, seq, offset: 7 * seq, seconds: 5_000 + seq });
  }
  for (let count = 0; count < 10; count += 1) keys.removeOldest();
  await writeSidecar(disk, file, keys, 10);
  const later = await readSidecar(disk, FIRST_SEQ);
  assert.deepEqual([later?.isComplete, later?.size, later?.at(0).seq], [false, 5, 111]);
});

test('a sidecar without keys is small, and keys that are forgotten during its write are left out', async () => {
  const disk = new SimulatedDisk();
  const count = 9_000;
  const { bytes, chain } = makeLines(count);
  disk.put(segmentName(1), bytes);
  const file = { firstSeq: 1, bytes: bytes.length, chain };
  const keys = new KeyTable();
  await writeSidecar(disk, file, keys, 0);
  assert.ok((disk.bytes(sidecarName(1))?.length ?? 1e9) < 100);
  assert.deepEqual([(await readSidecar(disk, 1))?.size, (await readSidecar(disk, 1))?.isComplete], [0, true]);
  for (let seq = 1; seq <= count; seq += 1) keys.add(hashKey(`k${seq}`), { seq, offset: 0 }, 0);
  let writes = 0;
  disk.fault = (call) => {
    if (call === 'write') writes += 1;
    if (call === 'write' && writes === 3) while (keys.at(0).seq < 8_000) keys.removeOldest();
    return undefined;
  };
  await writeSidecar(disk, file, keys, count);
  const sidecar = await readSidecar(disk, 1);
  assert.equal(sidecar?.isComplete, false);
  assert.equal(sidecar?.at(sidecar.size - 1).seq, count);
  assert.equal(new Set(Array.from({ length: sidecar?.size ?? 0 }, (_, at) => sidecar?.at(at).seq)).size, sidecar?.size);
});

test('a sidecar is not used for a segment with other lines, another length or another name', async () => {
  const { disk, file, keys } = setUp();
  await writeSidecar(disk, file, keys, 10);
  const bytes = disk.bytes(FILE) as Buffer;
  const sidecar = disk.bytes(SIDECAR) as Buffer;
  disk.put(FILE, makeLines(20, { seq: FIRST_SEQ, crc: 0 }).bytes); // the same seqs and lengths, other ids
  assert.equal(await readSidecar(disk, FIRST_SEQ), undefined);
  disk.put(FILE, bytes.subarray(0, bytes.lastIndexOf('\n', bytes.length - 2) + 1));
  assert.equal(await readSidecar(disk, FIRST_SEQ), undefined);
  disk.put(FILE, Buffer.concat([bytes, makeLines(1, file.chain).bytes]));
  assert.equal(await readSidecar(disk, FIRST_SEQ), undefined);
  disk.put(FILE, bytes);
  assert.notEqual(await readSidecar(disk, FIRST_SEQ), undefined);
  disk.put(segmentName(FIRST_SEQ + 1), bytes);
  disk.put(sidecarName(FIRST_SEQ + 1), sidecar);
  assert.equal(await readSidecar(disk, FIRST_SEQ + 1), undefined);
});

test('a sidecar with a changed, missing or additional byte is not used', async () => {
  const { disk, file, keys } = setUp();
  await writeSidecar(disk, file, keys, 10);
  const good = disk.bytes(SIDECAR) as Buffer;
  for (let at = 0; at < good.length; at += 1) {
    disk.put(SIDECAR, flip(good, at));
    assert.equal(await readSidecar(disk, FIRST_SEQ), undefined, `byte ${at}`);
    disk.put(SIDECAR, good.subarray(0, at));
    assert.equal(await readSidecar(disk, FIRST_SEQ), undefined, `${at} bytes`);
  }
  disk.put(SIDECAR, Buffer.concat([good, Buffer.alloc(20)]));
  assert.equal(await readSidecar(disk, FIRST_SEQ), undefined);
  disk.put(SIDECAR, Buffer.alloc(100_000));
  disk.calls.length = 0;
  assert.equal(await readSidecar(disk, FIRST_SEQ), undefined);
  assert.equal(disk.count('read'), 0, 'a sidecar that is larger than its file is not read');
  disk.drop(SIDECAR);
  assert.equal(await readSidecar(disk, FIRST_SEQ), undefined);
});

test('after a power cut at any call of a write the sidecar is complete or missing, and can be written again [idempotency-sidecar-1]', async () => {
  for (const replaces of [false, true]) {
    for (const trial of eachCall('power')) {
      const { disk, file, keys } = setUp();
      if (replaces) await writeSidecar(disk, file, keys, 0);
      const isDone = (await trial.run(disk, () => writeSidecar(disk, file, keys, 10))).kind === 'done';
      if (isDone) await disk.syncFolder(); // like for the next file of the journal
      for (const remains of remainsOf([0, 0.5, 1])) {
        const after = disk.afterPowerCut(remains);
        // Bytes that were not synced must never be under the final name.
        const bytes = after.bytes(SIDECAR);
        const sidecar = await readSidecar(after, FIRST_SEQ);
        const when = `${trial.when}, ${JSON.stringify(remains)}`;
        if (bytes !== undefined) assert.equal(sidecar?.size, 10, `${when}: the sidecar is incomplete`);
        if (isDone) assert.equal(sidecar?.isComplete, true, when);
        await writeSidecar(after, file, keys, 10);
        assert.equal((await readSidecar(after, FIRST_SEQ))?.isComplete, true, when);
      }
    }
  }
});
