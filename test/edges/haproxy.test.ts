/** The HAProxy file of the handbook, word for word: restarts lose and double nothing, and a token has a limit of its own. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { writeDeployments } from '../support/deployments.ts';
import { haproxyFile, startHaproxy, withoutHaproxy } from '../support/haproxy.ts';
import { recommendedArgs, replaced } from '../support/nginx.ts';
import { eventsIn, freePort, newFolder, type Running, startService } from '../support/program.ts';
import { agentFor, ask, assertPassages, bodyOf, ENDPOINT, startLoad } from '../support/proxied.ts';

const skip = withoutHaproxy;

test('three restarts and a kill under load lose none of the reports that are sent once, and double none', {
  skip,
}, async (t) => {
  const [data, port] = [newFolder(t), await freePort(t)];
  let service = await startBehindProxy(t, data, port);
  const proxy = await startHaproxy(t, port);
  const load = startLoad(proxy, agentFor(t, proxy, 48), 48);
  for (const signal of ['SIGTERM', 'SIGTERM', 'SIGTERM', 'SIGKILL'] as const) {
    await load.goesOn(500);
    await service.kill(signal);
    service = await startBehindProxy(t, data, port);
  }
  await load.goesOn(500);
  await load.stop();
  assert.deepEqual([...load.statuses.keys()], [200]);
  const keys = service.events().map((event) => String(event['asset_key']));
  assert.deepEqual(keys.sort(), [...load.acknowledged].sort());
  t.diagnostic(`${keys.length} reports`);
});

test('a report that the service breaks off is sent again, and recorded once', { skip }, async (t) => {
  const service = await startService(t, { args: [...recommendedArgs, '--test'] });
  const set = await fetch(`${service.url}/test/faults`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/json' },
    body: `{"faults": [{"match": {"asset_key": ["reset"]}, "times": 3, "then": {"drop": "request"}},
      {"match": {"asset_key": ["lost"]}, "times": 1, "then": {"drop": "reply"}}]}`,
  });
  assert.equal(set.status, 200);
  const proxy = await startHaproxy(t, service.port);
  const agent = agentFor(t, proxy, 1);
  for (const [key, headers] of [
    ['reset', {}],
    ['lost', {}],
    ['own', { 'Idempotency-Key': 'load-17' }],
  ] as const) {
    for (const chunked of [true, false]) {
      const asked = { path: ENDPOINT + key, headers, body: bodyOf(60_000), chunked };
      assert.equal((await ask(proxy, { agent, ...asked })).status, 200, key);
    }
  }
  const keys = service.events().map((event) => [String(event['asset_key']), event['idempotency_key']]);
  assert.deepEqual(
    keys.map(([key]) => key),
    ['reset', 'reset', 'lost', 'lost', 'own'],
  );
  assert.deepEqual([new Set(keys.map(([, key]) => key)).size, keys.at(-1)?.[1]], [5, 'load-17']);
});

test('requests that reach the service through the proxy', { skip }, async (t) => {
  const service = await startBehindProxy(t);
  const proxy = await startHaproxy(t, service.port);
  await assertPassages(t, proxy, service);
  const agent = agentFor(t, proxy, 1);
  for (const path of ['/metrics', '/readyz', '/metrics?a', '//metrics', '/./readyz', '/m%65trics']) {
    const { status } = await ask(proxy, { agent, method: 'GET', path });
    assert.ok([403, 404].includes(status), `${path}: ${status}`);
  }
});

test('a token has its limit of requests, in whatever header it is, and others are not limited by it', {
  skip,
}, async (t) => {
  const { args, tokenOf } = writeDeployments(t, ['prod', 'test']);
  const service = await startService(t, { args: [...recommendedArgs, ...args] });
  const proxy = await startHaproxy(t, service.port, replaced(haproxyFile, 'gt 1000 }', 'gt 20 }'));
  const agent = agentFor(t, proxy, 1);
  const report = (name: string, headers: Record<string, string>) =>
    ask(proxy, { agent, path: `/${name}${ENDPOINT}a`, headers });
  const forms = [
    { 'Service-Cloud-Api-Token': tokenOf('prod') },
    { 'Dagster-Cloud-Api-Token': tokenOf('prod') },
    { Authorization: `Bearer ${tokenOf('prod')}` },
    { 'Service-Cloud-Api-Token': tokenOf('prod'), Authorization: 'Bearer other' },
  ];
  for (let count = 0; count < 20; count += 1) {
    assert.equal((await report('prod', forms[count % forms.length]!)).status, 200);
  }
  for (const headers of forms) {
    const { status, type, body } = await report('prod', headers);
    assert.deepEqual([status, type], [429, 'application/json']);
    assert.match(JSON.parse(body).error, /^this token sent more than 1000 requests in 10 s; /);
  }
  assert.equal((await report('test', { 'Service-Cloud-Api-Token': tokenOf('test') })).status, 200);
  assert.equal((await report('test', {})).status, 401);
  assert.equal(eventsIn(join(service.data, 'prod')).length, 20);
});

test('the file names the options of the service, and admits fewer requests at once than they do', () => {
  assert.ok(haproxyFile.includes(`# assetlog serve ${recommendedArgs.join(' ')}\n`));
  const [waitingAt, cap] = [Number(/ maxconn (\d+) +# /.exec(haproxyFile)?.[1]), Number(recommendedArgs.at(-1))];
  assert.ok(waitingAt < cap, `${waitingAt} of ${cap}`);
  const seconds = Number(/^ +retries (\d+)$/m.exec(haproxyFile)?.[1]); // one each second
  assert.ok(seconds * 1000 > limits.drainMs + limits.lastSyncMs + limits.lastCallMs + limits.openWaitMs);
});

function startBehindProxy(t: TestContext, data = newFolder(t), port = 0): Promise<Running> {
  return startService(t, { data, args: [...recommendedArgs, '--port', String(port)] });
}
