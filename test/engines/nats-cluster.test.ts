/** Three nodes and two ingesters with `--ack`, of which some are killed: every 200 is in the stream once, in the order of its journal. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertInStream, natsUrl, startNats, withoutNats } from '../support/nats.ts';
import { recommendedArgs, withoutNginx } from '../support/nginx.ts';
import { freePort, journalText, newFolder, startService } from '../support/program.ts';
import { agentFor, startBalancer, startLoad } from '../support/proxied.ts';
import { eventually, HANG_MS } from '../support/tools.ts';

async function readiness(url: string): Promise<number> {
  return (await fetch(`${url}/readyz`)).status;
}

test('every 200 is in the stream once, with the leader and an ingester killed, and there is none without two nodes', {
  skip: withoutNats || withoutNginx,
}, async (t) => {
  const nats = await startNats(t, { nodes: 3 });
  await nats.createStream();
  const [lostPort, port, data] = [await freePort(t), await freePort(t), newFolder(t)];
  const args = [...recommendedArgs, '--forward-to', natsUrl(nats), '--ack', 'upstream'];
  const lost = await startService(t, { args: [...args, '--port', `${lostPort}`] });
  const startKept = () => startService(t, { data, args: [...args, '--port', `${port}`] });
  let kept = await startKept();
  const proxy = await startBalancer(t, port, lostPort);
  const load = startLoad(proxy, agentFor(t, proxy, 16), 16);
  const passes = async (what: string) => {
    const before = load.acknowledged.size;
    await eventually(`reports pass ${what}`, () => load.acknowledged.size > before + 50, HANG_MS);
  };
  await passes('at the start');
  await lost.kill('SIGKILL'); // and never comes back
  await passes('with one ingester');
  const leader = await nats.leaderOf();
  await leader.kill();
  await passes('with another leader');
  await leader.start();
  await kept.kill('SIGKILL');
  kept = await startKept();
  await passes('after the ingester came back');

  await eventually('three nodes', () => nats.answers());
  const [one, two] = nats.nodes as readonly [(typeof nats.nodes)[0], (typeof nats.nodes)[0]];
  await Promise.all([one.kill(), two.kill()]);
  await sleep(2_000); // replies that were on their way
  const before = load.acknowledged.size;
  await eventually('it is not ready', async () => (await readiness(kept.url)) === 503);
  await sleep(2_000);
  const recorded = journalText(data).length;
  await sleep(500);
  assert.equal(journalText(data).length, recorded, 'what is refused is not recorded');
  assert.equal(load.acknowledged.size, before, 'a reply of success left without a majority of the nodes');
  await one.start();
  await passes('with two nodes again');
  await eventually('it is ready', async () => (await readiness(kept.url)) === 200);
  await two.start();
  await load.stop();

  const stored = await nats.messages();
  assertInStream(stored, data);
  assertInStream(stored, lost.data, false);
  const counts = new Map<string, number>();
  for (const { payload } of stored) {
    const key = JSON.parse(payload).asset_key.join('/');
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const wrong = [...load.acknowledged].filter((key) => counts.get(key) !== 1);
  assert.deepEqual(wrong, [], `of ${load.acknowledged.size}`);
});
