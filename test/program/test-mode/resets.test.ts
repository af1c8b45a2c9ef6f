/** `serve --test`: a folder of its own, resets, and reports with unknown parameters. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { fault } from '../../support/faults.ts';
import { eventsIn, launch, newFolder, startService } from '../../support/program.ts';
import { serve } from '../../support/service.ts';
import { report, standIn, statusOf } from '../../support/stand-in.ts';
import { HANG_MS } from '../../support/tools.ts';
import { ask, errorOf, post } from '../../support/wire.ts';

test('a service for tests reports its mode, and removes its own folder when it stops', async (t) => {
  const { child, finished } = launch(['serve', '--test', '--port', '0'], { env: { ASSETLOG_DATA: '' } });
  t.after(() => child.kill('SIGKILL'));
  const [ready] = (await once(child.stdout as NonNullable<typeof child.stdout>, 'data')) as [string];
  const [, url = ''] = /^assetlog listening on (http:\/\/127\.0\.0\.1:\d+) \(test mode\)\n$/.exec(ready) ?? [];
  assert.notEqual(url, '', ready);
  assert.deepEqual(await (await fetch(`${url}/readyz`)).json(), { status: 'ok', mode: 'test' });
  await fetch(`${url}/report_asset_observation/a`, { method: 'POST' });
  child.kill('SIGTERM');
  const { code, stderr } = await finished;
  const [, data = ''] = /"data":"([^"]+)"/.exec(stderr) ?? [];
  assert.equal(code, 0, stderr);
  assert.match(data, /assetlog-/);
  assert.equal(existsSync(data), false);
});

test('--test keeps the folder of --data, and refuses --deployments and a journal that was made without --test', async (t) => {
  const data = newFolder(t);
  const first = await standIn(t, ['--test'], data);
  await first.call('POST', '/report_asset_observation/a');
  await first.kill();
  assert.equal(eventsIn(data).length, 1);
  const second = await standIn(t, ['--test'], data);
  assert.equal((await second.call('POST', '/report_asset_observation/b')).status, 200);
  assert.deepEqual(second.keys(), [['a'], ['b']]);
  await second.kill();

  const real = await startService(t);
  await fetch(`${real.url}/report_asset_observation/a`, { method: 'POST' });
  assert.equal((await fetch(`${real.url}/test/reset`, { method: 'POST' })).status, 404);
  await real.kill();
  const refused = await launch(['serve', '--port', '0', '--test', '--data', real.data]).finished;
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /a journal that was not made with --test/);
  assert.equal(eventsIn(real.data).length, 1);
  const hosted = await launch(['serve', '--test', '--deployments', 'file.json']).finished;
  assert.deepEqual([hosted.code, hosted.stderr.includes('--test has no --deployments')], [2, true]);
});

test('a reset restarts the journal, without faults and without known idempotency keys', async (t) => {
  const service = await standIn(t, ['--test', '--segment-bytes', '4096']);
  const keyed = async (key: string) => {
    const headers = { 'Idempotency-Key': key };
    const reply = await fetch(`${service.url}/report_asset_observation/${'k'.repeat(300)}`, {
      method: 'POST',
      headers,
    });
    return [reply.status, reply.headers.get('idempotent-replayed')];
  };
  for (let n = 0; n < 40; n += 1) assert.deepEqual(await keyed(`run/${n}`), [200, null]);
  assert.deepEqual(await keyed('run/1'), [200, 'true']);
  assert.ok(readdirSync(service.data).length > 3, 'several files');
  assert.equal(await statusOf(service, '/report_asset_check/a'), 400);
  assert.equal(((await service.call('GET', '/refusals')).json['refusals'] as unknown[]).length, 1);
  await service.faults(fault({}, { status: 503 }));
  assert.deepEqual(await service.call('POST', '/test/reset'), { status: 200, json: {} });
  assert.deepEqual(service.events(), []);
  const left = readdirSync(service.data).filter((name) => !name.startsWith('.lock-'));
  assert.deepEqual(left.sort(), ['.made-for-tests', 'events-00000000000000000001.jsonl']);
  assert.deepEqual((await service.call('GET', '/test/faults')).json['faults'], []);
  assert.deepEqual((await service.call('GET', '/refusals')).json, { refusals: [] });
  assert.deepEqual(await keyed('run/1'), [200, null]);
  assert.deepEqual(
    service.events().map(({ seq }) => seq),
    [1],
  );
  await service.kill();
  const verified = await launch(['verify', service.data]).finished;
  assert.equal(verified.code, 0, verified.stderr);
});

test('a reading after a reset has only the events recorded after it', async (t) => {
  const service = await standIn(t);
  const assets = async () => {
    const { assets } = (await service.call('GET', '/assets')).json as { assets: { asset_key: string[] }[] };
    return assets.map(({ asset_key }) => asset_key.join('/'));
  };
  const events = async () => (await (await fetch(`${service.url}/events`)).text()).split('\n').length - 1;
  for (const keys of [['a', 'b', 'c'], ['d'], [], ['e', 'f', 'g', 'h']]) {
    for (const key of keys) await service.call('POST', `/report_asset_observation/${key}`);
    assert.deepEqual([await assets(), await events()], [keys, keys.length]);
    await service.call('POST', '/test/reset');
    assert.deepEqual([await assets(), await events()], [[], 0]);
  }
});

test('reports that arrive during resets get 200, and all reports after the last reset are recorded', async (t) => {
  const { port, data } = await serve(t, { args: ['--test'], limits: { openWaitMs: HANG_MS } }); // also on a slow disk
  const statusAt = async (path: string) => (await ask(port, post(path))).status;
  const statuses: number[] = [];
  let resets = 0;
  const reporters = Array.from({ length: 4 }, async (_, n) => {
    for (let i = 0; resets < 12; i += 1) statuses.push(await statusAt(`/report_asset_observation/r/${n}/${i}`));
  });
  for (; resets < 12; resets += 2) {
    assert.deepEqual(await Promise.all([statusAt('/test/reset'), statusAt('/test/reset')]), [200, 200]);
  }
  await Promise.all(reporters);
  assert.ok(statuses.length > 12 && statuses.every((status) => status === 200), `${statuses}`);
  assert.equal(await statusAt('/test/reset'), 200);
  await Promise.all([1, 2, 3].map((n) => statusAt(`/report_asset_observation/after/${n}`)));
  assert.deepEqual(
    eventsIn(data).map(({ seq }) => seq),
    [1, 2, 3],
  );
});

test('--exit-with-stdin stops a service when its standard input is closed', async (t) => {
  const { child, finished } = launch(['serve', '--test', '--port', '0', '--exit-with-stdin'], { openInput: true });
  t.after(() => child.kill('SIGKILL'));
  const [ready] = (await once(child.stdout as NonNullable<typeof child.stdout>, 'data')) as [string];
  const port = Number(/:(\d+)/.exec(String(ready))?.[1]);
  const open = connect({ port, host: '127.0.0.1' });
  await once(open, 'connect');
  open.destroy();
  child.stdin?.end();
  const { code, stderr } = await finished;
  assert.equal(code, 0, stderr);
  assert.match(stderr, /standard input is closed/);
  const [, data = ''] = /"data":"([^"]+)"/.exec(stderr) ?? [];
  assert.equal(existsSync(join(data, 'events-00000000000000000001.jsonl')), false);
});

test('--strict refuses a report with an unknown parameter, and without it the parameter is ignored', async (t) => {
  for (const args of [['--strict'], ['--test']]) {
    const strict = await standIn(t, args);
    const reply = await report(strict, '/report_asset_observation/a?colour=red&partitoin=1');
    assert.ok(typeof reply !== 'string');
    assert.equal(reply.status, 400);
    assert.equal(errorOf(reply), 'a report of kind observation has no "partitoin"; did you mean partition?');
    assert.equal(await statusOf(strict, '/report_asset_observation', '{"asset_key":"a","uri":"x"}'), 400);
    assert.deepEqual(strict.events(), []);
  }
  const lenient = await standIn(t, []);
  assert.equal(await statusOf(lenient, '/report_asset_observation/a?colour=red'), 200);
});
