/** The metrics and the alert rules of the handbook, checked by Prometheus's promtool. */

import assert from 'node:assert/strict';
import { type SpawnSyncOptions, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sha256 } from '../../src/deployments/tokens.ts';
import { host, rewrite } from '../support/deployments.ts';
import { alertRules } from '../support/handbook.ts';
import { metricsOf } from '../support/metrics.ts';
import { newFolder, startService } from '../support/program.ts';
import { ok, report } from '../support/report.ts';
import { eventually, HANG_MS, missing } from '../support/tools.ts';
import { ask, post } from '../support/wire.ts';
import { startPlainUpstream } from '../world/plain-server.ts';

const skip = missing('promtool is not installed (Debian: prometheus)', 'promtool', ['--version']);

/** @returns its output. @throws with its output if it fails */
function promtool(args: readonly string[], options: SpawnSyncOptions): string {
  const { status, stdout, stderr } = spawnSync('promtool', args, { timeout: HANG_MS, ...options });
  assert.equal(status, 0, `promtool ${args.join(' ')}\n${stdout}${stderr}`);
  return `${stdout}${stderr}`;
}

test('promtool finds no problem in the metrics', { skip }, async (t) => {
  const upstream = await startPlainUpstream(t);
  upstream.answer = ({ key }) => (key[0] === 'b' ? [400, '{"error":"no"}'] : undefined);
  const watched = ['--watch-asset', 'nothing', '--watch-asset', '["a\\"b"]'];
  const service = await startService(t, { args: ['--forward-to', upstream.url, ...watched] });
  assert.deepEqual(await report(service, ['a', 'b', 'c']), ok(3));
  assert.equal((await ask(service.port, post('/nowhere'))).status, 404);
  await eventually('both events that the upstream accepts', () => upstream.events.length === 2);
  const input = await metricsOf(service);
  assert.match(input, /^assetlog_watched_asset_age_seconds\{key="nothing"\} \+Inf$/m);
  assert.match(input, /^assetlog_forward_dead_letters\{destination="upstream"\} 1$/m);
  assert.equal(promtool(['check', 'metrics'], { input }), '');
});

test('promtool has no complaint about the metrics of deployments and tokens', { skip }, async (t) => {
  const { port, report, file, reload } = await host(t, ['prod'], { args: ['--deployment-metrics'] });
  const token = 'a"\\\n\u0000é';
  rewrite(file, { name: 'prod', tokens: [{ name: token, sha256: sha256('x').toString('hex') }] });
  await reload();
  assert.equal((await report('prod', 'x')).status, 200);
  const input = await metricsOf({ port });
  assert.match(input, /^assetlog_token_last_used_timestamp_seconds\{deployment="prod",.* 1\d{9}/m);
  assert.equal(promtool(['check', 'metrics'], { input }), '');
});

test('promtool accepts the alert rules, and each fires when it should and not before', { skip }, (t) => {
  const folder = newFolder(t);
  writeFileSync(join(folder, 'rules.yml'), alertRules);
  assert.match(promtool(['check', 'rules', 'rules.yml'], { cwd: folder }), /SUCCESS: 20 rules found/);
  // For each rule: series that are good for half an hour and then bad, and when the rule must have fired.
  const DISK = 'assetlog_sync_seconds_bucket';
  const cases: Readonly<Record<string, readonly [series: Readonly<Record<string, string>>, minutes: number]>> = {
    AssetlogDown: [{ 'up{job="assetlog"}': '1x30 0x10' }, 33],
    AssetlogNotReady: [{ assetlog_ready: '1x30 0x10' }, 32],
    AssetlogDeploymentInTrouble: [{ assetlog_deployments_in_trouble: '0x30 1x10' }, 32],
    AssetlogFilesRefused: [{ assetlog_files_refused: '0x30 1x10' }, 32],
    AssetlogRefusesReports: [
      {
        'assetlog_http_requests_total{endpoint="report_asset_check",status="503"}': '7x30 8+1x20',
        'assetlog_http_requests_total{endpoint="readyz",status="503"}': '0+1x60',
      },
      40,
    ],
    AssetlogDiskSlow: [
      {
        [`${DISK}{le="1"}`]: '0+60x30 1801+1x40',
        [`${DISK}{le="10"}`]: '0+60x120',
        [`${DISK}{le="+Inf"}`]: '0+60x120',
      },
      50,
    ],
    AssetlogDiskFullSoon: [{ assetlog_disk_free_bytes: '1000000000x30 1000000000-9000000x100' }, 120],
    AssetlogTokenExpires: [
      { 'assetlog_tokens{state="expired"}': '0x30 1x20', 'assetlog_tokens{state="valid"}': '3x50' },
      31,
    ],
    AssetlogAssetStale: [{ 'assetlog_watched_asset_age_seconds{key="w"}': '90000x30 93660+60x20' }, 36],
    AssetlogAssetsRefused: [{ assetlog_assets_refused_total: '0x30 3x20' }, 35],
    AssetlogJournalDamaged: [
      { 'node_systemd_unit_state{name="assetlog-verify.service",state="failed"}': '0x30 1x20' },
      31,
    ],
    AssetlogForwardStopped: [{ 'assetlog_forward_state{state="stopped"}': '0x30 1x20' }, 37],
    AssetlogForwardBehind: [{ assetlog_forward_lag_seconds: '0x30 3700+60x20' }, 42],
    AssetlogForwardLosesEvents: [{ assetlog_forward_missing_events: '0x30 100x20' }, 35],
    AssetlogForwardDeadLetters: [{ assetlog_forward_dead_letters: '0x30 3x20' }, 35],
    AssetlogAlarmsWait: [{ assetlog_alarms_waiting: '0x30 1x30' }, 46],
    AssetlogAlarmsLeftOut: [{ assetlog_alarms_left_out: '0x30 1x30' }, 46],
    AssetlogHubSilent: [{ assetlog_hub_silent_seconds: '0x30 3660+60x20' }, 31],
    AssetlogSourceStopped: [{ assetlog_hub_sources_stopped: '0x30 1x30' }, 42],
    AssetlogHubFullSoon: [{ assetlog_hub_sources_ratio: '0.5x30 0.95x20' }, 35],
  };
  const names = [...alertRules.matchAll(/- alert: (\w+)/g)].map(([, name = '']) => name);
  assert.deepEqual(names, Object.keys(cases));
  const labels: Readonly<Record<string, string>> = {
    AssetlogDown: 'job: assetlog',
    AssetlogForwardStopped: 'state: stopped',
    AssetlogTokenExpires: 'state: expired',
    AssetlogAssetStale: 'key: w',
    AssetlogJournalDamaged: 'name: assetlog-verify.service, state: failed',
  };
  const tests = Object.entries(cases).flatMap(([name, [series, minutes]]) => [
    '  - interval: 1m',
    '    input_series:',
    ...Object.entries(series).flatMap(([one, values]) => [`      - series: '${one}'`, `        values: '${values}'`]),
    '    alert_rule_test:',
    ...[29, minutes].flatMap((at) => [`      - eval_time: ${at}m`, `        alertname: ${name}`]),
    `        exp_alerts: [{exp_labels: {${labels[name] ?? ''}}}]`,
  ]);
  // The texts of an alert are not compared, only that it fires.
  writeFileSync(join(folder, 'rules.yml'), alertRules.replace(/^ +annotations:\n.*\n/gm, ''));
  writeFileSync(join(folder, 'tests.yml'), ['rule_files: [rules.yml]', 'tests:', ...tests, ''].join('\n'));
  promtool(['test', 'rules', 'tests.yml'], { cwd: folder });
});
