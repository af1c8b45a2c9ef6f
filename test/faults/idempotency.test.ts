/**
 * A storm on reports with keys: clients repeat each report one to three times, a proxy cuts replies, the process is killed and
 * the disk fills. In the end each key is in the journal once.
 */

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventsIn, startService } from '../support/program.ts';
import { listenOn } from '../support/sent-lines.ts';
import { each, eventually, withoutMounts } from '../support/tools.ts';
import { ask, post } from '../support/wire.ts';
import { mountNew } from './mounts.ts';

const CLIENTS = 8;
const ROUNDS = 6;
const ARGS = ['--segment-bytes', '32768'];
const MIB = 1024 * 1024;

test('8 clients repeat what they report while replies are cut, the process is killed and the disk fills: each key is there once', {
  skip: withoutMounts,
}, async (t) => {
  const mount = mountNew(t, 'ext4', { bytes: 16 * MIB });
  const data = join(mount.folder, 'data');
  mkdirSync(data);
  let service = await startService(t, { args: ARGS, data });
  const proxy = await startProxy(t, () => service.port);
  const clients = startClients(proxy.port);
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = clients.acknowledged.size;
    await eventually('reports', () => clients.acknowledged.size > before + 100);
    if (round % 2 === 0) {
      mount.fill(); // the sidecars of closed files fail as well
      const refused = clients.refused();
      await eventually('refusals', () => clients.refused() > refused + 20);
    }
    await service.kill('SIGKILL');
    mount.free();
    service = await startService(t, { args: ARGS, data });
  }
  proxy.cutsReplies = false;
  await clients.stop();

  await each([...clients.sent], CLIENTS, async (key) => {
    const reply = await send(service.port, key);
    assert.equal(reply, 200, key);
  });
  const keys = eventsIn(data).map((event) => event['idempotency_key'] as string);
  assert.equal(new Set(keys).size, keys.length, 'a key is there twice');
  assert.deepEqual(keys.sort(), [...clients.sent].sort());
  assert.ok(clients.acknowledged.size >= 100 * ROUNDS && proxy.cut > 50, `${clients.acknowledged.size}, ${proxy.cut}`);
  assert.ok(clients.replayed() > 50, `${clients.replayed()} were recorded before`);
});

/** @returns the status, 0 if the connection ended without a reply */
async function send(port: number, key: string, onReplayed?: () => void): Promise<number> {
  const body = JSON.stringify({ metadata: { filling: 'x'.repeat(500), key } });
  const request = post('/report_asset_materialization/a', body, [`Idempotency-Key: ${key}`]);
  try {
    const { status, headers } = await ask(port, request);
    if (headers.has('idempotent-replayed')) onReplayed?.();
    return status;
  } catch {
    return 0;
  }
}

function startClients(port: number) {
  const sent = new Set<string>();
  const acknowledged = new Set<string>();
  let isRunning = true;
  let refused = 0;
  let replayed = 0;

  async function client(number: number): Promise<void> {
    for (let count = 0; isRunning; count += 1) {
      const key = `${number}/${count}`;
      sent.add(key);
      // Two or three at once join each other; one after the other are compared with the line.
      const together = 1 + (count % 3);
      for (let left = 1 + ((count >> 1) % 3); left > 0; ) {
        const statuses = await Promise.all(
          Array.from({ length: together }, () =>
            send(port, key, () => {
              replayed += 1;
            }),
          ),
        );
        if (statuses.includes(200)) {
          acknowledged.add(key);
          left -= 1;
          continue;
        }
        refused += 1;
        assert.ok(
          statuses.every((status) => status === 0 || status === 503),
          `${key}: ${statuses}`,
        );
        if (!isRunning) break;
        await sleep(20);
      }
    }
  }

  const all = Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)));
  return {
    sent,
    acknowledged,
    refused: () => refused,
    replayed: () => replayed,
    stop: async () => {
      isRunning = false;
      await all;
    },
  };
}

interface Proxy {
  readonly port: number;
  /** Replies that were cut off so far. */
  cut: number;
  cutsReplies: boolean;
}

/** Passes connections on to the port of the moment. Of eight replies it cuts one off before its first byte and one in its middle. */
async function startProxy(t: TestContext, portNow: () => number): Promise<Proxy> {
  const sockets = new Set<Socket>();
  let replies = 0;
  const server = createServer((client) => {
    const upstream = connect(portNow(), '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {}); // the connection of the other side is closed in the next handler
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream);
    upstream.on('data', (bytes: Buffer) => {
      replies += 1;
      const turn = proxy.cutsReplies ? replies % 8 : 0;
      if (turn !== 3 && turn !== 6) return client.write(bytes);
      proxy.cut += 1;
      if (turn === 3) return client.destroy();
      return client.end(bytes.subarray(0, bytes.length >> 1));
    });
  });
  const proxy: Proxy = { port: await listenOn(t, server), cut: 0, cutsReplies: true };
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  return proxy;
}
