/** The memory of a connection whose client reads nothing: the listener with an app of one long reply. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { limits, MIB } from '../../../src/config/limits.ts';
import { saveMemory } from '../../../src/config/memory.ts';
import type { Reply } from '../../../src/http/message.ts';
import type { Connections } from '../../../src/http/socket/connections.ts';
import { listenWith } from '../../support/listener.ts';
import { eventually } from '../../support/tools.ts';
import { Wire } from '../../support/wire.ts';

const REQUESTS = 60;
/** All replies together exceed the buffers of the kernel for a connection: 10 MiB, or 36 with recent Linux. */
const REPLY_BYTES = 4 * MIB;

/** @param reply the reply to each request; undefined for no reply, as while the disk does not respond */
async function start(t: TestContext, reply?: Reply) {
  let decided = 0;
  const receive = (respond: (reply: Reply) => void) => {
    decided += 1;
    if (reply !== undefined) respond(reply);
  };
  const { port, metrics } = await listenWith(t, receive, { limits: { drainMs: 10 } }); // a stop waits for no client
  const connections = metrics.connections as Connections;
  return {
    port,
    decided: () => decided,
    /** @returns the unsent bytes of each connection */
    unsent: () => [...connections.all()].map(({ socket }) => socket.writableLength),
  };
}

/** Sends all requests at once and reads no reply. */
async function sendUnread(t: TestContext, port: number, method: string, requests = REQUESTS): Promise<void> {
  const wire = await Wire.open(port);
  t.after(() => wire.close());
  wire.socket.pause();
  wire.send(`${method} /long HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n`.repeat(requests));
}

test('a client that reads nothing has one reply in memory, and its further GETs wait [exchanges-1]', async (t) => {
  const { port, decided, unsent } = await start(t, { kind: 'body', status: 200, body: 'x'.repeat(REPLY_BYTES) });
  for (const method of ['GET', 'POST']) {
    const before = decided();
    await sendUnread(t, port, method);
    await eventually('a reply waits for the client', () => decided() > before && (unsent().at(-1) ?? 0) > 0);
    if (method === 'POST') await eventually('all are decided', () => decided() - before === REQUESTS);
    else assert.ok(decided() <= REQUESTS / 2, `${decided()} of ${REQUESTS} replies are decided`);
  }
  assert.equal(unsent().length, 2);
  for (const bytes of unsent()) assert.ok(bytes <= REPLY_BYTES + 1_000, `${bytes} bytes are kept for the client`);
});

test('clients that do not read the same document share its memory', async (t) => {
  const collect = saveMemory();
  const document = Buffer.alloc(REPLY_BYTES, 'x');
  const { port, unsent } = await start(t, { kind: 'document', status: 200, body: document });
  const before = process.memoryUsage().arrayBuffers;
  const clients = 4;
  for (let count = 0; count < clients; count += 1) await sendUnread(t, port, 'GET');
  await eventually(
    'a document waits for each of them',
    () => unsent().length === clients && !unsent().some((bytes) => bytes === 0),
  );
  await eventually('they share it', () => {
    collect();
    return process.memoryUsage().arrayBuffers - before < REPLY_BYTES;
  });
});

test('ignored requests take no memory, although Node holds them', async (t) => {
  const collect = saveMemory();
  const heapBytes = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const { port, decided } = await start(t);
  const before = heapBytes();
  const clients = 8;
  for (let count = 0; count < clients; count += 1) await sendUnread(t, port, 'POST', 1_000); // fits into one read of Node
  await eventually('further requests are ignored', () => decided() === clients * limits.unansweredMax);
  const perClient = (heapBytes() - before) / clients;
  assert.ok(perClient < 1 * MIB, `${perClient} bytes for each client; a thousand requests are 3 MB`);
});
