/** The texts of refusals over a real socket. `hostile.test.ts` has the statuses. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Limits } from '../../../src/config/limits.ts';
import { entriesOf } from '../../support/log.ts';
import { eventsIn } from '../../support/program.ts';
import { serve, serveSimulated } from '../../support/service.ts';
import { ask, errorOf, get, post } from '../../support/wire.ts';

const TARGET = '/report_asset_materialization/';
const CHECK = '/report_asset_check/';
const JSON_TYPE = 'Content-Type: application/json';
const LATIN = `${JSON_TYPE}; charset=latin1`;
const SIZED = 'Content-Length: 2';

const head = (...lines: readonly string[]) => `${lines.join('\r\n')}\r\n\r\n`;
const host = 'Host: localhost';
const report = `POST ${TARGET}a HTTP/1.1`;
const withEncoding = (encoding: string) => `${head(report, host, SIZED, JSON_TYPE, `Content-Encoding: ${encoding}`)}{}`;

test('a refusal names the mistake of a request, also of a request that Node cannot parse', async (t) => {
  const service = await serve(t);
  const table: readonly (readonly [status: number, bytes: string, error: RegExp])[] = [
    [400, head('nonsense'), /malformed HTTP request/],
    [400, '\x16\x03\x01\x02\x00\x01\x00', /plain HTTP, not TLS/],
    [400, head('PRI * HTTP/2.0', ''), /malformed HTTP request|not served/],
    [400, head(`POST ${TARGET}a HTTP/2.0`, host), /^HTTP\/2\.0 is not served/],
    [400, head(report), /^the Host header is missing/],
    [400, head(report, host, host), /^more than one Host/],
    [400, head(report, 'Host: a b'), /^Host "a b"/],
    [400, head(report, host, JSON_TYPE, JSON_TYPE), /^more than one Content-Type/],
    [400, head(`${report.slice(0, -9)}#x HTTP/1.1`, host), /has a fragment or a character outside ASCII/],
    [400, head('CONNECT localhost:80 HTTP/1.1', host), /neither a path nor an http URL/],
    [400, `${head(report, host, 'Transfer-Encoding: gzip, chunked')}0\r\n\r\n`, /Transfer-Encoding/],
    [403, head(report, 'Host: evil.example'), /Host "evil\.example" is not this service/],
    [
      404,
      post('/report_asset_materialisation/a'),
      /^nothing is at this path; did you mean \/report_asset_materialization\/\? POST a report to /,
    ],
    [404, post('/REPORT_ASSET_CHECK/'), /; did you mean \/report_asset_check\/\? POST/],
    [404, get('/event?limit=1'), /^nothing is at this path; did you mean \/events\? POST a report/],
    [404, post(`/${'a'.repeat(16_000)}`), /^nothing is at this path; POST a report to/],
    [405, head(`DELETE ${TARGET}a HTTP/1.1`, host), /^DELETE is not allowed here; use POST$/],
    [405, post('/readyz'), /use GET, HEAD/],
    [405, post('/'), /^POST is not allowed here; POST a report to \/report_asset_materialization\/, /],
    [405, head('TRACE / HTTP/1.1', host), /^TRACE is not allowed here; POST a report to /],
    [417, head(`POST ${TARGET} HTTP/1.1`, host, 'Content-Length: 1', 'Expect: dance'), /Expect: "dance"/],
    [415, withEncoding('gzip'), /^Content-Encoding "gzip" is not read/],
    [415, withEncoding('UTF-8'), /^Content-Encoding "UTF-8" is a charset; leave the header out/],
    [
      415,
      withEncoding('none'),
      /^Content-Encoding "none" is not read; send the body unencoded and without this header$/,
    ],
    ...['utf-8', 'charset', 'charset: utf-8', 'charset = utf-8', 'a=b; utf-8'].map(
      (parameter): [number, string, RegExp] => [
        400,
        `${head(report, host, SIZED, `Content-Type: application/json; ${parameter}`)}{}`,
        new RegExp(`and "${parameter.replace('a=b; ', '')}" is not a parameter; write charset=utf-8 or leave it out$`),
      ],
    ),
    [400, `${head(report, host, SIZED)}{}`, /^a body needs the header Content-Type: application\/json$/],
    [400, `${head(report, host, SIZED, 'Content-Type: a')}{}`, /^Content-Type is "a"; a body needs application\/json$/],
    [400, `${head(report, host, SIZED, LATIN)}{}`, /^charset "latin1" is not read; send UTF-8$/],
    [413, head(`POST ${TARGET} HTTP/1.1`, host, JSON_TYPE, 'Content-Length: 1048577'), /larger than 1048576 bytes/],
    [400, post(TARGET, '{"asset_key":"a",}'), /line 1, column 17: trailing comma/],
    [400, post(TARGET, '[]'), /^the body must be a JSON object such as .*, got /],
    [
      400,
      post(CHECK, '{"asset_key":"a","passed":true,"checkName":"c"}'),
      /^check_name is missing: .*; the request has "checkName", did you mean check_name\?$/,
    ],
    [431, head(report, host, `X: ${'x'.repeat(20_000)}`), /over 16384 bytes/],
    [431, head(report, host, ...Array(120).fill('X: 1')), /^121 headers; at most 100/],
    [431, head(report, host, ...Array(2_500).fill('X:1')), /^2501 headers; at most 100/],
  ];
  for (const [status, bytes, error] of table) {
    const reply = await ask(service.port, bytes);
    const what = `${JSON.stringify(bytes.slice(0, 120))}: ${reply.body}`;
    assert.equal(reply.status, status, what);
    assert.match(errorOf(reply), error, what);
    if (status === 405) assert.match(reply.headers.get('allow') ?? '', /^(POST|GET, HEAD)$/, what);
  }
  assert.deepEqual(eventsIn(service.data), []);
});

test('an ignored parameter with a misspelt name is logged once for each name', async (t) => {
  const service = await serve(t, { args: ['--path-prefix', '/p'] });
  const send = (body: string) => ask(service.port, post(`/p${TARGET}a?data-version=v1&metadata[rows]=10`, body));
  for (let times = 0; times < 3; times += 1) assert.equal((await send('{"Partition":"p","uri":1}')).status, 200);
  const near = await ask(service.port, post('/p/report_asset_chek/'));
  assert.match(errorOf(near), /; did you mean \/p\/report_asset_check\/\? POST/);
  const warnings = entriesOf(service.notices.join(''), 'an unknown parameter is ignored').filter(
    ({ level }) => level === 'warn',
  );
  assert.deepEqual(
    warnings.map(({ name, did_you_mean }) => [name, did_you_mean]),
    [
      ['Partition', 'partition'],
      ['data-version', 'data_version'],
      ['metadata[rows]', 'metadata'],
    ],
  );
});

test('each limit of a request is the one that the service was given', async (t) => {
  const head = (target: string) => post(`${TARGET}${target}`);
  const rows: readonly [Partial<Limits>, string, number, RegExp][] = [
    [{ bodyBytesMax: 20 }, post(TARGET, '{"asset_key":"abcdef"}'), 413, /larger than 20 bytes/],
    [{ bodyMembersMax: 1 }, post(TARGET, '{"asset_key":"a","x":1}'), 400, /\b1 member/],
    [{ jsonDepthMax: 2 }, post(TARGET, '{"asset_key":"a","metadata":{"x":[]}}'), 400, /\b2 levels/],
    [{ jsonDepthMax: 2 }, head('a?metadata={"x":[[]]}'), 400, /\b2 levels/],
    [{ keyBytesMax: 8 }, head('warehouse'), 400, /at most 8 are allowed/],
    [{ headersMax: 1 }, head('a').replace('\r\n\r\n', '\r\nA: b\r\nC: d\r\n\r\n'), 431, /at most 1 are read/],
    [{ headBytesMax: 100 }, head('a'.repeat(100)), 431, /over 100 bytes/],
  ];
  for (const [changed, request, status, error] of rows) {
    const { port } = await serveSimulated(t, { limits: { ...changed } });
    const reply = await ask(port, request);
    assert.equal(reply.status, status, JSON.stringify(changed));
    assert.match(errorOf(reply), error);
    const document = await ask(port, 'GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n');
    if (document.status === 200) {
      for (const value of Object.values(changed)) assert.match(document.body, new RegExp(`\\b${value}\\b`));
    }
  }
});
