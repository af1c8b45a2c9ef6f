/** Devices, a hub and a plain upstream as processes that are killed again and again, over links that are cut at any byte. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startCuttingProxy, uncut } from '../support/cutting-proxy.ts';
import { assertAtHub, deadLettersIn, reachesHub } from '../support/forwarded.ts';
import type { Load } from '../support/load.ts';
import { eventsIn, freePort, newFolder, startService } from '../support/program.ts';
import { eventually, HANG_MS } from '../support/tools.ts';
import { startPlainUpstream } from '../world/plain-server.ts';
import { startLoad } from './load.ts';

const SECONDS = 30;
const SEGMENT_BYTES = 32 * 1024;
const REST_MS = 80;

const partOf = (whole: number) => Math.floor(Math.random() * whole);
const keyOf = (event: Record<string, unknown>) => (event['asset_key'] as string[]).join('/');

/** @returns how often each key occurs */
function timesOf(keys: readonly string[]): Map<string, number> {
  const times = new Map<string, number>();
  for (const key of keys) times.set(key, (times.get(key) ?? 0) + 1);
  return times;
}

/** A device or the hub, with its clients, and a link to its destination. */
async function startSite(t: TestContext, name: string, toPort: number) {
  let isCutting = true;
  const link = await startCuttingProxy(t, toPort, () => {
    if (!isCutting || Math.random() < 0.3) return uncut;
    return { requestBytes: partOf(20_000), replyBytes: partOf(1_500) };
  });
  const [data, port] = [newFolder(t), await freePort(t)];
  const args = ['--port', `${port}`, '--segment-bytes', `${SEGMENT_BYTES}`, '--forward-to', link.url];
  let service = await startService(t, { data, args });
  const load: Load = startLoad(port, { clients: 2, name, restMs: REST_MS });
  t.after(load.stop);
  return {
    ...{ name, data, port, load, url: service.url },
    connections: link.connections,
    restart: async (signal: NodeJS.Signals) => {
      const { code, stderr } = await service.kill(signal);
      if (signal === 'SIGTERM') assert.equal(code, 0, stderr);
      service = await startService(t, { data, args });
    },
    /** Ends cuts and load. A restarted sender does not wait for its next try. */
    settle: async () => {
      isCutting = false;
      await load.stop();
      await service.kill();
      service = await startService(t, { data, args });
    },
  };
}

test(`${SECONDS} seconds of kills and cut links: each event is at the hub once and in order, and upstream or a dead letter`, async (t) => {
  const upstream = await startPlainUpstream(t);
  const hub = await startSite(t, 'hub', upstream.port);
  const devices = [await startSite(t, 'd0', hub.port), await startSite(t, 'd1', hub.port)];
  const sites = [hub, ...devices];
  let kills = 0;
  for (const endMs = performance.now() + SECONDS * 1000; performance.now() < endMs; kills += 1) {
    await sleep(partOf(1_200));
    const site = sites[partOf(sites.length + 1)];
    if (site !== undefined) {
      await site.restart(Math.random() < 0.7 ? 'SIGKILL' : 'SIGTERM');
    } else {
      await upstream.kill();
      await sleep(partOf(1_000));
      await upstream.start();
    }
  }
  for (const site of sites) await site.settle();

  for (const { data } of devices) await reachesHub(hub, data, eventsIn(data).length);
  const atHub = timesOf(eventsIn(hub.data).map(keyOf));
  for (const { data, load, name, connections } of sites) {
    assert.ok(load.acknowledged.size > 50 && connections() > 10, name);
    assert.deepEqual(
      [...load.acknowledged].filter((key) => !atHub.has(key)),
      [],
      `${name}: not at the hub`,
    );
    if (name !== 'hub') assertAtHub(hub.data, data);
  }
  assert.equal(atHub.size, eventsIn(hub.data).length, 'no event is at the hub twice');

  const atUpstream = () => timesOf(upstream.events.map(({ key }) => key.join('/')));
  const named = () => new Set(deadLettersIn(hub.data).flatMap(({ line }) => (line === undefined ? [] : [keyOf(line)])));
  const arrived = () => new Set([...atUpstream().keys(), ...named()]).size;
  await eventually('each event is upstream or in the dead letters', () => arrived() === atHub.size, HANG_MS);
  const doubled = [...atUpstream()].flatMap(([key, count]) => (count > 1 ? [key] : []));
  t.diagnostic(`${kills} kills, ${atHub.size} events, ${doubled.length} twice upstream`);
  const letters = named();
  assert.deepEqual(
    doubled.filter((key) => !letters.has(key)),
    [],
    'doubled upstream without a dead letter',
  );
});
