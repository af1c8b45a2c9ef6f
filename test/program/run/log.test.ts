/** The log: refused requests and recorded events, and that no line holds a secret. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { sha256 } from '../../../src/deployments/tokens.ts';
import { rewrite, writeDeployments } from '../../support/deployments.ts';
import { entriesOf } from '../../support/log.ts';
import { newFolder, startService } from '../../support/program.ts';
import { serveSimulated } from '../../support/service.ts';
import { noTerminal, serveOnTerminal } from '../../support/terminal.ts';
import { eventually } from '../../support/tools.ts';
import { ask, get, post, readFailure } from '../../support/wire.ts';
import { systemError } from '../../world/simulated-disk.ts';

const READY = get('/readyz');
const CHECK = '/report_asset_check/';
const MATERIALIZATION = '/report_asset_materialization/';

test('no log line has a token, metadata or a query', async (t) => {
  const { args, headerOf } = writeDeployments(t, ['prod']);
  const service = await startService(t, { args });
  const header = [headerOf('prod')];
  const send = (target: string, body?: string, headers: readonly string[] = header) =>
    ask(service.port, post(target, body, headers));
  const statuses = [
    await send(`/prod${CHECK}a?asl_query=1`, undefined, ['Service-Cloud-Api-Token: asl_wrong']),
    await send(`/prod${CHECK}a`, undefined, [...header, ...header]),
    await send(`/prod${CHECK}a?passed=asl_query`),
    await send(`/prod${CHECK}a?x=asl_query%zz`),
    await send(`/prod${CHECK}?asset_key=asl_query%00`),
    await send(`/prod${MATERIALIZATION}a`, '{"metadata":"asl_metadata"}'),
    await send(`/prod${MATERIALIZATION}a`, '{"metadata":{"a":asl_metadata}}'),
    await send(`/prod${MATERIALIZATION}a`, '["asl_metadata"]'),
    await send(`/prod${CHECK}a?asl_query#x`),
    await send(`http://asl_user:asl_word@localhost/prod${CHECK}`),
  ].map(({ status }) => status);
  assert.deepEqual(statuses, [401, ...Array(9).fill(400)]);
  await eventually('all are logged', () => entriesOf(service.stderr(), 'refused').length === statuses.length);
  assert.doesNotMatch(service.stderr(), /asl_/);
});

test('a token in a path is neither logged nor shown, in any spelling', async (t) => {
  const { file, args, tokenOf } = writeDeployments(t, ['prod']);
  const token = tokenOf('prod');
  const own = 'Pa55+word/with/slash/of+40+characters+==';
  const long = `${own}${'x'.repeat(100)}`;
  const tokens = [token, own, long].map((one) => ({
    sha256: sha256(one).toString('hex'),
    name: 'a',
    may: ['report', 'read'],
  }));
  rewrite(file, { name: 'prod', tokens });
  const hosted = await startService(t, { args: [...args, '--log-level', 'debug'] });
  const local = await startService(t, { args: ['--log-level', 'debug'] });
  const header = [`Service-Cloud-Api-Token: ${own}`];
  const encoded = token.replace('_', '%5f');
  for (const target of [
    ...[token, own].map((one) => `/${one}${CHECK}a`),
    ...[encoded, encodeURIComponent(own)].map((one) => `/prod${CHECK}${one}`),
    `http://localhost/prod${CHECK}a%zz/${token}`,
  ]) {
    for (const headers of [[], header]) {
      const { status } = await ask(hosted.port, post(target, undefined, headers));
      assert.ok(status === 401 || status === 400, `${target}: ${status}`);
    }
  }
  for (const one of [token, encoded]) {
    assert.equal((await ask(local.port, post(`${CHECK}${one}`))).status, 400);
    assert.equal((await ask(local.port, post(`${MATERIALIZATION}${one}?asset_key=b`))).status, 200);
  }
  const won = 'the asset key in the path overrides another key in the same request';
  for (const start of ['', `${'x'.repeat(limits.loggedPathCharactersMax)}/`]) {
    const target = `/prod${MATERIALIZATION}${start}${own}?asset_key=asl_query`;
    assert.equal((await ask(hosted.port, post(target, undefined, header))).status, 200);
  }
  const strict = await startService(t, { args: [...args, '--strict'] });
  for (const name of [own, token, `${'x'.repeat(80)}${token}`, long]) {
    for (const [{ port }, expected] of [
      [hosted, 200],
      [strict, 400],
    ] as const) {
      const inQuery = post(`/prod${MATERIALIZATION}a?${encodeURIComponent(name)}=1`, undefined, header);
      const inBody = post(`/prod${MATERIALIZATION}a`, JSON.stringify({ [name]: 1 }), header);
      for (const request of [inQuery, inBody]) assert.equal((await ask(port, request)).status, expected, name);
    }
  }
  const ofStrict = (await ask(strict.port, get('/prod/refusals', ...header))).body;
  await eventually('all of strict mode', () => entriesOf(strict.stderr(), 'refused').length === 8);
  const ofHosted = (await ask(hosted.port, get('/prod/refusals', ...header))).body;
  const ofLocal = (await ask(local.port, get('/refusals'))).body;
  assert.ok(ofHosted.includes(`"path":"/prod${CHECK}***"`), ofHosted);
  assert.ok(ofLocal.includes(`"path":"${CHECK}***"`), ofLocal);
  await eventually('all are logged', () => entriesOf(local.stderr(), won).length === 2);
  await eventually('all of hosted mode', () => entriesOf(hosted.stderr(), won).length === 2);
  assert.ok(entriesOf(hosted.stderr(), 'a request without a valid token was refused').length > 0);
  for (const text of [ofHosted, ofLocal, ofStrict, hosted.stderr(), local.stderr(), strict.stderr()]) {
    assert.doesNotMatch(text, /asl(_|%5f)[\w-]{9}|asl_query|Pa55(\+|%2B)word/);
  }
  for (const line of hosted.stderr().split('\n')) assert.ok(line.length < 1_000, line);
});

test('a terminal shows each refusal and each recorded event in colour, on one line', {
  skip: noTerminal(),
}, async (t) => {
  const { port, shown } = await serveOnTerminal(t, ['--data', newFolder(t)]);
  const body =
    '{"asset_key":["warehouse","orders\\u202e"],"passed":false,"check_name":"no_nulls","metadata":{"a":"hidden"}}';
  assert.equal((await ask(port, post(CHECK, body))).status, 200);
  assert.equal((await ask(port, post(`${CHECK}a%1b?x=hidden`))).status, 400);
  await eventually('both are shown', () => shown().includes('refused'));
  assert.match(
    shown(),
    /\n\d\d:\d\d:\d\d \u001b\[32mrecorded\u001b\[0m AssetCheckEvaluation \["warehouse","orders\\u202e"\] no_nulls failed \(ERROR\)\n/,
  );
  assert.match(
    shown(),
    /\n\d\d:\d\d:\d\d \u001b\[33m400 refused\u001b\[0m POST \/report_asset_check\/a%1b: asset_key in the path has a control character/,
  );
  assert.doesNotMatch(shown(), /hidden/);
});

test('with --quiet a terminal shows refusals only, and without colour with NO_COLOR', {
  skip: noTerminal(),
}, async (t) => {
  const { port, shown } = await serveOnTerminal(t, ['--quiet', '--data', newFolder(t)], { NO_COLOR: '1' });
  assert.equal((await ask(port, post(`${MATERIALIZATION}a`))).status, 200);
  assert.equal((await ask(port, post('/nowhere'))).status, 404);
  await eventually('the refusal is shown', () =>
    /\n\d\d:\d\d:\d\d 404 refused POST \/nowhere: nothing is/.test(shown()),
  );
  assert.doesNotMatch(shown(), /recorded|\u001b/);
});

test('each failure has its own id, which finds its lines in the log and is never chosen by a client', async (t) => {
  const limits = { headersMs: 2_000, requestMs: 3_000, deadlineCheckMs: 50, discardMs: 2_000 };
  const { disk, port, notices } = await serveSimulated(t, { limits, logLevel: 'debug' });
  const chosen = ['X-Request-Id: deadbeef-1', 'Request-Id: deadbeef-1'];
  const requests: readonly (readonly [status: number, bytes: string])[] = [
    [400, post(`${MATERIALIZATION}a`, '{"passed":', chosen)],
    [404, post('/nowhere', undefined, chosen)],
    [405, `GET ${MATERIALIZATION}a HTTP/1.1\r\nHost: localhost\r\n\r\n`],
    [413, post(MATERIALIZATION, 'x'.repeat(1_100_000))],
    [403, 'GET /readyz HTTP/1.1\r\nHost: evil.example\r\n\r\n'],
    [400, 'no HTTP at all\r\n\r\n'],
    [400, 'CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    [408, post(MATERIALIZATION, '{"asset_key":"a"}').slice(0, -3)],
    [408, 'POST / HTTP/1.1\r\nHost: loc'],
    [503, post(`${MATERIALIZATION}a`)],
    [503, READY],
  ];
  const ids = new Set<string>();
  for (const [status, bytes] of requests) {
    if (status === 503) disk.fault = (call) => (call === 'write' ? systemError('ENOSPC') : undefined);
    const reply = await ask(port, bytes);
    assert.equal(reply.status, status, bytes.slice(0, 100));
    const { error, requestId } = readFailure(reply.body) ?? assert.fail(reply.body);
    const lines = notices
      .filter((line) => line.includes(`"request_id":"${requestId}"`))
      .map((line) => JSON.parse(line));
    assert.ok(
      lines.some((line) => line.status === status),
      `${requestId} in\n${notices.join('')}`,
    );
    if (status === 503) assert.equal(lines[0].problem, error);
    if (status === 403) assert.ok(lines.some(({ level, problem }) => level === 'warn' && problem === error));
    ids.add(requestId);
  }
  assert.equal(ids.size, requests.length);
  // If all ids shared a part, the rest could be a count, which would show a client how many requests of others fail.
  for (const part of [0, 4])
    assert.equal(new Set([...ids].map((id) => id.split('-')[part])).size, ids.size, [...ids].join(' '));
  assert.doesNotMatch(notices.join(''), /deadbeef/);
});
