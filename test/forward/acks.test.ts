/** `--ack`: no 200 before the destination has the events too, and nothing is recorded while it lacks earlier ones. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Limits, limits } from '../../src/config/limits.ts';
import { newToken } from '../../src/deployments/tokens.ts';
import { Acks } from '../../src/forward/acks.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { entryOf, host, rewrite } from '../support/deployments.ts';
import { deadLettersIn, QUICK, stateIn } from '../support/forwarded.ts';
import { metricsOf, samplesOf } from '../support/metrics.ts';
import { eventsIn, newFolder, type Scope } from '../support/program.ts';
import { report, reportLines, reportOne } from '../support/report.ts';
import { type Served, serve, serveSimulated } from '../support/service.ts';
import { eventually } from '../support/tools.ts';
import { hold } from '../world/gate.ts';
import type { Scripted } from '../world/http.ts';
import { startScripted } from '../world/http-server.ts';
import { startPlainUpstream } from '../world/plain-server.ts';
import { type SimulatedDisk, systemError } from '../world/simulated-disk.ts';

/** A device that waits for its hub. */
async function acknowledged(t: Scope, to: string, limits: Partial<Limits> = {}, data = newFolder(t)): Promise<Served> {
  return serve(t, {
    data,
    args: ['--forward-to', to, '--ack', 'upstream'],
    limits: { ...QUICK, forwardStoppedMs: 50, ...limits },
  });
}

async function readiness({ url }: { readonly url: string }) {
  const reply = await fetch(`${url}/readyz`);
  return { status: reply.status, body: await reply.text() };
}

const isReady = async (service: { readonly url: string }) => (await readiness(service)).status === 200;
const whenReady = (service: { readonly url: string }) => eventually('it is ready', () => isReady(service));

/** A hub on a disk that can hold its calls, and a device that is ready. */
async function pair(t: Scope, limits: Partial<Limits> = {}) {
  const hub = await serveSimulated(t);
  const device = await acknowledged(t, hub.url, limits);
  await whenReady(device);
  return { hub, device };
}

/** The assets of the events that are durable at a hub. */
function durableAt(disk: SimulatedDisk): string[] {
  const files = disk.durableNames().filter((name) => name.startsWith('events-'));
  const lines = files.flatMap((name) => `${disk.durableBytes(name)}`.split('\n').slice(0, -1));
  return lines.map((line) => JSON.parse(line).asset_key[0]);
}

test('no 200 is sent before the destination has the events on its disk [ack-1]', async (t) => {
  const { hub, device } = await pair(t);
  const key = { 'Idempotency-Key': 'k' };
  assert.deepEqual(await report(device, ['first'], key), [200]);
  const letGo = hold(hub.disk, 'sync');
  const item = (name: string) => ({ type: 'AssetObservation', asset_key: name });
  const batch = (items: readonly object[], headers = {}) =>
    reportLines(device, items, headers).then(({ status }) => status);
  const sent = [
    report(device, ['one']).then(([status]) => status),
    batch([item('two'), item('three')]),
    batch([item('four'), {}], { Prefer: 'handling=lenient' }),
    report(device, ['keyed'], { 'Idempotency-Key': 'l' }).then(([status]) => status),
  ];
  await eventually('all are on the disk of the device', () => eventsIn(device.data).length === 6);
  await sleep(100); // synced: a report that repeats a key finds it in its line
  const replayed = report(device, ['keyed'], { 'Idempotency-Key': 'l' }).then(([status]) => status);
  const figure = async (name: string) => samplesOf(await metricsOf(device)).get(`assetlog_ack_${name}`);
  await eventually('all wait', async () => (await figure('waiting')) === 5);
  let replies = 0;
  for (const one of [...sent, replayed]) void one.then(() => (replies += 1));
  await sleep(150);
  assert.equal(replies, 0, 'a reply left before the events are at the hub');
  assert.deepEqual(await report(device, ['first'], key), [200], 'what is there is acknowledged at once');
  assert.equal((await reportOne(device, 'check/x')).status, 400, 'a wrong report waits for nothing');
  assert.equal((await reportOne(device, 'observation/other', { headers: key })).status, 422);
  letGo();
  assert.deepEqual(await Promise.all([...sent, replayed]), [200, 200, 207, 200, 200]);
  assert.deepEqual([await figure('waiting'), await figure('seconds_count')], [0, 7]);
  assert.deepEqual(durableAt(hub.disk).sort(), ['first', 'four', 'keyed', 'one', 'three', 'two']);
});

test('with --ack to a plain destination reports get 503, and the service is not ready', async (t) => {
  const upstream = await startPlainUpstream(t);
  const device = await acknowledged(t, upstream.url);
  await eventually('it is stopped', () => stateIn(device.data)?.['why'] === 'not understood');
  assert.match(
    `${stateIn(device.data)?.['reason']}`,
    /does not report which events it has.*--ack upstream requires that/,
  );
  assert.deepEqual([await report(device, ['a']), await isReady(device)], [[503], false]);
  await device.stop();
  // One whose cursor says that it was sent to before.
  const data = newFolder(t);
  const before = await serve(t, { data, args: ['--forward-to', upstream.url], limits: QUICK });
  assert.deepEqual(await report(before, ['b']), [200]);
  await eventually('it is there', () => upstream.events.length === 1);
  await before.stop();
  const again = await acknowledged(t, upstream.url, {}, data);
  await eventually('it is stopped again', () => stateIn(data)?.['why'] === 'not understood');
  assert.deepEqual([await report(again, ['c']), await isReady(again)], [[503], false]);
});

test('an answer that asks for a pause of an hour, or refuses the token, stops reports for at most 5 s', async (t) => {
  const answers: Scripted[] = [];
  let position = '{"seq":0,"id":null}';
  const { url } = await startScripted(t, ({ method, body }) => {
    if (method !== 'PUT') return [200, position];
    const { seq, id } = JSON.parse(body.trimEnd().split('\n').at(-1)!);
    const answer = answers.shift();
    if (answer === undefined) position = JSON.stringify({ seq, id });
    return answer ?? [200, position];
  });
  const device = await acknowledged(t, url, { forwardStoppedMs: 60_000 });
  await whenReady(device);
  const anHour = { 'Retry-After': '3600' };
  for (const answer of [
    [503, '', anHour],
    [429, '', anHour],
    [408, '', anHour],
    [401, ''],
    [403, ''],
  ] as const) {
    answers.push(answer);
    await report(device, ['a']);
    await eventually(`reports are recorded again after ${answer[0]}`, () => isReady(device));
    assert.equal(answers.length, 0);
  }
});

test('a report gets its 503 with the reason at once when the hub rejects the token of the device', async (t) => {
  const hub = await host(t, ['prod']);
  const file = join(newFolder(t), 'token');
  writeFileSync(file, hub.tokenOf('prod'), { mode: 0o600 });
  const args = ['--forward-to', `${hub.url}/prod`, '--forward-token-file', file, '--ack', 'upstream'];
  const device = await serve(t, { args, limits: { ...QUICK, ackMs: 60_000 } });
  await whenReady(device);
  rewrite(hub.file, entryOf('prod', newToken().token));
  await eventually('the token is refused', async () => (await hub.report('prod')).status === 401);
  const { status, body } = await reportOne(device, 'observation/a');
  assert.equal(status, 503);
  assert.match(body, /recorded here, not yet at upstream: forwarding is stopped; it will still be forwarded/);
  const refused = /not recorded: upstream must have each event too, and forwarding is stopped; send/;
  assert.match((await reportOne(device, 'observation/b')).body, refused);
  assert.match((await readiness(device)).body, refused);
});

test('--ack to a destination with few requests a second is a warning at the start', async (t) => {
  const slow = await acknowledged(t, 'clickhouse+http://127.0.0.1:1/assets.events');
  assert.match(slow.notices.join(), /each report waits for the next request .*"requests_per_second":1/);
  const quick = await acknowledged(t, 'nats://127.0.0.1:1/ASSETLOG');
  assert.doesNotMatch(quick.notices.join(), /each report waits/);
});

test('a stop waits for acknowledgements, but not beyond its limit', async (t) => {
  const { hub, device } = await pair(t, { forwardStopMs: 60_000 });
  let letGo = hold(hub.disk, 'sync');
  const replied = report(device, ['a']);
  await eventually('it is recorded', () => eventsIn(device.data).length === 1);
  const stopped = device.stop();
  await sleep(50);
  letGo();
  assert.deepEqual(await replied, [200]);
  await stopped;
  const next = await acknowledged(t, hub.url, { forwardStopMs: 200 }, device.data);
  await whenReady(next);
  letGo = hold(hub.disk, 'sync');
  const late = reportOne(next, 'observation/b');
  await eventually('the next one is recorded', () => eventsIn(next.data).length === 2);
  const ended = next.stop();
  const { status, body } = await late;
  assert.equal(status, 503);
  assert.match(body, /recorded here, not yet at upstream/);
  letGo();
  await ended;
});

test('when the disk fails a waiting report gets its 503 before the service ends', async (t) => {
  const hub = await serveSimulated(t);
  const limits = { ...QUICK, lastRepliesMs: 4_000, forwardStopMs: 60_000 };
  const device = await serveSimulated(t, { args: ['--forward-to', hub.url, '--ack', 'upstream'], limits });
  await whenReady(device);
  const letGo = hold(hub.disk, 'sync');
  let isOver = false;
  const waiting = reportOne(device, 'observation/a').then((reply) => ({ ...reply, isOver }));
  await eventually('it is recorded', () => durableAt(device.disk).length === 1);
  device.disk.fault = (call, name) => {
    isOver ||= call === 'close' && name.startsWith('forward-');
    return call === 'sync' && name.startsWith('events-') ? systemError('EIO') : undefined;
  };
  assert.equal((await reportOne(device, 'observation/b')).status, 503);
  const { status, body, isOver: isLate } = await waiting;
  assert.deepEqual([status, isLate], [503, false]);
  assert.match(body, /recorded here, not yet at upstream/);
  letGo();
});

test('a report whose event the destination refuses gets no 200, and later reports do', async (t) => {
  const hub = await serve(t, { limits: { forwardBodyBytesMax: 4096, forwardUploadBytesMax: 4096 } });
  const device = await acknowledged(t, hub.url);
  await whenReady(device);
  assert.deepEqual(await report(device, ['before'], { 'Idempotency-Key': 'before' }), [200]);
  const large = { description: 'x'.repeat(8192) };
  const headers = { 'Idempotency-Key': 'large' };
  const one = await reportOne(device, 'observation/large', { body: large, headers });
  assert.equal(one.status, 503, one.body);
  assert.match(one.body, /recorded here, and upstream does not accept it; .* assetlog forward dead upstream/);
  assert.deepEqual(await report(device, ['small']), [200], 'the next one passes');
  assert.equal((await reportOne(device, 'observation/large', { body: large, headers })).status, 503, 'a replay');
  const items = ['before', 'after'].map((name) => {
    return { type: 'observation', asset_key: [name], idempotency_key: name };
  });
  assert.equal((await reportLines(device, items)).body, '{"recorded":2,"duplicates":1}', 'it is between the two');
  assert.equal(deadLettersIn(device.data).length, 1);
  await device.stop();
  const again = await acknowledged(t, hub.url, {}, device.data);
  await whenReady(again);
  assert.equal((await reportOne(again, 'observation/large', { body: large, headers })).status, 503, 'after a restart');
});

test('in hosted mode reports get 503 only for the deployment whose destination does not acknowledge', async (t) => {
  const hub = await serve(t, { args: ['--path-prefix', '/prod'] });
  const args = ['--forward-to', `http://127.0.0.1:${hub.port}/{deployment}`, '--ack', 'upstream'];
  const device = await host(t, ['prod', 'test'], { args, limits: { ...QUICK, ackMs: 5_000 } });
  const degraded = () => readiness(device);
  await eventually('prod is ready', async () => (await degraded()).status === 200);
  assert.match((await degraded()).body, /^{"status":"degraded","deployments":{"test":"not recorded: upstream[^"]*"}}$/);
  assert.deepEqual([(await device.report('prod')).status, (await device.report('test')).status], [200, 503]);
  assert.equal(samplesOf(await metricsOf(device)).get('assetlog_deployments_in_trouble'), 1);
  await hub.stop();
  assert.equal((await device.report('prod')).status, 503);
  assert.equal((await degraded()).status, 503, 'all are behind');
});

test('--ack is refused if its destination does not take every deployment, at the start and at a reload', async (t) => {
  const folder = newFolder(t);
  const file = join(folder, 'forward.json');
  const write = (...destinations: object[]) => writeFileSync(file, JSON.stringify({ destinations }));
  const hub = await serve(t);
  write({ name: 'hub', to: hub.url });
  const args = ['--forward', file, '--ack', 'hub'];
  await assert.rejects(
    serve(t, { args: [...args.slice(0, 2), '--ack', 'other'] }),
    /no destination other, which --ack/,
  );
  await assert.rejects(
    serve(t, { args: ['--forward-to', hub.url, '--ack', 'hub'] }),
    /that of --forward-to is upstream/,
  );
  const device = await serve(t, { args, limits: QUICK });
  await whenReady(device);
  write({ name: 'another', to: hub.url });
  await device.reload();
  assert.ok(device.notices.some((line) => line.includes('no destination hub, which --ack names')));
  assert.deepEqual(await report(device, ['a']), [200], 'what was read before stays in effect');
});

test('a deployment added without the destination of --ack is logged as the reason for the 503 of its reports', async (t) => {
  const file = join(newFolder(t), 'forward.json');
  const to = 'http://127.0.0.1:1/{deployment}';
  writeFileSync(file, JSON.stringify({ destinations: [{ name: 'hub', to, deployments: ['prod'] }] }));
  const device = await host(t, ['prod'], { args: ['--forward', file, '--ack', 'hub'], limits: QUICK });
  const isSaid = () => device.notices.some((line) => /reports of new deployments .* hub not for all/.test(line));
  assert.ok(!isSaid());
  rewrite(device.file, entryOf('prod', device.tokenOf('prod')), entryOf('test', newToken().token));
  await eventually('it is said', isSaid);
});

/** One journal whose sender is the test, and the reasons that replies were given; undefined for a 200. */
function waitingFor(lastSeq: number, own: Partial<Limits> = {}) {
  const journal = { lastSeq };
  const acks = new Acks({
    name: 'hub',
    nextSeq: () => journal.lastSeq + 1,
    onAcknowledged: () => {},
    limits: { ...limits, ackMs: 60_000, forwardStopMs: 10, ...own },
    notices: createNotices('error', false, () => {}),
  });
  const answers: string[] = [];
  const wait = (first: number, last = first, ...before: number[]) => {
    journal.lastSeq = Math.max(journal.lastSeq, last);
    acks.wait(undefined, first, last, before, (reason) => answers.push(`${first}: ${reason?.split(';')[0] ?? 200}`));
  };
  const ack = acks.of(undefined);
  /** The seqs with open dead letters. */
  const missing = new Set<number>();
  ack.ledger = { isMissing: ({ first, last }) => [...missing].some((seq) => first <= seq && seq <= last) };
  const lacks = (seq: number) => {
    missing.add(seq);
    ack.lacks(seq);
  };
  return { acks, ack, answers, wait, lacks, missing, journal };
}

test('a report not acknowledged in time gets 503, and no more are recorded until the destination has all events', async () => {
  const { acks, ack, answers, wait } = waitingFor(4, { ackMs: 20 });
  ack.advance(4);
  wait(5);
  wait(6);
  await eventually('both are given up', () => answers.length === 2);
  assert.deepEqual(answers, ['5: recorded here, not yet at hub', '6: recorded here, not yet at hub']);
  assert.match(`${acks.refusal(undefined)}`, /^not recorded: hub must have each event too/);
  ack.advance(5);
  assert.notEqual(acks.refusal(undefined), undefined);
  ack.advance(6);
  assert.equal(acks.refusal(undefined), undefined);
});

test('nothing is recorded before the destination has confirmed all earlier events, also if there are none', () => {
  for (const lastSeq of [0, 4]) {
    const { acks, ack } = waitingFor(lastSeq);
    assert.notEqual(acks.refusal(undefined), undefined);
    if (lastSeq > 0) ack.advance(lastSeq - 1);
    ack.setStopped(false);
    assert.notEqual(acks.refusal(undefined), undefined, `${lastSeq}`);
    ack.advance(lastSeq);
    assert.equal(acks.refusal(undefined), undefined);
  }
});

test('replies are sent in order, each with the outcome of its own events [ack-7]', () => {
  const { ack, answers, wait, lacks, missing } = waitingFor(4);
  ack.advance(4);
  wait(5);
  wait(6, 8);
  wait(3); // a replay
  ack.advance(5);
  assert.deepEqual(answers.splice(0), ['3: 200', '5: 200']);
  lacks(6);
  assert.deepEqual(answers.splice(0), ['6: recorded here, and hub does not accept it']);
  wait(9);
  ack.advance(9);
  wait(6);
  assert.deepEqual(answers, ['9: 200', '6: recorded here, and hub does not accept it']);
  missing.clear(); // its dead letter was sent again
  wait(6);
  assert.equal(answers.at(-1), '6: 200');
});

test('the reply to a batch with repeated events does not depend on the events between these', () => {
  const { ack, answers, wait, lacks } = waitingFor(8);
  ack.advance(4);
  lacks(5);
  ack.advance(6);
  wait(9, 10, 2, 6);
  wait(9, 10, 5, 6);
  assert.deepEqual(answers.splice(0), ['9: recorded here, and hub does not accept it']);
  wait(Number.POSITIVE_INFINITY, 0, 2, 6);
  wait(Number.POSITIVE_INFINITY, 0, 2, 7, 8);
  assert.deepEqual(answers.splice(0), ['Infinity: 200']);
  lacks(7);
  assert.deepEqual(answers.splice(0), ['Infinity: recorded here, and hub does not accept it']);
  ack.advance(10);
  assert.deepEqual(answers, ['9: 200']);
});

test('a hub restored from a backup acknowledges an event only when it has it again', () => {
  const { ack, answers, wait } = waitingFor(10);
  ack.advance(10);
  ack.advance(6);
  wait(9); // a replay
  assert.deepEqual(answers, []);
  ack.advance(10);
  assert.deepEqual(answers, ['9: 200']);
});

test('after a change of the destination nothing is recorded before the new one has confirmed all events', () => {
  const { acks, ack, journal } = waitingFor(10);
  ack.advance(10);
  assert.equal(acks.refusal(undefined), undefined);
  ack.reset();
  assert.notEqual(acks.refusal(undefined), undefined);
  ack.advance(9);
  assert.notEqual(acks.refusal(undefined), undefined);
  ack.advance(10);
  ack.setStopped(true);
  assert.notEqual(acks.refusal(undefined), undefined, 'stopped');
  journal.lastSeq = 11;
  ack.advance(10);
  ack.setStopped(false);
  assert.equal(acks.refusal(undefined), undefined, 'it has all of the moment of the stop');
});

test('a report that waits after the end of a stop gets its 503 at once', async () => {
  const { acks, answers, wait } = waitingFor(0);
  wait(1);
  acks.end(10);
  await eventually('it is given up', () => answers.length === 1);
  wait(2);
  assert.deepEqual(answers, ['1: recorded here, not yet at hub', '2: recorded here, not yet at hub']);
});

test('a report that waits when forwarding stops gets its 503 at once, and so does a later one', () => {
  const { ack, answers, wait } = waitingFor(4);
  ack.advance(4);
  wait(5);
  ack.setStopped(true);
  assert.deepEqual(answers.splice(0), ['5: recorded here, not yet at hub: forwarding is stopped']);
  wait(6);
  wait(3); // a replay
  assert.deepEqual(answers, ['6: recorded here, not yet at hub: forwarding is stopped', '3: 200']);
});
