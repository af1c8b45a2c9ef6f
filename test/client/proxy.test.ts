/** A proxy between a client and a service: what it gets, what is refused, and which requests never go through it. */

import assert from 'node:assert/strict';
import { createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { connect, createServer as createNetServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { isLocal, readProxyUrl } from '../../src/client/base-url.ts';
import { NoReply, openClient, openReply } from '../../src/client/connection.ts';
import { openProxy, proxyFor } from '../../src/client/proxy.ts';
import { limits } from '../../src/config/limits.ts';
import { freePort } from '../support/program.ts';
import { within } from '../support/tools.ts';
import { listenOn } from '../world/http-server.ts';

interface Asked {
  readonly line: string;
  readonly headers: IncomingHttpHeaders;
}

/** A proxy that answers each request itself, or leads it to a port. */
async function startProxy(t: TestContext, answer: (asked: Asked) => number | readonly [number, object]) {
  const asked: Asked[] = [];
  const see = (line: string, headers: IncomingHttpHeaders) => {
    const one = { line, headers };
    asked.push(one);
    return answer(one);
  };
  const server = createServer((request, response) => {
    const found = see(`${request.method} ${request.url}`, request.headers);
    if (typeof found !== 'number') return void response.writeHead(found[0], found[1] as never).end('<p>page');
    const { host: _host, ...headers } = request.headers;
    request.pipe(
      httpRequest({ port: found, path: new URL(request.url!).pathname, method: request.method, headers }, (reply) =>
        reply.pipe(response.writeHead(reply.statusCode!, { ...reply.headers, Via: '1.1 p' })),
      ),
    );
  });
  const sockets = new Set<Socket>();
  server.on('connect', (request, socket: Socket) => {
    sockets.add(socket);
    const found = see(`${request.method} ${request.url}`, request.headers);
    if (typeof found !== 'number') return void socket.end(`HTTP/1.1 ${found[0]} No\r\n\r\n`);
    if (found === 0) return; // it does not answer
    const other = connect(found, '127.0.0.1', () => socket.write('HTTP/1.1 200 OK\r\n\r\n').valueOf());
    sockets.add(other);
    socket.pipe(other).pipe(socket);
    for (const one of [socket, other]) one.on('error', () => {});
  });
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  return { port: await listenOn(t, server), asked };
}

const get = { method: 'GET', timeoutMs: 5_000 } as const;

/** @returns the reply of a call, or the error that it throws */
async function callThrough(t: TestContext, proxy: string, url: string, more: object = {}) {
  const client = openClient(new URL(url).protocol, limits, undefined, openProxy(proxy));
  t.after(() => client.close());
  return client.call(new URL(url), { ...get, ...more }).catch((error: NoReply) => error);
}

test('without TLS a proxy gets the whole URL and its login, and the service does not get the login', async (t) => {
  const service = createServer((request, response) => response.end(JSON.stringify([request.url, request.headers])));
  const port = await listenOn(t, service);
  const { port: proxyPort, asked } = await startProxy(t, () => port);
  const proxy = `http://me:p%40ss-word@127.0.0.1:${proxyPort}`;
  const found = await callThrough(t, proxy, 'http://hub.example/a/b?c=d', { body: '' });
  assert.ok(!(found instanceof Error), `${found}`);
  assert.equal(asked[0]?.line, 'GET http://hub.example/a/b?c=d');
  assert.equal(asked[0]?.headers.host, 'hub.example');
  const login = Buffer.from('me:p@ss-word').toString('base64');
  assert.equal(asked[0]?.headers['proxy-authorization'], `Basic ${login}`);
  assert.ok(!found.body.includes(login), 'a reply that repeats the login is masked');
  const reply = await openReply(
    {
      ...{ url: new URL('http://hub.example/x'), headers: {}, token: undefined, accept: 'a/b', idleMs: 5_000 },
      ...{ signal: undefined, route: openProxy(proxy) },
    },
    limits,
  );
  assert.deepEqual([reply.kind, asked[1]?.line], ['short', 'GET http://hub.example/x']);
});

test('an error names the machine that did not answer, and says when the proxy refused', async (t) => {
  const free = await freePort(t);
  const messageOf = async (proxy: string, url: string, more: object = {}) => {
    const found = await callThrough(t, proxy, url, more);
    assert.ok(found instanceof NoReply, JSON.stringify(found));
    return [found.message.replaceAll(/:\d+\b/g, ''), found.sent, found.code];
  };
  const gone = `http://me:secret-word@127.0.0.1:${free}`;
  const refusedThere = ['the proxy http://127.0.0.1: connect ECONNREFUSED 127.0.0.1', false, 'ECONNREFUSED'];
  for (const scheme of ['http', 'https']) assert.deepEqual(await messageOf(gone, `${scheme}://h/`), refusedThere);
  let answer: number | readonly [number, object] = 0;
  const { port } = await startProxy(t, () => answer);
  const proxy = `http://me:secret-word@127.0.0.1:${port}`;
  const silent = 'the proxy http://127.0.0.1, asked for h: no connection within 0.3 s';
  assert.deepEqual(await messageOf(proxy, 'https://h:444/', { timeoutMs: 300 }), [silent, false, undefined]);
  for (const [status, headers, schemes] of [
    [407, {}, ['http', 'https']],
    [403, { Via: '1.1 p' }, ['http', 'https']],
    [403, {}, ['https']],
  ] as const) {
    answer = [status, headers];
    const reason = `it answers ${status}; check its login, and what it permits`;
    for (const scheme of schemes) {
      const at = scheme === 'https' ? ', asked for h' : '';
      const message = `the proxy http://127.0.0.1${at}: ${reason}`;
      assert.deepEqual(await messageOf(proxy, `${scheme}://h/`), [message, false, 'ERR_PROXY_REFUSED']);
    }
  }
  answer = [502, {}];
  const unreached = 'the proxy http://127.0.0.1, asked for h: it answers 502';
  assert.deepEqual(await messageOf(proxy, 'https://h/'), [unreached, false, undefined]);
  answer = [403, { Via: '1.1 p', 'Content-Type': 'application/json' }];
  const found = await callThrough(t, proxy, 'http://h/');
  assert.equal((found as { status?: number }).status, 403, 'of a service, which says why');
});

test('a stop and a timeout end the request to a proxy that does not answer', async (t) => {
  const open = new Set<Socket>();
  const server = createNetServer((socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket)).on('error', () => {});
    socket.resume();
  });
  const port = await listenOn(t, server);
  const stop = new AbortController();
  const call = callThrough(t, `http://127.0.0.1:${port}`, 'https://h/', { signal: stop.signal });
  await new Promise((resolve) => server.once('connection', resolve));
  stop.abort();
  assert.match(`${await within('the end', 5_000, call)}`, /the request was given up/);
  await within(
    'the end of the connection',
    5_000,
    (async function wait(): Promise<void> {
      while (open.size > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    })(),
  );
});

test('a request to this machine never goes through a proxy', () => {
  const env = { HTTP_PROXY: 'http://p:1', HTTPS_PROXY: 'http://p:1' };
  const local = ['localhost', 'a.localhost', 'LOCALHOST.', '127.0.0.1', '127.1', '127.9.9.9', '2130706433', '0.0.0.0'];
  for (const host of [...local, '[::1]', '[::]', '[::ffff:127.0.0.1]', '[0:0:0:0:0:0:0:1]'])
    for (const scheme of ['http', 'https']) {
      const url = new URL(`${scheme}://${host}:3000/`);
      assert.ok(isLocal(url.hostname), host);
      assert.equal(proxyFor(url, env), undefined, host);
    }
  for (const host of ['hub.example', '10.0.0.1', '128.0.0.1', 'localhost.example', '[fd00::1]', 'notlocalhost'])
    assert.ok(!isLocal(new URL(`http://${host}`).hostname) && proxyFor(new URL(`http://${host}`), env), host);
});

test('the variables of the environment choose a proxy by scheme, in lower and upper case, and NO_PROXY excludes hosts', () => {
  const nameFor = (url: string, env: NodeJS.ProcessEnv) => proxyFor(new URL(url), env)?.name;
  const env = {
    HTTPS_PROXY: 'http://u:pw@s.example:3128',
    http_proxy: 'plain.example:8080',
    HTTP_PROXY: 'http://other',
  };
  assert.equal(nameFor('https://h', env), 'the proxy http://s.example:3128');
  assert.equal(nameFor('http://h', env), 'the proxy http://plain.example:8080');
  assert.equal(nameFor('http://h', { HTTPS_PROXY: 'http://p' }), undefined);
  assert.equal(nameFor('http://h', { HTTP_PROXY: 'http://p', http_proxy: '' }), undefined);
  const excepted = (list: string, url: string) =>
    nameFor(url, { HTTP_PROXY: 'http://p', NO_PROXY: list }) === undefined;
  for (const [list, yes, no] of [
    ['a.example', ['http://a.example:1', 'http://x.a.example', 'http://A.Example'], ['http://ba.example', 'http://b']],
    ['.a.example, b', ['http://x.a.example', 'http://b'], ['http://c']],
    ['*.a.example', ['http://x.a.example'], ['http://b.example']],
    ['a:81', ['http://a:81'], ['http://a', 'http://a:82']],
    ['a:80', ['http://a', 'http://a:80'], ['http://a:81']],
    ['10.0.0.1 fd00::1', ['http://10.0.0.1', 'http://[fd00::1]:5'], ['http://10.0.0.11']],
    [
      'b,10.0.0.0/8',
      ['http://10.2.3.4:3000', 'http://[::ffff:10.2.3.4]', 'http://b'],
      ['http://11.0.0.1', 'http://10'],
    ],
    ['10.1.2.3/8', ['http://10.9.9.9'], ['http://10.9.9.9.example']],
    ['192.168.128.0/17', ['http://192.168.129.1', 'http://192.168.255.255'], ['http://192.168.127.255']],
    ['192.0.2.7/32', ['http://192.0.2.7'], ['http://192.0.2.6']],
    ['FD00::/8', ['http://[fd12:3::4]:1'], ['http://[fc00::1]', 'http://10.0.0.1', 'http://fd.example']],
    ['2001:db8:0:8000::/49', ['http://[2001:db8:0:ffff::1]'], ['http://[2001:db8:0:7fff::1]']],
    ['fd00:0:0::01', ['http://[fd00::1]'], ['http://[fd00::2]']],
    ['::ffff:10.0.0.0/104', ['http://10.0.0.1'], ['http://11.0.0.1']],
    ['0.0.0.0/0', ['http://9.9.9.9'], ['http://[fd00::1]', 'http://a']],
    ['::/0', ['http://[fd00::1]'], ['http://9.9.9.9', 'http://[::ffff:9.9.9.9]']],
    ['10/8 10.0.0.0/33 10.0.0.0/ 10.0.0.0/-8 10.0.0.0/8x fd00::/129 /8', [], ['http://10.0.0.0', 'http://[fd00::]']],
    ['*', ['http://a'], []],
    [' , ', [], ['http://a']],
  ] as const) {
    for (const url of yes) assert.ok(excepted(list, url), `${list} ${url}`);
    for (const url of no) assert.ok(!excepted(list, url), `${list} ${url}`);
  }
  for (const wrong of ['socks5://me:secret@p:1', 'https://secret', 'http://p/secret', 'http://', 'http://p:99999']) {
    const message = 'HTTP_PROXY must be a URL such as http://proxy.example:3128';
    assert.throws(() => nameFor('http://h', { HTTP_PROXY: wrong }), { message }, wrong);
  }
  assert.equal(readProxyUrl(7), undefined);
});
