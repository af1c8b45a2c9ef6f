/** The memory cost of `--ack` while its destination accepts nothing: the replies that wait hold neither body nor event. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { rounds } from '../support/long.ts';
import { memoryMib } from '../support/memory.ts';
import { type Running, startService } from '../support/program.ts';
import { eventually } from '../support/tools.ts';
import { startNatsStub } from '../world/nats-server.ts';
import { startLoad } from './load.ts';

const CLIENTS = 230;
const BODY_BYTES = 64_000;
/** The pause of each client between two reports. */
const REST_MS = 1_000;
const HALF_SECONDS = rounds({ long: 30, short: 8 });
const SAMPLE_MS = 250;
const MORE_MIB_MAX = 50;
const GROWTH_MIB_MAX = 10;

/** @returns the peak memory in each half of the time, under load */
async function peaksOf(service: Running, expected: number): Promise<readonly [number, number]> {
  const load = startLoad(service.port, {
    clients: CLIENTS,
    name: 'a',
    bodyBytes: BODY_BYTES,
    restMs: REST_MS,
    pauseMs: REST_MS,
  });
  const peaks: number[] = [];
  for (let half = 0; half < 2; half += 1) {
    let peak = 0;
    for (const endMs = performance.now() + HALF_SECONDS * 1000; performance.now() < endMs; await sleep(SAMPLE_MS)) {
      peak = Math.max(peak, memoryMib(service.pid, 'VmRSS'));
    }
    peaks.push(peak);
  }
  await load.stop();
  assert.deepEqual([...load.statuses.keys()], [expected]);
  return peaks as unknown as readonly [number, number];
}

test(`${CLIENTS} clients whose reports wait for an engine that accepts nothing cost at most ${MORE_MIB_MAX} MiB more`, {
  skip: process.platform !== 'linux' && 'needs /proc',
}, async (t) => {
  // It reports an empty stream, and never acknowledges a batch.
  const answer = ({ headers }: { readonly headers: object }) => ('Nats-Batch-Id' in headers ? '' : undefined);
  const stub = await startNatsStub(t, { answer });
  const stalled = await startService(t, { args: ['--forward-to', stub.to, '--ack', 'upstream'] });
  const alone = await startService(t);
  await eventually('it records reports', async () => (await fetch(`${stalled.url}/readyz`)).ok);
  const [without, withAck] = await Promise.all([peaksOf(alone, 200), peaksOf(stalled, 503)]);
  t.diagnostic(
    `MiB in each half of ${2 * HALF_SECONDS} s: without ${without.join(', ')}, with --ack ${withAck.join(', ')}`,
  );
  assert.equal(
    stalled.events().length,
    CLIENTS,
    'each client waits for its first report, and no further report is recorded',
  );
  const [before, after] = withAck;
  assert.ok(after < before + GROWTH_MIB_MAX, 'memory grows');
  assert.ok(Math.max(...withAck) < Math.max(...without) + MORE_MIB_MAX, '--ack needs more memory');
});
