/** `--host localhost`, which stands for two addresses. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { listen } from '../../../src/http/socket/listener.ts';
import { type Scope, startService } from '../../support/program.ts';
import { type Served, type Serving, serve } from '../../support/service.ts';
import { get, post, Wire } from '../../support/wire.ts';

const REPORT = '/report_asset_observation/a';
const LIVE = get('/livez');
const V4 = '127.0.0.1';
const V6 = '::1';
const hasV6 = Object.values(networkInterfaces()).some((some) => some?.some(({ address }) => address === V6));
const skip = hasV6 ? false : 'this machine has no ::1';

/** `127.0.0.1` alone would be the default. */
function serveLocalhost(t: Scope, { args = [], ...serving }: Serving = {}): Promise<Served> {
  return serve(t, { args: ['--host', 'LocalHost', ...args], ...serving });
}

/** Listens as another program does. @param port by default any free one */
async function occupy(t: Scope, host: string, port = 0): Promise<number> {
  const server = createServer();
  t.after(() => server.close());
  server.listen(port, host);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** @returns whether the address refuses connections */
function refuses(port: number, host: string): Promise<boolean> {
  return Wire.open(port, host).then(
    (wire) => {
      wire.close();
      return false;
    },
    ({ code }) => code === 'ECONNREFUSED',
  );
}

test('with --host localhost both addresses have the same port, and a process ends with both', { skip }, async (t) => {
  const service = await startService(t, { args: ['--host', 'localhost', '--port', '0'] });
  assert.equal(service.url, `http://${V4}:${service.port}`);
  for (const host of [V4, V6]) {
    const wire = await Wire.open(service.port, host);
    wire.send(LIVE);
    assert.equal((await wire.reply())?.status, 200, host);
    wire.send(post(REPORT));
    wire.socket.end(); // a client that has no further request still waits for its reply
    assert.equal((await wire.reply())?.status, 200, host);
  }
  assert.equal((await service.kill('SIGTERM')).code, 0);
  assert.equal(service.events().length, 2);
});

test('a stop answers the requests at both addresses, and closes both', { skip }, async (t) => {
  const service = await serveLocalhost(t);
  const wires = await Promise.all([V4, V6, V4, V6].map((host) => Wire.open(service.port, host)));
  for (const wire of wires) wire.send(LIVE);
  for (const wire of wires) assert.equal((await wire.reply())?.status, 200);
  for (const wire of wires) wire.send(post(REPORT));
  const stopped = service.stop();
  for (const wire of wires) {
    const reply = await wire.reply();
    assert.deepEqual([reply?.status, reply?.headers.get('connection')], [200, 'close']);
  }
  await stopped;
  assert.deepEqual(await Promise.all([V4, V6].map((host) => refuses(service.port, host))), [true, true]);
});

test('the connections of both addresses count together at the cap', { skip }, async (t) => {
  for (const [first, second] of [
    [V4, V6],
    [V6, V4],
  ] as const) {
    const { port } = await serveLocalhost(t, { args: ['--max-connections', '1'] });
    const wire = await Wire.open(port, first);
    wire.send(LIVE);
    assert.equal((await wire.reply())?.status, 200);
    assert.ok(await (await Wire.open(port, second)).ends(), 'one more than the cap is closed at once');
    wire.send(LIVE);
    assert.equal((await wire.reply())?.status, 200);
    wire.close();
  }
});

test('a start fails if another program has the port at one of the addresses, and leaves the other one', {
  skip,
}, async (t) => {
  for (const [busy, other] of [
    [V4, V6],
    [V6, V4],
  ] as const) {
    const port = await occupy(t, busy);
    await assert.rejects(serveLocalhost(t, { args: ['--port', `${port}`] }), {
      exitCode: 2,
      message: `port ${port} on ${busy} is busy; stop what listens there or choose another with --port`,
    });
    assert.equal(await occupy(t, other, port), port);
  }
});

test('any free port is free at both addresses', { skip }, async (t) => {
  const { listen: original } = Server.prototype;
  const taken: number[] = [];
  t.mock.method(Server.prototype, 'listen', function (this: Server, ...given: unknown[]) {
    const [port, host] = given;
    if (host === V6 && taken.length < 3) {
      taken.push(port as number);
      const other = createServer();
      t.after(() => other.close());
      original.apply(other, given as never); // binds first
    }
    return original.apply(this, given as never);
  });
  const { port } = await serveLocalhost(t);
  assert.equal(taken.length, 3);
  assert.ok(!taken.includes(port), `${port} of ${taken}`);
});

test('a machine without the second address listens on the first one', async (t) => {
  const { port } = await serveLocalhost(t, {
    parts: {
      // An address of documentation (RFC 5737), which no machine has.
      listen: (options) => {
        assert.ok(options.at.kind === 'address');
        assert.deepEqual([options.at.host, options.at.alsoHost], [V4, V6]);
        return listen({ ...options, at: { ...options.at, alsoHost: '192.0.2.1' } });
      },
    },
  });
  const wire = await Wire.open(port, V4);
  wire.send(LIVE);
  assert.equal((await wire.reply())?.status, 200);
  wire.close();
  if (hasV6) assert.ok(await refuses(port, V6));
});
