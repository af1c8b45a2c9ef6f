import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createNetServer, type Server as NetServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { NoReply, openClient } from '../src/client.ts';
import { limits } from '../src/config.ts';
import { freePort } from './program.ts';

const REPLY_MS = 5_000;

async function listen(t: TestContext, server: Server | NetServer): Promise<URL> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
}

function client(t: TestContext) {
  const opened = openClient('http:');
  t.after(() => opened.close());
  return opened;
}

test('one connection serves call after call, but is not trusted when it idled', async (t) => {
  let connections = 0;
  const server = createServer((_req, res) => res.end('{}'));
  server.on('connection', () => {
    connections += 1;
  });
  const url = await listen(t, server);
  const { call } = client(t);
  for (let count = 0; count < 5; count += 1) {
    assert.deepEqual((await call(url, { method: 'POST', body: '{}', replyMs: REPLY_MS })).body, '{}');
  }
  assert.equal(connections, 1);
  await sleep(limits.keptMs + 100);
  await call(url, { method: 'GET', replyMs: REPLY_MS });
  assert.equal(connections, 2);
});

test('of a reply without an end the beginning is read', async (t) => {
  const server = createServer((_req, res) => {
    res.writeHead(400);
    const pour = setInterval(() => res.write('x'.repeat(50_000)), 1);
    res.on('close', () => clearInterval(pour));
  });
  const url = await listen(t, server);
  const { status, body } = await client(t).call(url, { method: 'GET', replyMs: REPLY_MS });
  assert.deepEqual([status, body.length], [400, limits.replyBytesMax]);
});

test('where no reply comes it is told whether the request may have arrived', async (t) => {
  const { call } = client(t);
  const ask = (url: URL, replyMs = REPLY_MS) =>
    call(url, { method: 'POST', body: '{}', replyMs }).then(
      () => assert.fail('there was a reply'),
      (error: unknown) => {
        assert.ok(error instanceof NoReply, String(error));
        return [error.sent, error.code, error.message];
      },
    );
  const nobody = await freePort();
  const [sent, code, message] = await ask(new URL(`http://127.0.0.1:${nobody}/`));
  assert.deepEqual([sent, code], [false, 'ECONNREFUSED']);
  assert.match(String(message), /ECONNREFUSED 127/);
  // Where every address of a name fails, what failed is told all the same.
  assert.match(String((await ask(new URL(`http://localhost:${nobody}/`)))[2]), /ECONNREFUSED/);

  const cut = createNetServer((socket) => socket.once('data', () => socket.resetAndDestroy()).on('error', () => {}));
  assert.deepEqual((await ask(await listen(t, cut))).slice(0, 2), [true, 'ECONNRESET']);

  const half = createNetServer((socket) =>
    socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{')),
  );
  assert.deepEqual((await ask(await listen(t, half))).slice(0, 2), [true, 'ECONNRESET']);

  const silent = createNetServer((socket) => t.after(() => socket.destroy()));
  const late = await ask(await listen(t, silent), 200);
  assert.deepEqual(late, [true, undefined, 'no whole reply came within 0.2 s']);
});

test('a connection that does not come to stand is given up, and counts as not sent', async (t) => {
  // An address for documentation (RFC 5737): nobody is there, or there is no way to it.
  const asked = client(t).call(new URL('http://192.0.2.1/'), { method: 'GET', replyMs: 200 });
  await assert.rejects(asked, (error: NoReply) => {
    assert.equal(error.sent, false);
    return true;
  });
});
