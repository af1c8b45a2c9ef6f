/** `serve --test`: faults, resets, a folder of its own. What the client saw and what the journal has are compared. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventsIn, launch, newFolder, type Running, type Scope, startService } from '../support/program.ts';
import { errorOf, post, Wire, type WireReply } from '../support/wire.ts';

const JSON_HEAD = { 'Content-Type': 'application/json' };

interface StandIn extends Running {
  /** What the service answers, as JSON. */
  call(method: string, path: string, body?: unknown): Promise<{ status: number; json: Record<string, unknown> }>;
  faults(...faults: readonly object[]): Promise<void>;
  /** How many reports each fault met. */
  met(): Promise<number[]>;
  keys(): unknown[];
}

/** @param effect the member `then`, which a linter takes for that of a promise */
function fault(match: object, effect: object, more: object = {}): object {
  return { match, ...more, ...Object.fromEntries([['then', effect]]) };
}

async function standIn(t: Scope, args: readonly string[] = ['--test'], data = newFolder(t)): Promise<StandIn> {
  const service = await startService(t, { args, data });
  const call = async (method: string, path: string, body?: unknown) => {
    const sent = body === undefined ? {} : { headers: JSON_HEAD, body: JSON.stringify(body) };
    const reply = await fetch(`${service.url}${path}`, { method, ...sent });
    return { status: reply.status, json: (await reply.json()) as Record<string, unknown> };
  };
  return {
    ...service,
    call,
    faults: async (...faults) => {
      const { status, json } = await call('PUT', '/test/faults', { seed: 7, faults });
      assert.equal(status, 200, JSON.stringify(json));
    },
    met: async () => {
      const { json } = await call('GET', '/test/faults');
      return (json['faults'] as { met: number }[]).map(({ met }) => met);
    },
    keys: () => service.events().map((event) => event['asset_key']),
  };
}

/** Reports on a connection of its own. @returns the reply, or what became of the connection */
async function report(service: Running, target: string, body?: string): Promise<WireReply | 'reset' | 'closed'> {
  const wire = await Wire.open(service.port);
  let isReset = false;
  wire.socket.on('error', ({ code }: NodeJS.ErrnoException) => {
    isReset = code === 'ECONNRESET';
  });
  wire.send(post(target, body));
  const reply = await wire.reply();
  wire.close();
  return reply ?? (isReset ? 'reset' : 'closed');
}

async function statusOf(service: Running, target: string, body?: string): Promise<number | string> {
  const reply = await report(service, target, body);
  return typeof reply === 'string' ? reply : reply.status;
}

test('a service for tests names its mode, and has a folder of its own that goes with it', async (t) => {
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

test('--test keeps the folder of --data, and refuses one whose journal it did not make, and --deployments', async (t) => {
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

test('a reset begins the journal anew, without faults and without what was known of keys', async (t) => {
  const service = await standIn(t, ['--test', '--segment-bytes', '4096']);
  const keyed = async (key: string) => {
    const headers = { ...JSON_HEAD, 'Idempotency-Key': key };
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

test('reports that arrive during resets are all answered 200, and those after the last reset are recorded', async (t) => {
  const service = await standIn(t);
  const statuses: (number | string)[] = [];
  let resets = 0;
  const reporters = Array.from({ length: 4 }, async (_, n) => {
    for (let i = 0; resets < 12; i += 1)
      statuses.push(await statusOf(service, `/report_asset_observation/r/${n}/${i}`));
  });
  for (; resets < 12; resets += 2) {
    const pair = await Promise.all([service.call('POST', '/test/reset'), service.call('POST', '/test/reset')]);
    assert.deepEqual(
      pair.map(({ status }) => status),
      [200, 200],
    );
  }
  await Promise.all(reporters);
  assert.ok(statuses.length > 12 && statuses.every((status) => status === 200), `${statuses}`);
  assert.equal((await service.call('POST', '/test/reset')).status, 200);
  await Promise.all([1, 2, 3].map((n) => service.call('POST', `/report_asset_observation/after/${n}`)));
  assert.deepEqual(
    service.events().map(({ seq }) => seq),
    [1, 2, 3],
  );
});

test('a fault meets the reports that match, as often as it says, and leaves readings alone', async (t) => {
  const service = await standIn(t);
  await service.faults(
    fault({ type: 'check', asset_key: ['warehouse', 'orders'] }, { status: 503, retry_after: 4 }, { times: 2 }),
    fault({ partition: null, method: 'POST' }, { status: 429, body: { slow: 'down' } }, { after: 1 }),
    fault({ check_name: 'fresh' }, { status: 502, html: true }),
  );
  const check = '/report_asset_check/warehouse/orders?passed=true&check_name=';
  const first = await report(service, `${check}no_nulls`);
  assert.ok(typeof first !== 'string');
  assert.deepEqual([first.status, first.headers.get('retry-after')], [503, '4']);
  assert.match(errorOf(first), /set to answer 503/);
  assert.equal(await statusOf(service, `${check}no_nulls&partition=p`), 503);
  assert.equal(await statusOf(service, `${check}no_nulls`), 200, 'used up, and the first of the second');
  const third = await report(service, `${check}no_nulls`);
  assert.ok(typeof third !== 'string');
  assert.deepEqual([third.status, third.body], [429, '{"slow":"down"}']);
  const fourth = await report(service, `${check}fresh&partition=p`);
  assert.ok(typeof fourth !== 'string');
  assert.deepEqual([fourth.status, fourth.headers.get('content-type')], [502, 'text/html']);
  assert.match(fourth.body, /<h1>502/);
  assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
  assert.equal(await statusOf(service, '/report_asset_check/a'), 400, 'not a report');
  assert.deepEqual(await service.met(), [2, 1, 1]);
  assert.equal(service.events().length, 1);
  assert.equal(service.stderr().match(/"message":"a report met a fault"/g)?.length, 4);
  assert.equal((await service.call('DELETE', '/test/faults')).status, 200);
  assert.equal(await statusOf(service, `${check}fresh&partition=p`), 200);
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
