/**
 * Servers alone and in a cluster: a batch is stored whole, and only after the message that the sender names. With three nodes and
 * two ingesters with `--ack`, every event with a 200 is in the stream once, in the order of its journal, whichever is killed.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertInStream, natsUrl, startNats, withoutNats } from '../support/nats.ts';
import type { Answered, NatsClient } from '../support/nats-client.ts';
import { recommendedArgs, withoutNginx } from '../support/nginx.ts';
import { freePort, journalText, newFolder, startService } from '../support/program.ts';
import { agentFor, startBalancer, startLoad } from '../support/proxied.ts';
import { eventually, HANG_MS } from '../support/tools.ts';

const SUBJECT = 'assetlog._.source';

/** @param after the sequence of the last message of the subject, 0 if there is none */
async function publish(client: NatsClient, id: string, lines: readonly string[], after: number): Promise<Answered> {
  const headers = (index: number) => ({
    'Nats-Batch-Id': id,
    'Nats-Batch-Sequence': `${index + 1}`,
    ...(index === 0 && { 'Nats-Expected-Last-Subject-Sequence': `${after}` }),
    ...(index === lines.length - 1 && { 'Nats-Batch-Commit': '1' }),
  });
  for (const [index, line] of lines.slice(0, -1).entries()) client.publish(SUBJECT, line, { headers: headers(index) });
  return client.request(SUBJECT, lines.at(-1), headers(lines.length - 1));
}

for (const nodes of [1, 3] as const) {
  test(`a cluster of ${nodes} refuses a batch as a whole that is late, repeated or from a copy of the folder`, {
    skip: withoutNats,
  }, async (t) => {
    const nats = await startNats(t, { nodes });
    await nats.createStream();
    const client = await nats.client();
    t.after(() => client.close());
    const first = await publish(client, 'a', ['1', '2', '3'], 0);
    assert.deepEqual([first.error, first['count'], first['seq']], [undefined, 3, 3]);
    const refusals = [
      await publish(client, 'a', ['1', '2', '3'], 0),
      await publish(client, 'b', ['3', '4'], 2),
      await publish(client, 'c', ['5'], 4),
    ];
    assert.deepEqual(
      refusals.map(({ error }) => [10071, 10164].includes(error?.err_code ?? 0)),
      [true, true, true],
      JSON.stringify(refusals),
    );
    const both = await Promise.all([
      publish(client, 'd', ['4', '5'], 3),
      publish(await nats.client(), 'e', ['4', '5'], 3),
    ]);
    assert.equal(both.filter(({ error }) => error === undefined).length, 1, JSON.stringify(both));
    const payloads = (await nats.messages()).map(({ payload }) => payload);
    assert.deepEqual(payloads, ['1', '2', '3', '4', '5']);
  });
}

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
  const leader = await nats.leader();
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
