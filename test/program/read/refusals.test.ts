/** `GET /refusals` of a running service. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { serve } from '../../support/service.ts';
import { ask, errorOf, get, post, type WireReply } from '../../support/wire.ts';

const CHECK = '/report_asset_check/';

interface Shown {
  readonly time: string;
  readonly request_id: string;
  readonly method?: string;
  readonly path?: string;
  readonly status: number;
  readonly error: string;
  readonly address: string;
  readonly token_name?: string;
  readonly reason?: string;
}

async function refusalsAt(port: number, target = '/refusals', headers: readonly string[] = []): Promise<Shown[]> {
  const reply = await ask(port, get(target, ...headers));
  assert.equal(reply.status, 200, reply.body);
  return JSON.parse(reply.body).refusals;
}

test('refused requests of every kind are shown, the newest first, without their query', async (t) => {
  const { port } = await serve(t);
  assert.deepEqual(await refusalsAt(port), []);
  const startedMs = Date.now();
  const long = 'x'.repeat(1_000);
  const requests: readonly (readonly [bytes: string, method: string | undefined, path: string | undefined])[] = [
    [post(`${CHECK}a?check_name=c&s3cret`), 'POST', `${CHECK}a`],
    [get('/events?limit=s3cret'), 'GET', '/events'],
    [get('/refusals?limt=s3cret'), 'GET', '/refusals'],
    [post(`${CHECK}a?passed=s3cret`), 'POST', `${CHECK}a`],
    [post(`${CHECK}a`, '{"metadata":"s3cret","check_name":"c","passed":true}'), 'POST', `${CHECK}a`],
    [get(`/${long}`), 'GET', `/${'x'.repeat(limits.loggedPathCharactersMax - 1)}…`],
    ['nonsense\r\n\r\n', undefined, undefined],
    [
      `POST ${CHECK} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9999999\r\n\r\n`,
      'POST',
      CHECK,
    ],
  ];
  const replies: WireReply[] = [];
  for (const [bytes] of requests) replies.push(await ask(port, bytes));
  const shown = await refusalsAt(port);
  const expected = requests.map(([, method, path], at) => ({
    request_id: JSON.parse(replies[at]?.body ?? '').request_id,
    ...(method !== undefined && { method, path }),
    status: replies[at]?.status,
    address: '127.0.0.1',
  }));
  assert.deepEqual(
    shown.map(({ time, error, ...rest }) => rest),
    expected.toReversed(),
  );
  for (const { time } of shown)
    assert.ok(Date.parse(time) >= startedMs - 1_000 && Date.parse(time) <= Date.now() + 1_000);
  assert.equal(shown.at(-1)?.error, errorOf(replies[0]));
  assert.ok(!JSON.stringify(shown).includes('s3cret'), 'neither query nor metadata is shown');
  const lines = await ask(port, get('/refusals', 'Accept: application/x-ndjson'));
  assert.equal(lines.headers.get('content-type'), 'application/x-ndjson');
  assert.equal(lines.body, shown.map((refused) => `${JSON.stringify(refused)}\n`).join(''));
  assert.match(errorOf(replies[2]), /^there is no parameter "limt" here/);
});

test('a reader sees the refusals of its own deployment only, and clients without a token push out none of those with one [get-refusals-1]', async (t) => {
  const { args, headerOf } = writeDeployments(t, ['prod', 'other']);
  const { port } = await serve(t, { args: [...args, '--trusted-proxy', '127.0.0.1'] });
  const header = (name: string) => [headerOf(name)];
  for (let n = 1; n <= 60; n += 1) await ask(port, post(`/prod${CHECK}${n}`, undefined, header('prod')));
  await ask(port, post(`/other${CHECK}a`, undefined, header('other')));
  await ask(port, post(`/nowhere${CHECK}a`, undefined, header('prod')));
  await ask(port, post(`/prod${CHECK}b`, undefined, [...header('other'), 'X-Forwarded-For: 192.0.2.7']));
  await ask(port, 'nonsense\r\n\r\n');
  const own = await refusalsAt(port, '/prod/refusals', header('prod'));
  assert.equal(own.length, 61);
  assert.deepEqual(
    own.slice(0, 2).map(({ path, status, address, token_name, reason }) => [path, status, address, token_name, reason]),
    [
      [`/prod${CHECK}b`, 401, '192.0.2.7', undefined, 'unknown token'],
      [`/prod${CHECK}60`, 400, '127.0.0.1', 'ci of prod', undefined],
    ],
  );
  const others = await refusalsAt(port, '/other/refusals', header('other'));
  assert.deepEqual(
    others.map(({ path }) => path),
    [`/other${CHECK}a`],
  );
  for (let n = 1; n <= 150; n += 1) await ask(port, post(`/prod${CHECK}${n}`));
  const flooded = await refusalsAt(port, '/prod/refusals', header('prod'));
  const named = flooded.filter(({ token_name }) => token_name !== undefined);
  assert.deepEqual([named.length, flooded.length - named.length], [60, limits.refusalsKeptMax]);
  assert.equal(flooded.at(-1)?.path, `/prod${CHECK}1`, 'the newest first');
});
