/** `assetlog report` with batches and idempotency keys: each line is recorded once and in order, also after cuts, kills and refusals. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { report } from '../../support/command-output.ts';
import { startCuttingProxy, uncut } from '../../support/cutting-proxy.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { rounds } from '../../support/long.ts';
import { journalText, newFolder, type Running, startService } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { startScripted } from '../../world/http-server.ts';

function linesOf(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `{"type":"observation","asset_key":"k${index + 1}"}`);
}

/** `count` lines, each with its line feed. */
function textOf(count: number): string {
  return linesOf(count)
    .map((line) => `${line}\n`)
    .join('');
}

function keysOf(service: Running): unknown[] {
  return service.events().map((event) => event['idempotency_key']);
}

function assetsOf(service: Running): string {
  return service
    .events()
    .map((event) => (event['asset_key'] as string[])[0])
    .join(' ');
}

function expectedAssets(count: number): string {
  return Array.from({ length: count }, (_, index) => `k${index + 1}`).join(' ');
}

/** The paths of the requests that were sent through a proxy, in order. */
function requestsIn(sent: string): string[] {
  return [...sent.matchAll(/(GET|POST) (\S+) HTTP\/1\.1\r\n/g)].map(([, method, path]) => `${method} ${path}`);
}

test('lines are sent in batches over one connection, in order, each with a key of its run id and number', async (t) => {
  const service = await startService(t);
  const proxy = await startCuttingProxy(t, service.port, () => uncut);
  const file = join(newFolder(t), 'lines.jsonl');
  writeFileSync(file, linesOf(4_000).join('\n\n'));
  const { code, stdout, stderr } = await report(proxy.url, ['--from', file, '--run-id', 'load']);
  assert.deepEqual([code, stdout, stderr], [0, '4000 recorded, 0 refused\n', '']);
  assert.equal(assetsOf(service), expectedAssets(4_000));
  assert.deepEqual(keysOf(service).slice(0, 3), ['load/1', 'load/3', 'load/5']);
  const requests = requestsIn(proxy.sent());
  assert.equal(requests.shift(), 'GET /openapi.json');
  assert.ok(requests.length >= 8 && requests.length < 40, `${requests.length} requests`);
  assert.deepEqual([...new Set(requests), proxy.connections()], ['POST /report_asset_batch/', 1]);

  const again = await report(service.url, ['--from', file, '--run-id', 'load', '--from-line', '101']);
  assert.deepEqual([again.code, again.stdout], [0, '3950 recorded, 0 refused\n']);
  assert.equal(service.events().length, 4_000);
});

test('the document of a hosted service is requested once above the deployment, without the token', async (t) => {
  const { args, tokenOf } = writeDeployments(t, ['prod']);
  const [token, secret] = [join(newFolder(t), 'token'), tokenOf('prod')];
  writeFileSync(token, secret, { mode: 0o600 });
  const service = await startService(t, { args });
  const proxy = await startCuttingProxy(t, service.port, () => uncut);
  const url = `${proxy.url}/prod`;
  const { code, stdout, stderr } = await report(url, ['--from', '-', '--token-file', token], {
    input: textOf(1_000),
  });
  assert.deepEqual([code, stdout, stderr], [0, '1000 recorded, 0 refused\n', '']);
  const [document, ...posts] = requestsIn(proxy.sent());
  assert.equal(document, 'GET /openapi.json');
  assert.deepEqual([...new Set(posts)], ['POST /prod/report_asset_batch/']);
  const heads = proxy.sent().split(/(?=(?:GET|POST) \S+ HTTP\/1\.1\r\n)/);
  assert.deepEqual(
    heads.map((head) => head.startsWith('GET /openapi.json') === !head.includes(secret)),
    heads.map(() => true),
  );
});

test('invalid lines of any kind are reported in order and skipped, also more of them than a reply lists', async (t) => {
  const service = await startService(t);
  const lines = linesOf(1_200);
  for (let index = 3; index < 700; index += 2) lines[index] = '{"type":"check","asset_key":"k"}';
  for (let index = 4; index < 1_200; index += 100) lines[index] = 'nonsense';
  lines[1_100] = JSON.stringify({
    type: 'observation',
    asset_key: 'large',
    description: 'x'.repeat(limits.bodyBytesMax),
  });
  lines[1_101] = lines[1_100].replace('large', 'fits').replace('x'.repeat(100), '');
  const { code, stdout, stderr } = await report(service.url, ['--from', '-'], { input: lines.join('\n') });
  const wrong = lines.flatMap((line, index) => (line.includes('"k"') || line === 'nonsense' ? [index + 1] : []));
  wrong.push(1_101);
  wrong.sort((a, b) => a - b);
  assert.deepEqual([code, stdout], [1, `${1_200 - wrong.length} recorded, ${wrong.length} refused\n`]);
  const messages = stderr.trimEnd().split('\n');
  assert.deepEqual(
    messages.map((message) => Number(/^assetlog: line (\d+): /.exec(message)?.[1])),
    wrong,
  );
  assert.match(messages[0] ?? '', /^assetlog: line 4: answers 400: passed is missing/);
  assert.match(messages.find((message) => message.includes('line 1101:')) ?? '', /: answers 413: /);
  const expected = lines.flatMap((line, index) => (wrong.includes(index + 1) ? [] : [JSON.parse(line).asset_key]));
  assert.equal(assetsOf(service), expected.join(' '));
});

test('each line is recorded once and in order while connections are cut at any byte', async (t) => {
  const count = rounds({ long: 6_000, short: 1_500 });
  const service = await startService(t);
  let state = 7;
  const random = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * below);
  };
  // The document has 52 KB, which the fourth connection passes on; a batch has 40 KB. Every third connection loses the reply to the
  // first batch that it carries.
  const proxy = await startCuttingProxy(t, service.port, (index) => {
    if (index % 3 === 2) return { ...uncut, replyBytes: random(200) };
    return { requestBytes: random(150_000), replyBytes: index < 4 ? 30_000 * index : random(2_000) };
  });
  const { code, stdout, stderr } = await report(proxy.url, ['--from', '-', '--run-id', 'r'], {
    input: textOf(count),
  });
  assert.deepEqual([code, stdout, stderr], [0, `${count} recorded, 0 refused\n`, '']);
  assert.equal(assetsOf(service), expectedAssets(count));
  assert.ok(proxy.connections() > 3, `${proxy.connections()} connections`);
});

test('a run that ended in doubt can be continued with its run id, and no line is doubled', async (t) => {
  const service = await startService(t);
  let connections = 0;
  // The document arrives, and then no reply to a batch.
  const proxy = await startCuttingProxy(t, service.port, (index) => {
    connections = index + 1;
    return index === 0 ? { ...uncut, requestBytes: 400 } : { ...uncut, replyBytes: 0 };
  });
  const file = join(newFolder(t), 'lines.jsonl');
  writeFileSync(file, textOf(1_500));
  const inDoubt = await report(proxy.url, ['--from', file, '--retry-for', '1s']);
  assert.equal(inDoubt.code, 75, inDoubt.stderr);
  assert.ok(connections > 0);
  const [, line, runId] = /; continue with --from-line (\d+) --run-id (\S+)\n$/.exec(inDoubt.stderr) ?? [];
  assert.match(inDoubt.stderr, /^assetlog: line \d+: .*; it might have been recorded\nassetlog: stopped before line /);
  assert.ok(line !== undefined && runId !== undefined, inDoubt.stderr);
  const rest = await report(service.url, ['--from', file, '--from-line', line, '--run-id', runId]);
  assert.equal(rest.code, 0, rest.stderr);
  assert.equal(assetsOf(service), expectedAssets(1_500));
});

test('a single report whose reply is lost is repeated, and a job that runs twice with one key is recorded once', async (t) => {
  const service = await startService(t);
  const proxy = await startCuttingProxy(t, service.port, (index) =>
    index === 0 ? { ...uncut, replyBytes: 0 } : uncut,
  );
  const lost = await report(proxy.url, ['materialization', 'orders', '--metadata', 'rows:=1.0']);
  assert.deepEqual([lost.code, lost.stderr, service.events().length], [0, '', 1]);
  const [first, second, third] = requestsIn(proxy.sent());
  assert.deepEqual(
    [first, second, third],
    ['POST /report_asset_materialization/', 'GET /openapi.json', 'POST /report_asset_materialization/'],
  );
  const key = 'say-"load\\17"';
  const job = ['materialization', 'orders', '--partition', 'p', '--idempotency-key', key];
  for (let count = 0; count < 2; count += 1) {
    const { code, stderr } = await report(service.url, job);
    assert.deepEqual([code, stderr], [0, '']);
  }
  assert.deepEqual(keysOf(service).slice(1), [key]);
  const other = await report(service.url, [...job, '--description', 'd']);
  assert.equal(other.code, 1);
  assert.match(other.stderr, /answers 422: /);
});

test('lines with a key are sent without their time, which is counted, and with it under --keep-times', async (t) => {
  const [from, without, kept] = [await startService(t), await startService(t), await startService(t)];
  const keyed = '{"type":"observation","asset_key":"b"}';
  await report(from.url, ['--from', '-', '--run-id', 'first'], { input: keyed });
  await report(from.url, ['observation', 'c', '--event-time', '2026-11-20T15:19:45Z']);
  await record(from, 'check/d?check_name=c&passed=false', { body: '{"metadata":{"n":12345678901234567890,"n":1.0}}' });
  const timesOf = (service: Running) => service.events().map((event) => event['event_time']);
  const input = journalText(from.data);
  const standard = await report(without.url, ['--from', '-'], { input: `${input}{"type":"check"}\n` });
  assert.deepEqual([standard.code, standard.stdout], [1, '3 recorded, 1 refused\n']);
  assert.match(standard.stderr, /\n.*: sent without their time, since they have a key: 1 of the recorded lines; .*\n$/);
  const [first, , third] = from.events().map(({ time }) => time);
  assert.deepEqual(timesOf(without), [undefined, '2026-11-20T15:19:45Z', third]);
  assert.match(
    journalText(without.data),
    /"passed":false,"severity":"ERROR","metadata":\{"n":12345678901234567890,"n":1.0\}/,
  );
  const moved = await report(kept.url, ['--from', '-', '--keep-times'], { input });
  assert.deepEqual([moved.code, moved.stderr], [0, '']);
  assert.deepEqual(timesOf(kept), [first, '2026-11-20T15:19:45Z', third]);
  const again = await report(kept.url, ['observation', 'b', '--idempotency-key', 'first/1']);
  assert.match(again.stderr, /answers 422: .*event_time/);
});

/** A server with the given OpenAPI document, or with none. @param answer gets the path and the body of each POST */
async function serve(
  t: TestContext,
  document: unknown,
  answer: (path: string, body: string, count: number) => readonly [number, unknown],
): Promise<{ url: string; posts: string[] }> {
  const posts: string[] = [];
  const { url } = await startScripted(t, ({ method, url: path = '', body }) => {
    if (method === 'GET')
      return [path === '/openapi.json' && document !== undefined ? 200 : 404, JSON.stringify(document ?? {})];
    posts.push(`${path} ${body.split('\n').length}`);
    const [status, value] = answer(path, body, posts.length);
    return [status, JSON.stringify(value)];
  });
  return { url, posts };
}

const BATCH = '/report_asset_batch/';
const WITH_BATCH = { paths: { [BATCH]: { post: {} } } };
const WITH_KEYS = { ...WITH_BATCH, components: { parameters: { 'Idempotency-Key': {} } } };

test('without keys a batch in doubt is not sent again, and its lines are counted as perhaps recorded', async (t) => {
  const { url, posts } = await serve(t, WITH_BATCH, (_path, body, count) =>
    count === 2 ? [500, { error: 'broken' }] : [200, { recorded: body.split('\n').length }],
  );
  const { code, stdout, stderr } = await report(url, ['--from', '-', '--run-id', 'r'], {
    input: `${textOf(150)}nonsense\n${textOf(100)}`,
  });
  assert.deepEqual(posts.slice(0, 3), [`${BATCH} 100`, `${BATCH} 100`, `${BATCH} 50`]);
  assert.deepEqual([code, stdout], [1, '150 recorded, 1 refused, 100 perhaps recorded\n']);
  const [without, doubt, wrong] = stderr.split('\n');
  assert.match(without ?? '', /does not know Idempotency-Key: a report that is sent again is recorded again$/);
  assert.equal(doubt, 'assetlog: lines 101 to 201: answers 500: broken; they might have been recorded');
  assert.match(wrong ?? '', /^assetlog: line 151: it is not valid JSON/);
});

test('batches are compressed for a service that accepts that, until it refuses one', async (t) => {
  const document = { ...WITH_BATCH, components: { parameters: { 'Idempotency-Key': {}, 'Content-Encoding': {} } } };
  const input = textOf(1_200);
  for (const [status, error] of [
    [415, '{"error":"no"}'],
    [400, '<html>'],
    [200, ''],
  ] as const) {
    const { url, got } = await startScripted(t, ({ method, headers, body }, count) => {
      if (method === 'GET') return [200, JSON.stringify(document)];
      const isRefused = status !== 200 && count > 2 && headers['content-encoding'] === 'gzip';
      return isRefused ? [status, error] : [200, JSON.stringify({ recorded: body.split('\n').length })];
    });
    const { code, stdout, stderr } = await report(url, ['--from', '-'], { input });
    assert.deepEqual([code, stdout, stderr], [0, '1200 recorded, 0 refused\n', '']);
    const posts = got.filter(({ method }) => method === 'POST');
    const packed = posts.map(({ headers }) => headers['content-encoding'] === 'gzip');
    if (status === 200)
      assert.deepEqual(
        packed,
        posts.map(() => true),
      );
    else assert.deepEqual(packed, [true, true, ...posts.slice(2).map(() => false)]);
    const recorded = status === 200 ? posts : posts.filter((_, at) => at !== 1);
    const items = recorded.flatMap(({ body }) => body.split('\n').map((line) => JSON.parse(line).asset_key));
    assert.equal(items.join(' '), expectedAssets(1_200));
  }
});

test('a batch that gets 413 is halved', async (t) => {
  const small = await serve(t, WITH_KEYS, (path, body) => {
    if (path !== BATCH) return [200, {}];
    const count = body.split('\n').length;
    return count > 40 ? [413, { error: 'too large' }] : [200, { recorded: count }];
  });
  const halved = await report(small.url, ['--from', '-'], { input: textOf(200) });
  assert.deepEqual([halved.code, halved.stdout, halved.stderr], [0, '200 recorded, 0 refused\n', '']);
  assert.deepEqual(
    small.posts.slice(0, 4),
    [200, 100, 50, 25].map((count) => `${BATCH} ${count}`),
  );
});

test('a 200 or 207 that does not account for each line is not a success', async (t) => {
  const one = [{ item: 1, error: 'x' }];
  const table: readonly (readonly [status: number, body: unknown, code: number, said: string])[] = [
    [200, {}, 1, 'line 1: answers 200: no error; is this the right address?'],
    [200, '<html>', 1, 'line 1: answers 200: '],
    [200, { recorded: 4 }, 75, 'lines 1 to 5: answers 200: 4 recorded, 0 not, of 5 items; they might have been'],
    [207, { recorded: 4, failed: 1 }, 75, 'lines 1 to 5: answers 207: 4 recorded, 1 not, of 5 items; they might'],
    [207, { recorded: 3, failed: 1, errors: one }, 75, 'lines 1 to 5: answers 207: 3 recorded'],
    [207, { recorded: 4, failed: 1, errors: [{ item: 6, error: 'x' }] }, 75, 'lines 1 to 5: answers 207: '],
    [207, { recorded: 2, failed: 3, errors: [{ item: 2, error: 'x' }] }, 1, 'line 2: answers 400: x\n'],
    [
      207,
      { recorded: 2, failed: 3, errors: [{ item: 2, error: 'x' }] },
      1,
      'lines 3 to 5: answers 207 without naming ',
    ],
  ];
  for (const [status, body, expected, said] of table) {
    const { url } = await serve(t, WITH_BATCH, () => [status, body]);
    const { code, stderr } = await report(url, ['--from', '-'], { input: textOf(5) });
    assert.equal(code, expected, stderr);
    assert.ok(`\n${stderr}`.includes(`\nassetlog: ${said}`), stderr);
  }
});

test('the items of a lenient batch that its reply does not list are sent again, if they have keys', async (t) => {
  const recorded = new Set<string>();
  const { url, posts } = await serve(t, WITH_KEYS, (_path, body) => {
    const items = body.split('\n').map((line) => JSON.parse(line));
    const errors = items.flatMap(({ asset_key }, index) =>
      /5$/.test(asset_key) ? [{ item: index + 1, error: 'no' }] : [],
    );
    for (const { asset_key, idempotency_key } of items) if (!/5$/.test(asset_key)) recorded.add(idempotency_key);
    const [total, failed] = [items.length, errors.length];
    return failed === 0
      ? [200, { recorded: total }]
      : [207, { recorded: total - failed, failed, errors: errors.slice(0, 1) }];
  });
  const { code, stdout } = await report(url, ['--from', '-', '--run-id', 'r'], { input: textOf(30) });
  assert.deepEqual([code, stdout, recorded.size], [1, '27 recorded, 3 refused\n', 27]);
  assert.deepEqual(
    posts,
    [30, 25, 15].map((count) => `${BATCH} ${count}`),
  );
});

test('without an OpenAPI document of assetlog, lines are sent one at a time and without keys', async (t) => {
  const other = { paths: { '/payments': { post: {} }, [`/payments${BATCH}`]: { post: {} } } };
  for (const document of [undefined, '<html>', [WITH_KEYS], {}, other, { ...WITH_KEYS, paths: [BATCH] }]) {
    const { url, posts } = await serve(t, document, () => [200, {}]);
    const { code, stderr } = await report(url, ['--from', '-', '--run-id', 'r'], { input: textOf(3) });
    assert.equal(code, 0);
    assert.match(stderr, /does not know Idempotency-Key/);
    assert.deepEqual(posts, Array(3).fill('/report_asset_observation/ 1'));
  }
});
