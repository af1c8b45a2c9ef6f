/** The nginx configuration of the handbook, word for word: no report is lost or doubled on its way through nginx. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../src/config/limits.ts';
import { writeDeployments } from '../support/deployments.ts';
import {
  PUBLIC_NAME,
  recommended,
  recommendedArgs,
  recommendedHostedArgs,
  replaced,
  startNginx,
  withoutNginx,
} from '../support/nginx.ts';
import { freePort, newFolder, type Running, startService } from '../support/program.ts';
import { type Asked, agentFor, ask, ENDPOINT, startBalancer, startLoad } from '../support/proxied.ts';
import { eventually, HANG_MS } from '../support/tools.ts';
import { listenOn } from '../world/http-server.ts';

const MIB = 1024 * 1024;

const skip = withoutNginx;

test('10,000 reports over 32 keep-alive connections are recorded once each', { skip }, async (t) => {
  const service = await startBehindProxy(t);
  const proxy = await startNginx(t, service.port);
  const agent = agentFor(t, proxy, 32);
  const connections = new Set<unknown>();
  const expected = Array.from({ length: 10_000 }, (_, index) => `load-${index}`);
  const waiting = [...expected];
  const work = async () => {
    for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
      // In turn: no body, a body of known size, a body in chunks.
      const form = waiting.length % 3;
      const body = form === 0 ? undefined : `{"metadata":{"key":"${key}"}}`;
      const reply = await ask(proxy, { agent, path: ENDPOINT + key, body, chunked: form === 1 });
      connections.add(reply.connection);
      assert.deepEqual([reply.status, reply.body], [200, '{}'], key);
    }
  };
  await Promise.all(Array.from({ length: 32 }, work));
  assert.deepEqual(keysIn(service).sort(), expected.sort());
  // nginx ends a client's connection after 1,000 requests. Its own connections to the service are kept as well.
  assert.ok(connections.size <= 64, `${connections.size} connections to nginx`);
  assert.ok(countConnections(service.port) < 500, `${countConnections(service.port)} connections to the service`);
});

test('more clients than the default connection cap get no 502', { skip }, async (t) => {
  const service = await startBehindProxy(t);
  const proxy = await startNginx(t, service.port);
  const agent = agentFor(t, proxy, 400);
  const body = JSON.stringify({ metadata: { filling: 'x'.repeat(10_000) } });
  const replies = Array.from({ length: 2_000 }, (_, index) =>
    ask(proxy, { agent, path: `${ENDPOINT}crowd-${index}`, body }),
  );
  const statuses = new Set((await Promise.all(replies)).map(({ status }) => status));
  assert.deepEqual([...statuses], [200]);
  assert.equal(new Set(keysIn(service)).size, 2_000);
  assert.equal(service.events().length, 2_000);
});

const TOO_LARGE = /^{"error":"the body is larger than 1048576 bytes/;
const OK = /^{}$/;

const recorded = (asked: Asked, ...key: readonly string[]) => ({ asked, status: 200, says: OK, keys: [key] });
const answered = (status: number, says: RegExp, asked: Asked) => ({ asked, status, says, keys: [] });
const foreign = (header: string, value: string) =>
  answered(403, RegExp(`^{"error":"${header} \\\\"${value}\\\\" is not this service`), {
    path: `${ENDPOINT}a`,
    headers: { [header]: value },
  });

/** Requests that nginx passes on. The service sends the replies: nginx's own errors are not JSON. */
const passages = {
  'a body of 1 MiB is recorded': recorded({ path: `${ENDPOINT}large`, body: bodyOf(MIB) }, 'large'),
  'a body of 1 MiB in chunks is recorded': recorded(
    { path: `${ENDPOINT}chunked`, body: bodyOf(MIB), chunked: true },
    'chunked',
  ),
  'a body of 1 MiB and a byte gets 413': answered(413, TOO_LARGE, { path: `${ENDPOINT}a`, body: bodyOf(MIB + 1) }),
  'a body of 4 MiB gets 413': answered(413, TOO_LARGE, { path: `${ENDPOINT}a`, body: bodyOf(4 * MIB) }),
  'an escaped slash in a key arrives as it was sent': recorded({ path: `${ENDPOINT}a%2Fb/c%20d` }, 'a/b', 'c d'),
  'dots in a key arrive as they were sent': recorded({ path: `${ENDPOINT}a/../b/./c` }, 'a', '..', 'b', '.', 'c'),
  'an empty part of a key gets 400': answered(400, /^{"error":/, { path: `${ENDPOINT}a//b` }),
  'a query of 12 KiB is recorded': recorded({ path: `${ENDPOINT}q?description=${'x'.repeat(12 * 1024)}` }, 'q'),
  'a foreign Host gets 403': foreign('Host', 'evil.example'),
  'a page of another site gets 403': foreign('Origin', 'https://evil.example'),
  'a page of the same name on another port gets 403': foreign('Origin', `https://${PUBLIC_NAME}`),
  '/livez is answered by the service': answered(200, /^{"status":"ok"}$/, { method: 'GET', path: '/livez' }),
  'an unknown path gets 404': answered(404, /^{"error":"nothing is at this path/, { path: '/nowhere' }),
};

test('clients outside cannot read metrics or readiness, however they spell the path', { skip }, async (t) => {
  const service = await startBehindProxy(t);
  const proxy = await startNginx(t, service.port);
  const agent = agentFor(t, proxy, 1);
  for (const path of ['/metrics', '/readyz']) {
    assert.equal((await fetch(`${service.url}${path}`)).status, 200);
    const spelled = [path, `${path}?a`, `/${path}`, `/.${path}`, `/a/..${path}`, path.replace('e', '%65')];
    for (const asked of spelled) {
      const { status, body } = await ask(proxy, { agent, method: 'GET', path: asked });
      assert.deepEqual([status, body.includes('nginx')], [403, true], asked);
    }
  }
});

test('requests through nginx get the replies of the service', { skip }, async (t) => {
  const service = await startBehindProxy(t);
  const proxy = await startNginx(t, service.port);
  const agent = agentFor(t, proxy, 1);
  for (const [name, { asked, status, says, keys }] of Object.entries(passages)) {
    await t.test(name, async () => {
      const before = service.events().length;
      const reply = await ask(proxy, { agent, ...asked });
      assert.deepEqual([reply.status, reply.type], [status, 'application/json'], reply.body);
      assert.match(reply.body, says);
      const found = service.events().slice(before);
      assert.deepEqual(
        found.map((event) => event['asset_key']),
        keys,
      );
    });
  }
});

test('in hosted mode the bad tokens of one client do not limit another client', { skip }, async (t) => {
  const { args: hosted, tokenOf } = writeDeployments(t, ['prod']);
  assert.deepEqual(recommendedHostedArgs, ['--trusted-proxy', '127.0.0.1']);
  for (const [args, other] of [
    [recommendedHostedArgs, 401],
    [[], 429], // without the option the proxy is the only client
  ] as const) {
    const service = await startService(t, { args: [...recommendedArgs, ...hosted, ...args] });
    const proxy = await startNginx(t, service.port);
    const path = `/prod${ENDPOINT}a`;
    const report = async (localAddress: string, headers: Readonly<Record<string, string>> = {}) => {
      const agent = agentFor(t, proxy, 1, localAddress);
      return (await ask(proxy, { agent, path, headers })).status;
    };
    const statuses: number[] = [];
    for (let count = 0; count <= limits.failuresMax; count += 1) {
      // The address that the attacker claims does not count: it cannot pose as another client, nor as many.
      statuses.push(
        await report('127.0.0.2', { 'X-Forwarded-For': count % 2 === 0 ? '127.0.0.3' : `10.0.0.${count}` }),
      );
    }
    assert.deepEqual(statuses, [...Array(limits.failuresMax).fill(401), 429]);
    assert.equal(await report('127.0.0.3'), other);
    assert.equal(await report('127.0.0.2', { 'Service-Cloud-Api-Token': tokenOf('prod') }), 200);
  }
});

test('nginx keeps the largest report in memory, and writes to a file only a body that will be refused', {
  skip,
}, async (t) => {
  const service = await startBehindProxy(t);
  const proxy = await startNginx(t, service.port);
  const agent = agentFor(t, proxy, 1);
  assert.equal((await ask(proxy, { agent, path: `${ENDPOINT}held`, body: bodyOf(MIB) })).status, 200);
  assert.doesNotMatch(proxy.log(), /buffered to a temporary file/);
  assert.equal((await ask(proxy, { agent, path: `${ENDPOINT}over`, body: bodyOf(4 * MIB) })).status, 413);
  assert.match(proxy.log(), /buffered to a temporary file/);
});

test('restarts of the service under load lose no acknowledged report and double none', {
  skip,
}, async (t) => {
  const data = newFolder(t);
  const port = await freePort(t);
  let service = await startBehindProxy(t, data, port);
  const proxy = await startNginx(t, port);
  const load = startLoad(proxy, agentFor(t, proxy, 16), 16);
  for (let restart = 1; restart <= 3; restart += 1) {
    await sleep(700);
    assert.equal((await service.kill('SIGTERM')).code, 0);
    const without = load.statuses.get(502) ?? 0;
    await eventually('a client gets a 502', () => (load.statuses.get(502) ?? 0) > without);
    service = await startBehindProxy(t, data, port);
  }
  const before = load.acknowledged.size;
  await eventually('the proxy reaches the service again', () => load.acknowledged.size > before);
  await load.stop();

  const foreign = [...load.statuses.keys()].filter((status) => ![200, 502, 503].includes(status));
  assert.deepEqual(foreign, []);
  const recorded = keysIn(service);
  const distinct = new Set(recorded);
  assert.equal(recorded.length, distinct.size, 'doubled');
  assert.deepEqual(
    [...load.acknowledged].filter((key) => !distinct.has(key)),
    [],
    'lost',
  );
});

test('with two ingesters and --ack every 200 is at the hub once, whichever of the three is killed', {
  skip,
}, async (t) => {
  const [hubData, hubPort, lostPort, port] = [newFolder(t), await freePort(t), await freePort(t), await freePort(t)];
  const startHub = () => startService(t, { data: hubData, args: ['--port', `${hubPort}`] });
  const args = [...recommendedArgs, '--forward-to', `http://127.0.0.1:${hubPort}`, '--ack', 'upstream'];
  let hub = await startHub();
  const lost = await startService(t, { args: [...args, '--port', `${lostPort}`] });
  const data = newFolder(t);
  let kept = await startService(t, { data, args: [...args, '--port', `${port}`] });
  const proxy = await startBalancer(t, port, lostPort);
  const load = startLoad(proxy, agentFor(t, proxy, 16), 16);
  const arrive = async (when: string) => {
    const before = load.acknowledged.size;
    await eventually(`reports arrive ${when}`, () => load.acknowledged.size > before + 50, HANG_MS);
  };
  await arrive('at the start');
  await lost.kill('SIGKILL'); // and is not started again
  await arrive('with one ingester');
  await hub.kill('SIGKILL');
  await sleep(300);
  hub = await startHub();
  await arrive('after the restart of the hub');
  await kept.kill('SIGKILL');
  kept = await startService(t, { data, args: [...args, '--port', `${port}`] });
  await arrive('after the restart of the ingester');
  await load.stop();
  const counts = new Map<string, number>();
  for (const key of keysIn(hub)) counts.set(key, (counts.get(key) ?? 0) + 1);
  const wrong = [...load.acknowledged].filter((key) => counts.get(key) !== 1);
  assert.deepEqual(wrong, [], `of ${load.acknowledged.size}`);
});

test('nginx does not repeat a report whose connection broke, but does without the rule of the handbook', {
  skip,
}, async (t) => {
  assert.equal(await countSent(t, recommended), 1);
  const repeating = replaced(recommended, 'proxy_next_upstream off', 'proxy_next_upstream error non_idempotent');
  assert.ok((await countSent(t, repeating)) > 1, 'this test would notice a repetition');
});

test('nginx ends an idle connection before the service does, and accepts larger bodies than the service', () => {
  const idleSeconds = Number(/^\s+keepalive_timeout (\d+)s;/m.exec(recommended)?.[1]);
  assert.ok(idleSeconds * 1000 + 10_000 <= limits.idleMs, `${idleSeconds} s`);
  const bodyMib = Number(/^\s+client_max_body_size (\d+)m;/m.exec(recommended)?.[1]);
  assert.ok(bodyMib * MIB > limits.bodyBytesMax, `${bodyMib} MiB`);
  // A larger body would be cut off before the client has read the refusal.
  assert.ok(bodyMib * MIB <= limits.discardBytesMax, `${bodyMib} MiB`);
  assert.equal(recommendedArgs[1], PUBLIC_NAME);
});

function startBehindProxy(t: TestContext, data = newFolder(t), port = 0): Promise<Running> {
  return startService(t, { data, args: [...recommendedArgs, '--port', String(port)] });
}

/**
 * @returns how often nginx sends one report to a service that answers the first request on each connection and breaks off at the
 * second. The report needs a kept connection: nginx would repeat it only if such a connection breaks.
 */
async function countSent(t: TestContext, text: string): Promise<number> {
  let times = 0;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      if (bytes.includes(`${ENDPOINT}broken`)) {
        times += 1;
        socket.destroy();
      } else {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}');
      }
    });
  });
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  const proxy = await startNginx(t, await listenOn(t, server), text);
  const agent = agentFor(t, proxy, 1); // one connection, so one nginx worker, which owns the kept connection
  assert.equal((await ask(proxy, { agent, path: `${ENDPOINT}good` })).status, 200);
  assert.equal((await ask(proxy, { agent, path: `${ENDPOINT}broken` })).status, 502);
  return times;
}

/** Counts the connections in Linux's table, also the closed ones that are still in it. */
function countConnections(port: number): number {
  const remote = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .filter((line) => [1, 2].some((column) => line.trim().split(/\s+/)[column]?.endsWith(remote))).length;
}

function keysIn(service: Running): string[] {
  return service.events().map((event) => (event['asset_key'] as string[]).join('/'));
}

function bodyOf(bytes: number): string {
  const [before, after] = ['{"metadata":{"filling":"', '"}}'];
  return before + 'x'.repeat(bytes - before.length - after.length) + after;
}
