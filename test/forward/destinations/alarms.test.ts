/** Hooks with `on` of services over real sockets: what they get, also after a kill, at a slow pace and where nobody may read. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { forwardFile, forwardStatus, QUICK } from '../../support/forwarded.ts';
import { newFolder, type Scope, startService } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { serve, serveSimulated } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import type { Scripted } from '../../world/http.ts';
import { type Got, startScripted } from '../../world/http-server.ts';
import { systemError } from '../../world/simulated-disk.ts';

const NAME = 'alarms';
const limits = { ...QUICK, staleCheckMs: 20 };

const check = (service: { readonly url: string }, passed: boolean) =>
  record(service, `check/warehouse/orders?check_name=no_nulls&passed=${passed}`);

const seqsOf = (got: readonly Got[]) => got.map(({ body }) => JSON.parse(body).seq as number);

/** A server, and a file of destinations with a hook to it. */
async function hookTo(t: Scope, members: object, answer: (got: Got, count: number) => Scripted = () => [200, 'ok']) {
  const { url, got } = await startScripted(t, answer);
  const file = join(newFolder(t), 'forward.json');
  forwardFile(file, { name: NAME, to: `hook+${url}/alarms`, begin: 'now', on: ['changed', 'recovered'], ...members });
  return { got, args: ['--forward', file] };
}

test('a check that fails five times and then passes causes two posts with the result before, also with --no-read', async (t) => {
  const { got, args } = await hookTo(t, {});
  const service = await serve(t, { args: [...args, '--no-read'], limits });
  const all = [true, false, false, false, false, false, true, true];
  for (const [at, passed] of all.entries()) {
    await check(service, passed);
    if (at === 1) await eventually('the failure is posted', () => got.length === 1);
  }
  await eventually('the pass is posted', () => got.length === 2);
  const [failure, recovery] = got.map(({ body }) => JSON.parse(body));
  const { time, since, ...more } = { ...failure, since: failure.alarm.since };
  assert.deepEqual(
    [failure.alarm, time],
    [{ on: 'changed', since_seq: 2, since, in_a_row: 1, before: { ...failure.alarm.before } }, since],
  );
  assert.deepEqual([more.seq, more.check_name, more.passed], [2, 'no_nulls', false]);
  const { on, since_seq, before } = recovery.alarm;
  assert.deepEqual([on, since_seq, recovery.seq], ['recovered', 7, 7]);
  assert.deepEqual(before, { passed: false, since_seq: 2, since, in_a_row: 5 });
  assert.deepEqual([failure.alarm.before.passed, failure.alarm.before.in_a_row], [true, 1]);
  assert.equal(got[1]?.headers['idempotency-key'], `"hook/1/${recovery.id}"`);
});

test('what changes again while a hook waits for its turn or for an answer is not posted [alarm-2]', async (t) => {
  let isDown = false;
  const answer = (): Scripted => (isDown ? [503, 'later'] : [200, 'ok']);
  const { got, args } = await hookTo(t, { ratePerSecond: 2 }, answer);
  const service = await serve(t, { args, limits });
  await check(service, false);
  await eventually('the failure is posted', () => got.length === 1);
  await check(service, true); // waits for its turn
  await new Promise((resolve) => setTimeout(resolve, 100));
  await check(service, false);
  await eventually('the next failure is posted', () => got.length === 2);
  assert.deepEqual(seqsOf(got), [1, 3]);
  isDown = true;
  await check(service, true);
  await eventually('it is tried', () => got.length === 3);
  await check(service, false);
  isDown = false;
  await check(service, true);
  await eventually('the last one is posted', () => seqsOf(got).at(-1) === 6);
  assert.ok(!seqsOf(got).includes(5), `${seqsOf(got)}`);
});

test('after a kill a change is posted with the same key if it still holds, and is not posted again once it was', async (t) => {
  let status = 503;
  const { got, args } = await hookTo(t, {}, () => [status, '']);
  let service = await startService(t, { args });
  const { data } = service;
  const again = async () => {
    await service.kill('SIGKILL');
    service = await startService(t, { data, args });
  };
  for (const passed of [true, false, false]) await check(service, passed);
  await eventually('it is tried', () => got.length > 0);
  await again();
  status = 200;
  const isSettled = async () => (await forwardStatus(data, NAME)).lag_events === 0;
  await eventually('all is settled', isSettled);
  const keys = new Set(got.map(({ headers }) => headers['idempotency-key']));
  assert.deepEqual([[...new Set(seqsOf(got))], keys.size], [[2], 1]);
  const count = got.length;
  await again();
  await check(service, false);
  await check(service, true);
  await eventually('the recovery is posted', () => got.length > count);
  await eventually('all is settled', isSettled);
  assert.deepEqual(seqsOf(got.slice(count)), [5]);
  assert.equal(JSON.parse(got.at(-1)!.body).alarm.before.in_a_row, 3);
});

const STALE = { on: ['stale'], staleAfter: '300ms', only: { key_prefix: 'warehouse' } };

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const staleOf = (got: readonly Got[]) =>
  got.map(({ body, headers }) => {
    const { alarm, asset_key } = JSON.parse(body);
    return [alarm.on, asset_key.join('/'), alarm.since_seq, headers['idempotency-key']];
  });

test('a stale asset under a key is posted once, and again only after it had an event, also after a restart', async (t) => {
  const { got, args } = await hookTo(t, STALE);
  const service = await serve(t, { args, limits });
  await record(service, 'observation/other');
  await record(service, 'observation/warehouse/orders');
  const first = ['stale', 'warehouse/orders', 2, '"stale/2"'];
  await eventually('it is posted', () => got.length === 1);
  await pause(200);
  assert.deepEqual(staleOf(got), [first]);
  assert.ok(Date.parse(JSON.parse(got[0]!.body).alarm.since) > Date.now() - 60_000);
  await service.stop();
  const again = await serve(t, { data: service.data, args, limits });
  await pause(500);
  assert.deepEqual(staleOf(got), [first]);
  await check(again, false);
  await eventually('it is posted again', () => got.length === 2);
  await pause(100);
  assert.deepEqual(staleOf(got), [first, ['stale', 'warehouse/orders', 3, '"stale/3"']]);
});

test('a stale asset that a hook could not take is posted after a kill with the same key, unless it had an event [alarm-4]', async (t) => {
  let status = 503;
  const { got, args } = await hookTo(t, { ...STALE, staleAfter: '1s' }, () => [status, '']);
  const service = await startService(t, { args });
  await record(service, 'observation/warehouse/a');
  await record(service, 'observation/warehouse/b');
  await eventually('it is tried', () => got.length > 0, 20_000);
  await pause(300); // what it found is in the file
  await service.kill('SIGKILL');
  const again = await serve(t, { data: service.data, args: [...args], limits: { ...limits, staleCheckMs: 500 } });
  await record(again, 'observation/warehouse/b');
  const before = got.length;
  status = 200;
  await eventually('both are posted', () => got.length === before + 2);
  const keys = staleOf(got.slice(before)).map(([, , , key]) => key);
  assert.deepEqual(keys, ['"stale/1"', '"stale/3"']);
  assert.equal(got[0]?.headers['idempotency-key'], '"stale/1"');
});

test('a stale asset is not posted before it is noted, and a refusal or long failures end its posts [alarm-5]', async (t) => {
  const { got, args } = await hookTo(t, STALE, ({ body }) => [/refused/.test(body) ? 400 : 500, 'no']);
  const service = await serveSimulated(t, { args, limits: { ...limits, hookFailingMs: 100 } });
  let isFull = true;
  service.disk.fault = (call, name) =>
    isFull && call === 'write' && /stale/.test(name) ? systemError('ENOSPC') : undefined;
  await record(service, 'observation/warehouse/failed');
  await eventually('a warning', () => service.notices.some((line) => /stale assets could not be posted/.test(line)));
  await pause(100);
  assert.equal(got.length, 0);
  isFull = false;
  const told = () => service.notices.filter((line) => /is not told again/.test(line)).length;
  await eventually('it is given up', () => told() === 1);
  assert.ok(got.length > 1);
  const count = got.length;
  await record(service, 'observation/warehouse/refused');
  await eventually('the next one is refused', () => told() === 2);
  await pause(100);
  assert.equal(got.length, count + 1);
});
