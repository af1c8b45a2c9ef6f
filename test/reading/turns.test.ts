/** The share of the event loop's time that readings get. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Turns } from '../../src/reading/turns.ts';

function work(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

/** So many readers, each of which works for so long at each turn. @returns the time that they used, in milliseconds */
async function read(turns: Turns, readers: number, turnMs: number, forMs: number): Promise<number[]> {
  const end = performance.now() + forMs;
  const used = new Array<number>(readers).fill(0);
  const readOne = async (index: number) => {
    for (;;) {
      await turns.take();
      if (performance.now() >= end) return;
      const startedMs = performance.now();
      work(turnMs);
      used[index]! += performance.now() - startedMs;
    }
  };
  await Promise.all(used.map((_, index) => readOne(index)));
  return used;
}

const sum = (times: readonly number[]) => times.reduce((total, ms) => total + ms, 0);

test('while reports are recorded, readings share a tenth of the time, each as much as the others', async () => {
  const turns = new Turns({ readTimePercent: 10, readIdleMs: 100 });
  const reports = setInterval(() => turns.recorded(), 5);
  turns.recorded();
  const used = await read(turns, 8, 0.3, 2_000);
  clearInterval(reports);
  assert.ok(sum(used) < 350, `${sum(used)} ms of 2000`);
  assert.ok(sum(used) > 50, `${sum(used)} ms of 2000`);
  assert.ok(Math.max(...used) < 4 * Math.min(...used) + 5, `${used}`);
});

test('without reports they may use all of it, but let other work in between', async () => {
  const turns = new Turns({ readTimePercent: 10, readIdleMs: 100 });
  let others = 0;
  const other = setInterval(() => {
    others += 1;
  }, 1);
  const used = await read(turns, 4, 0.3, 500);
  clearInterval(other);
  assert.ok(sum(used) > 250, `${sum(used)} ms of 500`);
  assert.ok(others > 50, `${others} timers`);
});

test('a reading that waits for something else does not hold up the next one', async () => {
  const turns = new Turns({ readTimePercent: 10, readIdleMs: 100 });
  const slow = turns.take().then(() => sleep(5_000, undefined, { ref: false }));
  await turns.take();
  await turns.take();
  assert.equal(await Promise.race([slow, 'others']), 'others');
});
