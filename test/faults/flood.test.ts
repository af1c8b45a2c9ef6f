/** Clients that pipeline without a pause, or never read a reply: what they cost, and that others are served meanwhile. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryMib } from '../support/memory.ts';
import { startService } from '../support/program.ts';
import { HANG_MS } from '../support/tools.ts';
import { runBeside } from './beside.ts';
import type { FloodOptions } from './flood.ts';
import { compare, startLoad } from './load.ts';

const FLOOD_SECONDS = 4;
/** Reports that the other clients must get through, however long that takes on a slow machine. */
const REPORTS_MIN = 50;
const UNREAD_CLIENTS = 256;
/**
 * What they may cost in all: of each client 64 requests of 3 KB, their replies and events, and garbage, which V8 lets grow to between
 * 100 (Node 20) and 300 MiB (24). All requests of the 64 KiB that a client sends would be 700 MiB.
 */
const UNREAD_MIB_MAX = 450;
const withoutProc = process.platform !== 'linux' && 'needs /proc';

for (const target of ['/report_asset_materialization/flood', '/livez']) {
  test(`while four connections pipeline ${target} without a pause, the reports of others all get 200`, async (t) => {
    const service = await startService(t);
    const flooding = flood({ port: service.port, clients: 4, seconds: FLOOD_SECONDS, target, reads: true });
    const load = startLoad(service.port, { clients: 8, name: 'other' });
    const replies = await flooding;
    while (load.acknowledged.size < REPORTS_MIN && load.statuses.size === 1) await new Promise(setImmediate);
    await load.stop();
    t.diagnostic(`${replies} replies to the flood, the others got ${JSON.stringify([...load.statuses])}`);

    assert.ok(replies > 256, `${replies} replies: that was no flood`);
    assert.deepEqual([...load.statuses.keys()], [200]);
    const { lost, gapAt } = compare(service.events(), load.acknowledged);
    assert.deepEqual({ lost, gapAt }, { lost: [], gapAt: undefined });
  });
}

test(`${UNREAD_CLIENTS} clients that never read take less than ${UNREAD_MIB_MAX} MiB`, {
  skip: withoutProc,
}, async (t) => {
  const service = await startService(t);
  const before = memoryMib(service.pid);
  for (const target of ['/openapi.json', '/metrics', '/report_asset_materialization/unread'])
    await flood({ port: service.port, clients: UNREAD_CLIENTS, seconds: FLOOD_SECONDS, target, reads: false });
  const grown = memoryMib(service.pid) - before;
  t.diagnostic(`${grown} MiB`);
  assert.ok(grown < UNREAD_MIB_MAX, `they took ${grown} MiB`);
});

function flood(options: FloodOptions): Promise<number> {
  return runBeside('flood.ts', options, HANG_MS);
}
