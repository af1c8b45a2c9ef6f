/** The share of the event loop's time that readings get. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../src/config/limits.ts';
import { Turns } from '../../src/reading/turns.ts';

/** A tenth of the time while reports arrive, however idle the event loop is. */
const TENTH = { ...limits, readTimePercent: 10, readIdlePercent: 0, readIdleMs: 100 };
const progress = { recordedMs: Number.NEGATIVE_INFINITY };

function recorded(): void {
  progress.recordedMs = performance.now();
}

function work(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

interface Used {
  /** By all readers, in milliseconds. */
  ms: number;
  /** How many turns each of them had: the time of a turn depends on what else the machine does. */
  readonly turns: number[];
}

/** Readers that each work for `turnMs` at each turn. */
async function read(turns: Turns, readers: number, turnMs: number, forMs: number): Promise<Used> {
  const end = performance.now() + forMs;
  const used: Used = { ms: 0, turns: new Array<number>(readers).fill(0) };
  const readOne = async (index: number) => {
    for (;;) {
      await turns.take();
      if (performance.now() >= end) return;
      const startedMs = performance.now();
      work(turnMs);
      used.ms += performance.now() - startedMs;
      used.turns[index]! += 1;
    }
  };
  await Promise.all(used.turns.map((_, index) => readOne(index)));
  return used;
}

test('while reports are recorded, readings share a tenth of the time equally', async () => {
  const turns = new Turns(TENTH, progress);
  const reports = setInterval(() => recorded(), 5);
  recorded();
  const used = await read(turns, 8, 0.3, 2_000);
  clearInterval(reports);
  assert.ok(used.ms < 500, `${used.ms} ms of 2000`);
  assert.ok(used.ms > 30, `${used.ms} ms of 2000`);
  assert.ok(Math.max(...used.turns) <= Math.min(...used.turns) + 2, `${used.turns}`);
});

test('beside reports, readings get half of the idle time of the event loop, and no more when it is busy', async () => {
  const readBeside = async (isBusy: boolean) => {
    const turns = new Turns({ ...limits, readTimePercent: 1, readIdlePercent: 50, readIdleMs: 60_000 }, progress);
    recorded();
    const alive = setInterval(() => {}, 1_000);
    let hasEnded = false;
    const report = () => {
      work(0.2);
      if (!hasEnded) setImmediate(report);
    };
    if (isBusy) report();
    const used = await read(turns, 1, 0.3, 2_000);
    hasEnded = true;
    clearInterval(alive);
    return used.ms;
  };
  const [idle, busy] = [await readBeside(false), await readBeside(true)];
  assert.ok(idle > 150 && idle < 1_200, `${idle} ms of 2000; on a busy machine the timers are late`);
  assert.ok(busy < 100, `${busy} ms of 2000`);
});

test('while reports wait for a slow disk, readings do not use all of the time', async () => {
  const turns = new Turns(TENTH, { recordedMs: Number.NEGATIVE_INFINITY, isWaiting: () => true });
  const alive = setInterval(() => {}, 1_000);
  const used = await read(turns, 4, 0.3, 1_000);
  clearInterval(alive);
  assert.ok(used.ms < 250, `${used.ms} ms of 1000`);
});

test('a follower has its turn before all waiting searches', async () => {
  const turns = new Turns(TENTH, progress);
  const begun: string[] = [];
  const searches = [1, 2, 3].map((number) => turns.take().then(() => begun.push(`search ${number}`)));
  const follower = turns.take(undefined, true).then(() => begun.push('follower'));
  await Promise.all([...searches, follower]);
  assert.deepEqual(begun, ['follower', 'search 1', 'search 2', 'search 3']);
});

test('a single reading also waits between its turns, even if it waited for its disk or its client', async () => {
  const turns = new Turns({ ...TENTH, readIdleMs: 60_000 }, progress);
  const alive = setInterval(() => {}, 1_000);
  recorded();
  await turns.take();
  work(20);
  await sleep(10); // the turn has ended
  const startedMs = performance.now();
  await turns.take();
  clearInterval(alive);
  const waitedMs = performance.now() - startedMs;
  assert.ok(waitedMs > 100, `${waitedMs} ms after 20 ms of work`);
});

test('without reports, readings may use all of the time, but let other work run in between', async () => {
  const turns = new Turns(TENTH, progress);
  let others = 0;
  const other = setInterval(() => {
    others += 1;
  }, 1);
  const before = performance.eventLoopUtilization();
  await read(turns, 4, 0.3, 500);
  const { utilization } = performance.eventLoopUtilization(before);
  clearInterval(other);
  // Of the event loop: what the machine does for others does not count.
  assert.ok(utilization > 0.5, `${utilization}, which is 0.1 with a tenth of the time`);
  assert.ok(others > 10, `${others} timers`);
});

test('a reading that waits for something else does not delay the next one', async () => {
  const turns = new Turns(TENTH, progress);
  const slow = turns.take().then(() => sleep(5_000, undefined, { ref: false }));
  await turns.take();
  await turns.take();
  assert.equal(await Promise.race([slow, 'others']), 'others');
});

test('an aborted reading leaves the queue at once, and the others keep their order', async () => {
  const turns = new Turns(TENTH, progress);
  const [gone, ending] = [AbortSignal.abort(new Error('gone before')), new AbortController()];
  const begun: string[] = [];
  const first = turns.take().then(() => begun.push('first'));
  const aborted = turns.take(ending.signal).then(() => begun.push('aborted'));
  const last = turns.take().then(() => begun.push('last'));
  ending.abort(new Error('its client has gone'));
  await assert.rejects(aborted, /its client has gone/);
  assert.deepEqual(begun, [], 'no turn was waited for');
  await assert.rejects(turns.take(gone), /gone before/);
  await Promise.all([first, last]);
  assert.deepEqual(begun, ['first', 'last']);
});
