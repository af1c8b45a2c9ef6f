/** A life that broke a promise is made smaller, and what is left breaks the same promise. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Lived } from '../bundle.ts';
import type { Outcome } from '../life.ts';
import { Total } from './expected.ts';
import { optionsOf, type Replay } from './replay.ts';
import { type Live, promiseOf, shrink } from './shrink.ts';

const PLANNED = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
const CLIENTS = ['one', 'two', 'three', 'four'];
const LOST = 'event 17 of d0 is lost';

/** What a life that broke a promise at a step prints. */
function broke(steps: number, broken: string): Lived {
  const planned = PLANNED.map((number) => [number, 'crash', 1_000 * number]);
  const outcome = { ok: false, steps, broken, planned, lived: CLIENTS } as unknown as Outcome;
  return { code: 1, text: '', outcome };
}

const WHOLE: Lived = { code: 0, text: '', outcome: { ok: true } as unknown as Outcome };

/** Lives that need two faults and a client, and break the promise at a later step the fewer clients there are. */
const live: Live = async ({ steps, only = PLANNED, clients = CLIENTS }: Replay) => {
  const at = 1_000 + 50 * (CLIENTS.length - clients.length);
  if (!only.includes(3) || !only.includes(8) || !clients.includes('two') || steps < at) return WHOLE;
  return broke(at, `event ${only.length} of d1 is lost`);
};

const found: Replay = { seed: 7, steps: 5_000 };

test('a broken promise is shrunk to the steps, faults and clients that it needs', async () => {
  const smallest = await shrink(found, broke(1_000, LOST).outcome!, live, 60_000);
  assert.deepEqual(smallest, { seed: 7, steps: 1_150, only: [3, 8], clients: ['two'] });
  assert.equal(optionsOf(smallest).join(' '), '--seed 7 --steps 1150 --only 3,8 --clients two');
});

test('a life that needs no fault is printed with an empty list that a shell keeps', () => {
  assert.equal(optionsOf({ seed: 7, steps: 9, only: [] }).join(' '), '--seed 7 --steps 9 --only=');
});

test('a life that breaks another promise is not taken for a smaller one', async () => {
  const other: Live = async (replay, msMax) => {
    const lived = await live(replay, msMax);
    const { only = PLANNED } = replay;
    return lived.code === 1 && only.length !== PLANNED.length ? broke(10, 'event 17 of d0 is doubled') : lived;
  };
  const smallest = await shrink(found, broke(1_000, LOST).outcome!, other, 60_000);
  assert.deepEqual(smallest, { seed: 7, steps: 1_150, clients: ['two'] });
});

test('a shrunk life has been seen to break the promise, and otherwise the original life is returned', async () => {
  // It breaks only with steps to spare, which no candidate shows.
  const late: Live = async (replay, msMax) => (replay.steps === 1_150 ? WHOLE : live(replay, msMax));
  assert.equal(await shrink(found, broke(1_000, LOST).outcome!, late, 60_000), found);
  assert.equal(await shrink(found, broke(1_000, LOST).outcome!, live, 0), found);
});

test('a long life is cut to its end, if that breaks the same promise', async () => {
  const long = { seed: 7, steps: 90_000 };
  const lived: Replay[] = [];
  const ending: Live = async (replay) => {
    lived.push(replay);
    const { fromMs = 0, only = PLANNED, steps } = replay;
    const isBroken = steps >= 2_000 && fromMs <= 7_000 && only.includes(8);
    return isBroken ? broke(2_000, LOST) : WHOLE;
  };
  const smallest = await shrink(long, broke(80_000, LOST).outcome!, ending, 60_000);
  assert.deepEqual(smallest, { seed: 7, steps: 2_000, only: [8], clients: [], reorders: undefined, fromMs: 7_000 });
  assert.deepEqual([lived[0]!.fromMs, lived[0]!.steps], [8_000, 16_000], 'before its last fault');
});

test('two broken promises are the same if their sentences differ only in numbers', () => {
  const [one, other] = ['event 17 of d0 was 0f3a-77 and is 1b', 'event 4 of d1 was 9-c2 and is 22'];
  assert.equal(promiseOf({ broken: one }), promiseOf({ broken: other }));
  assert.notEqual(promiseOf({ broken: LOST }), promiseOf({ broken: 'event 17 of hub is lost' }));
});

test('a state or a fault that no life has met is missing, unless it is excused', () => {
  const total = new Total();
  total.add(undefined);
  total.add({ faults: { crash: 2 }, states: { 'journal open': 1 } });
  total.add({ faults: { crash: 1 }, states: {} });
  assert.deepEqual(total.counts(), { faults: { crash: 3 }, states: { 'journal open': 1 } });
  const missing = total.missing();
  for (const name of ['crash', 'journal open', 'journal used up']) assert.ok(!missing.includes(name), name);
  for (const name of ['power cut', 'journal failed']) assert.ok(missing.includes(name), name);
});
