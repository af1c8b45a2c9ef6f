/** The line itself, over real sockets: from bytes in to a reply and a line in the journal. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startService } from '../support/program.ts';
import { eventually } from '../support/tools.ts';
import { ask, errorOf, post, readFailure, Wire } from '../support/wire.ts';

const MATERIALIZATION = '/report_asset_materialization/';
const CHECK = '/report_asset_check/';
const JSON_TYPE = 'Content-Type: application/json';

test('a 200 is exactly 200, {} and JSON, and one line is in the journal', async (t) => {
  const service = await startService(t);
  const reply = await ask(service.port, post(`${MATERIALIZATION}warehouse/orders`));
  assert.equal(reply.status, 200);
  assert.equal(reply.body, '{}');
  assert.equal(reply.headers.get('content-type'), 'application/json');
  const { id, time, crc, ...line } = service.events()[0] ?? {};
  assert.deepEqual(line, { seq: 1, type: 'AssetMaterialization', asset_key: ['warehouse', 'orders'] });
  assert.ok([id, time, crc].every((member) => typeof member === 'string'));
  assert.equal(service.events().length, 1);
});

test('refusals have the status of their rule, an error in JSON, and nothing is recorded', async (t) => {
  const service = await startService(t);
  const head = (line: string, ...headers: string[]) => `${[line, ...headers].join('\r\n')}\r\n\r\n`;
  const host = 'Host: localhost';
  const body = '{"asset_key":"a"}';
  const sized = `Content-Length: ${body.length}`;
  const table: readonly (readonly [status: number, bytes: string, error: RegExp])[] = [
    [400, head(`POST ${MATERIALIZATION}a HTTP/1.1`), /Host header is missing/],
    [400, head(`POST ${MATERIALIZATION}a HTTP/1.1`, host, host), /more than one Host/],
    [400, head(`POST ${MATERIALIZATION}a HTTP/1.1`, 'Host: a b'), /Host "a b" is not/],
    [400, head(`POST ${MATERIALIZATION}a HTTP/2.0`, host), /HTTP\/2\.0 is not served|malformed HTTP request/],
    [400, head(`POST ${MATERIALIZATION}a#b HTTP/1.1`, host), /fragment/],
    [400, head(`POST ${MATERIALIZATION}\xe9 HTTP/1.1`, host), /outside ASCII|malformed HTTP request/],
    [400, head('POST * HTTP/1.1', host), /neither a path nor an http URL|malformed HTTP request/],
    [400, head('nonsense'), /malformed HTTP request/],
    [400, '\x16\x03\x01\x02\x00\x01\x00', /plain HTTP, not TLS/],
    [400, head('PRI * HTTP/2.0', ''), /malformed HTTP request|not served/],
    [400, head('CONNECT localhost:80 HTTP/1.1', host), /neither a path nor an http URL/],
    [
      400,
      `${head(`POST ${MATERIALIZATION}a HTTP/1.1`, host, 'Transfer-Encoding: gzip, chunked')}0\r\n\r\n`,
      /Transfer-Encoding/,
    ],
    [
      400,
      `${head(`POST ${MATERIALIZATION}a HTTP/1.0`, host, 'Transfer-Encoding: chunked')}0\r\n\r\n`,
      /not part of HTTP\/1\.0/,
    ],
    [
      400,
      `${head(`POST ${MATERIALIZATION}a HTTP/1.1`, host, 'Transfer-Encoding: chunked', sized)}0\r\n\r\n`,
      /both|malformed/,
    ],
    [
      400,
      `${head(`POST ${MATERIALIZATION} HTTP/1.1`, host, JSON_TYPE, 'Transfer-Encoding: chunked')}zz\r\n`,
      /malformed HTTP request/,
    ],
    [400, head(`POST ${MATERIALIZATION}a HTTP/1.1`, host, sized, sized) + body, /malformed HTTP request/],
    [
      400,
      head(`POST ${MATERIALIZATION} HTTP/1.1`, host, JSON_TYPE, JSON_TYPE, sized) + body,
      /more than one Content-Type/,
    ],
    [403, head(`POST ${MATERIALIZATION}a HTTP/1.1`, 'Host: evil.example'), /Host "evil\.example" is not this service/],
    [
      403,
      head(`POST http://evil.example${MATERIALIZATION}a HTTP/1.1`, host),
      /Host "evil\.example" is not this service/,
    ],
    [
      403,
      head(`POST ${MATERIALIZATION}a HTTP/1.1`, host, 'Origin: http://evil.example'),
      /Origin "http:\/\/evil\.example"/,
    ],
    [403, head('GET /livez HTTP/1.1', host, 'Sec-Fetch-Site: cross-site'), /Sec-Fetch-Site/],
    [
      404,
      head('POST /report_asset_materialisation/a HTTP/1.1', host),
      /POST a report to \/report_asset_materialization\//,
    ],
    [
      404,
      head('POST /report_asset_materialisation/a HTTP/1.1', host),
      /^nothing is at this path; did you mean \/report_asset_materialization\/\? POST a report to /,
    ],
    [404, head('POST /REPORT_ASSET_CHECK/ HTTP/1.1', host), /; did you mean \/report_asset_check\/\? POST/],
    [404, head('POST /report-asset-check HTTP/1.1', host), /; did you mean \/report_asset_check\/\? POST/],
    [404, head('GET /event?limit=1 HTTP/1.1', host), /^nothing is at this path; did you mean \/events\? POST a report/],
    [404, head('GET /events/ HTTP/1.1', host), /^nothing is at this path; did you mean \/events\? POST a report/],
    [404, head('POST /report_asset/a HTTP/1.1', host), /^nothing is at this path; POST a report to/],
    [404, head(`POST /${'a'.repeat(16_000)} HTTP/1.1`, host), /^nothing is at this path; POST a report to/],
    [400, post(CHECK, '{"asset_key":"a","passed":"true"}'), /^passed is "true" \(a string\); send the JSON boolean/],
    [
      400,
      post(CHECK, '{"asset_key":"a","passed":true,"checkName":"c"}'),
      /^check_name is missing: .*; the request has "checkName", did you mean check_name\?$/,
    ],
    [405, head(`DELETE ${MATERIALIZATION}a HTTP/1.1`, host), /^DELETE is not allowed here; use POST$/],
    [405, head(`OPTIONS ${CHECK} HTTP/1.1`, host), /use POST/],
    [405, head(`TRACE ${CHECK} HTTP/1.1`, host), /use POST/],
    [405, head('POST /readyz HTTP/1.1', host, 'Content-Length: 0'), /use GET, HEAD/],
    [417, head(`POST ${MATERIALIZATION} HTTP/1.1`, host, JSON_TYPE, sized, 'Expect: dance') + body, /Expect: "dance"/],
    [
      413,
      head(`POST ${MATERIALIZATION} HTTP/1.1`, host, JSON_TYPE, 'Content-Length: 1048577'),
      /larger than 1048576 bytes/,
    ],
    [
      415,
      head(`POST ${MATERIALIZATION} HTTP/1.1`, host, JSON_TYPE, sized, 'Content-Encoding: gzip') + body,
      /Content-Encoding "gzip"/,
    ],
    [
      400,
      head(`POST ${MATERIALIZATION} HTTP/1.1`, host, sized) + body,
      /needs the header Content-Type: application\/json/,
    ],
    [400, head(`POST ${MATERIALIZATION} HTTP/1.1`, host, 'Content-Type: text/plain', sized) + body, /"text\/plain"/],
    [400, post(MATERIALIZATION, '{"asset_key":"a",}'), /line 1, column 17: trailing comma/],
    [400, post(MATERIALIZATION, ' '), /not valid JSON/],
    [400, post(`${MATERIALIZATION}?x=%zz`), /percent-encoded UTF-8/],
    [400, post(MATERIALIZATION), /^asset_key is missing/],
    [400, post(`${MATERIALIZATION}a//b`), /empty part/],
    [400, post(`${CHECK}a`), /^passed is missing/],
    [431, head(`POST ${MATERIALIZATION}a HTTP/1.1`, host, `X: ${'x'.repeat(20_000)}`), /over 16384 bytes/],
    [431, head(`POST ${MATERIALIZATION}${'a'.repeat(20_000)} HTTP/1.1`, host), /over 16384 bytes/],
    [431, head(`POST ${MATERIALIZATION}a HTTP/1.1`, host, ...Array(120).fill('X: 1')), /^121 headers; at most 100/],
    [431, head(`POST ${MATERIALIZATION}a HTTP/1.1`, host, ...Array(2_500).fill('X:1')), /^2501 headers; at most 100/],
  ];
  for (const [status, bytes, error] of table) {
    const reply = await ask(service.port, bytes);
    const what = JSON.stringify(bytes.slice(0, 120));
    assert.equal(reply.status, status, `${what}: ${reply.body}`);
    assert.equal(reply.headers.get('content-type'), 'application/json', what);
    assert.match(readFailure(reply.body)?.error ?? '', error, what);
    if (status === 405) assert.match(reply.headers.get('allow') ?? '', /^(POST|GET, HEAD)$/, what);
    assert.equal((await ask(service.port, head('GET /livez HTTP/1.1', host))).status, 200, what);
  }
  assert.deepEqual(service.events(), []);
});

test('an ignored parameter that is nearly a known one is a warning, once for each name', async (t) => {
  const service = await startService(t, { args: ['--path-prefix', '/p'] });
  const send = (body: string) => ask(service.port, post(`/p${MATERIALIZATION}a?data-version=v1`, body));
  for (let times = 0; times < 3; times += 1) assert.equal((await send('{"Partition":"p","uri":1}')).status, 200);
  const near = await ask(service.port, post('/p/report_asset_chek/'));
  assert.match(errorOf(near), /; did you mean \/p\/report_asset_check\/\? POST/);
  await service.kill();
  const warnings = service
    .stderr()
    .split('\n')
    .filter((line) => line.includes('"level":"warn"'))
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    warnings.map(({ message, name, did_you_mean }) => [message, name, did_you_mean]),
    [
      ['an unknown parameter is ignored', 'Partition', 'partition'],
      ['an unknown parameter is ignored', 'data-version', 'data_version'],
    ],
  );
});

test('of several mistakes the first rule decides, the same one every time', async (t) => {
  const service = await startService(t);
  const mistakes: readonly (readonly [status: number, header: string])[] = [
    [400, 'Host: again'],
    [403, 'Origin: null'],
    [417, 'Expect: dance'],
    [415, 'Content-Encoding: gzip'],
    [400, 'Content-Type: text/plain'],
  ];
  for (const chunked of [false, true]) {
    const sent = chunked ? ['Transfer-Encoding: chunked', '', '1\r\nx\r\n0\r\n\r\n'] : ['Content-Length: 1', '', 'x'];
    for (let first = 0; first <= mistakes.length; first += 1) {
      const left = mistakes.slice(first);
      const lines = [`POST ${MATERIALIZATION} HTTP/1.1`, 'Host: localhost', ...left.map(([, header]) => header)];
      if (left.length === 0) lines.push(JSON_TYPE);
      for (let again = 0; again < 2; again += 1) {
        const reply = await ask(service.port, [...lines, ...sent].join('\r\n'));
        assert.equal(reply.status, left[0]?.[0] ?? 400, `${lines.join(' | ')}: ${reply.body}`);
      }
    }
  }
  const wrongPath = ['PUT /nowhere HTTP/1.1', 'Host: localhost', 'Expect: dance', 'Content-Length: 1', '', 'x'].join(
    '\r\n',
  );
  assert.equal((await ask(service.port, wrongPath)).status, 404);
  const wrongMethod = [
    'PUT /report_asset_check/ HTTP/1.1',
    'Host: localhost',
    'Expect: dance',
    'Content-Length: 1',
    '',
    'x',
  ].join('\r\n');
  assert.equal((await ask(service.port, wrongMethod)).status, 405);
});

test('a connection is kept after 200, and after a refusal whose body was read whole', async (t) => {
  const service = await startService(t);
  const wire = await Wire.open(service.port);
  const rounds: readonly (readonly [number, string])[] = [
    [200, post(`${MATERIALIZATION}a`)],
    [400, post(MATERIALIZATION, '{"asset_key":')],
    [400, post(`${CHECK}a`)],
    [404, post('/nowhere')],
    [405, `GET ${CHECK} HTTP/1.1\r\nHost: localhost\r\n\r\n`],
    [403, post(MATERIALIZATION, undefined, ['Origin: http://evil.example'])],
    [200, post(MATERIALIZATION, '{"asset_key":"b"}')],
  ];
  for (const [status, bytes] of rounds) {
    wire.send(bytes);
    const reply = await wire.reply();
    assert.equal(reply?.status, status);
    assert.equal(reply?.headers.get('connection'), 'keep-alive');
  }
  wire.close();
  assert.equal(service.events().length, 2);
});

test('a close is announced, and what was pipelined behind it is not taken', async (t) => {
  const service = await startService(t);
  const refusals = [
    `POST ${MATERIALIZATION} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}`,
    `POST ${MATERIALIZATION}a HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n`,
    `POST ${MATERIALIZATION}a HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(17_000)}\r\n\r\n`,
  ];
  for (const refusal of refusals) {
    const wire = await Wire.open(service.port);
    wire.send(`${post(`${MATERIALIZATION}before`)}${refusal}${post(`${MATERIALIZATION}behind`)}`);
    assert.equal((await wire.reply())?.status, 200);
    const reply = await wire.reply();
    assert.ok(reply !== undefined && reply.status >= 400, refusal.slice(0, 100));
    assert.equal(reply.headers.get('connection'), 'close');
    wire.socket.end();
    assert.equal(await wire.ends(), true, 'something came after the close that was announced');
  }
  assert.deepEqual(
    service.events().map((event) => event['asset_key']),
    Array(refusals.length).fill(['before']),
  );
});

test('replies to pipelined requests come in their order, and broken bytes are answered behind them', async (t) => {
  const service = await startService(t);
  const wire = await Wire.open(service.port);
  const requests = Array.from({ length: 20 }, (_, index) =>
    index % 3 === 0 ? post('/nowhere') : post(`${MATERIALIZATION}${index}`),
  );
  wire.send(`${requests.join('')}BROKEN\r\n\r\n`);
  for (let index = 0; index < 20; index += 1)
    assert.equal((await wire.reply())?.status, index % 3 === 0 ? 404 : 200, `reply ${index}`);
  const last = await wire.reply();
  assert.equal(last?.status, 400);
  assert.match(errorOf(last), /malformed HTTP request/);
  wire.socket.end();
  assert.equal(await wire.ends(), true);
});

test('a body in the middle of which the bytes break gets one reply, its own', async (t) => {
  const service = await startService(t);
  const wire = await Wire.open(service.port);
  wire.send(
    `${post(`${MATERIALIZATION}a`)}POST ${MATERIALIZATION} HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"ass\r\nNOT A SIZE\r\n`,
  );
  assert.equal((await wire.reply())?.status, 200);
  const reply = await wire.reply();
  assert.equal(reply?.status, 400);
  assert.equal(reply?.headers.get('connection'), 'close');
  wire.send('more\r\n\r\n');
  assert.equal(await wire.ends(), true);
  assert.equal(service.events().length, 1);
});

test('a body may be chunked, and has the same limit', async (t) => {
  const service = await startService(t);
  const chunked = (chunks: readonly string[]) =>
    `POST ${MATERIALIZATION} HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n${chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')}0\r\nTrailer: x\r\n\r\n`;
  assert.equal((await ask(service.port, chunked(['{"asset_', 'key":"a"', '}']))).status, 200);
  const around = (bytes: number) => `{"asset_key":"a","description":"${'x'.repeat(bytes - 34)}"}`;
  assert.equal(around(1_048_576).length, 1_048_576);
  assert.equal((await ask(service.port, chunked([around(1_048_576)]))).status, 200);
  assert.equal((await ask(service.port, chunked([around(1_048_577)]))).status, 413);
  assert.equal((await ask(service.port, post(MATERIALIZATION, around(1_048_576)))).status, 200);
  assert.equal((await ask(service.port, post(MATERIALIZATION, around(1_048_577)))).status, 413);
  assert.equal(service.events().length, 3);
});

test('a body in very many pieces takes no more memory than one in a few', {
  skip: process.platform !== 'linux' && 'needs /proc',
}, async (t) => {
  const service = await startService(t);
  const resident = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${service.pid}/status`, 'utf8'))?.[1]) / 1024;
  await ask(service.port, post(`${MATERIALIZATION}a`));
  const before = resident();
  const body = `{"asset_key":"a","description":"${'x'.repeat(500_000)}"}`;
  const wires = await Promise.all(Array.from({ length: 4 }, () => Wire.open(service.port)));
  const pieces = [...body].map((character) => `1\r\n${character}\r\n`).join('');
  for (const wire of wires) {
    wire.send(
      `POST ${MATERIALIZATION} HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n${pieces}`,
    );
  }
  await sleep(1_500);
  const grown = resident() - before;
  for (const wire of wires) {
    wire.send('0\r\n\r\n');
    assert.equal((await wire.reply())?.status, 200);
    wire.close();
  }
  t.diagnostic(`${Math.round(grown)} MiB`);
  assert.ok(grown < 120, `it grew by ${Math.round(grown)} MiB for 2 MB of bodies`);
});

test('zero bytes are no body, however they are framed and whatever their type', async (t) => {
  const service = await startService(t);
  const bare = `POST ${MATERIALIZATION}a HTTP/1.1\r\nHost: localhost\r\n`;
  const table = [
    `${bare}\r\n`,
    `${bare}Content-Length: 0\r\nContent-Type: application/octet-stream\r\n\r\n`,
    `${bare}Content-Type: application/json\r\n\r\n`,
    `${bare}Transfer-Encoding: chunked\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\r\n0\r\n\r\n`,
    `POST ${MATERIALIZATION}a HTTP/1.0\r\n\r\n`,
    `POST ${MATERIALIZATION.slice(0, -1)}?asset_key=a HTTP/1.1\r\nHost: localhost\r\n\r\n`,
    `POST http://localhost:9${MATERIALIZATION}a HTTP/1.1\r\nHost: ignored.example\r\n\r\n`,
  ];
  for (const bytes of table) assert.equal((await ask(service.port, bytes)).status, 200, bytes);
  assert.deepEqual(
    service.events().map((event) => event['asset_key']),
    table.map(() => ['a']),
  );
});

test('100-continue is sent before a body that will be read, and never before a refusal', async (t) => {
  const service = await startService(t);
  const body = '{"asset_key":"a"}';
  const expecting = (target: string, length: number) =>
    `POST ${target} HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}\r\nContent-Length: ${length}\r\nExpect: 100-Continue\r\n\r\n`;
  const wire = await Wire.open(service.port);
  wire.send(expecting(MATERIALIZATION, body.length));
  assert.equal((await wire.reply())?.status, 100);
  wire.send(body);
  assert.equal((await wire.reply())?.status, 200);
  wire.send(expecting('/nowhere', 10_000_000));
  const refused = await wire.reply();
  assert.equal(refused?.status, 404);
  assert.equal(refused?.headers.get('connection'), 'close');
  wire.close();
  assert.equal((await ask(service.port, expecting(MATERIALIZATION, 10_000_000))).status, 413);
});

test('a large upload that is refused early still gets to read its reply', async (t) => {
  const service = await startService(t);
  for (const target of ['/nowhere', MATERIALIZATION]) {
    const wire = await Wire.open(service.port);
    wire.send(`POST ${target} HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}\r\nContent-Length: 3000000\r\n\r\n`);
    for (let sent = 0; sent < 3_000_000; sent += 100_000) {
      wire.send(Buffer.alloc(100_000, 'x'));
      await sleep(1);
    }
    const reply = await wire.reply();
    assert.equal(reply?.status, target === '/nowhere' ? 404 : 413);
    assert.equal(await wire.ends(), true);
    assert.equal(wire.socket.errored, null, 'the connection was reset before the reply was read');
  }
});

test('a client that closes its half after the request still gets its reply', async (t) => {
  const service = await startService(t);
  const wire = await Wire.open(service.port);
  wire.send(post(`${MATERIALIZATION}a`));
  wire.socket.end();
  assert.equal((await wire.reply())?.status, 200);
  assert.equal(await wire.ends(), true);
  const cut = await Wire.open(service.port);
  cut.send(post(MATERIALIZATION, '{"asset_key":"a"}').slice(0, -5));
  cut.socket.end();
  assert.equal((await cut.reply())?.status, 400);
  assert.equal(service.events().length, 1);
});

test('an upgrade offer is ignored', async (t) => {
  const service = await startService(t);
  const offer = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__'];
  assert.equal((await ask(service.port, post(MATERIALIZATION, '{"asset_key":"a"}', offer))).status, 200);
  assert.equal(service.events().length, 1);
});

test('health is told to GET and HEAD, and everything is under the prefix', async (t) => {
  const service = await startService(t, { args: ['--path-prefix', '/some/path/'] });
  assert.match(service.url, /^http:\/\/127\.0\.0\.1:\d+\/some\/path$/);
  for (const path of ['/some/path/livez', '/some/path/readyz']) {
    const reply = await ask(service.port, `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    assert.deepEqual([reply.status, reply.body], [200, '{"status":"ok"}']);
    const bare = await fetch(`http://127.0.0.1:${service.port}${path}`, { method: 'HEAD' });
    assert.deepEqual([bare.status, bare.headers.get('content-length'), await bare.text()], [200, '15', '']);
  }
  assert.equal((await ask(service.port, 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n')).status, 404);
  assert.equal((await ask(service.port, post(`/some/path${MATERIALIZATION}a`))).status, 200);
  const unknown = await ask(service.port, post(`${MATERIALIZATION}a`));
  assert.equal(unknown.status, 404);
  assert.match(errorOf(unknown), /\/some\/path\/report_asset_materialization\//);
});

test('connections over the cap are closed at once, and a place that is left is taken', async (t) => {
  const service = await startService(t, { args: ['--max-connections', '3'] });
  const wires = await Promise.all(Array.from({ length: 3 }, () => Wire.open(service.port)));
  const over = await Wire.open(service.port);
  assert.equal(await over.ends(1_000), true);
  wires[0]?.close();
  const isTaken = () =>
    ask(service.port, post(`${MATERIALIZATION}a`)).then(
      ({ status }) => status === 200,
      () => false,
    );
  await eventually('the free place is taken', isTaken);
  for (const wire of wires) wire.close();
  assert.match(service.stderr(), /connections over the cap are closed at once/);
});
