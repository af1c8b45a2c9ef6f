/** The warnings of a journal about the clock of its machine. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { Clock } from '../../src/journal/clock.ts';
import { createNotices } from '../../src/telemetry/log.ts';

const DAY_MS = 86_400_000;

test('a clock that was never set, and each jump by more than a day, is logged once', (t) => {
  const lines: string[] = [];
  const clock = new Clock(
    createNotices('info', false, (line) => lines.push(line)),
    limits,
  );
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(1970, 0, 2) });
  const readAt = (ms: number) => {
    lines.length = 0;
    t.mock.timers.setTime(ms);
    assert.equal(clock.read().getTime(), ms);
    return lines
      .map((line) => JSON.parse(line))
      .map(({ level, message, jump_seconds }) => [level, message.split(/[;:]/)[0], jump_seconds]);
  };
  const UNSET = ['warn', 'the clock of this machine is not set', undefined];
  const jumped = (seconds: number) => ['warn', 'the clock of this machine jumped', seconds];
  assert.deepEqual(readAt(Date.UTC(1970, 0, 2)), [UNSET]);
  assert.deepEqual(readAt(Date.UTC(1970, 0, 2, 1)), []);
  const set = Date.UTC(2026, 10, 20);
  const [[level, message, seconds] = []] = readAt(set);
  assert.deepEqual([level, message], jumped(0).slice(0, 2));
  assert.ok(Math.abs(Number(seconds) * 1000 - (set - Date.UTC(1970, 0, 2, 1))) < 5_000);
  assert.deepEqual(readAt(set + DAY_MS - 60_000), []);
  assert.deepEqual(readAt(set + DAY_MS), []);
  assert.deepEqual(readAt(set - 60_000), [jumped(-86_460)]);
  assert.deepEqual(readAt(set - 60_000), []);
});
