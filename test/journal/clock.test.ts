/** What a journal says about the clock of its machine. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { Clock } from '../../src/journal/clock.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { newFolder, startService } from '../support/program.ts';
import { ask, post } from '../support/wire.ts';

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

test('the program warns of a clock in 1970 and of its jump, and records the times as they are', async (t) => {
  const folder = newFolder(t);
  const preload = join(folder, 'clock.cjs');
  // The clock of the process alone: that of the machine is not the test's. SIGUSR2 sets it right.
  writeFileSync(
    preload,
    `const Real = Date; let offsetMs = 86_400_000 - Real.now();
globalThis.Date = class extends Real { constructor(...given) { given.length === 0 ? super(Real.now() + offsetMs) : super(...given); } static now() { return Real.now() + offsetMs; } };
process.on('SIGUSR2', () => { offsetMs = 0; process.stderr.write('set\\n'); });`,
  );
  const service = await startService(t, { data: join(folder, 'data'), env: { NODE_OPTIONS: `--require ${preload}` } });
  const report = async () => assert.equal((await ask(service.port, post('/report_asset_observation/a'))).status, 200);
  for (let count = 0; count < 3; count += 1) await report();
  process.kill(service.pid, 'SIGUSR2');
  while (!service.stderr().includes('set\n')) await new Promise((resolve) => setTimeout(resolve, 10));
  for (let count = 0; count < 3; count += 1) await report();
  const { stderr, code } = await service.kill();
  assert.equal(code, 0, stderr);
  assert.equal(stderr.split('"the clock of this machine is not set: it is before 2024').length, 2);
  assert.equal(stderr.split('"the clock of this machine jumped').length, 2);
  const years = service.events().map(({ time }) => String(time).slice(0, 4));
  assert.deepEqual(years.slice(0, 3), ['1970', '1970', '1970']);
  assert.ok(
    years.slice(3).every((year) => Number(year) >= 2024),
    `${years}`,
  );
});
