/** Backoff, slow start and the rate limit, on a clock that the test sets. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { Pace } from '../../../src/forward/pipe/traffic.ts';

function paceAt({ random = () => 1, ratePerSecond }: { random?: () => number; ratePerSecond?: number } = {}) {
  const clock = { nowMs: 1_000_000 };
  return { clock, pace: new Pace(limits, ratePerSecond, random, () => clock.nowMs) };
}

test('the pause doubles from 0.5 s to a minute with full jitter, until an event is accepted', () => {
  const { pace } = paceAt();
  const pauses = Array.from({ length: 9 }, () => pace.failed());
  assert.deepEqual(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
  pace.reached();
  assert.equal(pace.failed(), 60_000, 'a destination that answers and takes nothing');
  pace.succeeded();
  assert.equal(pace.failed(), 500);
  assert.equal(paceAt({ random: () => 0 }).pace.failed(), 0);
});

test('a Retry-After is honoured up to an hour, with jitter on top', () => {
  const { pace } = paceAt();
  assert.equal(pace.failed(7_000), 7_500);
  assert.equal(pace.failed(86_400_000), 3_600_500);
  assert.equal(paceAt({ random: () => 0 }).pace.failed(7_000), 7_000);
});

test('after an outage of over a minute the first request waits at random, and then the rate doubles each second', () => {
  const { pace, clock } = paceAt({ random: () => 0.5 });
  pace.failed();
  clock.nowMs += 60_001;
  pace.reached();
  const times: number[] = [];
  for (let count = 0; count < 16; count += 1) {
    clock.nowMs += pace.turnMs();
    times.push(clock.nowMs - 1_060_001);
  }
  assert.equal(times[0], 15_000, 'half of 30 s');
  const inSecond = (second: number) =>
    times.filter((time) => Math.floor((time - 15_000) / 1000 + 1e-9) === second).length;
  assert.deepEqual([0, 1, 2, 3].map(inSecond), [1, 2, 4, 8]);
  clock.nowMs += 60_000;
  assert.deepEqual([pace.turnMs(), Math.round(pace.turnMs())], [0, 0], 'no limit after some seconds');
});

test('after a short outage there is no slow start', () => {
  const { pace, clock } = paceAt();
  pace.failed();
  clock.nowMs += 59_000;
  pace.succeeded();
  assert.deepEqual([pace.turnMs(), pace.turnMs(), pace.turnMs()], [0, 0, 0]);
});

test('the rate limit always holds, and idle time gives no credit', () => {
  const rare = paceAt({ ratePerSecond: 1e-9 }).pace;
  assert.deepEqual([rare.turnMs(), rare.turnMs()], [0, 2 ** 31 - 1], 'what a timer can be set to');
  const { pace, clock } = paceAt({ ratePerSecond: 40 });
  assert.deepEqual([pace.turnMs(), pace.turnMs(), pace.turnMs()], [0, 25, 50]);
  clock.nowMs += 60_000;
  assert.deepEqual([pace.turnMs(), pace.turnMs()], [0, 25]);
});
