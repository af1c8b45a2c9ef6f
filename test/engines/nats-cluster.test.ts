/** Servers alone and in a cluster: a batch is stored whole, and only after the message that the sender names. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startNats, withoutNats } from '../support/nats.ts';
import type { Answered, NatsClient } from '../support/nats-client.ts';

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
