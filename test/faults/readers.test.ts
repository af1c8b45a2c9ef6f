/** Clients that only read, beside reports: they do not delay reports, and need bounded memory. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { createMemoryGroup, withoutMemoryGroups } from '../support/machine.ts';
import { memoryMib } from '../support/memory.ts';
import { type Running, startService } from '../support/program.ts';
import { HANG_MS } from '../support/tools.ts';
import { runBeside } from './beside.ts';
import { assertOnce, startLoad } from './load.ts';
import type { ReadersOptions, ReadersSeen } from './readers.ts';

const SECONDS = 6;
const CROWD = { aborting: 8, deaf: 256, waiting: 256, seconds: SECONDS };
const FOR_ALL = ['--max-connections', '600'];
const LONG_BYTES = 1024 * 1024 - 200;
const LONG_LINES = 20;
const MIB = 1024 * 1024;
const MIB_MAX = 250;
const SAMPLE_MS = 100;
const withoutProc = process.platform !== 'linux' && 'needs /proc';

/** Reports small and long lines beside the readers. Asserts that all get 200 and are recorded once. */
async function besideReports(
  service: Running,
  crowd: Omit<ReadersOptions, 'port'>,
): Promise<ReadersSeen & { files: number }> {
  const before = startLoad(service.port, { clients: 1, name: 'before', bodyBytes: LONG_BYTES });
  while (before.acknowledged.size < LONG_LINES) await new Promise(setImmediate);
  await before.stop();
  const small = startLoad(service.port, { clients: 4, name: 'small', restMs: 2 });
  const long = startLoad(service.port, { clients: 1, name: 'long', bodyBytes: LONG_BYTES, restMs: 100 });
  let files = 0;
  const sampling = setInterval(() => {
    files = Math.max(files, filesOf(service.pid));
  }, SAMPLE_MS);
  const seen = await readers({ port: service.port, ...crowd }).finally(() => clearInterval(sampling));
  await Promise.all([small.stop(), long.stop()]);
  const statuses = [before, small, long].map((load) => [...load.statuses.keys()]);
  assert.deepEqual(statuses, [[200], [200], [200]]);
  const acknowledged = [before, small, long].flatMap((load) => [...load.acknowledged]);
  assertOnce(service.events(), acknowledged);
  return { ...seen, files };
}

for (const [cap, args] of [
  ['256', []],
  ['600', FOR_ALL],
] as const) {
  test(`8 readers that abort, 256 that read nothing and 256 that wait cost less than ${MIB_MAX} MiB on ${cap} connections, and all reports get 200`, {
    skip: withoutProc,
  }, async (t) => {
    const service = await startService(t, { args });
    const { files, ...seen } = await besideReports(service, CROWD);
    const peak = memoryMib(service.pid);
    t.diagnostic(`peak ${peak} MiB, ${files} descriptors, replies ${JSON.stringify(seen)}`);
    assert.ok(peak < MIB_MAX, `${peak} MiB`);
  });
}

test('in a cgroup of 96 MiB readers that abort, read nothing or wait stop neither the service nor a report', {
  skip: withoutMemoryGroups,
}, async (t) => {
  const group = createMemoryGroup(96 * MIB);
  const service = await startService(t, { args: FOR_ALL, under: group.under }).finally(() =>
    t.after(() => group.remove()),
  );
  const { files, ...seen } = await besideReports(service, CROWD);
  t.diagnostic(`peak ${memoryMib(service.pid)} MiB, ${files} descriptors, replies ${JSON.stringify(seen)}`);
  const { code, stderr } = await service.kill();
  assert.equal(code, 0, stderr);
});

/** @returns the number of open files, 0 for a process that has ended */
function filesOf(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return 0;
  }
}

function readers(options: ReadersOptions): Promise<ReadersSeen> {
  return runBeside('readers.ts', options, HANG_MS);
}
