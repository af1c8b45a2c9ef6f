/** Which clients may read over HTTP, and the end of a reading whose client loses the right. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { newToken } from '../../../src/deployments/tokens.ts';
import { rewrite } from '../../support/deployments.ts';
import { newFolder } from '../../support/program.ts';
import { StreamClient } from '../../support/reading.ts';
import { record } from '../../support/report.ts';
import { serve } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import { ask, errorOf, get, type WireReply, withoutChance } from '../../support/wire.ts';

const READINGS = ['/events', '/assets', '/refusals'];
const [reporter, reader, both] = [newToken(), newToken(), newToken()];

/** An entry of a deployments file. */
function entry({ digest }: { digest: string }, more: object = {}): object {
  return { name: 'client', sha256: digest, ...more };
}

const REPORTER = entry(reporter);
const READER = entry(reader, { may: ['read'] });

/** A hosted service with the deployments `prod` and `test`. */
async function host(
  t: TestContext,
  { args = [], rightsCheckMs = 60_000 }: { args?: string[]; rightsCheckMs?: number } = {},
) {
  const folder = newFolder(t);
  const file = join(folder, 'deployments.json');
  const write = (...tokens: object[]) => {
    const other = { name: 'test', tokens: [entry(both, { may: ['report', 'read'] })] };
    rewrite(file, ...(tokens.length > 0 ? [{ name: 'prod', tokens }, other] : [other]));
  };
  write(REPORTER, READER);
  const limits = { deploymentsCheckMs: 60_000, rightsCheckMs, failuresMax: 1_000 };
  const service = await serve(t, {
    args: ['--deployments', file, ...args],
    data: join(folder, 'data'),
    limits,
  });
  const headers = ({ token }: { token: string }) => ({ 'service-cloud-api-token': token });
  return {
    service,
    file,
    write,
    logged: service.notices,
    get: (path: string, as: { token: string }) => ask(service.port, get(path, `Service-Cloud-Api-Token: ${as.token}`)),
    open: (path: string, as: { token: string }) => StreamClient.open(`${service.url}${path}`, headers(as)),
    report: (key: string, as: { token: string } = reporter, name = 'prod') =>
      record({ url: `${service.url}/${name}` }, `observation/${key}`, { headers: headers(as) }),
  };
}

test('without the right every reading gets the same 403, with and without data', async (t) => {
  const { get, report } = await host(t);
  await report('orders');
  const queries = ['', '?limit=1', '?key=orders', '?key=nothing', '?after_seq=1', '?x=1', '?limit=0', '?x=%zz'];
  const replies: WireReply[] = [];
  for (const path of READINGS) for (const query of queries) replies.push(await get(`/prod${path}${query}`, reporter));
  assert.equal(new Set(replies.map(withoutChance)).size, 1);
  assert.equal(replies[0]?.status, 403);
  assert.match(errorOf(replies[0]), /^this token may not read; /);
  for (const path of READINGS) assert.equal((await get(`/prod${path}`, reader)).status, 200, path);
  for (const path of READINGS) assert.equal((await get(`/test${path}`, reader)).status, 401, path);
  assert.match((await get('/prod/events', reader)).body, /"asset_key":\["orders"\]/);
});

const LOSSES: readonly (readonly [how: string, tokens: object[], status: number])[] = [
  ['its token loses the right', [REPORTER, entry(reader)], 403],
  ['its deployment is removed', [], 401],
];

for (const [how, tokens, status] of LOSSES) {
  test(`a stream and a long poll end at the reload at which ${how} [who-may-read-1]`, async (t) => {
    const { service, get, open, write, report } = await host(t);
    await report('before');
    const stream = await open('/prod/events?after_seq=0', reader);
    const other = await open('/test/events', both);
    t.after(() => other.close());
    await stream.until('the event', () => stream.seqs.length === 1);
    const waiting = get('/prod/events?after_seq=1&wait=60', reader);
    write(...tokens);
    await service.reload();
    await eventually('the stream has ended', () => stream.isEnded);
    assert.equal(stream.reply.complete, true, 'the reply is whole');
    if (tokens.length > 0) await report('after');
    assert.equal((await waiting).body, '');
    assert.deepEqual(stream.seqs, [1]);
    assert.equal((await get('/prod/events', reader)).status, status);
    await report('of-another', both, 'test');
    await other.until('the other deployment is still read', () => other.seqs.length === 1);
  });
}

test('a stream continues after a reload that keeps the right of its token, and after an invalid file', async (t) => {
  const { service, file, open, write, report } = await host(t);
  const stream = await open('/prod/events', reader);
  t.after(() => stream.close());
  write(entry(reader, { may: ['report', 'read'], notAfter: '2999-01-31' }), REPORTER);
  await service.reload();
  await report('one');
  await stream.until('the first', () => stream.seqs.length === 1);
  writeFileSync(file, '{}');
  await service.reload();
  await report('two');
  await stream.until('the second', () => stream.seqs.length === 2);
});

test('a stream and a long poll end when their token expires', async (t) => {
  const { service, get, open, write } = await host(t, { rightsCheckMs: 20 });
  write(REPORTER, entry(reader, { may: ['read'], notAfter: new Date(Date.now() + 5_000).toISOString() }));
  await service.reload();
  const stream = await open('/prod/events', reader);
  assert.equal(stream.status, 200);
  const waiting = get('/prod/events?after_seq=0&wait=60', reader);
  await eventually('the stream has ended', () => stream.isEnded);
  assert.equal(stream.reply.complete, true);
  assert.equal((await waiting).body, '');
  assert.equal((await get('/prod/events', reader)).status, 401);
});

test('--read warns that it has no effect in hosted mode', async (t) => {
  const { get, logged } = await host(t, { args: ['--read'] });
  assert.equal((await get('/prod/events', reporter)).status, 403);
  assert.ok(logged.some((line) => /"warn".*--read has no effect with --deployments/.test(line)));
});

test('a start on all addresses warns of what any client may do, and lets it read with --read and --test', async (t) => {
  for (const [args, status, may] of [
    [[], 403, 'report;'],
    [['--read'], 200, 'report and read;'],
    [['--test'], 200, 'report and read, empty the journal and set faults;'],
  ] as const) {
    const { port, notices } = await serve(t, { args: ['--host', '0.0.0.0', ...args] });
    assert.ok(notices.join('').includes(`any client that can reach this address may ${may}`));
    for (const path of READINGS) assert.equal((await ask(port, get(path))).status, status, path);
  }
});
