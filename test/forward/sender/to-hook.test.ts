/** Sends to a hook: only the events that it wants, in order, each at least once. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { goneName, segmentName } from '../../../src/journal/segments.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { diskWith, FIRST, plainEvent, START } from '../../support/segments.ts';
import { eventually } from '../../support/tools.ts';
import { cursorOf, lettersOf, loseCursor, Model, saveCursor, sendAll, startSender } from '../scripted.ts';

const destination = {
  to: 'hook+http://127.0.0.1:3000/…',
  only: { type: 'AssetCheckEvaluation', passed: false },
} as const;

function check(passed: boolean): PlainEvent {
  return {
    type: 'AssetCheckEvaluation',
    assetKey: ['orders'],
    checkName: 'no_nulls',
    passed,
    severity: 'ERROR',
    metadata: '{"not":"passed\\":false"}',
  };
}

/** A file of a journal whose failed checks have these seqs, between passed ones and events of other types. */
function checksFailedAt(failed: readonly number[], last: number, first = 1): Buffer {
  const eventAt = (seq: number) =>
    failed.includes(seq) ? check(false) : seq % 2 === 0 ? check(true) : plainEvent(seq);
  const events = Array.from({ length: last + 1 - first }, (_, at) => encodeMembers(eventAt(first + at)));
  return encodeBatch(events, { ...START, seq: first }, new Date('2026-11-20T15:19:45.266Z')).bytes;
}

test('a hook gets the events that it wants, one in a request and in order, and the cursor passes the others [hook-1]', async () => {
  const failed = [1, 2, 7, 500, 899];
  const disk = diskWith({ [FIRST]: checksFailedAt(failed, 1_000) });
  const hook = new Model('hook');
  await sendAll(disk, 1_000, () => hook, { destination });
  assert.deepEqual([hook.recorded, hook.asked], [failed, 0]);
  const { seq, sending, kind } = await cursorOf(disk);
  assert.deepEqual([seq, sending, kind], [1_000, undefined, 'hook']);
  assert.deepEqual(await lettersOf(disk), []);
  await sendAll(disk, 1_000, () => hook, { destination });
  assert.deepEqual(hook.requests, failed, 'nothing is sent again after a restart');
});

test('an event that a hook may have is sent again without another one to send, and not passed [hook-2]', async () => {
  const disk = diskWith({ [FIRST]: checksFailedAt([3], 20) });
  const cursors: number[] = [];
  const hook = new Model('hook', async () => {
    cursors.push((await cursorOf(disk)).seq);
    return cursors.length < 9 ? 'in doubt' : 'record';
  });
  await sendAll(disk, 20, () => hook, { destination });
  assert.deepEqual(cursors, Array(9).fill(2));
  assert.deepEqual([hook.requests, hook.recorded], [Array(9).fill(3), [3]]);
  assert.deepEqual(
    (await lettersOf(disk)).map(({ outcome, became }) => [outcome, became]),
    [['in doubt', 'taken']],
  );
});

test('the next event that a hook takes, behind gaps and others, shows that the one before is to blame [hook-3]', async () => {
  const disk = diskWith({
    [FIRST]: checksFailedAt([2], 10),
    [goneName({ first: 11, last: 15 }, 'lost')]: Buffer.alloc(0),
    [segmentName(16)]: checksFailedAt([25, 26], 30, 16),
  });
  const hook = new Model('hook', (_, seq) => (seq === 2 ? 'in doubt' : 'record'));
  await sendAll(disk, 30, () => hook, { destination });
  assert.deepEqual(hook.recorded, [25, 26]);
  const tries = hook.requests.indexOf(25); // more than three if not all was read at the third
  assert.ok(tries >= 3, `${hook.requests}`);
  assert.deepEqual([...new Set(hook.requests.slice(0, tries))], [2]);
  const letters = await lettersOf(disk);
  assert.deepEqual(
    letters.map(({ outcome, became, first, last }) => [outcome, became, first, last]),
    [
      ['in doubt', 'given up', undefined, undefined],
      ['removed', undefined, 11, 15],
    ],
  );
  const { seq, sending } = await cursorOf(disk);
  assert.deepEqual([seq, sending], [30, undefined]);
});

test('a hook that is away holds little of the journal in memory, and gets all in order when it is back [hook-4]', async () => {
  const journal = checksFailedAt([2, 9_999], 10_000);
  const disk = diskWith({ [FIRST]: journal });
  let isAway = true;
  const hook = new Model('hook', (_, seq) => {
    isAway &&= seq !== 2 || hook.requests.length < 20;
    return isAway ? 'in doubt' : 'record';
  });
  let pages = 0;
  const { read } = disk;
  disk.read = (...args) => {
    pages += 1;
    return read.apply(disk, args);
  };
  const limits = { forwardBatchBytes: 1, forwardTriesMax: 1 };
  const bench = startSender(disk, 10_000, () => hook, { destination, limits });
  await eventually('it is back', () => !isAway);
  assert.deepEqual([...new Set(hook.requests)], [2, 9_999]);
  assert.ok(pages < 20 + journal.length / 65_536, `${pages} reads of ${journal.length} bytes`);
  await bench.finish();
  assert.deepEqual(hook.recorded, [2, 9_999]);
  assert.deepEqual(await lettersOf(disk).then((letters) => letters.map(({ became }) => became)), ['taken']);
});

test('an event that a hook never takes is passed also if the next one is far, which may be sent twice [hook-8]', async () => {
  const disk = diskWith({ [FIRST]: checksFailedAt([2, 9_999], 10_000) });
  const hook = new Model('hook', (_, seq) => (seq === 2 ? 'in doubt' : 'record'));
  await sendAll(disk, 10_000, () => hook, { destination, limits: { forwardBatchBytes: 1, forwardTriesMax: 2 } });
  assert.deepEqual(hook.recorded, [9_999, 9_999]);
  assert.deepEqual(
    (await lettersOf(disk)).map(({ line, became }) => [JSON.parse(line!).seq, became]),
    [[2, 'given up']],
  );
  const { seq, sending } = await cursorOf(disk);
  assert.deepEqual([seq, sending], [10_000, undefined]);
});

test('after a crash only the event that was being sent is in doubt, and a lost cursor stops [hook-5]', async () => {
  const disk = diskWith({ [FIRST]: checksFailedAt([4, 8], 10) });
  await saveCursor(disk, { seq: 3, sending: 8, kind: 'hook', to: destination.to });
  const hook = new Model('hook');
  await sendAll(disk, 10, () => hook, { destination });
  assert.deepEqual(hook.recorded, [4, 8]);
  assert.deepEqual(
    (await lettersOf(disk)).map(({ line }) => JSON.parse(line!).seq),
    [4, 8],
  );
  const { seq, sending } = await cursorOf(disk);
  assert.deepEqual([seq, sending], [10, undefined]);
  await loseCursor(disk);
  const bench = startSender(disk, 10, () => hook, { destination });
  await bench.until('stopped');
  const { why, reason } = bench.sender.status();
  assert.deepEqual([why, hook.requests.length], ['cursor lost', 2]);
  assert.match(`${reason}`, /run assetlog forward from upstream --seq N/);
  await bench.sender.close();
});

test('events that a hook does not want cost at most one sync a second [hook-6]', async () => {
  const disk = diskWith({ [FIRST]: checksFailedAt([], 5_000) });
  const hook = new Model('hook');
  const bench = startSender(disk, 10, () => hook, { destination, limits: { forwardCheckMs: 60_000 } });
  await bench.until('idle');
  await eventually('a part is passed', () => (bench.sender.seq ?? 0) >= 10);
  for (let seq = 11; seq < 200; seq += 10) {
    bench.progress.recorded(disk.folder, seq);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assert.ok((await cursorOf(disk)).seq <= 10);
  await bench.sender.close();
  assert.ok((await cursorOf(disk)).seq >= 10, 'a stop saves what was passed');
  assert.deepEqual(hook.requests, []);
});
