/** The state of assets beside its journal: exact after each report, each end of the service and each removal of a file. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { contentsOf, STATE_FILE, segmentName } from '../../src/journal/segments.ts';
import { countOf, createKept, eventAt, type KeptOptions, openKept } from '../support/kept-assets.ts';
import { rounds } from '../support/long.ts';
import { makeLines } from '../support/segments.ts';
import { gate } from '../world/gate.ts';
import { everyRemains, settled } from '../world/power.ts';
import { SimulatedDisk, systemError } from '../world/simulated-disk.ts';

const RETAIN = { segmentBytes: 1_000, retain: { retainBytes: 4_000 } };

type Kept = ReturnType<typeof createKept>;
type Reading = NonNullable<KeptOptions['reading']>;

async function report(kept: Kept, first: number, last: number): Promise<void> {
  for (let n = first; n <= last; n += 1) assert.equal(await kept.report([eventAt(n)]), undefined);
}

/** The journal of a service that was stopped after so many events, without the file. */
async function stoppedWithout(events: number): Promise<SimulatedDisk> {
  const disk = new SimulatedDisk();
  const before = await openKept(disk, { journal: { segmentBytes: 1_000 } });
  await report(before, 1, events);
  await before.journal.close();
  disk.drop(STATE_FILE);
  return disk;
}

/** Rejects when the signal aborts. */
function never(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason));
  });
}

/** The state as it is made from the lines alone, by a service that has no file. */
async function foldedAnew(disk: SimulatedDisk): Promise<unknown> {
  const copy = disk.afterCrash();
  copy.drop(STATE_FILE);
  const kept = await openKept(copy);
  return (await kept.state()).assets;
}

test('a start reads only the lines after the state file', async () => {
  const disk = new SimulatedDisk();
  const first = await openKept(disk, { journal: { segmentBytes: 2_000 } });
  await report(first, 1, 60);
  await first.journal.close();
  const firstFile = contentsOf(disk.names()).segments[0]!.name;
  const second = await openKept(disk, { journal: { segmentBytes: 2_000 } });
  disk.calls.length = 0;
  assert.equal(countOf((await second.state()).assets), 60);
  assert.equal(disk.calls.includes(`read ${firstFile}`), false);
});

test('events that retention removed stay counted in the state, also after each power cut [journal-assets-3]', async () => {
  const disk = new SimulatedDisk();
  const kept = await openKept(disk, { journal: RETAIN });
  // So large a state that the file is not written each time that a segment is closed.
  const once = Array.from({ length: 100 }, (_, n) => `${n} ${'x'.repeat(200)}`);
  await kept.report(once.map((key) => ({ type: 'AssetObservation', assetKey: ['once', key], partition: 'p' })));
  for (let n = 1; n <= 60; n += 1) {
    await report(kept, n, n);
    await settled(20);
    assert.equal(countOf((await kept.state()).assets), n + 100);
    for (const [index, after] of everyRemains(disk).entries()) {
      if ((n + index) % rounds({ long: 9, short: 27 }) !== 0) continue;
      const again = await openKept(after, { journal: RETAIN });
      const { assets, sinceSeq, unseen } = await again.state();
      assert.deepEqual([countOf(assets), sinceSeq, unseen], [n + 100, 1, []], `after ${n} events, cut ${index}`);
      assert.equal(assets.find(({ asset_key }) => asset_key[0] === 'once')?.observation?.partition, 'p');
    }
  }
  assert.ok(contentsOf(disk.names()).removedLast > 120, 'files were removed');
});

test('events recorded while the lines are read are counted once and not delayed [journal-assets-5]', async () => {
  const disk = await stoppedWithout(100);
  // With little memory for batches that wait the lines are read again up to the last batches.
  for (const assetsWaitBytes of [1_000_000, 2_000]) {
    const open = gate();
    const reading: Reading = (own) =>
      async function* (name, start, end) {
        await open.opened;
        yield* own.read(name, start, end);
      };
    const kept = await openKept(disk.afterCrash(), { reading, limits: { assetsWaitBytes } });
    await report(kept, 101, 140);
    assert.equal(kept.assets.current, undefined);
    open.open();
    const { assets } = await kept.state();
    assert.equal(countOf(assets), 140);
    await report(kept, 141, 150);
    assert.deepEqual((await kept.state()).assets, await foldedAnew(kept.disk));
    await kept.journal.close();
    assert.deepEqual((await (await openKept(kept.disk)).state()).assets, await foldedAnew(kept.disk));
  }
});

test('a state that is behind reads without turns, so that it catches up while events are recorded', async () => {
  const disk = await stoppedWithout(300);
  let turns = 0;
  const reading: Reading = (_, { signal, mayReadNow }) =>
    async function* (name, start, end) {
      for await (const chunk of disk.read(name, start, end)) {
        const isNow = mayReadNow(chunk.length);
        if (!isNow) turns += 1;
        // Under load a turn takes long.
        if (!isNow) await sleep(20, undefined, { signal });
        yield chunk;
      }
    };
  const kept = await openKept(disk, { reading, journal: { segmentBytes: 1_000 } });
  const files = contentsOf(disk.names()).segments.length;
  let n = 300;
  while (kept.assets.current === undefined && n < 3_000) {
    n += 1;
    await report(kept, n, n);
  }
  assert.ok(kept.assets.current !== undefined, `behind after ${n - 300} events`);
  assert.ok(turns < files / 2, `${turns} turns for ${files} files`);
  assert.equal(countOf((await kept.state()).assets), n);
});

test('a stop while the lines are read saves what was read, and the next start continues there', async () => {
  const disk = await stoppedWithout(100);
  let chunks = 0;
  const stuck = gate();
  const reading: Reading = () =>
    async function* (name, start, end) {
      for await (const chunk of disk.read(name, start, end)) {
        chunks += 1;
        if (chunks > 10) await stuck.opened;
        yield chunk;
      }
    };
  const kept = await openKept(disk, { reading });
  await settled();
  const { lastSeq = 0 } = kept.assets;
  assert.ok(lastSeq > 10 && lastSeq < 100, `${lastSeq}`);
  await kept.journal.close();
  assert.match(disk.text(STATE_FILE), new RegExp(`^\\{"format":2,"seq":${lastSeq},`));
  stuck.open();
  assert.deepEqual((await (await openKept(disk)).state()).assets, await foldedAnew(disk));
});

test('retention waits for the reading of the files that it removes, and not for reading turns', async () => {
  const disk = await stoppedWithout(100);
  let turns = 0;
  const reading: Reading = (_, { signal, mayReadNow }) =>
    async function* (name, start, end) {
      for await (const chunk of disk.read(name, start, end)) {
        if (!mayReadNow(chunk.length)) turns += 1;
        if (turns > 3) await never(signal); // the next turn never comes
        yield chunk;
      }
    };
  const kept = createKept(disk, { journal: RETAIN, reading });
  await kept.assets.removing(1); // the first file is read without turns, as by a start on a full disk
  await kept.journal.open();
  await settled();
  const { removedLast } = contentsOf(disk.names());
  assert.ok(removedLast > 50, `${removedLast}`);
  const again = await openKept(disk.afterCrash(), { journal: RETAIN });
  assert.equal(countOf((await again.state()).assets), 100);
});

test('if the state file cannot be written, retention removes files all the same, and it is written later', async () => {
  const disk = new SimulatedDisk();
  const kept = await openKept(disk, { journal: RETAIN });
  let isFull = true;
  disk.fault = (call, name) =>
    isFull && call === 'write' && name.startsWith(STATE_FILE) ? systemError('ENOSPC', name) : undefined;
  await report(kept, 1, 40);
  await settled();
  const { removedLast } = contentsOf(disk.names());
  assert.ok(removedLast > 0);
  assert.deepEqual([kept.all.unsaved, disk.names().some((name) => name.startsWith(STATE_FILE))], [1, false]);
  const said = kept.log.filter((line) => line.includes('could not be written'));
  assert.equal(said.length, 1);
  assert.equal(countOf((await kept.state()).assets), 40);
  const lost = await openKept(disk.afterCrash(), { journal: RETAIN });
  const { assets, sinceSeq } = await lost.state();
  assert.deepEqual([countOf(assets), sinceSeq], [40 - removedLast, removedLast + 1]);
  isFull = false;
  for (let waits = 0; waits < 100 && kept.all.unsaved > 0; waits += 1) await new Promise((wake) => setTimeout(wake, 5));
  assert.equal(kept.all.unsaved, 0);
  const again = await openKept(disk.afterCrash(), { journal: RETAIN });
  assert.equal(countOf((await again.state()).assets), 40);
});

/** A journal with 100 events whose state was written at event 40, before retention removed the first 60. */
async function leftBehind(): Promise<SimulatedDisk> {
  const disk = new SimulatedDisk();
  const first = await openKept(disk, { journal: { segmentBytes: 1_000 } });
  await report(first, 1, 40);
  await first.journal.close();
  const older = createKept(disk, {
    journal: { segmentBytes: 1_000, retain: { retainBytes: 9_000 }, followers: [] },
  });
  await older.journal.open();
  await report(older, 41, 100);
  await settled();
  await older.journal.close();
  return disk;
}

test('events that retention removed before the state read them are reported as missing, and the rest counts', async () => {
  const disk = await leftBehind();
  const { removedLast } = contentsOf(disk.names());
  assert.ok(removedLast > 45, `${removedLast}`);
  for (let start = 0; start < 2; start += 1) {
    const kept = await openKept(disk);
    const { assets, sinceSeq, unseen } = await kept.state();
    assert.deepEqual([sinceSeq, unseen], [1, [{ first: 41, last: removedLast }]]);
    assert.equal(countOf(assets), 100 - (removedLast - 40));
    assert.equal(kept.log.filter((line) => line.includes('lacks events')).length, start === 0 ? 1 : 0);
    await kept.journal.close();
  }
});

test('a state of another journal, or one ahead of its journal, is rebuilt from the lines', async () => {
  const disk = new SimulatedDisk();
  const kept = await openKept(disk);
  await report(kept, 1, 50);
  await kept.journal.close();
  const state = disk.bytes(STATE_FILE)!;
  const other = (count: number) => {
    const copy = new SimulatedDisk();
    copy.put(segmentName(1), makeLines(count).bytes);
    copy.put(STATE_FILE, state);
    return copy;
  };
  for (const count of [30, 50, 70]) {
    const again = await openKept(other(count));
    assert.equal(countOf((await again.state()).assets), count);
    assert.equal(again.log.filter((line) => line.includes('is rebuilt from the events')).length, 1);
  }
  const older = disk.afterCrash();
  const lines = older.bytes(segmentName(1))!;
  older.put(segmentName(1), lines.subarray(0, lines.lastIndexOf('\n', -2) + 1));
  older.drop('.stopped-cleanly');
  assert.equal(countOf((await (await openKept(older)).state()).assets), 49);
});

test('the state file is written when a segment closes and the journal has grown by the size of the state', async () => {
  const disk = new SimulatedDisk();
  const kept = await openKept(disk, { journal: { segmentBytes: 1_000 } });
  for (let n = 1; n <= 300; n += 1) {
    await kept.report([{ type: 'AssetObservation', assetKey: [`${n}`] }]);
    await settled(2);
  }
  await settled();
  const writes = disk.calls.filter((call) => call === `create ${STATE_FILE}.new`).length;
  const files = contentsOf(disk.names()).segments.length;
  assert.ok(writes >= 3 && writes < files / 3, `${writes} of ${files}`);
});

test('the state of a closed journal is read again when another process has changed its file', async () => {
  const disk = new SimulatedDisk();
  const kept = await openKept(disk);
  await report(kept, 1, 20);
  await kept.journal.close();
  assert.equal((await kept.state()).assets.length, 4);
  const other = createKept(disk);
  await other.journal.open();
  await other.state();
  const { states } = other.assets.current!;
  states.forget(({ name }) => name === 'a\x001');
  await other.report([eventAt(22)]);
  await other.journal.close();
  assert.equal((await kept.state()).assets.length, 3);
});
