/** What happens to devices and hubs in the field, with real processes: each event is at the hub once, or an operator sees why not. */

import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { newToken } from '../../src/deployments/tokens.ts';
import { answered, type FaultyLink, type LinkFault, PASSED, startFaultyLink } from '../support/faulty-link.ts';
import {
  assertAtHub,
  compareAtHub,
  deadLettersIn,
  forwardStatus,
  reachesHub,
  sourceIn,
  stopsForwarding,
  watermark,
} from '../support/forwarded.ts';
import { startPlainUpstream } from '../support/plain-upstream.ts';
import { eventsIn, newFolder, type Running, run, startService } from '../support/program.ts';
import { record } from '../support/report.ts';
import { eventually } from '../support/tools.ts';
import { ask, post } from '../support/wire.ts';

async function reports(service: Running, first: number, last: number, metadata = ''): Promise<void> {
  const body = metadata === '' ? undefined : { metadata: { text: metadata } };
  for (let number = first; number <= last; number += 1) {
    await record(service, `materialization/a?partition=${number}`, { body });
  }
}

/** Reports events in batches. */
async function recordMany({ url }: Running, count: number): Promise<void> {
  const item = { type: 'AssetObservation', asset_key: ['a'] };
  for (let left = count; left > 0; left -= 1_000) {
    const body = JSON.stringify(Array(Math.min(1_000, left)).fill(item));
    const headers = { 'Content-Type': 'application/json' };
    const reply = await fetch(`${url}/report_asset_batch/`, { method: 'POST', headers, body });
    assert.equal(reply.status, 200, await reply.text());
  }
}

/** The partitions of the events of a folder, or of those of one source. */
function partitionsIn(data: string, source?: string): number[] {
  return eventsIn(data)
    .filter(({ from }) => source === undefined || (from as unknown[] | undefined)?.[0] === source)
    .map(({ partition }) => Number(partition));
}

function numbers(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

function startDevice(t: TestContext, to: string, data = newFolder(t), ...args: string[]): Promise<Running> {
  return startService(t, { data, args: ['--forward-to', to, ...args] });
}

async function endCleanly(...services: Running[]): Promise<void> {
  for (const service of services) {
    const { code, stderr } = await service.kill();
    assert.equal(code, 0, stderr);
  }
}

async function assetlog(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(args);
  assert.equal(code, 0, stderr);
  return stdout;
}

test('what a device recorded without a link arrives at the hub once the link is there, and later events follow', async (t) => {
  const hub = await startService(t);
  const link = await startFaultyLink(t, hub.port);
  link.isDown = true;
  const device = await startDevice(t, link.url);
  await reports(device, 1, 20);
  const { lag_events: lag, state } = await forwardStatus(device.data);
  assert.deepEqual([lag, state === 'idle'], [20, false]);
  link.isDown = false;
  await reachesHub(hub, device.data, 20);
  await reports(device, 21, 30);
  await reachesHub(hub, device.data, 30);
  assertAtHub(hub.data, device.data);
  assert.deepEqual(partitionsIn(hub.data), numbers(1, 30));
  assert.equal((await forwardStatus(device.data)).lag_events, 0);
  await endCleanly(device, hub);
  assert.equal((await run(['verify', '--data', hub.data])).code, 0);
});

test('a clone of a folder is stopped as a fork, and identity --new lets it continue without sending anything again', async (t) => {
  const hub = await startService(t);
  const device = await startDevice(t, hub.url);
  await reports(device, 1, 5);
  await reachesHub(hub, device.data, 5);
  await endCleanly(device);
  const clone = newFolder(t);
  cpSync(device.data, clone, { recursive: true });
  const first = await startDevice(t, hub.url, device.data);
  await reports(first, 6, 8);
  await reachesHub(hub, first.data, 8);
  let second = await startDevice(t, hub.url, clone);
  await reports(second, 101, 103);
  const { reason } = await stopsForwarding(clone);
  assert.match(reason, /identity --new/);
  await endCleanly(second);

  await assetlog('forward', 'identity', '--new', '--data', clone);
  assert.notEqual(sourceIn(clone), sourceIn(first.data));
  second = await startDevice(t, hub.url, clone);
  await reports(second, 104, 104);
  await eventually('the events of the clone', () => partitionsIn(hub.data, sourceIn(clone)).length >= 4);
  assert.deepEqual(partitionsIn(hub.data, sourceIn(clone)), numbers(101, 104));
  assert.deepEqual(partitionsIn(hub.data, sourceIn(first.data)), numbers(1, 8));
  await endCleanly(first, second, hub);
});

test('a device that is restored from an older copy is stopped as a fork, and nothing is taken for an event of before', async (t) => {
  const hub = await startService(t);
  let device = await startDevice(t, hub.url);
  await reports(device, 1, 4);
  await reachesHub(hub, device.data, 4);
  await endCleanly(device);
  const copy = newFolder(t);
  cpSync(device.data, copy, { recursive: true });
  device = await startDevice(t, hub.url, device.data);
  await reports(device, 5, 9);
  await reachesHub(hub, device.data, 9);
  await endCleanly(device);

  let restored = await startDevice(t, hub.url, copy);
  await stopsForwarding(copy);
  await reports(restored, 105, 112); // past what the hub has of the source
  await stopsForwarding(copy);
  assert.deepEqual(partitionsIn(hub.data), numbers(1, 9));
  await endCleanly(restored);
  await assetlog('forward', 'identity', '--new', '--data', copy);
  restored = await startDevice(t, hub.url, copy);
  await eventually('what was recorded after the restore', () => partitionsIn(hub.data).length >= 17);
  assert.deepEqual(partitionsIn(hub.data), [...numbers(1, 9), ...numbers(105, 112)]);
  await endCleanly(restored, hub);
});

test('a hub that is restored from a copy of yesterday asks for less, and gets the rest again, once', async (t) => {
  let hub = await startService(t);
  const link = await startFaultyLink(t, hub.port);
  const device = await startDevice(t, link.url);
  await reports(device, 1, 6);
  await reachesHub(hub, device.data, 6);
  await endCleanly(hub);
  const yesterday = newFolder(t);
  cpSync(hub.data, yesterday, { recursive: true });
  hub = await startService(t, { data: hub.data });
  link.port = hub.port;
  await reports(device, 7, 15);
  await reachesHub(hub, device.data, 15);
  await hub.kill('SIGKILL');

  hub = await startService(t, { data: yesterday });
  link.port = hub.port;
  await reports(device, 16, 18);
  await reachesHub(hub, device.data, 18);
  assertAtHub(yesterday, device.data);
  assert.deepEqual(partitionsIn(yesterday), numbers(1, 18));
  assert.match(device.stderr(), /"level":"(?:warn|error)"[^\n]*upstream/, 'it says that the hub had more');
  await endCleanly(device, hub);
});

test('a hub that has lost its file of watermarks, or finds it damaged, reads them from its journal', async (t) => {
  let hub = await startService(t);
  const link = await startFaultyLink(t, hub.port);
  const device = await startDevice(t, link.url);
  let last = 0;
  for (const harm of ['removed', 'torn', 'not JSON'] as const) {
    await reports(device, last + 1, last + 5);
    last += 5;
    await reachesHub(hub, device.data, last);
    await (harm === 'torn' ? hub.kill('SIGKILL') : endCleanly(hub));
    const file = join(hub.data, 'forward-sources.json');
    if (harm === 'removed') rmSync(file);
    else writeFileSync(file, harm === 'torn' ? readFileSync(file).subarray(0, 20) : 'x'.repeat(100));
    hub = await startService(t, { data: hub.data });
    link.port = hub.port;
    assert.equal(await watermark(hub, sourceIn(device.data)), last, harm);
  }
  await reports(device, last + 1, last + 5);
  await reachesHub(hub, device.data, last + 5);
  assertAtHub(hub.data, device.data);
  await endCleanly(device, hub);
});

test('a cursor that is lost, torn or older makes a device ask the hub, and nothing is sent twice', async (t) => {
  const hub = await startService(t);
  const data = newFolder(t);
  const file = join(data, 'forward-upstream.cursor');
  let older = Buffer.alloc(0);
  const harms: [string, () => void][] = [
    ['kept', () => (older = readFileSync(file))],
    ['removed', () => rmSync(file)],
    [
      'one slot zeroed',
      () => writeFileSync(file, Buffer.concat([Buffer.alloc(512), readFileSync(file).subarray(512)])),
    ],
    [
      'the other slot torn',
      () => writeFileSync(file, Buffer.concat([readFileSync(file).subarray(0, 512), Buffer.alloc(512, 0xff)])),
    ],
    ['both slots torn', () => writeFileSync(file, Buffer.alloc(1024, 0x41))],
    ['empty', () => writeFileSync(file, '')],
    ['of the first run', () => writeFileSync(file, older)],
  ];
  let last = 0;
  for (const [name, harm] of harms) {
    const device = await startDevice(t, hub.url, data);
    await reports(device, last + 1, last + 3);
    last += 3;
    await reachesHub(hub, data, last);
    await endCleanly(device);
    harm();
    assert.deepEqual(compareAtHub(hub.data, data).wrong, [], name);
  }
  const device = await startDevice(t, hub.url, data);
  await reports(device, last + 1, last + 3);
  await reachesHub(hub, data, last + 3);
  assert.deepEqual(partitionsIn(hub.data), numbers(1, last + 3));
  await endCleanly(device, hub);
});

test('a cursor that is lost stops a plain destination, which never begins again by itself', async (t) => {
  const upstream = await startPlainUpstream(t);
  const data = newFolder(t);
  let device = await startDevice(t, upstream.url, data);
  await reports(device, 1, 3);
  await eventually('three events', () => upstream.events.length === 3);
  await endCleanly(device);
  rmSync(join(data, 'forward-upstream.cursor'));
  device = await startDevice(t, upstream.url, data);
  const { reason } = await stopsForwarding(data);
  assert.match(reason, /forward from/);
  await reports(device, 4, 5);
  await endCleanly(device);
  assert.equal(upstream.events.length, 3);
  await assetlog('forward', 'from', 'upstream', '--seq', '4', '--data', data);
  device = await startDevice(t, upstream.url, data);
  await eventually('the others', () => upstream.events.length >= 5);
  assert.deepEqual(
    upstream.events.map(({ partition }) => Number(partition)),
    numbers(1, 5),
  );
  await endCleanly(device);
});

const SMALL_FILES = ['--segment-bytes', '4096'];

/** The names of the journal files of a folder, in order. */
function filesIn(data: string): string[] {
  return readdirSync(data)
    .filter((name) => name.endsWith('.jsonl') && name.startsWith('events-'))
    .sort();
}

test('a file of the journal that is gone stops nothing else: a repair says which events are lost, and the hub gets the rest', async (t) => {
  const hub = await startService(t);
  const link = await startFaultyLink(t, hub.port);
  link.isDown = true;
  const data = newFolder(t);
  let device = await startDevice(t, link.url, data, ...SMALL_FILES);
  await reports(device, 1, 60, 'x'.repeat(200));
  await endCleanly(device);
  const [, second = '', third = ''] = filesIn(data);
  const firstLost = Number(second.slice(7, 27));
  const lastLost = Number(third.slice(7, 27)) - 1;
  rmSync(join(data, second));
  await run(['repair', '--data', data, '--yes']);
  link.isDown = false;
  device = await startDevice(t, link.url, data, ...SMALL_FILES);
  await reachesHub(hub, data, 60);
  const lost = (seq: number) => seq >= firstLost && seq <= lastLost;
  assertAtHub(hub.data, data, lost);
  assert.deepEqual(
    partitionsIn(hub.data),
    numbers(1, 60).filter((seq) => !lost(seq)),
  );
  await endCleanly(device, hub);
});

test('a damaged line stops the forwarder before it, with the way out, and touches no report', async (t) => {
  const hub = await startService(t);
  const link = await startFaultyLink(t, hub.port);
  link.isDown = true;
  const data = newFolder(t);
  let device = await startDevice(t, link.url, data, ...SMALL_FILES);
  await reports(device, 1, 60, 'x'.repeat(200));
  await endCleanly(device);
  const file = join(data, filesIn(data)[1] ?? '');
  const bytes = readFileSync(file);
  const at = bytes.indexOf('xxxx', 1_000);
  bytes[at] = 0x79;
  writeFileSync(file, bytes);
  const damaged = (
    JSON.parse(bytes.subarray(bytes.lastIndexOf('\n', at) + 1, bytes.indexOf('\n', at)).toString()) as { seq: number }
  ).seq;
  link.isDown = false;
  device = await startDevice(t, link.url, data, ...SMALL_FILES);
  const { reason } = await stopsForwarding(data);
  assert.match(reason, /repair/);
  await reports(device, 61, 62);
  assert.deepEqual(partitionsIn(hub.data), numbers(1, damaged - 1));
  await endCleanly(device);
  await run(['repair', '--data', data, '--yes']);
  device = await startDevice(t, link.url, data, ...SMALL_FILES);
  await reachesHub(hub, data, 62);
  assertAtHub(hub.data, data, (seq) => seq === damaged);
  await endCleanly(device, hub);
});

const RETAINED = ['--retain-bytes', '16384', ...SMALL_FILES];

test('at the limit of retention, events that are still to be sent stay, and reports get 503 until they are sent', async (t) => {
  const hub = await startService(t);
  const link = await startFaultyLink(t, hub.port);
  link.isDown = true;
  const data = newFolder(t);
  const device = await startDevice(t, link.url, data, ...RETAINED);
  const body = JSON.stringify({ metadata: { text: 'x'.repeat(300) } });
  const report = () => ask(device.port, post('/report_asset_materialization/a', body));
  let [acknowledged, status] = [0, 200];
  let text = '';
  for (; status === 200 && acknowledged < 1_000; acknowledged += status === 200 ? 1 : 0)
    ({ status, body: text } = await report());
  assert.equal(status, 503);
  assert.match(text, /upstream/);
  const ready = await fetch(`${device.url}/readyz`);
  assert.match(await ready.text(), /upstream/);
  assert.equal(ready.status, 503);
  link.isDown = false;
  await reachesHub(hub, data, acknowledged);
  await eventually('200 again', async () => (await report()).status === 200);
  acknowledged += 1;
  await reachesHub(hub, data, acknowledged);
  assert.equal(partitionsIn(hub.data).length, acknowledged);
  assertAtHub(hub.data, data);
  assert.equal((await fetch(`${device.url}/readyz`)).status, 200);
  await endCleanly(device, hub);
});

test('with --when-behind remove, retention takes what was not sent, and a dead letter says which', async (t) => {
  const hub = await startService(t);
  const link = await startFaultyLink(t, hub.port);
  link.isDown = true;
  const data = newFolder(t);
  const device = await startDevice(t, link.url, data, ...RETAINED, '--when-behind', 'remove');
  await reports(device, 1, 200, 'x'.repeat(300));
  link.isDown = false;
  await reachesHub(hub, data, 200);
  const gone = deadLettersIn(data).filter(({ outcome }) => outcome === 'removed');
  assert.ok(gone.length > 0);
  const removed = (seq: number) => gone.some(({ first = 0, last = 0 }) => seq >= first && seq <= last);
  assert.deepEqual(
    partitionsIn(hub.data),
    numbers(1, 200).filter((seq) => !removed(seq)),
  );
  assertAtHub(hub.data, data, removed);
  await endCleanly(device, hub);
});

test('a device whose clock starts in 1970 forwards at once, also after its clock is set', async (t) => {
  const hub = await startService(t);
  const folder = newFolder(t);
  const preload = join(folder, 'clock.cjs');
  writeFileSync(
    preload,
    `const Real = Date; let offsetMs = 86_400_000 - Real.now();
globalThis.Date = class extends Real { constructor(...given) { given.length === 0 ? super(Real.now() + offsetMs) : super(...given); } static now() { return Real.now() + offsetMs; } };
process.on('SIGUSR2', () => { offsetMs = 0; process.stderr.write('set\\n'); });`,
  );
  const data = join(folder, 'data');
  const env = { NODE_OPTIONS: `--require ${preload}` };
  const device = await startService(t, { data, env, args: ['--forward-to', hub.url] });
  await reports(device, 1, 3);
  await reachesHub(hub, data, 3);
  process.kill(device.pid, 'SIGUSR2');
  await eventually('the clock is set', () => device.stderr().includes('set\n'));
  await reports(device, 4, 6);
  await reachesHub(hub, data, 6);
  assertAtHub(hub.data, data);
  const years = eventsIn(hub.data).map(({ recorded }) => String(recorded).startsWith('1970'));
  assert.deepEqual(years, [true, true, true, false, false, false]);
  assert.equal((await forwardStatus(data)).lag_events, 0);
  await endCleanly(device, hub);
});

test('two hubs in a row keep the id and the time of the first recorder, and each numbers its own lines', async (t) => {
  const far = await startService(t);
  const near = await startDevice(t, far.url);
  const device = await startDevice(t, near.url);
  await reports(near, 101, 103);
  await reports(device, 1, 20);
  await reachesHub(near, device.data, 20);
  await reachesHub(far, near.data, 23);
  assertAtHub(near.data, device.data);
  assertAtHub(far.data, near.data);
  const first = new Map(eventsIn(device.data).map(({ id, time }) => [id, time]));
  for (const { id, partition, recorded } of eventsIn(far.data))
    if (Number(partition) <= 20) assert.equal(recorded, first.get(id));
  await endCleanly(device, near, far);
});

test('two hubs that forward to each other stop as a loop, and no event goes round', async (t) => {
  const left = await startService(t);
  const link = await startFaultyLink(t, left.port);
  const right = await startDevice(t, link.url);
  await endCleanly(left);
  const again = await startDevice(t, right.url, left.data);
  link.port = again.port;
  await reports(again, 1, 5);
  await reports(right, 11, 15);
  const reasons = await Promise.any([stopsForwarding(again.data), stopsForwarding(right.data)]);
  assert.match(reasons.reason, /loop|itself/);
  await reports(again, 6, 6);
  for (const { data } of [again, right]) {
    const partitions = partitionsIn(data);
    assert.equal(new Set(partitions).size, partitions.length, `an event is twice in ${data}`);
  }
  await endCleanly(again, right);
});

function assertNoIdTwice(...services: readonly Pick<Running, 'data'>[]): void {
  for (const { data } of services) {
    const ids = eventsIn(data).map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length, `an event is twice in ${data}`);
  }
}

/** Starts a service again in its folder, on its old port. */
function restarted(t: TestContext, { data, port }: Running, ...args: string[]): Promise<Running> {
  return startService(t, { data, args: ['--port', String(port), ...args] });
}

test('a circle of three that is closed later, by services that have thousands of events, doubles none of them', async (t) => {
  let far = await startService(t);
  const middle = await startDevice(t, far.url);
  const near = await startDevice(t, middle.url);
  await reports(far, 1, 20);
  await reports(middle, 21, 40);
  await recordMany(near, 3_000);
  await reachesHub(middle, near.data, 3_000);
  await reachesHub(far, middle.data, 3_020);
  await endCleanly(far);
  far = await restarted(t, far, '--forward-to', near.url);
  await reports(far, 61, 65);
  const { reason } = await stopsForwarding(far.data);
  assert.match(reason, /itself/);
  await reports(middle, 66, 66);
  await reports(near, 67, 67);
  assert.equal(eventsIn(near.data).length, 3_001, 'nothing came back');
  await endCleanly(far);
  far = await restarted(t, far);
  const kick = setInterval(() => [near, middle].map(({ pid }) => process.kill(pid, 'SIGHUP')), 500);
  await reachesHub(middle, near.data, 3_001);
  await reachesHub(far, middle.data, 3_022).finally(() => clearInterval(kick));
  assertNoIdTwice(near, middle, far);
  await endCleanly(near, middle, far);
});

test('a circle that is there when all of its services start doubles nothing', async (t) => {
  let services = await Promise.all([startService(t), startService(t), startService(t)]);
  for (const [index, service] of services.entries()) await reports(service, 10 * index, 10 * index + 5);
  await endCleanly(...services);
  services = (await Promise.all(
    services.map((service, index) =>
      restarted(t, service, '--forward-to', `http://127.0.0.1:${services[(index + 1) % 3]!.port}`),
    ),
  )) as typeof services;
  await Promise.any(services.map(({ data }) => stopsForwarding(data)));
  for (const [index, service] of services.entries()) await reports(service, 10 * index + 6, 10 * index + 9);
  assertNoIdTwice(...services);
  await endCleanly(...services);
});

test('two services whose direction is turned around double nothing, and a new id lets later events through', async (t) => {
  let receiver = await startService(t);
  let sender = await startDevice(t, receiver.url);
  await reports(sender, 1, 30);
  await reachesHub(receiver, sender.data, 30);
  await endCleanly(sender, receiver);
  sender = await restarted(t, sender);
  receiver = await restarted(t, receiver, '--forward-to', sender.url);
  await reports(receiver, 31, 35);
  const { reason } = await stopsForwarding(receiver.data);
  assert.match(reason, /event 1 of this journal was recorded here before.*identity --new --seq N/);
  assertNoIdTwice(sender, receiver);
  await endCleanly(receiver);
  await assetlog('forward', 'identity', '--new', '--seq', '31', '--data', receiver.data);
  receiver = await restarted(t, receiver, '--forward-to', sender.url);
  await reachesHub(sender, receiver.data, 35);
  assert.deepEqual(partitionsIn(sender.data), numbers(1, 35));
  assertNoIdTwice(sender, receiver);
  await endCleanly(sender, receiver);
});

test('a hub is asked if its destination gets another name; a plain upstream gets everything, as a new one does', async (t) => {
  const hub = await startService(t);
  const upstream = await startPlainUpstream(t);
  const data = newFolder(t);
  const file = join(newFolder(t), 'destinations.json');
  const destinations = (hubName: string, plainName: string) =>
    writeFileSync(
      file,
      JSON.stringify({
        destinations: [
          { name: hubName, to: hub.url },
          { name: plainName, to: upstream.url },
        ],
      }),
    );
  destinations('hub', 'plain');
  let device = await startService(t, { data, args: ['--forward', file] });
  await reports(device, 1, 4);
  await reachesHub(hub, data, 4);
  await eventually('four events', () => upstream.events.length === 4);
  await endCleanly(device);
  destinations('hub-2', 'plain-2');
  device = await startService(t, { data, args: ['--forward', file] });
  await reports(device, 5, 6);
  await reachesHub(hub, data, 6);
  assert.deepEqual(partitionsIn(hub.data), numbers(1, 6));
  await eventually('the upstream has four events twice', () => upstream.events.length === 10);
  await endCleanly(device, hub);
});

test('a token that is changed while the device runs is used, and one that is wrong stops it until it is right', async (t) => {
  const folder = newFolder(t);
  const [old, next] = [newToken(), newToken()];
  const deployments = join(folder, 'deployments.json');
  const allow = ({ digest }: typeof old) =>
    writeFileSync(deployments, `{"deployments":[{"name":"prod","tokens":[{"name":"device","sha256":"${digest}"}]}]}`);
  allow(old);
  const hub = await startService(t, { args: ['--deployments', deployments] });
  const tokenFile = join(folder, 'token');
  writeFileSync(tokenFile, `${old.token}\n`, { mode: 0o600 });
  const device = await startDevice(t, `${hub.url}/prod`, undefined, '--forward-token-file', tokenFile);
  const atHub = () => (existsSync(join(hub.data, 'prod')) ? partitionsIn(join(hub.data, 'prod')) : []);
  await reports(device, 1, 3);
  await eventually('three events', () => atHub().length === 3);
  allow(next);
  process.kill(hub.pid, 'SIGHUP');
  await eventually('the hub has read its file', () => /deployments/.test(hub.stderr()));
  await reports(device, 4, 4);
  const { reason } = await stopsForwarding(device.data);
  assert.match(reason, /401/);
  assert.doesNotMatch(device.stderr() + reason, new RegExp(old.token));
  writeFileSync(tokenFile, `${next.token}\n`, { mode: 0o600 });
  process.kill(device.pid, 'SIGHUP');
  await eventually('the fourth', () => atHub().length === 4);
  await reports(device, 5, 6);
  await eventually('the others', () => atHub().length === 6);
  assert.deepEqual(atHub(), numbers(1, 6));
  await endCleanly(device, hub);
});

/** Faults of the link that each request meets once in a while, by what a device makes of them. */
const faults: readonly { readonly name: string; readonly faultOf: (index: number, bytes: number) => LinkFault }[] = [
  {
    name: 'cut at each 13th byte of a request',
    faultOf: (index, bytes) => ({ kind: 'request cut', bytes: (13 * index) % bytes }),
  },
  { name: 'cut at each 7th byte of a reply', faultOf: (index) => ({ kind: 'reply cut', bytes: (7 * index) % 200 }) },
  { name: 'delivered twice', faultOf: () => ({ kind: 'doubled' }) },
  { name: 'delayed', faultOf: () => ({ kind: 'delayed', ms: 30 }) },
  {
    name: 'answered with 502 and 504 by a proxy',
    faultOf: (index) => answered(index % 2 === 0 ? 502 : 504, '<html>bad</html>'),
  },
  {
    name: 'answered with 503 and 429 by a proxy',
    faultOf: (index) => answered(index % 2 === 0 ? 503 : 429, 'busy', 'text/plain', ['Retry-After: 0']),
  },
];

for (const { name, faultOf } of faults) {
  test(`a hub has each event once and in order when two of five requests are ${name}`, async (t) => {
    const hub = await startService(t);
    const link = await startFaultyLink(t, hub.port);
    link.faultOf = ({ index, bytes }) => (index % 5 === 1 || index % 5 === 3 ? faultOf(index, bytes) : PASSED);
    const device = await startDevice(t, link.url);
    for (let last = 0; last < 15; last += 3) {
      await reports(device, last + 1, last + 3);
      await reachesHub(hub, device.data, last + 3);
    }
    assertAtHub(hub.data, device.data);
    assert.deepEqual(partitionsIn(hub.data), numbers(1, 15));
    assert.deepEqual(deadLettersIn(device.data), []);
    await endCleanly(device, hub);
  });
}

/** Replies that no service gave, after which a device stops until an operator has looked at it. */
const impostors: readonly { readonly name: string; readonly reply: LinkFault }[] = [
  { name: 'a page of a hotel with 200', reply: answered(200, '<html>sign in</html>') },
  { name: 'a redirect', reply: answered(302, '', 'text/html', ['Location: http://127.0.0.1:9/']) },
  { name: 'a 307 to another server', reply: answered(307, '', 'text/html', ['Location: http://127.0.0.1:9/']) },
  { name: 'a 400 with HTML', reply: answered(400, '<html>bad request</html>') },
  { name: 'a 403 of a proxy', reply: answered(403, '<html>forbidden</html>') },
  { name: 'a 204', reply: answered(204, '') },
];

for (const { name, reply } of impostors) {
  for (const kind of ['hub', 'plain'] as const) {
    test(`${name} in front of a ${kind} destination loses and refuses nothing`, async (t) => {
      const hub = await startService(t);
      const plain = await startPlainUpstream(t);
      const link = await startFaultyLink(t, kind === 'hub' ? hub.port : plain.port);
      const device = await startDevice(t, link.url);
      const arrived = () =>
        kind === 'hub' ? partitionsIn(hub.data) : plain.events.map(({ partition }) => Number(partition));
      await reports(device, 1, 2);
      await eventually('two events', () => arrived().length === 2);
      let isMet = false;
      link.faultOf = () => {
        isMet = true;
        return reply;
      };
      await reports(device, 3, 4);
      await eventually('the reply', () => isMet);
      await eventually('a state that says it', async () => (await forwardStatus(device.data)).lag_events === 2);
      link.faultOf = () => PASSED;
      await continues(device, link, () => arrived().length >= 4);
      assert.deepEqual(arrived(), numbers(1, 4));
      assert.deepEqual(deadLettersIn(device.data), []);
      await endCleanly(device, hub);
    });
  }
}

/** Tries again at once, as an operator does who has mended the cause. */
async function continues(device: Running, _link: FaultyLink, holds: () => boolean): Promise<void> {
  const kick = setInterval(() => process.kill(device.pid, 'SIGHUP'), 500);
  try {
    await eventually('it continues', holds);
  } finally {
    clearInterval(kick);
  }
}

test('a hub over IPv6', async (t) => {
  const hub = await startService(t, { args: ['--host', '::1'] });
  const device = await startDevice(t, hub.url);
  assert.match(hub.url, /\[::1\]/);
  await reports(device, 1, 3);
  await reachesHub(hub, device.data, 3);
  assertAtHub(hub.data, device.data);
  await endCleanly(device, hub);
});

test('a journal that was there before it was forwarded is sent from its first event, and a hub takes its own reports too', async (t) => {
  const data = newFolder(t);
  mkdirSync(join(data, 'device'));
  const before = await startService(t, { data: join(data, 'device') });
  await reports(before, 1, 5);
  await endCleanly(before);
  const hub = await startService(t);
  await reports(hub, 101, 102);
  const device = await startDevice(t, hub.url, before.data);
  await reports(device, 6, 6);
  await reachesHub(hub, device.data, 6);
  assert.deepEqual(partitionsIn(hub.data), [101, 102, ...numbers(1, 6)]);
  assertAtHub(hub.data, device.data);
  await endCleanly(device, hub);
});
