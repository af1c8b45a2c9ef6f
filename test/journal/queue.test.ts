/** The queue is bounded, and events that are appended together are recorded together or not at all. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SEQ_MAX } from '../../src/journal/line/record.ts';
import { goneName, segmentName } from '../../src/journal/segments.ts';
import { hold } from '../support/gate.ts';
import { bothDisks, described, openJournal, openSimulated, quickLimits, recorded } from '../support/journal.ts';
import { eventOf, type PlainEvent } from '../support/plain-event.ts';
import { SimulatedDisk, systemError } from '../support/simulated-disk.ts';
import { eventually } from '../support/tools.ts';

test('reports beyond the bound of the queue are refused at once, and waiting reports are recorded [journal-12]', async () => {
  const { disk, report } = await openSimulated({ limits: { ...quickLimits, queueBytesMax: 10_000 } });
  const release = hold(disk, 'sync');
  const first = report('first');
  await eventually('the sync', () => disk.count('sync') === 1);
  const waiting = Array.from({ length: 10 }, (_, index) => report(`${index}`));
  const refused = await Promise.all(waiting.slice(3)); // the report that is being written counts as well
  assert.deepEqual(new Set(refused), new Set(['the disk does not keep up: too many reports are waiting for it']));
  release();
  assert.deepEqual(await Promise.all([first, ...waiting.slice(0, 3)]), Array(4).fill(undefined));
  assert.deepEqual(await recorded(disk), ['first', '0', '1', '2']);
  assert.equal(await report('again'), undefined);
});

test('journals that share a backlog share its bound, and release their part [journal-13]', async () => {
  const disks = [new SimulatedDisk(), new SimulatedDisk()] as const;
  const shared = { backlog: { bytes: 0 }, limits: { ...quickLimits, backlogBytesMax: 10_000 } };
  const [slow, other] = [await openJournal(disks[0], shared), await openJournal(disks[1], shared)];
  const release = hold(disks[0], 'sync');
  const waiting = Array.from({ length: 4 }, (_, index) => slow.report(`${index}`));
  assert.match((await other.report('no space')) ?? '', /too many reports are waiting/);
  release();
  assert.deepEqual(await Promise.all(waiting), Array(4).fill(undefined));
  assert.equal(await other.report('space'), undefined);
  assert.equal(shared.backlog.bytes, 0);
  await Promise.all([slow.journal.close(), other.journal.close()]);
});

/** The events `a0`, `a1`, … for the name `a`. */
function batch(name: string, count: number): PlainEvent[] {
  return Array.from({ length: count }, (_, index) => described(`${name}${index}`));
}

const tenA = Array.from({ length: 10 }, (_, index) => `a${index}`);

for (const [kind, makeDisk] of Object.entries(bothDisks)) {
  test(`${kind}: events that are appended together are consecutive, even beside others, and have one result`, async (t) => {
    const disk = makeDisk(t);
    const { journal, report } = await openJournal(disk);
    let results = 0;
    const together = new Promise<void>((resolve) => {
      const before = report('before');
      journal.append(batch('a', 10).map(eventOf), (result) => {
        results += 1;
        assert.deepEqual(result, { kind: 'recorded' });
        resolve(before.then(() => {}));
      });
    });
    await Promise.all([together, report('after')]);
    assert.equal(await report('later'), undefined);
    await journal.close();
    assert.equal(results, 1);
    assert.deepEqual(await recorded(disk), ['before', ...tenA, 'after', 'later']);
  });
}

test('events that are appended together share one write, even if they are larger than a batch [journal-9]', async () => {
  const disk = new SimulatedDisk();
  const nextSeqs: number[] = [];
  const onRecorded = (nextSeq: number) => nextSeqs.push(nextSeq);
  const { journal, report } = await openJournal(disk, { limits: { ...quickLimits, batchBytesMax: 400 }, onRecorded });
  const before = disk.count('write');
  assert.deepEqual(await Promise.all([report('x'), report(batch('a', 10)), report('y')]), [
    undefined,
    undefined,
    undefined,
  ]);
  assert.equal(disk.count('write') - before, 3);
  assert.deepEqual(nextSeqs, [1, 2, 12, 13]);
  await journal.close();
  assert.deepEqual(await recorded(disk), ['x', ...tenA, 'y']);
});

for (const fault of ['ENOSPC', 'short'] as const) {
  test(`no event of an append is recorded if its write fails (${fault})`, async () => {
    const { disk, journal, report } = await openSimulated({ limits: { ...quickLimits, batchBytesMax: 400 } });
    assert.equal(await report('before'), undefined);
    disk.fault = (call) => (call !== 'write' ? undefined : fault === 'short' ? { shortBy: 500 } : systemError(fault));
    assert.match((await report(batch('a', 10))) ?? '', /^the disk refuses writes/);
    disk.fault = () => undefined;
    assert.equal(await report(batch('b', 2)), undefined);
    await journal.close();
    assert.deepEqual(await recorded(disk), ['before', 'b0', 'b1']);
  });
}

test('events that are appended together count against the queue before any is accepted', async () => {
  const { disk, journal, report } = await openSimulated({
    limits: { ...quickLimits, queueBytesMax: 10_000, queueLineBytes: 1_000 },
  });
  assert.match((await report(batch('never', 10))) ?? '', /^the 10 events take \d+ bytes .* 10000 .* in parts$/);
  const [first, second] = [report(batch('a', 2)), report(batch('b', 6))];
  assert.match((await second) ?? '', /too many reports are waiting/);
  assert.equal(await first, undefined);
  assert.equal(journal.queueBytes, 0);
  assert.equal(await report('alone'), undefined);
  await journal.close();
  assert.deepEqual(await recorded(disk), ['a0', 'a1', 'alone']);
});

test('events with more than tornBytesMax bytes in one write are refused, and the reason names a remedy', async () => {
  const { report } = await openSimulated({ limits: { ...quickLimits, tornBytesMax: 1_500 } });
  assert.match(
    (await report(batch('a', 10))) ?? '',
    /^the 10 events take up to \d+ bytes .* at most 1500 .*; send them in parts$/,
  );
  assert.equal(await report('x'.repeat(3_000)), undefined);
});

test('events that are appended together are refused together if the journal has too few seqs left', async () => {
  const disk = new SimulatedDisk();
  disk.put(segmentName(SEQ_MAX - 2), Buffer.alloc(0));
  disk.put(goneName({ first: 1, last: SEQ_MAX - 3 }, 'removed'), Buffer.alloc(0));
  const { journal, report } = await openJournal(disk);
  const results = await Promise.all([report('x'), report(batch('a', 10)), report('y')]);
  assert.equal(results[0], undefined);
  assert.match(results[1] ?? '', /^the journal is full/);
  assert.equal(results[2], undefined);
  await journal.close();
  assert.deepEqual(await recorded(disk), ['x', 'y']);
});
