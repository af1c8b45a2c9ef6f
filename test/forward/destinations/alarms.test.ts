/** Hooks with `on` over real sockets: which posts they get, after a stop and a restart, after errors, and from a service with `--no-read`. */

import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { toldName } from '../../../src/forward/alarms/told-file.ts';
import { Cursor } from '../../../src/forward/ledger/cursor.ts';
import { openDisk } from '../../../src/journal/disk.ts';
import { runHere } from '../../support/command-output.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { forwardFile, forwardStatus, QUICK } from '../../support/forwarded.ts';
import { newFolder, type Scope } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { serve, serveSimulated } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import type { Scripted } from '../../world/http.ts';
import { type Got, startScripted } from '../../world/http-server.ts';
import { systemError } from '../../world/simulated-disk.ts';

const NAME = 'alarms';
/** A difference is posted as soon as it is seen, and the next one of its key at once. */
const AT_ONCE = { ...QUICK, alarmLookMs: 1, alarmHeldMs: 0, alarmPauseMs: 0, alarmGraceMs: 0, staleCheckMs: 1 };

const check = (service: { readonly url: string }, passed: boolean, more = '') =>
  record(service, `check/warehouse/orders?check_name=no_nulls&passed=${passed}${more}`);

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const kindsOf = (got: readonly Got[]) => got.map(({ body }) => JSON.parse(body).alarm.on as string);
const keysOf = (got: readonly Got[]) => got.map(({ headers }) => headers['idempotency-key']);

/** A server, and a file of destinations with a hook to it. */
async function hookTo(t: Scope, members: object, answer: (got: Got, count: number) => Scripted = () => [200, 'ok']) {
  const { url, got } = await startScripted(t, answer);
  const file = join(newFolder(t), 'forward.json');
  const write = (more: object = {}) => {
    const own = { name: NAME, to: `hook+${url}/alarms`, on: ['failed', 'recovered'], ...members, ...more };
    forwardFile(file, own);
  };
  write();
  return { got, file, write, args: ['--forward', file] };
}

test('a check that fails twice and then passes causes two posts, also with --no-read', async (t) => {
  const { got, args } = await hookTo(t, {});
  const service = await serve(t, { args: [...args, '--no-read'], limits: AT_ONCE });
  await check(service, true);
  await check(service, false, '&partition=p&metadata=%7B%22error%22%3A%22boom%22%7D');
  await eventually('the failure is posted', () => got.length === 1);
  await check(service, false, '&partition=p');
  await check(service, true, '&partition=q');
  await check(service, true, '&severity=WARN');
  await eventually('the pass is posted', () => got.length === 2);
  const [failure, recovery] = got.map(({ body }) => JSON.parse(body));
  const { since } = failure.alarm;
  assert.deepEqual(failure.alarm, { on: 'failed', since, since_seq: 2, in_a_row: 1 });
  assert.deepEqual(Object.keys(failure).slice(0, 3), ['alarm', 'seq', 'id']);
  assert.deepEqual([failure.seq, failure.passed, failure.metadata], [2, false, { error: 'boom' }]);
  assert.equal(since, failure.time);
  const before = { severity: 'ERROR', since, since_seq: 2 };
  assert.deepEqual(recovery.alarm, { on: 'recovered', because: 'passed', before });
  assert.deepEqual([recovery.seq, recovery.passed, recovery.partition], [5, true, undefined]);
  for (const key of keysOf(got)) assert.match(`${key}`, /^"hook\/1\/[0-9a-f-]{36}"$/);
  const text = await runHere(['forward', 'status', '--data', service.data]);
  assert.match(text.stdout, /alarms: 0 open, 0 to be posted, last success/);
});

test('WARN that becomes ERROR is posted with the severity that was posted before', async (t) => {
  const { got, args } = await hookTo(t, {});
  const service = await serve(t, { args, limits: AT_ONCE });
  await check(service, false, '&severity=WARN');
  await eventually('it is posted', () => got.length === 1);
  await check(service, false);
  await eventually('it is posted again', () => got.length === 2);
  const [first, second] = got.map(({ body }) => JSON.parse(body));
  const { since, since_seq } = first.alarm;
  assert.deepEqual(second.alarm, { on: 'failed', since, since_seq, in_a_row: 2, before: { severity: 'WARN', since } });
  assert.deepEqual([first.severity, second.severity, second.seq], ['WARN', 'ERROR', 2]);
});

test('a failure that ends before any request arrived is not posted, and a stop loses no alarm', async (t) => {
  let isDown = true;
  const { got, args } = await hookTo(t, {}, () => (isDown ? [503, 'later'] : [200, 'ok']));
  const service = await serve(t, { args, limits: AT_ONCE });
  await check(service, false);
  await eventually('it is tried', () => got.length > 0);
  assert.equal((await forwardStatus(service.data, NAME)).state, 'waiting');
  await check(service, true);
  const waiting = /^assetlog_alarms_waiting\{destination="alarms"\} 0$/m;
  await eventually('nothing is due', async () => waiting.test(await (await fetch(`${service.url}/metrics`)).text()));
  assert.equal((await forwardStatus(service.data, NAME)).state, 'waiting', 'it is not known whether the hook is back');
  const tries = got.length;
  isDown = false;
  await pause(100);
  assert.equal(got.length, tries);
  await check(service, false);
  await eventually('the next one is posted', () => got.length === tries + 1);
  await service.stop();
  const again = await serve(t, { data: service.data, args, limits: AT_ONCE });
  await check(again, true);
  await eventually('and its end', () => got.length === tries + 2);
  assert.deepEqual(kindsOf(got.slice(tries)), ['failed', 'recovered']);
});

test('a silent asset under the key is posted once, and its next event ends that, also after a restart', async (t) => {
  const stale = { on: ['stale', 'fresh'], staleAfter: '300ms', only: { key_prefix: 'warehouse' } };
  const { got, args } = await hookTo(t, stale);
  const service = await serve(t, { args, limits: AT_ONCE });
  await record(service, 'observation/other');
  await record(service, 'observation/warehouse/orders');
  await eventually('it is posted', () => got.length === 1);
  const { alarm, ...rest } = JSON.parse(got[0]!.body);
  assert.deepEqual([alarm.on, alarm.since_seq, rest], ['stale', 2, { asset_key: ['warehouse', 'orders'] }]);
  await service.stop();
  const again = await serve(t, { data: service.data, args, limits: AT_ONCE });
  await pause(300);
  assert.equal(got.length, 1);
  await record(again, 'observation/warehouse/orders');
  await eventually('it ends', () => got.length === 2);
  const { alarm: end } = JSON.parse(got[1]!.body);
  assert.deepEqual(end, { on: 'fresh', because: 'reported', before: { since: alarm.since } });
});

test('a silent deployment is posted, since its journal stays open for the hook', async (t) => {
  const { got, args } = await hookTo(t, { on: ['stale'], staleAfter: '1s' });
  const deployments = writeDeployments(t, ['prod']);
  const limits = { ...AT_ONCE, idleJournalMs: 100 };
  const service = await serve(t, { args: [...args, ...deployments.args], limits });
  const headers = { Authorization: `Bearer ${deployments.tokenOf('prod')}` };
  const { status } = await fetch(`${service.url}/prod/report_asset_observation/x`, { method: 'POST', headers });
  assert.equal(status, 200);
  await eventually('it is posted', () => got.length === 1);
  assert.deepEqual(JSON.parse(got[0]!.body).deployment, 'prod');
});

test('a hook gets no more of an alarm that it refuses or fails for long, and a full disk delays the post [alarms-7]', async (t) => {
  const { got, args } = await hookTo(t, {}, ({ body }) => [/refused/.test(body) ? 400 : 500, 'no']);
  const service = await serveSimulated(t, { args, limits: { ...AT_ONCE, hookFailingMs: 100 } });
  let isFull = true;
  service.disk.fault = (call, name) =>
    isFull && call === 'write' && /\.alarms/.test(name) ? systemError('ENOSPC') : undefined;
  await record(service, 'check/failed?check_name=c&passed=false');
  const metricsNow = async () => (await fetch(`${service.url}/metrics`)).text();
  const isWaiting = async () => /^assetlog_alarms_waiting\{destination="alarms"\} 1$/m.test(await metricsNow());
  await eventually('it is due', async () => got.length > 0 || (await isWaiting()));
  await eventually('it waits for the disk', () => service.notices.some((line) => /ENOSPC/.test(line)));
  await pause(100);
  assert.equal(got.length, 0, 'nothing is posted before it is in the file');
  isFull = false;
  const told = () => service.notices.filter((line) => /it is not posted again/.test(line)).length;
  await eventually('it is given up', () => told() === 1);
  assert.ok(got.length > 1);
  assert.equal(new Set(keysOf(got)).size, 1);
  const count = got.length;
  await record(service, 'check/refused?check_name=c&passed=false');
  await eventually('the next one is refused', () => told() === 2);
  await pause(100);
  assert.equal(got.length, count + 1);
  const metrics = await metricsNow();
  const sample = (name: string, labels = '') => metrics.includes(`assetlog_${name}{destination="alarms"${labels}`);
  assert.ok(sample('alarm_posts_total', ',on="failed",outcome="in doubt"} 1'));
  assert.ok(sample('alarm_posts_total', ',on="failed",outcome="refused"} 1'));
  for (const name of ['alarms', 'alarms_waiting', 'alarms_left_out']) assert.ok(sample(name), name);
  assert.ok(!sample('forward_lag_events'));
});

test('a post that gets 413 is sent once more without metadata, and one that passed three hooks is not sent', async (t) => {
  const { got, args } = await hookTo(t, {}, ({ body }) => [/boom/.test(body) ? 413 : 200, '']);
  const service = await serve(t, { args, limits: AT_ONCE });
  await check(service, false, '&metadata=%7B%22error%22%3A%22boom%22%7D');
  await eventually('it is sent twice', () => got.length === 2);
  const { metadata, metadata_bytes } = JSON.parse(got[1]!.body);
  assert.deepEqual([metadata, metadata_bytes], [undefined, 16]);
  assert.equal(keysOf(got)[0], keysOf(got)[1]);
  const post = (asset: string, hooks: number) =>
    fetch(`${service.url}/report_asset_check/${asset}?check_name=c&passed=false`, {
      method: 'POST',
      headers: { 'Idempotency-Key': `"hook/${hooks}/0193e0c2-0000-7000-8000-000000000001"` },
    });
  assert.equal((await post('third', 3)).status, 200);
  await eventually('a warning', () => service.notices.some((line) => /post in a circle/.test(line)));
  await post('second', 2);
  await eventually('it is posted', () => got.length === 3);
  assert.match(`${keysOf(got)[2]}`, /^"hook\/3\//);
});

test('a hook of version 0.3 gets the ends of what it was posted, and a damaged file makes it a new one', async (t) => {
  const { got, file, write, args } = await hookTo(t, {
    on: ['failed', 'recovered', 'stale', 'fresh'],
    staleAfter: '1h',
  });
  const limits = AT_ONCE;
  const first = await serve(t, { limits });
  await check(first, false);
  await record(first, 'observation/quiet?event_time=2026-01-01T00:00:00Z');
  await check(first, false, '&partition=p');
  await first.stop();
  const { data } = first;
  const disk = openDisk(data);
  const { cursor } = await Cursor.open(disk, NAME);
  await cursor.save({ seq: 2, id: null, sending: undefined, kind: 'hook', to: 'x' });
  await cursor.close();
  const stale = { asset_key: ['quiet'], seq: 2, since: '2026-01-01T00:00:00.000Z', posted: true };
  writeFileSync(join(data, `forward-${NAME}.stale`), `${JSON.stringify(stale)}\n{"asset_key":["other"],"po`);
  const second = await serve(t, { data, args, limits });
  await eventually('what is new is posted', () => got.length === 1);
  assert.equal(JSON.parse(got[0]!.body).partition, 'p');
  await check(second, true);
  await record(second, 'observation/quiet');
  await eventually('the ends are posted', () => got.length === 4);
  assert.deepEqual(kindsOf(got.slice(1)).sort(), ['fresh', 'recovered', 'recovered']);
  await second.stop();
  const refused = await runHere(['forward', 'from', NAME, '--seq', '1', '--data', data]);
  assert.equal(refused.code, 2);
  assert.match(
    refused.stderr,
    /alarms is a hook with "on": it gets the start and the end of alarms, and has neither a position/,
  );
  for (const action of [['retry'], ['skip', '--seq', '1']])
    assert.equal((await runHere(['forward', action[0]!, NAME, ...action.slice(1), '--data', data])).code, 2);
  assert.equal((await forwardStatus(data, NAME)).state, 'not running');
  const text = readFileSync(join(data, toldName(NAME)), 'utf8');
  writeFileSync(join(data, toldName(NAME)), text.replace('1', '2'));
  write({ begin: 'now' });
  const third = await serve(t, { data, args, limits });
  await eventually('a warning', () => third.notices.some((line) => /is damaged, so the hook counts as new/.test(line)));
  await check(third, false);
  await eventually('it is posted', () => got.length === 5);
  rmSync(file);
});
