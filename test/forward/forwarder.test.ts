/** Forwarding of whole services: what an operator gives, and what arrives. */

import assert from 'node:assert/strict';
import { chmodSync, existsSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { newToken } from '../../src/deployments/tokens.ts';
import { startCuttingProxy, uncut } from '../support/cutting-proxy.ts';
import { entryOf, rewrite } from '../support/deployments.ts';
import {
  assertAtHub,
  deadLettersIn,
  forwardFile,
  forwardStatus,
  QUICK,
  startForwarding,
  stateIn,
} from '../support/forwarded.ts';
import { metricsOf, samplesOf } from '../support/metrics.ts';
import { eventsIn, newFolder, type Running, type Scope, startService } from '../support/program.ts';
import { named, ok, report } from '../support/report.ts';
import { serve } from '../support/service.ts';
import { eventually } from '../support/tools.ts';
import { listenOn, startScripted } from '../world/http-server.ts';
import { startPlainUpstream } from '../world/plain-server.ts';

/** The metrics of destinations, without what they all begin with. */
async function forwardMetricsOf(service: Running): Promise<Map<string, number>> {
  const samples = [...samplesOf(await metricsOf(service))];
  const prefix = 'assetlog_forward_';
  return new Map(
    samples.flatMap(([name, value]) => (name.startsWith(prefix) ? [[name.slice(prefix.length), value]] : [])),
  );
}

/** A server that takes requests and never answers. */
async function startHanging(t: Scope): Promise<{ url: string; requests: () => number }> {
  let requests = 0;
  const server = createServer(() => {
    requests += 1;
  });
  return { url: `http://127.0.0.1:${await listenOn(t, server)}`, requests: () => requests };
}

test('each deployment is forwarded to its own URL, with the token of the destination', async (t) => {
  const folder = newFolder(t);
  const own = { prod: newToken(), eu: newToken() };
  const [prod, eu] = [entryOf('prod', own.prod.token), entryOf('eu', own.eu.token)];
  const [hubFile, edgeFile] = [join(folder, 'hub.json'), join(folder, 'edge.json')];
  rewrite(hubFile, prod, eu);
  rewrite(edgeFile, prod);
  writeFileSync(join(folder, 'prod.token'), own.prod.token);
  writeFileSync(join(folder, 'eu.token'), own.eu.token);
  const hub = await startService(t, { args: ['--deployments', hubFile] });
  const file = join(folder, 'forward.json');
  forwardFile(
    file,
    { name: 'a', to: `${hub.url}/{deployment}`, deployments: ['prod'], tokenFile: 'prod.token' },
    { name: 'b', to: `${hub.url}/{deployment}`, deployments: ['eu'], tokenFile: 'eu.token' },
  );
  let edge = await startService(t, { args: ['--deployments', edgeFile, '--forward', file] });
  const headers = (name: 'prod' | 'eu') => ({ 'Service-Cloud-Api-Token': own[name].token });
  assert.deepEqual(await report({ url: `${edge.url}/prod` }, named('p', 5), headers('prod')), ok(5));
  const hasAll = (name: string, count: number) => () =>
    existsSync(join(hub.data, name)) && eventsIn(join(hub.data, name)).length === count;
  await eventually('the events of prod', hasAll('prod', 5));
  assert.match(edge.stderr(), /lists unknown deployments","names":"eu \(destination b\)"/);
  // A deployment that is added is forwarded as well, also what was recorded before a restart.
  rewrite(edgeFile, prod, eu);
  process.kill(edge.pid, 'SIGHUP');
  await eventually('eu', async () => (await report({ url: `${edge.url}/eu` }, ['first'], headers('eu')))[0] === 200);
  await eventually('the event of eu', hasAll('eu', 1));
  await edge.kill('SIGKILL');
  edge = await startService(t, { data: edge.data, args: ['--deployments', edgeFile] });
  assert.deepEqual(await report({ url: `${edge.url}/eu` }, named('e', 3), headers('eu')), ok(3));
  await edge.kill();
  await startService(t, { data: edge.data, args: ['--deployments', edgeFile, '--forward', file] });
  await eventually('what was recorded meanwhile, without a report that opens the journal', hasAll('eu', 4));
  for (const name of ['prod', 'eu']) assertAtHub(join(hub.data, name), join(edge.data, name));
});

test('the file adds, changes and removes destinations, and a reload keeps every cursor', async (t) => {
  const folder = newFolder(t);
  const file = join(folder, 'forward.json');
  const [one, other] = [await startPlainUpstream(t), await startPlainUpstream(t)];
  const keys = ({ events }: { events: readonly { key: readonly string[] }[] }) =>
    events.map(({ key }) => key.join('/'));
  forwardFile(file);
  chmodSync(file, 0o666);
  const edge = await startService(t, { args: ['--forward', file] });
  assert.match(edge.stderr(), /every user of this machine may write to the file of --forward, and so decide where/);
  assert.deepEqual(await report(edge, named('a', 3)), ok(3));
  assert.deepEqual(
    readdirSync(edge.data).filter((name) => /forward|journal-id/.test(name)),
    [],
  );
  const reload = () => process.kill(edge.pid, 'SIGHUP');
  forwardFile(file, { name: 'x', to: one.url });
  reload();
  await eventually('the first events', () => one.events.length === 3);
  forwardFile(file, { name: 'x', to: other.url });
  reload();
  await eventually('the changed destination', () => /has another URL/.test(edge.stderr()));
  assert.deepEqual(await report(edge, ['b']), [200]);
  await eventually('the next event', () => other.events.length === 1);
  forwardFile(file);
  reload();
  await eventually('the end', () => /"count":0/.test(edge.stderr()));
  await eventually('it is shown as gone', async () => (await forwardStatus(edge.data, 'x')).state === 'not forwarded');
  assert.deepEqual(await report(edge, ['d']), [200]);
  forwardFile(file, { name: 'x', to: one.url }, { name: 'new', to: other.url, begin: 'now' });
  reload();
  await eventually('what was missed', () => one.events.length === 4);
  await eventually('the new one', () => stateIn(edge.data, 'new')?.['state'] === 'idle');
  assert.deepEqual(await report(edge, ['e']), [200]);
  await eventually('both', () => one.events.length === 5 && other.events.length === 2);
  assert.deepEqual(
    [keys(one), keys(other)],
    [
      ['a0', 'a1', 'a2', 'd', 'e'],
      ['b', 'e'],
    ],
  );
  assert.equal((await edge.kill()).code, 0);
});

test('a destination that hangs delays no other one and no report, and a stop waits 5 s for it', async (t) => {
  const [hanging, good] = [await startHanging(t), await startPlainUpstream(t)];
  const { edge } = await startForwarding(t, { name: 'hanging', to: hanging.url }, { name: 'good', to: good.url });
  assert.deepEqual(await report(edge, named('a', 30)), ok(30));
  await eventually('the good one', () => good.events.length === 30);
  await eventually('a request to the other one', () => hanging.requests() > 0);
  const recorded = 'events_total{destination="good",outcome="recorded"}';
  await eventually('its replies', async () => (await forwardMetricsOf(edge)).get(recorded) === 30);
  const metrics = await forwardMetricsOf(edge);
  assert.deepEqual(
    ['hanging', 'good'].map((name) => metrics.get(`lag_events{destination="${name}"}`)),
    [30, 0],
  );
  assert.equal(metrics.get(recorded), 30);
  const heldBy = async (name: string) => (await forwardMetricsOf(edge)).get(`held_bytes{destination="${name}"}`) ?? -1;
  await eventually('the size of what is held', async () => (await heldBy('hanging')) > 1_000); // looked up once a second
  assert.equal(await heldBy('good'), 0);
  const beganMs = performance.now();
  const { code, stderr } = await edge.kill();
  const tookMs = performance.now() - beganMs;
  assert.deepEqual([code, tookMs > 4_000 && tookMs < 20_000], [0, true], `${tookMs} ms: ${stderr}`);
  assert.doesNotMatch(stderr, /forwarding did not end/);
});

test('a changed destination starts after the request of the one before it has ended', async (t) => {
  const upstream = await startPlainUpstream(t);
  upstream.delayMs = 1_500;
  const other = await startCuttingProxy(t, upstream.port, () => uncut);
  const { file, edge } = await startForwarding(t, { name: 'x', to: other.url });
  assert.deepEqual(await report(edge, ['a']), [200]);
  await eventually('a request on its way', () => other.sent().includes('POST'));
  const sentMs = performance.now();
  forwardFile(file, { name: 'x', to: upstream.url });
  process.kill(edge.pid, 'SIGHUP');
  await eventually('the change', () => /the destinations were read again/.test(edge.stderr()));
  upstream.delayMs = 0;
  assert.deepEqual(await report(edge, ['b']), [200]);
  await eventually('the second event', () => upstream.events.some(({ key }) => key[0] === 'b'));
  assert.deepEqual([upstream.events.map(({ key }) => key[0]), deadLettersIn(edge.data, 'x')], [['a', 'b'], []]);
  assert.ok(performance.now() - sentMs > 1_400, 'the first request was answered before');
});

test('each of 64 destinations gets each event', async (t) => {
  const { url: to, got } = await startScripted(t, ({ method }) => (method === 'GET' ? [404, 'no hub'] : [200, '{}']));
  const { edge } = await startForwarding(t, ...named('d', 64).map((name) => ({ name, to })));
  assert.deepEqual(await report(edge, named('a', 5)), ok(5));
  await eventually('each event at each', () => got.filter(({ method }) => method === 'POST').length === 64 * 5);
  const metrics = await forwardMetricsOf(edge);
  assert.equal(metrics.get('state{destination="d63",state="idle"}'), 1);
  assert.equal((await edge.kill()).code, 0);
});

test('SIGHUP makes a stopped destination try again', async (t) => {
  const upstream = await startPlainUpstream(t);
  let isOpen = false;
  upstream.answer = () => (isOpen ? undefined : [401, '{"error":"no token"}']);
  const limits = { ...QUICK, forwardStoppedMs: 3_600_000 };
  const edge = await serve(t, { args: ['--forward-to', upstream.url], limits });
  assert.deepEqual(await report(edge, ['a']), [200]);
  await eventually('it is stopped', () => stateIn(edge.data)?.['state'] === 'stopped');
  assert.equal((await fetch(`${edge.url}/readyz`)).status, 200, 'a stopped destination does not make it unready');
  isOpen = true;
  await edge.reload();
  await eventually('the event', () => upstream.events.length === 1);
});

test('the metrics have a series for each state, the last success, and the refused events of a destination', async (t) => {
  const upstream = await startPlainUpstream(t);
  upstream.answer = ({ key }) => (key[0] === 'b' ? [400, '{"error":"no"}'] : undefined);
  const edge = await startService(t, { args: ['--forward-to', upstream.url] });
  assert.deepEqual(await report(edge, ['a', 'b', 'c']), ok(3));
  await eventually('it is idle', async () => {
    const { state, lag_events } = await forwardStatus(edge.data);
    return state === 'idle' && lag_events === 0;
  });
  const metrics = await forwardMetricsOf(edge);
  assert.equal(metrics.get('dead_letters{destination="upstream"}'), 1);
  assert.equal(metrics.get('events_total{destination="upstream",outcome="refused"}'), 1);
  const states = ['asking', 'idle', 'sending', 'suspect', 'waiting', 'stopped'];
  assert.deepEqual(
    states.map((state) => metrics.get(`state{destination="upstream",state="${state}"}`)),
    [0, 1, 0, 0, 0, 0],
  );
  const success = metrics.get('last_success_timestamp_seconds{destination="upstream"}') ?? 0;
  assert.ok(Math.abs(success - Date.now() / 1000) < 60, `${success}`);
});
