/** A device, a hub and a plain upstream that are killed, on a real disk, over links that are cut at any byte. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startCuttingProxy, uncut } from '../support/cutting-proxy.ts';
import { assertAtHub, deadLettersIn, reachesHub } from '../support/forwarded.ts';
import { eventsIn, freePort, newFolder, startService } from '../support/program.ts';
import { eventually, HANG_MS } from '../support/tools.ts';
import { startPlainUpstream } from '../world/plain-server.ts';
import { startLoad } from './load.ts';

const ROUNDS = 3;

const partOf = (whole: number) => Math.floor(Math.random() * whole);
const keyOf = (event: Record<string, unknown>) => (event['asset_key'] as string[]).join('/');

/** A device or the hub, with its clients, and a link to its destination. */
async function startSite(t: TestContext, name: string, toPort: number) {
  let isCutting = true;
  const link = await startCuttingProxy(t, toPort, () => {
    if (!isCutting || Math.random() < 0.3) return uncut;
    return { requestBytes: partOf(20_000), replyBytes: partOf(1_500) };
  });
  const [data, port] = [newFolder(t), await freePort(t)];
  const args = ['--port', `${port}`, '--segment-bytes', '32768', '--forward-to', link.url];
  let service = await startService(t, { data, args });
  const load = startLoad(port, { clients: 2, name, restMs: 40 });
  t.after(load.stop);
  const restart = async (signal: NodeJS.Signals) => {
    await service.kill(signal);
    service = await startService(t, { data, args });
  };
  /** Ends cuts and load. A restarted sender does not wait for its next try. */
  const settle = async () => {
    isCutting = false;
    await load.stop();
    await restart('SIGTERM');
  };
  return { name, data, port, url: service.url, load, connections: link.connections, restart, settle };
}

test('with kills and cut links each event is at the hub once and in order, and at a plain destination or a dead letter', async (t) => {
  const upstream = await startPlainUpstream(t);
  const hub = await startSite(t, 'hub', upstream.port);
  const device = await startSite(t, 'device', hub.port);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { restart } of [device, hub]) {
      await sleep(partOf(1_200));
      await restart('SIGKILL');
    }
    await sleep(partOf(1_200));
    await upstream.kill();
    await sleep(partOf(1_000));
    await upstream.start();
  }
  for (const { settle } of [hub, device]) await settle();

  await reachesHub(hub, device.data, eventsIn(device.data).length);
  assertAtHub(hub.data, device.data);
  const keysAtHub = eventsIn(hub.data).map(keyOf);
  const atHub = new Set(keysAtHub);
  assert.equal(atHub.size, keysAtHub.length, 'no event is at the hub twice');
  for (const { name, load, connections } of [hub, device]) {
    assert.ok(load.acknowledged.size > 20 && connections() > 5, name);
    assert.deepEqual(
      [...load.acknowledged].filter((key) => !atHub.has(key)),
      [],
      `${name}: not at the hub`,
    );
  }

  const keysUpstream = () => upstream.events.map(({ key }) => key.join('/'));
  const named = () => new Set(deadLettersIn(hub.data).flatMap(({ line }) => (line === undefined ? [] : [keyOf(line)])));
  const arrived = () => new Set([...keysUpstream(), ...named()]).size;
  await eventually('each event is upstream or in the dead letters', () => arrived() === atHub.size, HANG_MS);
  const keys = keysUpstream();
  const doubled = keys.filter((key, at) => keys.indexOf(key) !== at);
  t.diagnostic(`${atHub.size} events, ${doubled.length} twice upstream`);
  const letters = named();
  assert.deepEqual(
    doubled.filter((key) => !letters.has(key)),
    [],
    'doubled upstream without a dead letter',
  );
});
