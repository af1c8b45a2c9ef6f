/** `/metrics` of the program: the form by the tool of Prometheus, each figure by what was done before. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readConfig, version } from '../../src/config/config.ts';
import { newToken } from '../../src/deployments/tokens.ts';
import { startService as serve } from '../../src/service.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { newFolder, type Running, root, startService } from '../support/program.ts';
import { quiet } from '../support/segments.ts';
import { SimulatedDisk, systemError } from '../support/simulated-disk.ts';
import { ask, post, readFailure, Wire } from '../support/wire.ts';

const GET = (path: string, headers = 'Host: localhost\r\n') => `GET ${path} HTTP/1.1\r\n${headers}\r\n`;
const handbook = readFileSync(join(root, 'bin/README.md'), 'utf8');
const TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Each sample by its name and labels. */
function samplesOf(text: string): Map<string, number> {
  const samples = new Map<string, number>();
  for (const line of text.trimEnd().split('\n')) {
    if (line.startsWith('#')) continue;
    const [, name = '', value] = /^([a-z_]+(?:\{.*\})?) (\S+)$/.exec(line) ?? assert.fail(line);
    assert.ok(!samples.has(name), `${name} is there twice`);
    samples.set(name, Number(value));
  }
  return samples;
}

async function scrape({ port }: Pick<Running, 'port'>, path = '/metrics'): Promise<Map<string, number>> {
  const reply = await ask(port, GET(path));
  assert.deepEqual([reply.status, reply.headers.get('content-type')], [200, TYPE]);
  return samplesOf(reply.body);
}

const noPromtool = (() => {
  try {
    execFileSync('promtool', ['--version'], { stdio: 'ignore' });
    return false;
  } catch {
    return 'promtool is not installed (Debian: prometheus)';
  }
})();

test('promtool finds nothing to say', { skip: noPromtool }, async (t) => {
  const service = await startService(t);
  await ask(service.port, post('/report_asset_materialization/a'));
  await ask(service.port, post('/nowhere'));
  const { body } = await ask(service.port, GET('/metrics'));
  assert.equal(execFileSync('promtool', ['check', 'metrics'], { input: body, stdio: 'pipe' }).toString(), '');
});

test('every figure is what was done', async (t) => {
  const before = Date.now() / 1000;
  const service = await startService(t, { args: ['--segment-bytes', '4096'] });
  const at = (path: string) => `/report_asset_${path}`;
  const large = JSON.stringify({ description: 'x'.repeat(4_000) });
  const requests: readonly (readonly [status: number, endpoint: string, bytes: string])[] = [
    [200, 'report_asset_materialization', post(at('materialization/a'), large)],
    [200, 'report_asset_materialization', post(at('materialization/b'))],
    [200, 'report_asset_check', post(at('check/a?check_name=c&passed=true'))],
    [200, 'report_asset_observation', post(at('observation/a'))],
    [200, 'report_asset_observation', post(at('observation/b'))],
    [200, 'report_asset_observation', post(at('observation/c'))],
    [400, 'report_asset_check', post(at('check/a'))],
    [405, 'report_asset_check', GET(at('check/a'))],
    [413, 'report_asset_check', post(at('check/a'), 'x'.repeat(1_100_000))],
    [200, 'readyz', GET('/readyz')],
    [200, 'livez', GET('/livez')],
    [404, 'other', post('/report_asset_check-evil{x="y"}')],
    [403, 'other', GET('/readyz', 'Host: evil.example\r\n')],
    [400, 'other', 'no HTTP at all\r\n\r\n'],
  ];
  const expected = new Map<string, number>();
  for (const [status, endpoint, bytes] of requests) {
    assert.equal((await ask(service.port, bytes)).status, status, bytes.slice(0, 80));
    const name = `assetlog_http_requests_total{endpoint="${endpoint}",status="${status}"}`;
    expected.set(name, (expected.get(name) ?? 0) + 1);
  }
  const kept = await Wire.open(service.port);
  t.after(() => kept.close());
  kept.send(GET('/livez'));
  await kept.reply();
  expected.set('assetlog_http_requests_total{endpoint="livez",status="200"}', 2);

  const files = readdirSync(service.data).filter((name) => name.endsWith('.jsonl'));
  assert.equal(files.length, 2);
  const bytes = files.reduce((sum, name) => sum + statSync(join(service.data, name)).size, 0);
  for (const [name, value] of [
    ['assetlog_events_total{type="AssetMaterialization"}', 2],
    ['assetlog_events_total{type="AssetCheckEvaluation"}', 1],
    ['assetlog_events_total{type="AssetObservation"}', 3],
    ['assetlog_written_bytes_total', bytes],
    ['assetlog_last_seq', 6],
    ['assetlog_journal_files', 2],
    ['assetlog_queue_bytes', 0],
    ['assetlog_ready', 1],
    [`assetlog_build_info{version="${version}",node="${process.version}"}`, 1],
    ['assetlog_batch_events_count', 6],
    ['assetlog_batch_events_sum', 6],
    ['assetlog_batch_events_bucket{le="1"}', 6],
    ['assetlog_sync_seconds_count', 6],
    ['assetlog_sync_seconds_bucket{le="+Inf"}', 6],
  ] as const)
    expected.set(name, value);

  const samples = await scrape(service);
  for (const [name, value] of expected) assert.equal(samples.get(name), value, name);
  const counted = [...samples.keys()].filter((name) => name.startsWith('assetlog_http_requests_total'));
  assert.deepEqual(
    counted.filter((name) => !expected.has(name)),
    [],
  );
  const free = samples.get('assetlog_disk_free_bytes') ?? 0;
  assert.ok(free > 1e6 && free < 1e15, `${free}`);
  assert.ok((samples.get('assetlog_connections') ?? 0) >= 2, 'the kept one and the one that asks');
  const seconds = samples.get('assetlog_sync_seconds_sum') ?? 0;
  assert.ok(seconds > 0 && seconds < 10, `${seconds}`);
  assert.ok((samples.get('process_resident_memory_bytes') ?? 0) > 20e6);
  const started = samples.get('process_start_time_seconds') ?? 0;
  assert.ok(started > before - 1 && started < Date.now() / 1000, `${started}`);
  const again = await scrape(service);
  assert.equal(again.get('assetlog_http_requests_total{endpoint="metrics",status="200"}'), 1);
});

test('it is under the path prefix, answers HEAD, and has the access rules of the other paths', async (t) => {
  const service = await startService(t, { args: ['--path-prefix', '/some/path'] });
  const { status, headers } = await ask(service.port, GET('/some/path/metrics'));
  assert.deepEqual([status, headers.get('content-type'), headers.get('cache-control')], [200, TYPE, 'no-store']);
  const wire = await Wire.open(service.port);
  t.after(() => wire.close());
  wire.send('HEAD /some/path/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
  assert.equal((await wire.reply(true))?.headers.get('content-type'), TYPE);
  wire.send(GET('/some/path/livez'));
  assert.equal((await wire.reply())?.body, '{"status":"ok"}');
  for (const [refused, bytes] of [
    [404, GET('/metrics')],
    [404, GET('/some/path/metrics/')],
    [405, post('/some/path/metrics')],
    [403, GET('/some/path/metrics', 'Host: evil.example\r\n')],
    [403, GET('/some/path/metrics', 'Host: localhost\r\nOrigin: https://evil.example\r\n')],
    [403, GET('/some/path/metrics', 'Host: localhost\r\nSec-Fetch-Site: cross-site\r\n')],
  ] as const) {
    const reply = await ask(service.port, bytes);
    assert.equal(reply.status, refused, bytes);
    assert.ok(readFailure(reply.body));
  }
});

test('in hosted mode it needs no token, and sums over deployments without naming one', async (t) => {
  const folder = newFolder(t);
  const file = join(folder, 'deployments.json');
  const { token, digest } = newToken();
  const tokens = [{ name: 'ci', sha256: digest }];
  writeFileSync(file, JSON.stringify({ deployments: ['prod', 'test', 'idle'].map((name) => ({ name, tokens })) }));
  const service = await startService(t, { data: join(folder, 'data'), args: ['--deployments', file] });
  const report = (name: string) =>
    post(`/${name}/report_asset_observation/a`, undefined, [`Service-Cloud-Api-Token: ${token}`]);
  for (const name of ['prod', 'prod', 'test']) assert.equal((await ask(service.port, report(name))).status, 200);
  assert.equal((await ask(service.port, report('nobody'))).status, 401);
  const samples = await scrape(service);
  for (const [name, value] of [
    ['http_requests_total{endpoint="report_asset_observation",status="200"}', 3],
    ['http_requests_total{endpoint="other",status="401"}', 1],
    ['events_total{type="AssetObservation"}', 3],
    ['last_seq', 3],
    ['journal_files', 2],
    ['batch_events_sum', 3],
  ] as const)
    assert.equal(samples.get(`assetlog_${name}`), value, name);
  assert.doesNotMatch([...samples.keys()].join('\n'), /prod|idle|nobody/);
});

/** @returns the samples that the rule of an alert in the handbook selects */
function countedBy(alert: string, samples: ReadonlyMap<string, number>): string[] {
  const rule = handbook.slice(handbook.indexOf(`alert: ${alert}\n`));
  const [, metric = '', matchers = ''] = /expr: .*?(assetlog_\w+)\{(.*?)\}\[/.exec(rule) ?? assert.fail(alert);
  const labels = [...matchers.matchAll(/(\w+)(=~?)"([^"]*)"/g)].map(([, name, operator, value = '']) => {
    const pattern = operator === '=~' ? value : value.replaceAll(/\W/g, '\\$&');
    return new RegExp(`[{,]${name}="(?:${pattern})"[,}]`);
  });
  return [...samples.keys()].filter((name) => name.startsWith(`${metric}{`) && labels.every((one) => one.test(name)));
}

test('what could not be recorded is not counted, and the service is said not to be ready', async (t) => {
  const disk = new SimulatedDisk(newFolder(t));
  const read = readConfig(['--port', '0', '--data', disk.folder], {});
  assert.ok(read.kind === 'valid');
  const service = await serve(read.config, quiet, { openDisk: () => disk });
  t.after(() => service.stop());
  const port = Number(new URL(service.url).port);
  disk.fault = (call) => (call === 'write' ? systemError('ENOSPC') : undefined);
  assert.equal((await ask(port, post('/report_asset_check/a?check_name=c&passed=true'))).status, 503);
  assert.equal((await ask(port, GET('/readyz'))).status, 503);
  const samples = await scrape({ port });
  assert.deepEqual(
    countedBy('AssetlogRefusesReports', samples),
    ['assetlog_http_requests_total{endpoint="report_asset_check",status="503"}'],
    'the alert counts reports, not /readyz',
  );
  for (const [name, value] of [
    ['http_requests_total{endpoint="readyz",status="503"}', 1],
    ['http_requests_total{endpoint="report_asset_check",status="503"}', 1],
    ['events_total{type="AssetCheckEvaluation"}', 0],
    ['written_bytes_total', 0],
    ['batch_events_count', 0],
    ['last_seq', 0],
    ['ready', 0],
    ['disk_free_bytes', disk.freeSpace.freeBytes],
  ] as const)
    assert.equal(samples.get(`assetlog_${name}`), value, name);
});

test('a value is in the first bucket that it is not above, and buckets add up', () => {
  const metrics = new Metrics();
  for (const [events, ms] of [
    [1, 0.1],
    [2, 0.11],
    [3, 999],
    [5_000, 10_000],
    [5_001, 10_001],
  ] as const)
    metrics.wrote(events, 10, ms);
  for (const times of [1, 10]) metrics.journals.add({ lastSeq: times, files: 2 * times, queueBytes: 3 * times });
  const text = metrics.render(false, undefined);
  const samples = samplesOf(text);
  const buckets = (name: string) =>
    [...samples].filter(([sample]) => sample.startsWith(`${name}_bucket`)).map(([, value]) => value);
  assert.deepEqual(buckets('assetlog_batch_events'), [1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 5]);
  assert.deepEqual(buckets('assetlog_sync_seconds'), [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 4, 5]);
  assert.equal(samples.get('assetlog_batch_events_sum'), 10_007);
  assert.equal(samples.get('assetlog_ready'), 0);
  const sums = ['last_seq', 'journal_files', 'queue_bytes'].map((name) => samples.get(`assetlog_${name}`));
  assert.deepEqual(sums, [11, 22, 33]);
  assert.equal(samples.has('assetlog_disk_free_bytes'), false, 'what is not known is not told');
  assert.match(text, /^# HELP assetlog_events_total .*\n# TYPE assetlog_events_total counter\n/m);
});
