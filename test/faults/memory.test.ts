/** The cost of a crowd of large bodies: memory is bounded whatever the bodies contain, and no acknowledged event is lost. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMemoryGroup, withoutMemoryGroups, withoutStrace } from '../support/machine.ts';
import { memoryMib } from '../support/memory.ts';
import { type Running, startService } from '../support/program.ts';
import { HANG_MS } from '../support/tools.ts';
import { runBeside } from './beside.ts';
import type { CrowdOptions, CrowdSeen, Kind } from './crowd.ts';
import { assertOnce, report } from './load.ts';
import { withSlowWrites } from './strace.ts';

const CLIENTS = 512;
const SECONDS = 5;
const MIB = 1024 * 1024;
/** For a service with little memory. */
const SMALL_CLIENTS = 256;
/**
 * Node 20 needs up to 230 MiB; newer versions, which let garbage grow further before they collect it, up to 300. If waiting reports
 * held their whole bodies, it would be 600.
 */
const MEMORY_MIB_MAX = Number(process.versions.node.split('.')[0]) <= 20 ? 350 : 450;
const SAMPLE_MS = 100;
/** Each kind has another cost for the service. The last one would be held whole if only recorded bytes were counted. */
const crowds: Readonly<Record<string, readonly Kind[]>> = {
  'of every kind': ['text', 'two-byte text', 'one wide character', 'many members', 'small chunks', 'no key'],
  'with little to record': ['little of it recorded'],
};

for (const [name, bodies] of Object.entries(crowds)) {
  test(`bodies of 1 MiB ${name}, from ${CLIENTS} clients to a slow disk, cost less than ${MEMORY_MIB_MAX} MiB`, {
    skip: withoutStrace,
  }, async (t) => {
    const service = await startService(t, { args: ['--max-connections', '600'], under: withSlowWrites(1_000) });
    const samples: number[] = [];
    const sampling = setInterval(() => samples.push(memoryMib(service.pid, 'VmRSS')), SAMPLE_MS);
    const seen = await crowd({ port: service.port, clients: CLIENTS, seconds: SECONDS, bodies }).finally(() =>
      clearInterval(sampling),
    );
    const peak = memoryMib(service.pid);
    const median = samples.sort((a, b) => a - b)[samples.length >> 1];
    t.diagnostic(`peak ${peak} MiB, median ${median} MiB, replies ${JSON.stringify(seen.statuses)}`);

    await assertServed(service, seen, bodies);
    // Last, so that the lines above are printed even if it fails.
    assert.ok(peak < MEMORY_MIB_MAX, `memory: ${peak} MiB`);
  });
}

for (const mib of [64, 96]) {
  test(`in a cgroup of ${mib} MiB ${SMALL_CLIENTS} clients with large bodies get 200 or 503, and the service survives`, {
    skip: withoutMemoryGroups,
  }, async (t) => {
    const group = createMemoryGroup(mib * MIB);
    const { under } = group;
    const args = ['--max-connections', '300'];
    const service = await startService(t, { args, under }).finally(() => t.after(() => group.remove()));
    const bodies: Kind[] = [...(crowds['of every kind'] ?? []), 'one chunk'];
    const seen = await crowd({ port: service.port, clients: SMALL_CLIENTS, seconds: SECONDS, bodies });
    t.diagnostic(`peak ${memoryMib(service.pid)} MiB, replies ${JSON.stringify(seen.statuses)}`);

    await assertServed(service, seen, bodies);
    const { code, stderr } = await service.kill();
    assert.equal(code, 0, stderr);
    assert.match(stderr, new RegExp(`"memory is scarce[^"]*","memory_bytes":${mib * MIB},`));
  });
}

/** Asserts that clients got 200, 400 and 503 only, and each at least once, and that acknowledged events are recorded once. */
async function assertServed(service: Running, seen: CrowdSeen, bodies: readonly Kind[]): Promise<void> {
  const { 200: accepted = 0, 400: keyless = 0, 503: refused = 0, ...others } = seen.statuses;
  assert.deepEqual(others, {}, 'no other replies');
  assert.ok(accepted > 0, 'nothing was recorded');
  assert.equal(keyless > 0, bodies.includes('no key'));
  assert.ok(refused > 0, 'no report was refused: the crowd was too small to show anything');
  assert.equal(seen.withoutRetryAfter, 0);
  assert.equal(await report(service.port, 'afterwards'), 200);
  assertOnce(service.events(), [...seen.acknowledged, 'afterwards']);
}

function crowd(options: CrowdOptions): Promise<CrowdSeen> {
  return runBeside('crowd.ts', options, HANG_MS);
}
