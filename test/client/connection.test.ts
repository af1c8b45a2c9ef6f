import assert from 'node:assert/strict';
import { type EventEmitter, once } from 'node:events';
import { readFileSync } from 'node:fs';
import http, { createServer, type Server } from 'node:http';
import { createServer as createNetServer, type Server as NetServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { NoReply, openClient } from '../../src/client/connection.ts';
import { acceptReport, type Delivery, deliver } from '../../src/client/delivery.ts';
import { type Limits, limits } from '../../src/config/limits.ts';
import { within } from '../support/tools.ts';
import { listenOn } from '../world/http-server.ts';

const TIMEOUT_MS = 60_000;
/** Less than a second timeout that would start later, and far more than a busy machine adds. */
const SLACK_MS = 2_900;

async function listen(t: TestContext, server: Server | NetServer): Promise<URL> {
  return new URL(`http://127.0.0.1:${await listenOn(t, server)}/`);
}

function client(t: TestContext, own: Limits = limits) {
  const opened = openClient('http:', own);
  t.after(() => opened.close());
  return opened;
}

test('a connection is reused for the next call, unless it has been idle for too long', async (t) => {
  let connections = 0;
  const server = createServer((_req, res) => res.end('{}'));
  server.on('connection', () => {
    connections += 1;
  });
  const url = await listen(t, server);
  const { call } = client(t, { ...limits, keptMs: 60_000 });
  for (let count = 0; count < 5; count += 1) {
    assert.deepEqual((await call(url, { method: 'POST', body: '{}', timeoutMs: TIMEOUT_MS })).body, '{}');
  }
  assert.equal(connections, 1);
  const short = client(t, { ...limits, keptMs: 10 });
  await short.call(url, { method: 'GET', timeoutMs: TIMEOUT_MS });
  await sleep(20);
  await short.call(url, { method: 'GET', timeoutMs: TIMEOUT_MS });
  assert.equal(connections, 3);
});

test('an idle connection is not probed each second, which would cost a metered link', {
  skip: process.platform !== 'linux' && 'it needs /proc',
}, async (t) => {
  const url = await listen(
    t,
    createServer((_req, res) => res.end('{}')),
  );
  await client(t).call(url, { method: 'GET', timeoutMs: TIMEOUT_MS });
  const to = Number(url.port).toString(16).toUpperCase().padStart(4, '0');
  // A row of a connection ends its sixth field with the time of its next probe, in hundredths of a second.
  const rows = readFileSync('/proc/net/tcp', 'latin1').split('\n');
  const [, , , , , timer = ''] =
    rows
      .find((row) => row.trim().split(/\s+/)[2]?.endsWith(`:${to}`))
      ?.trim()
      .split(/\s+/) ?? [];
  const [kind, ticks = ''] = timer.split(':');
  assert.equal(kind, '02', timer);
  assert.ok(Number.parseInt(ticks, 16) > 5_000, timer);
});

test('after a 5xx the next call gets a new connection, since a server might close the old one unannounced', async (t) => {
  const statuses = [500, 200, 503, 404, 200];
  let [requests, connections] = [0, 0];
  const server = createServer((_req, res) => {
    res.writeHead(statuses[requests] ?? 0).end();
    requests += 1;
  });
  server.on('connection', () => {
    connections += 1;
  });
  const url = await listen(t, server);
  const { call } = client(t, { ...limits, keptMs: 60_000 });
  const seen: number[] = [];
  for (const _ of statuses) {
    await call(url, { method: 'GET', timeoutMs: TIMEOUT_MS });
    seen.push(connections);
  }
  assert.deepEqual(seen, [1, 2, 2, 3, 3]);
});

test('a body of bytes is sent unchanged, and a call ends with its signal', async (t) => {
  const bytes = Buffer.from([0, 255, 10, 13, 128]);
  let stop = new AbortController();
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk);
    if (req.url === '/late') return stop.abort();
    if (req.url === '/partial') return res.write('x', () => stop.abort());
    return res.end(`${req.method} ${Buffer.concat(chunks).toString('hex')} ${req.headers['content-length']}`);
  });
  const url = await listen(t, server);
  const { call } = client(t);
  const put = { method: 'PUT', body: bytes, timeoutMs: TIMEOUT_MS } as const;
  const { signal } = stop;
  assert.equal((await call(url, { ...put, signal })).body, `PUT ${bytes.toString('hex')} 5`);
  for (const path of ['late', 'partial']) {
    stop = new AbortController();
    await assert.rejects(call(new URL(path, url), { ...put, signal: stop.signal }), {
      sent: true,
      message: 'the request was given up',
    });
  }
  await assert.rejects(call(url, { ...put, signal: AbortSignal.abort() }), { sent: false });
  assert.equal((await call(url, put)).status, 200);
});

test('a reply beyond the limits ends its call at once: interim replies, tiny chunks, a byte at a time [connection-2]', async (t) => {
  const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
  const dripping = createNetServer((socket) => {
    const drip = () => !socket.destroyed && socket.write('x', () => setImmediate(drip));
    socket.on('error', () => {}).write('HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n', drip);
  });
  const tables: readonly (readonly [NetServer, Limits])[] = [
    [rawServer(t, ['HTTP/1.1 102 Processing\r\n\r\n'.repeat(1_000)], 'repeat'), limits],
    [rawServer(t, [chunked, '1\r\nx\r\n'.repeat(limits.replyBytesMax - 1)], 'keep'), limits],
    [dripping, { ...limits, replyChunkBytes: 20_000 }],
  ];
  for (const [server, own] of tables) {
    const url = await listen(t, server);
    const message = `more than ${3 * 64 * 1024} bytes arrived`;
    await assert.rejects(client(t, own).call(url, { method: 'GET', timeoutMs: TIMEOUT_MS }), { sent: true, message });
  }
  // Chunks of a usual size, up to the limit.
  const body = 'x'.repeat(100);
  const pieces = [chunked, `64\r\n${body}\r\n`.repeat(limits.replyBytesMax / 100), '0\r\n\r\n'];
  const url = await listen(t, rawServer(t, pieces, 'keep'));
  const reply = await client(t).call(url, { method: 'GET', timeoutMs: TIMEOUT_MS });
  assert.equal(reply.body, body.repeat(limits.replyBytesMax / 100));
});

test('a connection on which the service sends between two calls is closed, and the next call opens another one', async (t) => {
  const sockets: Socket[] = [];
  const server = createNetServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {}).on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'));
  });
  const url = await listen(t, server);
  const { call } = client(t, { ...limits, keptMs: 60_000 });
  const ask = async () => assert.equal((await call(url, { method: 'GET', timeoutMs: TIMEOUT_MS })).body, '{}');
  await ask();
  await ask();
  assert.equal(sockets.length, 1);
  const closed = once(sockets[0]!, 'close');
  sockets[0]!.write('x');
  await within('its end', TIMEOUT_MS, closed);
  await ask();
  assert.equal(sockets.length, 2);
});

/** A server that sends `pieces` when a request arrives, and then does `last`. */
function rawServer(t: TestContext, pieces: readonly string[], last: 'end' | 'reset' | 'keep' | 'repeat'): NetServer {
  return createNetServer((socket) => {
    t.after(() => socket.destroy());
    socket.on('error', () => {}); // the client might have disconnected
    socket.once('data', () => {
      for (const piece of pieces) socket.write(piece);
      const repeat = () => {
        for (const piece of pieces) if (!socket.destroyed) socket.write(piece);
        if (!socket.destroyed) setImmediate(repeat);
      };
      if (last === 'repeat') repeat();
      if (last === 'end') socket.end();
      if (last === 'reset') socket.resetAndDestroy();
    });
  });
}

test('a call settles and its delivery is decided, however the connection ends', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\n';
  const upgrade = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n';
  const table: readonly (readonly [
    string,
    readonly string[],
    'end' | 'reset' | 'keep' | 'repeat',
    Delivery['kind'],
  ])[] = [
    ['101, and the connection is kept', [upgrade], 'keep', 'misconfigured'],
    ['101, and the connection ends', [upgrade], 'end', 'misconfigured'],
    ['101, and bytes of another protocol', [upgrade, '\0\x01\x02'], 'keep', 'misconfigured'],
    ['101 without an Upgrade header', ['HTTP/1.1 101 Switching Protocols\r\n\r\n'], 'keep', 'misconfigured'],
    ['101, then 200', ['HTTP/1.1 101 x\r\n\r\n', `${head}Content-Length: 2\r\n\r\n{}`], 'keep', 'misconfigured'],
    ['no reply, and an end', [], 'end', 'in doubt'],
    ['no reply, and a reset', [], 'reset', 'in doubt'],
    ['no reply', [], 'keep', 'in doubt'],
    ['half of a head, and an end', [head], 'end', 'in doubt'],
    ['headers without an end', [head, `X: ${'x'.repeat(1_000)}\r\n`], 'repeat', 'in doubt'],
    ['1xx without an end', ['HTTP/1.1 102 Processing\r\n\r\n'], 'repeat', 'in doubt'],
    ['1xx, and an end', ['HTTP/1.1 100 Continue\r\n\r\n'], 'end', 'in doubt'],
    ['1xx, then 200', ['HTTP/1.1 103 x\r\n\r\n', `${head}Content-Length: 2\r\n\r\n{}`], 'keep', 'recorded'],
    ['half of a body, and an end', [`${head}Content-Length: 9\r\n\r\n{`], 'end', 'in doubt'],
    ['half of a body, and a reset', [`${head}Content-Length: 9\r\n\r\n{`], 'reset', 'in doubt'],
    ['half of a body', [`${head}Content-Length: 9\r\n\r\n{`], 'keep', 'in doubt'],
    ['chunks, and an end between them', [`${head}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`], 'end', 'in doubt'],
    ['a malformed chunk', [`${head}Transfer-Encoding: chunked\r\n\r\nx\r\n{}`], 'keep', 'in doubt'],
    ['a body that ends with the connection', [`${head}\r\n{}`], 'end', 'recorded'],
    ['a reply that is not HTTP', ['SSH-2.0-x\r\n'], 'keep', 'in doubt'],
    ['204', ['HTTP/1.1 204 No Content\r\n\r\n'], 'keep', 'misconfigured'],
  ];
  await Promise.all(
    table.map(async ([what, pieces, last, expected]) => {
      const url = await listen(t, rawServer(t, pieces, last));
      const { call } = client(t);
      const attempt = () => call(url, { method: 'POST', body: '{}', timeoutMs: 3_000 });
      const mayRepeat = async () => ({ kind: 'no' }) as const;
      const policy = { retryForMs: 0, stopped: new AbortController().signal, limits, onWait: () => {} };
      const late = sleep(60_000, { kind: 'it never settled' }, { ref: false });
      assert.equal(
        (await Promise.race([deliver({ attempt, accept: acceptReport, mayRepeat }, policy), late])).kind,
        expected,
        what,
      );
    }),
  );
});

test('a call that waits for a connection settles when the client is closed', async (t) => {
  const unresponsive = createNetServer((socket) => t.after(() => socket.destroy()));
  const url = await listen(t, unresponsive);
  const { call, close } = openClient('http:', limits);
  const [first, second] = [1, 2].map(() => assert.rejects(call(url, { method: 'GET', timeoutMs: 300 }), NoReply));
  await once(unresponsive, 'connection');
  close();
  await first;
  await second;
});

test('a connection that is not established in time is given up, and the request counts as not sent', async (t) => {
  // An address for documentation (RFC 5737), which no host has.
  const { call } = client(t);
  const asked = call(new URL('http://192.0.2.1/'), { method: 'GET', timeoutMs: 200 });
  await assert.rejects(asked, (error: NoReply) => {
    assert.equal(error.sent, false);
    return true;
  });
});

test('a call takes no longer than its timeout, even if each of its parts is slow', async (t) => {
  const timeoutMs = 3_000;
  const trickle = (head: string) =>
    createNetServer((socket) => {
      socket
        .on('error', () => {})
        .once('data', () => {
          socket.write(head);
          const pieces = setInterval(() => socket.write('x'), 20);
          socket.once('close', () => clearInterval(pieces));
        });
    });
  const table: readonly (readonly [string, NetServer, string])[] = [
    ['a head in pieces', trickle('HTTP/1.1 200 OK\r\nX: '), '{}'],
    ['a body in pieces', trickle('HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n'), '{}'],
    // More than the buffers of the kernel hold.
    ['a server that does not read', createNetServer({ pauseOnConnect: true }), 'x'.repeat(32 * 1024 * 1024)],
  ];
  await Promise.all(
    table.map(async ([what, server, body]) => {
      server.on('connection', (socket) => t.after(() => socket.destroy()));
      const url = await listen(t, server);
      const { call } = client(t);
      const startedMs = performance.now();
      const called = within('the end of the call', TIMEOUT_MS, call(url, { method: 'POST', body, timeoutMs }));
      await assert.rejects(called, { sent: true, message: 'no complete reply within 3 s' });
      const tookMs = performance.now() - startedMs;
      assert.ok(tookMs >= timeoutMs - 1 && tookMs < timeoutMs + SLACK_MS, `${what}: ${tookMs} ms`);
    }),
  );
});

test('the timeout includes the time until a connection is established', async (t) => {
  const unresponsive = createNetServer((socket) => t.after(() => socket.destroy()));
  const url = await listen(t, unresponsive);
  const { createConnection } = http.Agent.prototype;
  // The handshake of a distant server: `connect` is emitted late.
  t.mock.method(
    http.Agent.prototype,
    'createConnection',
    function (this: http.Agent, ...args: Parameters<typeof createConnection>) {
      const socket = createConnection.apply(this, args) as Socket;
      const emit: EventEmitter['emit'] = socket.emit;
      socket.emit = (name: string, ...values: unknown[]) => {
        if (name !== 'connect') return emit.call(socket, name, ...values);
        setTimeout(() => emit.call(socket, name, ...values), 3_000);
        return true;
      };
      return socket;
    },
  );
  const startedMs = performance.now();
  await assert.rejects(client(t).call(url, { method: 'GET', timeoutMs: 5_000 }), { sent: true });
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs < 5_000 + SLACK_MS, `${tookMs} ms`);
});
