/** The log: refused requests and recorded events, and that no line holds a secret. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { sha256 } from '../../../src/deployments/tokens.ts';
import { rewrite, writeDeployments } from '../../support/deployments.ts';
import { entriesOf } from '../../support/log.ts';
import { startService } from '../../support/program.ts';
import { serveSimulated } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import { ask, get, post, readFailure } from '../../support/wire.ts';
import { systemError } from '../../world/simulated-disk.ts';

const READY = get('/readyz');
const CHECK = '/report_asset_check/';
const MATERIALIZATION = '/report_asset_materialization/';

test('no log line and no listed refusal has metadata, a query, or a token in any spelling', async (t) => {
  const { file, args, tokenOf } = writeDeployments(t, ['prod']);
  const token = tokenOf('prod');
  const own = 'Pa55+word/with/slash/of+40+characters+==';
  const digest = (one: string) => sha256(one).toString('hex');
  const tokens = [token, own].map((one) => ({ sha256: digest(one), name: 'a', may: ['report', 'read'] }));
  rewrite(file, { name: 'prod', tokens });
  const { port, stderr } = await startService(t, { args: [...args, '--log-level', 'debug'] });
  const header = `Service-Cloud-Api-Token: ${own}`;
  const long = 'x'.repeat(limits.loggedPathCharactersMax);
  const rows: readonly (readonly [status: number, target: string, body?: string | undefined, header?: string])[] = [
    [401, `/prod${CHECK}a?asl_query=1`, undefined, 'Service-Cloud-Api-Token: asl_wrong'],
    [401, `/${own}${CHECK}a`, undefined, 'X: y'],
    [401, `/${token}${CHECK}a`],
    [400, `/prod${CHECK}a?passed=asl_query`],
    [400, `/prod${CHECK}a?x=asl_query%zz`],
    [400, `/prod${CHECK}a?asl_query#x`],
    [400, `http://asl_user:asl_word@localhost/prod${CHECK}`],
    [400, `/prod${CHECK}${token.replace('_', '%5f')}`],
    [400, `/prod${CHECK}${encodeURIComponent(own)}`],
    [400, `http://localhost/prod${CHECK}a%zz/${token}`],
    [400, `/prod${MATERIALIZATION}a`, '{"metadata":"asl_metadata"}'],
    [400, `/prod${MATERIALIZATION}a`, '{"metadata":{"a":asl_metadata}}'],
    [200, `/prod${MATERIALIZATION}a`, JSON.stringify({ [own]: 1, [token]: 1 })],
    [200, `/prod${MATERIALIZATION}${own}?asset_key=asl_query`],
    [200, `/prod${MATERIALIZATION}${long}/${own}?asset_key=asl_query`],
  ];
  for (const [status, target, body, sent = header] of rows)
    assert.equal((await ask(port, post(target, body, [sent]))).status, status, target);
  const listed = (await ask(port, get('/prod/refusals', header))).body;
  assert.ok(listed.includes(`"path":"/prod${CHECK}***"`), listed);
  const overriding = 'the asset key in the path overrides another key in the same request';
  await eventually('all are logged', () => entriesOf(stderr(), overriding).length === 2);
  assert.ok(entriesOf(stderr(), 'refused').length >= limits.refusalLinesMax);
  assert.doesNotMatch(listed + stderr(), /asl(_|%5f)[a-z]|Pa55(\+|%2B)word/i);
  for (const line of stderr().split('\n')) assert.ok(line.length < 1_000, line);
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
