/** The queue is bounded, and events that are appended together are recorded together or not at all. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { described, nextSeqsTo, openJournal, openSimulated, quickLimits, recorded } from '../support/journal.ts';
import type { PlainEvent } from '../support/plain-event.ts';
import { eventually } from '../support/tools.ts';
import { hold } from '../world/gate.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';

test('reports beyond the limit of the queue are refused at once, and waiting reports are recorded [journal-12]', async () => {
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

test('reports that wait for the disk count in the share of a journal [journal-16]', async () => {
  const { disk, report } = await openSimulated({ limits: quickLimits, retain: { maxBytes: 10_000 } });
  const release = hold(disk, 'sync');
  const first = report('first');
  await eventually('the sync', () => disk.count('sync') === 1);
  const waiting = Array.from({ length: 40 }, (_, index) => report(`${index}`));
  release();
  const refused = (await Promise.all(waiting)).filter((reason) => reason !== undefined);
  assert.match(refused[0] ?? '', /^the journal of this deployment is full: its maxBytes is 10000/);
  assert.ok(refused.length > 0 && refused.length < 40, `${refused.length}`);
  const bytes = (await disk.list()).filter((name) => name.endsWith('.jsonl')).map((name) => disk.bytes(name)!.length);
  assert.ok(
    bytes.every((size) => size <= 10_000),
    `${bytes}`,
  );
  assert.equal(await first, undefined);
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

test('events that are appended together share one write, even if they are larger than a batch [journal-9]', async () => {
  const disk = new SimulatedDisk();
  const nextSeqs: number[] = [];
  const followers = [nextSeqsTo(nextSeqs)];
  const { journal, report } = await openJournal(disk, { limits: { ...quickLimits, batchBytesMax: 400 }, followers });
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
