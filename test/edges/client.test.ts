/**
 * Clients generated from the OpenAPI document. The one for TypeScript has its types from `openapi-typescript` and is compiled in a
 * project of its own: a wrong request does not compile, and a request that compiles is recorded. The clients for Python and Go have
 * every endpoint, and can be imported or compiled.
 */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { writeDeployments } from '../support/deployments.ts';
import { newFolder, startService } from '../support/program.ts';
import { HANG_MS, missing, pythonText } from '../support/tools.ts';

/** Fixed versions, so that a new release does not change what is tested. */
const PACKAGES = ['openapi-typescript@7.13.0', 'openapi-fetch@0.17.0', 'typescript@5.9.3', '@types/node@20.19.43'];

const RUNTIME = 'v1.9.0';

const CLIENT = `import createClient from 'openapi-fetch';
import type { components, paths } from './api.js';

const api = createClient<paths>({ baseUrl: process.argv[2] ?? '' });
const sent = [
  await api.POST('/report_asset_materialization/', {
    body: { asset_key: ['client', 'a/b'], partition: '2026-11-20', description: null, metadata: { rows: 10, deep: [{}] } },
  }),
  await api.POST('/report_asset_check/{asset_key}', {
    params: { path: { asset_key: 'client' } },
    body: { check_name: 'no_nulls', passed: false, severity: 'WARN' },
  }),
  await api.POST('/report_asset_observation/{asset_key}', {
    params: { path: { asset_key: 'client' }, query: { data_version: 'v2' } },
  }),
  await api.POST('/report_asset_check/', { body: { asset_key: 'client', check_name: 'no_nulls' } }),
];
const error: string | undefined = sent[3]?.error?.error;

const keyed = (passed: boolean) =>
  api.POST('/report_asset_check/', {
    params: { header: { 'Idempotency-Key': '"order-17/1"' } },
    body: { asset_key: 'keyed', check_name: 'c', passed, event_time: '2026-11-20T16:19:45.250+01:00' },
  });
const first = await keyed(true);
const again = await keyed(true);
const other = await keyed(false);
const conflict: string | undefined = other.error?.error;
const timed = await api.POST('/report_asset_observation/{asset_key}', {
  params: { path: { asset_key: 'timed' }, query: { event_time: '2026-11-20T16:19:45+01:00' } },
});

type Item = components['schemas']['BatchItem'];
const items: Item[] = [
  { type: 'materialization', asset_key: 'batch', event_time: '2026-11-20T15:19:45Z', idempotency_key: 'own' },
  { type: 'AssetCheckEvaluation', asset_key: ['batch', 'a'], check_name: 'c', passed: true, seq: 7, crc: 'x' },
];
const sendAll = (Prefer: string, all: Item[]) =>
  api.POST('/report_asset_batch/', { params: { header: { Prefer, 'Idempotency-Key': 'batch-1' } }, body: all });
const whole = await sendAll('handling=strict', items);
const repeated = await sendAll('handling=strict', items);
const bad: Item = { type: 'observation', asset_key: 'batch', event_time: 'noon' };
const refused = await sendAll('handling=strict', [...items, bad]);
const inPart = await sendAll('handling=lenient', [...items, bad]);
const left: number | undefined = inPart.data && 'failed' in inPart.data ? inPart.data.errors?.[0]?.item : undefined;
const later = {
  statuses: [first, again, other, timed, whole, repeated, refused, inPart].map(({ response }) => response.status),
  replayed: [first, again].map(({ response }) => response.headers.get('Idempotent-Replayed')),
  conflict,
  counts: [whole, repeated, inPart].map(({ data }) => [data?.recorded, data?.duplicates]),
  wrong: [refused.error?.errors?.[0]?.item, left],
};

const status: 'ok' | 'degraded' | undefined = (await api.GET('/readyz')).data?.status;

const reader = createClient<paths, 'application/json'>({
  baseUrl: process.argv[2] ?? '',
  headers: { Accept: 'application/json' },
});
const page = await reader.GET('/events', { params: { query: { type: 'check', passed: true, after_seq: 1, limit: 1 } } });
const next = await reader.GET('/events', { params: { query: { key: '["batch","a"]', since: '1h', last: 5 } } });
const lines = await reader.GET('/events', {
  params: { query: { key_prefix: 'client', limit: 2 } },
  headers: { Accept: 'application/x-ndjson' },
  parseAs: 'text',
});
const assets = await reader.GET('/assets', { params: { query: { failing: true } } });
const afterKey = await reader.GET('/assets', { params: { query: { after_key: '["client","a/b"]', limit: 1 } } });
const refusals = await reader.GET('/refusals');
const beyond = await reader.GET('/events', { params: { query: { limit: 1_000_000_000 } } });
const found = page.data?.events.map((line) =>
  line.type === 'AssetCheckEvaluation' ? [line.check_name, line.passed] : [],
);
const nextSeq: number | undefined = page.data?.next_after_seq;
const text: string | undefined = lines.data;
const failing = assets.data?.assets.map(({ asset_key, checks }) => [
  asset_key,
  checks.map(({ check_name, count }) => [check_name, count]),
]);
const latest = afterKey.data?.assets.map(({ asset_key, check, checks }) => [asset_key, check?.count, checks[0]?.passed]);
type Refused = [status: number, method: string | undefined];
const refusedBefore = refusals.data?.refusals.map(({ status, method }): Refused => [status, method]);
const read = {
  statuses: [page, next, lines, assets, afterKey, refusals, beyond].map(({ response }) => response.status),
  found,
  next: next.data?.events.map(({ asset_key, seq }) => [asset_key, seq]),
  hasMore: nextSeq === page.data?.events[0]?.seq,
  lines: text?.split('\\n').length,
  failing,
  latest,
  refusedBefore,
  beyond: beyond.error?.error,
};
console.log(JSON.stringify({ statuses: sent.map(({ response }) => response.status), error, status, later, read }));

type Line = components['schemas']['Event'];
export const nameOf = (line: Line) => (line.type === 'AssetCheckEvaluation' ? line.check_name : line.tags?.data_version);
`;

const WRONG: readonly string[] = [
  `await api.POST('/report_asset_check/', { body: { asset_key: 'a', check_name: 'b', passed: 'yes' } });`,
  `await api.POST('/report_asset_check/', { body: { asset_key: 'a', check_name: 'b', severity: 'INFO' } });`,
  `await api.POST('/report_asset_observation/', { body: { asset_key: 5 } });`,
  `await api.POST('/report_asset_observation/', { body: { asset_key: 'a', metadata: [1] } });`,
  `await api.POST('/report_asset_observation/{asset_key}', {});`,
  `await api.GET('/report_asset_observation/');`,
  `await api.POST('/report_asset/', {});`,
  `await api.POST('/report_asset_observation/', { body: { asset_key: 'a', event_time: 1763650785 } });`,
  `await api.POST('/report_asset_check/', { params: { header: { 'Idempotency-Key': 7 } } });`,
  `await api.POST('/report_asset_batch/', { body: { type: 'observation', asset_key: 'a' } });`,
  `await api.POST('/report_asset_batch/', { body: [{ type: 'observed', asset_key: 'a' }] });`,
  `await api.POST('/report_asset_batch/', { body: [{ type: 'observation' }] });`,
  `await api.POST('/report_asset_batch/', { body: [{ type: 'check', asset_key: 'a', check_name: 'c', passed: 1 }] });`,
  `await api.POST('/report_asset_batch/', { body: [{ type: 'observation', asset_key: 'a', uri: 'x' }] });`,
  `await api.POST('/report_asset_batch/', {});`,
  `await api.GET('/report_asset_batch/');`,
  `other.data?.recorded;`,
  `await api.POST('/report_asset_observation/', { params: { query: { asset_key: 5 } } });`,
  `await api.POST('/events', {});`,
  `await api.GET('/event');`,
  `await reader.GET('/events', { params: { query: { type: 'checks' } } });`,
  `await reader.GET('/events', { params: { query: { limit: '10' } } });`,
  `await reader.GET('/events', { params: { query: { passed: 'true' } } });`,
  `await reader.GET('/events', { params: { query: { key: ['batch', 'a'] } } });`,
  `await reader.GET('/events', { params: { query: { afterSeq: 1 } } });`,
  `await reader.GET('/assets', { params: { query: { failing: 1 } } });`,
  `await reader.GET('/assets', { params: { query: { key_prefix: 5 } } });`,
  `await reader.GET('/refusals', { params: { query: { limit: 1 } } });`,
  `page.data?.events[0]?.passed;`,
  `page.data?.next;`,
  `assets.data?.assets[0]?.materialization.seq;`,
  `assets.data?.assets[0]?.checks[0]?.status;`,
  `refusals.data?.refusals[0]?.method.length;`,
];

test('a generated client reports all three kinds, also in batches and with keys, and reads them; wrong requests do not compile', async (t) => {
  const service = await startService(t);
  const folder = newFolder(t);
  const run = (command: string, ...args: readonly string[]) =>
    promisify(execFile)(command, args, { cwd: folder, timeout: HANG_MS });
  writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}');
  if (!(await installed(t, () => run('npm', 'install', '--no-audit', '--no-fund', '--ignore-scripts', ...PACKAGES))))
    return;

  await run('npx', 'openapi-typescript', `${service.url}/openapi.json`, '--output', 'api.d.ts');
  const compile = ['tsc', '--strict', '--module', 'nodenext', '--target', 'es2022', '--types', 'node'];
  // The compiler also fails if an expected error does not occur.
  const expected = WRONG.map((statement) => `// @ts-expect-error\n${statement}\n`);
  writeFileSync(join(folder, 'client.ts'), CLIENT);
  writeFileSync(join(folder, 'wrong.ts'), `${CLIENT}\n${expected.join('')}`);
  // The compiler prints its errors on standard output, which an error of execFile does not show.
  await run('npx', ...compile, 'client.ts', 'wrong.ts').catch((error) => assert.fail(error.stdout || error));

  const { stdout } = await run(process.execPath, 'client.js', service.url);
  const { later, read, ...reported } = JSON.parse(stdout);
  assert.deepEqual(reported, {
    statuses: [200, 200, 200, 400],
    error: 'passed is missing: send true or false as a JSON boolean in the body, or passed=true in the query',
    status: 'ok',
  });
  assert.deepEqual(read, {
    statuses: [200, 200, 200, 200, 200, 200, 400],
    found: [['c', true]],
    next: [[['batch', 'a'], 7]],
    hasMore: true,
    lines: 3,
    failing: [[['client'], [['no_nulls', 1]]]],
    latest: [[['keyed'], 1, true]],
    refusedBefore: [400, 422, 400].map((status) => [status, 'POST']),
    beyond: 'limit is "1000000000"; send a number from 1 to 1000',
  });
  assert.match(later.conflict, /^the Idempotency-Key "order-17\/1" was used before, for an event with another passed;/);
  assert.deepEqual(
    { ...later, conflict: undefined },
    {
      statuses: [200, 200, 422, 200, 200, 200, 400, 207],
      replayed: [null, 'true'],
      conflict: undefined,
      counts: [[2], [2, 2], [2, 2]].map(([recorded, duplicates = null]) => [recorded, duplicates]),
      wrong: [3, 3],
    },
  );
  const events = service.events().map(({ seq: _, id: __, time: ___, crc: ____, ...event }) => event);
  assert.deepEqual(events, [
    {
      type: 'AssetMaterialization',
      asset_key: ['client', 'a/b'],
      partition: '2026-11-20',
      metadata: { rows: 10, deep: [{}] },
    },
    { type: 'AssetCheckEvaluation', asset_key: ['client'], check_name: 'no_nulls', passed: false, severity: 'WARN' },
    { type: 'AssetObservation', asset_key: ['client'], tags: { data_version: 'v2' } },
    {
      type: 'AssetCheckEvaluation',
      asset_key: ['keyed'],
      check_name: 'c',
      passed: true,
      severity: 'ERROR',
      event_time: '2026-11-20T15:19:45.250Z',
      idempotency_key: 'order-17/1',
    },
    { type: 'AssetObservation', asset_key: ['timed'], event_time: '2026-11-20T15:19:45Z' },
    {
      type: 'AssetMaterialization',
      asset_key: ['batch'],
      event_time: '2026-11-20T15:19:45Z',
      idempotency_key: 'own',
    },
    {
      type: 'AssetCheckEvaluation',
      asset_key: ['batch', 'a'],
      check_name: 'c',
      passed: true,
      severity: 'ERROR',
      idempotency_key: 'batch-1/2',
    },
  ]);
});

const forPython = process.env['ASSETLOG_TEST_OPENAPI_PYTHON'] ?? 'openapi-python-client';
const forGo = process.env['ASSETLOG_TEST_OAPI_CODEGEN'] ?? 'oapi-codegen';

/** The documents of a local service, a hosted one and one for tests. */
async function documentsOf(t: TestContext): Promise<readonly (readonly [name: string, document: string])[]> {
  const kinds = [
    ['local', []],
    ['hosted', writeDeployments(t, ['prod']).args],
    ['test', ['--test']],
  ] as const;
  return Promise.all(
    kinds.map(async ([name, args]) => {
      const { url } = await startService(t, { args });
      return [name, await (await fetch(`${url}/openapi.json`)).text()] as const;
    }),
  );
}

function operationsOf(document: string): string[] {
  return [...document.matchAll(/"operationId":"(\w+)"/g)].map(([, id = '']) => id);
}

/** The generator leaves out endpoints whose content type it does not know: lines are sent as bytes. */
const LINES = ['x-ndjson', 'ndjson', 'jsonl'].map((type) => `  application/${type}: application/octet-stream\n`);
const IMPORT_ALL = pythonText('import-all.py');

test('a generator for Python leaves out no endpoint, and its client can be imported', {
  skip: missing(
    'no openapi-python-client: ASSETLOG_TEST_OPENAPI_PYTHON may name it (pip install openapi-python-client)',
    forPython,
    ['--version'],
  ),
}, async (t) => {
  for (const [name, document] of await documentsOf(t)) {
    const folder = newFolder(t);
    const env = { ...process.env, PATH: `${dirname(forPython)}:${process.env['PATH']}`, PYTHONDONTWRITEBYTECODE: '1' };
    const run = (command: string, ...args: readonly string[]) =>
      promisify(execFile)(command, args, { cwd: folder, env, timeout: HANG_MS });
    writeFileSync(join(folder, 'openapi.json'), document);
    writeFileSync(join(folder, 'config.yml'), `content_type_overrides:\n${LINES.join('')}`);
    const args = ['--path', 'openapi.json', '--config', 'config.yml', '--meta', 'none', '--output-path', 'api'];
    const { stdout, stderr } = await run(forPython, 'generate', '--fail-on-warning', ...args);
    assert.doesNotMatch(stdout + stderr, /Unable|Warning|removal/, name);
    const made = readdirSync(join(folder, 'api/api/default')).filter((file) => !file.startsWith('__'));
    assert.equal(made.length, operationsOf(document).length, name);
    assert.ok(Number((await run('python', '-c', IMPORT_ALL)).stdout) > made.length);
  }
});

test('a generator for Go leaves out no endpoint, and its client compiles', {
  skip:
    missing('no oapi-codegen; set ASSETLOG_TEST_OAPI_CODEGEN to its path', forGo, ['-version']) ||
    missing('no go', 'go', ['version']),
}, async (t) => {
  for (const [name, document] of await documentsOf(t)) {
    const folder = newFolder(t);
    const env = { ...process.env, GOFLAGS: '-mod=mod' };
    const run = (command: string, ...args: readonly string[]) =>
      promisify(execFile)(command, args, { cwd: folder, env, timeout: HANG_MS });
    writeFileSync(join(folder, 'openapi.json'), document);
    writeFileSync(join(folder, 'go.mod'), `module api\ngo 1.24\nrequire github.com/oapi-codegen/runtime ${RUNTIME}\n`);
    await run(forGo, '-generate', 'types,client', '-package', 'api', '-o', 'api.go', 'openapi.json');
    const code = readFileSync(join(folder, 'api.go'), 'utf8');
    for (const id of operationsOf(document)) {
      const method = id.replace(/(?:^|_+)([a-z]?)/g, (_, first: string) => first.toUpperCase());
      assert.match(code, new RegExp(`^func \\(c \\*Client\\) ${method}(WithBody)?\\(`, 'm'), name);
    }
    await run('go', 'build', './...');
  }
});

/** @returns false, with the test skipped, where the registry cannot be reached */
async function installed(t: TestContext, install: () => Promise<unknown>): Promise<boolean> {
  try {
    await install();
    return true;
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string };
    if (!/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|ENOTCACHED/.test(stderr)) throw error;
    t.skip('the npm registry cannot be reached');
    return false;
  }
}
