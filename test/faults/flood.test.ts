/** Clients that pipeline without a pause, or never read a reply: their cost, and the service to other clients. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryMib } from '../support/memory.ts';
import { startService } from '../support/program.ts';
import { HANG_MS } from '../support/tools.ts';
import { runBeside } from './beside.ts';
import type { FloodOptions } from './flood.ts';
import { compare, startLoad } from './load.ts';

const FLOOD_SECONDS = 4;
/** Reports that the other clients must get through, regardless of time. */
const REPORTS_MIN = 50;
const UNREAD_CLIENTS = 256;
/**
 * The total cost of the clients: for each, 64 requests of 3 KB with their replies and events. V8 lets garbage grow to between 100 MiB
 * (Node 20) and 300 MiB (24). The 64 KiB of requests that each client sends would need 700 MiB.
 */
const UNREAD_MIB_MAX = 450;
const withoutProc = process.platform !== 'linux' && 'needs /proc';

for (const target of ['/report_asset_materialization/flood', '/livez']) {
  test(`while four connections pipeline ${target} without a pause, all reports of other clients get 200`, async (t) => {
    const service = await startService(t);
    const flooding = flood({ port: service.port, clients: 4, seconds: FLOOD_SECONDS, target, reads: true });
    const load = startLoad(service.port, { clients: 8, name: 'other' });
    const replies = await flooding;
    while (load.acknowledged.size < REPORTS_MIN && load.statuses.size === 1) await new Promise(setImmediate);
    await load.stop();
    t.diagnostic(`${replies} replies to the flood, the others got ${JSON.stringify([...load.statuses])}`);

    assert.ok(replies > 256, `${replies} replies: too few for a flood`);
    assert.deepEqual([...load.statuses.keys()], [200]);
    const { lost, gapAt } = compare(service.events(), load.acknowledged);
    assert.deepEqual({ lost, gapAt }, { lost: [], gapAt: undefined });
  });
}

test(`${UNREAD_CLIENTS} clients that never read cost less than ${UNREAD_MIB_MAX} MiB`, {
  skip: withoutProc,
}, async (t) => {
  const service = await startService(t);
  const before = memoryMib(service.pid);
  for (const target of ['/openapi.json', '/metrics', '/report_asset_materialization/unread'])
    await flood({ port: service.port, clients: UNREAD_CLIENTS, seconds: FLOOD_SECONDS, target, reads: false });
  const grown = memoryMib(service.pid) - before;
  t.diagnostic(`${grown} MiB`);
  assert.ok(grown < UNREAD_MIB_MAX, `they cost ${grown} MiB`);
});

function flood(options: FloodOptions): Promise<number> {
  return runBeside('flood.ts', options, HANG_MS);
}
