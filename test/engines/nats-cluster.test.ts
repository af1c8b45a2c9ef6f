/** Three nodes and two ingesters with `--ack`, with kills: every event with a 200 is in the stream once, in the order of its journal. */

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

test('every 200 is in the stream once after kills of the leader and an ingester, and without two nodes no report gets a 200', {
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
  const arrive = async (when: string) => {
    const before = load.acknowledged.size;
    await eventually(`reports arrive ${when}`, () => load.acknowledged.size > before + 50, HANG_MS);
  };
  await arrive('at the start');
  await lost.kill('SIGKILL'); // and is not started again
  await arrive('with one ingester');
  const leader = await nats.leaderOf();
  await leader.kill();
  await arrive('with another leader');
  await leader.start();
  await kept.kill('SIGKILL');
  kept = await startKept();
  await arrive('after the restart of the ingester');

  await eventually('all three nodes answer', () => nats.answers());
  const [one, two] = nats.nodes as readonly [(typeof nats.nodes)[0], (typeof nats.nodes)[0]];
  await Promise.all([one.kill(), two.kill()]);
  await sleep(2_000); // time for replies already on their way
  const before = load.acknowledged.size;
  await eventually('the service is not ready', async () => (await readiness(kept.url)) === 503);
  await sleep(2_000);
  const recorded = journalText(data).length;
  await sleep(500);
  assert.equal(journalText(data).length, recorded, 'refused reports are not recorded');
  assert.equal(load.acknowledged.size, before, 'a 200 was sent without a majority of the nodes');
  await one.start();
  await arrive('with two nodes again');
  await eventually('the service is ready', async () => (await readiness(kept.url)) === 200);
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
