/** What a crowd of large bodies may cost: memory is bounded whatever they are made of, and nothing acknowledged is lost. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { memoryMib } from '../support/memory.ts';
import { root, startService } from '../support/program.ts';
import { createMemoryGroup, withoutMemoryGroups, withoutStrace } from '../support/tools.ts';
import type { CrowdOptions, Kind, Told } from './crowd.ts';
import { compare, report } from './load.ts';

const CLIENTS = 512;
const SECONDS = 5;
const MIB = 1024 * 1024;
/** Of a service with little memory. */
const SMALL_CLIENTS = 256;
/**
 * Node 20 takes up to 230 MiB, and newer Nodes, which let garbage grow further before they collect it, up to 300. With the whole bodies
 * of what waits for the disk it would be 600.
 */
const MEMORY_MIB_MAX = Number(process.versions.node.split('.')[0]) <= 20 ? 350 : 450;
const SAMPLE_MS = 100;
const PATIENCE_MS = 60_000;
/** A disk that takes a second to sync. The tracer is nobody's parent, so that the process is still our child. */
const SLOW_DISK = [
  ...['strace', '-D', '-f', '-qq', '--seccomp-bpf', '-o', '/dev/null'],
  ...['-e', 'trace=pwrite64', '-e', 'inject=pwrite64:delay_exit=1000000'],
];

/** Each kind costs the service something else; the last is held whole where only what is recorded is counted. */
const crowds: Readonly<Record<string, readonly Kind[]>> = {
  'of every kind': ['text', 'two-byte text', 'one wide character', 'many members', 'small chunks', 'no key'],
  'of which little is recorded': ['little of it recorded'],
};

for (const [name, bodies] of Object.entries(crowds)) {
  test(`bodies of 1 MiB ${name}, from ${CLIENTS} clients to a slow disk, take less than ${MEMORY_MIB_MAX} MiB`, {
    skip: withoutStrace,
  }, async (t) => {
    const service = await startService(t, { args: ['--max-connections', '600'], under: SLOW_DISK });
    const samples: number[] = [];
    const sampling = setInterval(() => samples.push(memoryMib(service.pid, 'VmRSS')), SAMPLE_MS);
    const told = await crowd({ port: service.port, clients: CLIENTS, seconds: SECONDS, bodies }).finally(() =>
      clearInterval(sampling),
    );
    const peak = memoryMib(service.pid);
    const median = samples.sort((a, b) => a - b)[samples.length >> 1];
    t.diagnostic(`peak ${peak} MiB, median ${median} MiB, replies ${JSON.stringify(told.statuses)}`);

    const { 200: accepted = 0, 400: keyless = 0, 503: refused = 0, ...others } = told.statuses;
    assert.deepEqual(others, {}, 'replies that nobody expects');
    assert.ok(accepted > 0, 'nothing was recorded');
    assert.equal(keyless > 0, bodies.includes('no key'));
    assert.ok(refused > 0, 'nobody was refused: the crowd was too small to show anything');
    assert.equal(told.withoutRetryAfter, 0);
    assert.equal(await report(service.port, 'afterwards'), 200);
    const { lost, doubled, gapAt } = compare(service.events(), [...told.acknowledged, 'afterwards']);
    assert.deepEqual({ lost, doubled, gapAt }, { lost: [], doubled: [], gapAt: undefined });
    // Last, so that what is above is told also where this does not hold.
    assert.ok(peak < MEMORY_MIB_MAX, `it took ${peak} MiB`);
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
    const { port } = service;
    const told = await crowd({ port, clients: SMALL_CLIENTS, seconds: SECONDS, bodies });
    t.diagnostic(`peak ${memoryMib(service.pid)} MiB, replies ${JSON.stringify(told.statuses)}`);

    const { 200: accepted = 0, 400: keyless = 0, 503: refused = 0, ...others } = told.statuses;
    assert.deepEqual(others, {}, 'replies that nobody expects');
    assert.ok(accepted > 0 && keyless > 0 && refused > 0, 'the crowd shows nothing');
    assert.equal(told.withoutRetryAfter, 0);
    assert.equal(await report(port, 'afterwards'), 200);
    const { code, stderr } = await service.kill();
    assert.equal(code, 0, stderr);
    assert.match(stderr, new RegExp(`"memory is scarce[^"]*","memory_bytes":${mib * MIB},`));
    const { lost, doubled, gapAt } = compare(service.events(), [...told.acknowledged, 'afterwards']);
    assert.deepEqual({ lost, doubled, gapAt }, { lost: [], doubled: [], gapAt: undefined });
  });
}

async function crowd(options: CrowdOptions): Promise<Told> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', import.meta.resolve('tsx'), join(root, 'test/faults/crowd.ts'), JSON.stringify(options)],
    { timeout: PATIENCE_MS, maxBuffer: 64 * 1024 * 1024 },
  );
  return JSON.parse(stdout);
}
