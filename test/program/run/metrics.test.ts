/** `/metrics` of the program: each figure after known requests. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { version } from '../../../src/config/names.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { metricsOf, samplesOf } from '../../support/metrics.ts';
import { segmentBytes, startService } from '../../support/program.ts';
import { serve } from '../../support/service.ts';
import { ask, get, post, Wire } from '../../support/wire.ts';

const scrape = async (service: { readonly port: number }) => samplesOf(await metricsOf(service));

test('every metric matches the requests before', async (t) => {
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
    [
      200,
      'report_asset_batch',
      post(at('batch/'), '[{"type":"check","asset_key":"b","check_name":"c","passed":true}]'),
    ],
    [400, 'report_asset_batch', post(at('batch/'), '[{}]')],
    [400, 'report_asset_check', post(at('check/a'))],
    [405, 'report_asset_check', get(at('check/a'))],
    [413, 'report_asset_check', post(at('check/a'), 'x'.repeat(1_100_000))],
    [200, 'readyz', get('/readyz')],
    [200, 'livez', get('/livez')],
    [200, 'server_info', get('/server_info')],
    [404, 'other', post('/report_asset_check-evil{x="y"}')],
    [403, 'other', get('/readyz').replace('localhost', 'evil.example')],
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
  kept.send(get('/livez'));
  await kept.reply();
  expected.set('assetlog_http_requests_total{endpoint="livez",status="200"}', 2);

  const files = readdirSync(service.data).filter((name) => name.endsWith('.jsonl'));
  assert.equal(files.length, 2);
  const bytes = segmentBytes(service.data);
  for (const [name, value] of [
    ['assetlog_events_total{type="AssetMaterialization"}', 2],
    ['assetlog_events_total{type="AssetCheckEvaluation"}', 2],
    ['assetlog_request_items_sum', 1],
    ['assetlog_request_items_count', 1],
    ['assetlog_events_total{type="AssetObservation"}', 3],
    ['assetlog_written_bytes_total', bytes],
    ['assetlog_last_seq', 7],
    ['assetlog_journal_files', 2],
    ['assetlog_queue_bytes', 0],
    ['assetlog_ready', 1],
    [`assetlog_build_info{version="${version}",node="${process.version}"}`, 1],
    ['assetlog_batch_events_count', 7],
    ['assetlog_batch_events_sum', 7],
    ['assetlog_batch_events_bucket{le="1"}', 7],
    ['assetlog_sync_seconds_count', 7],
    ['assetlog_sync_seconds_bucket{le="+Inf"}', 7],
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
  assert.ok((samples.get('assetlog_connections') ?? 0) >= 2, 'the kept connection and the one of this request');
  const seconds = samples.get('assetlog_sync_seconds_sum') ?? 0;
  assert.ok(seconds > 0 && seconds < 10, `${seconds}`);
  assert.ok((samples.get('process_resident_memory_bytes') ?? 0) > 20e6);
  const started = samples.get('process_start_time_seconds') ?? 0;
  assert.ok(started > before - 1 && started < Date.now() / 1000, `${started}`);
  const again = await scrape(service);
  assert.equal(again.get('assetlog_http_requests_total{endpoint="metrics",status="200"}'), 1);
});

test('in hosted mode the metrics need no token, and are sums over deployments without their names', async (t) => {
  const { args, headerOf } = writeDeployments(t, ['prod', 'test', 'idle']);
  const service = await serve(t, { args });
  const report = (name: string, header: string) =>
    ask(service.port, post(`/${name}/report_asset_observation/a`, undefined, [header]));
  for (const name of ['prod', 'prod', 'test']) assert.equal((await report(name, headerOf(name))).status, 200);
  assert.equal((await report('unknown', headerOf('prod'))).status, 401);
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
  assert.doesNotMatch([...samples.keys()].join('\n'), /prod|idle|unknown|ci of|deployment=|token=/);
});
