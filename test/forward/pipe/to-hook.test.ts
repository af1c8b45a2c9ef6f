/** Sends to a hook: only the events that it wants, in order, each at least once. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { diskWith, FIRST, plainEvent, START } from '../../support/segments.ts';
import { eventually, upTo } from '../../support/tools.ts';
import { Model } from '../../world/destination.ts';
import { cursorOf, lettersOf, saveCursor, sendAll, startPipe } from '../scripted.ts';

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
function checksFailedAt(failed: readonly number[], last: number): Buffer {
  const eventAt = (seq: number) =>
    failed.includes(seq) ? check(false) : seq % 2 === 0 ? check(true) : plainEvent(seq);
  const events = upTo(last).map((seq) => encodeMembers(eventAt(seq)));
  return encodeBatch(events, START, new Date('2026-11-20T15:19:45.266Z')).bytes;
}

test('an outage or a lost reply gives no event up, and restarts the time after which failures do', async () => {
  for (const outage of ['again', 'lost', 'stopped'] as const) {
    const disk = diskWith({ [FIRST]: checksFailedAt([2], 10) });
    let untilMs = 0;
    let [outages, failures] = [0, 0];
    const hook = new Model('hook', () => {
      if (failures === 1 && (outages === 0 || performance.now() < untilMs)) {
        outages += 1;
        return outage;
      }
      if (failures === 0) untilMs = performance.now() + 100;
      failures += 1;
      return failures === 3 ? 'record' : 'in doubt';
    });
    await sendAll(disk, 10, () => hook, { destination, limits: { hookFailingMs: 50 } });
    assert.equal(failures, 3, outage);
    assert.deepEqual(
      (await lettersOf(disk)).map(({ became }) => became),
      ['taken'],
    );
  }
});

test('an event that has passed three hooks is not posted, with a warning', async () => {
  const id = '01a1fb95-ce62-7e59-9364-610bf5613940';
  const keys = [`hook/2/${id}`, `hook/3/${id}`, 'hook/3/backup', 'hook/2026/11', `hook/12/${id}`, id];
  const events = keys.map((idempotencyKey) => encodeMembers({ ...check(false), idempotencyKey }));
  const disk = diskWith({ [FIRST]: encodeBatch(events, START, new Date()).bytes });
  const hook = new Model('hook');
  const { log } = await sendAll(disk, 6, () => hook, { destination });
  assert.deepEqual([hook.requests, await lettersOf(disk)], [[1, 3, 4, 6], []]);
  const warned = log.filter(({ message }) => /too many hooks/.test(`${message}`));
  assert.deepEqual(
    warned.map(({ level, seq, destination: name }) => [level, seq, name]),
    [
      ['warn', 2, 'upstream'],
      ['warn', 5, 'upstream'],
    ],
  );
  assert.equal((await cursorOf(disk)).seq, 6);
});

test('after a crash only events of the filter are in doubt', async () => {
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
});

test('events outside the filter cost at most one sync a second', async () => {
  const disk = diskWith({ [FIRST]: checksFailedAt([], 5_000) });
  const hook = new Model('hook');
  const bench = startPipe(disk, 10, () => hook, { destination, limits: { forwardCheckMs: 60_000 } });
  await bench.until('idle');
  await eventually('a part is passed', () => bench.ledger.value.seq >= 10);
  for (let seq = 11; seq < 200; seq += 10) {
    bench.progress.recorded(disk.folder, seq);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assert.ok((await cursorOf(disk)).seq <= 10);
  await bench.pipe.close();
  assert.ok((await cursorOf(disk)).seq >= 10, 'a stop saves what was passed');
  assert.deepEqual(hook.requests, []);
});
