/** A disk that refuses, fails or is slow, and other programs in the folder: the replies of clients, and the events that are kept. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { segmentName } from '../../src/journal/segments.ts';
import type { Load } from '../support/load.ts';
import { limitFiles, withoutPrlimit, withoutStrace } from '../support/machine.ts';
import { launch, newFolder, type Running, type RunOptions, startService } from '../support/program.ts';
import { each, eventually, runWithin, within } from '../support/tools.ts';
import { ask, errorOf, post, type WireReply } from '../support/wire.ts';
import { assertOnce, assertOnly, report, startLoad } from './load.ts';
import { checkOrder, ORDER_CALLS } from './order.ts';
import { type Strace, type TraceOptions, underStrace } from './strace.ts';

const TARGET = '/report_asset_materialization/';
const FIRST = segmentName(1);
const EXIT_MS = 60_000;
/** Two tests at a time, since they mostly wait. */
const AT_ONCE = 2;
/** Why a disk says that it cannot take a write, which space or an administrator may mend. */
const REFUSALS = ['ENOSPC', 'EDQUOT', 'EIO', 'EFBIG', 'EROFS'];

async function startFaulty(
  t: TestContext,
  inject: readonly string[],
  {
    args = [],
    env = {},
    ...options
  }: { args?: readonly string[]; env?: Record<string, string> } & Partial<TraceOptions> = {},
): Promise<{ service: Running; strace: Strace }> {
  const strace = underStrace(t, { calls: ORDER_CALLS, inject, ...options });
  const service = await startService(t, { args, ...strace.options, env: { ...strace.options.env, ...env } });
  return { service, strace };
}

/** What strace cannot inject: a write that is done, and whose sync then fails. @param when the how manieth write of the program it is */
function writesThatDoNotSync(code: string, when: number): Record<string, string> {
  const name = JSON.stringify(code);
  const hook = `import fs from 'node:fs'; import { syncBuiltinESMExports } from 'node:module';
    const { write } = fs; let calls = 0;
    fs.write = (fd, bytes, from, count, position, done) => write(fd, bytes, from, count, position, (error, written) =>
      ++calls === ${when} ? done(Object.assign(new Error(${name} + ': the sync failed'), { code: ${name} })) : done(error, written));
    syncBuiltinESMExports();`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` };
}

function ready(port: number): Promise<WireReply> {
  return ask(port, 'GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n');
}

function assertRefused(reply: WireReply, reason: RegExp): void {
  assert.equal(reply.status, 503);
  assert.equal(reply.headers.get('retry-after'), '1');
  assert.match(errorOf(reply), reason);
}

/** @param refusedMs the time of the refused write, if the next one succeeds: a busy journal might have probed the disk by now */
async function assertNotReady(port: number, reason: RegExp, refusedMs = Number.POSITIVE_INFINITY): Promise<void> {
  const { status, body } = await ready(port);
  if (status === 200 && performance.now() - refusedMs > limits.probeMs) return;
  assert.equal(status, 503);
  assert.match(body, reason);
}

const REFUSES = /^the disk refuses writes; send the report again later$/;

/** Asserts that the next start accepts reports and has all acknowledged events; others can be there too. */
async function assertStarts(t: TestContext, data: string, acknowledged: Iterable<string>): Promise<void> {
  const service = await startService(t, { data });
  assert.equal(await report(service.port, 'after'), 200);
  await service.kill('SIGTERM');
  assertOnce(service.events(), [...acknowledged, 'after']);
}

async function assertStops(service: Running): Promise<void> {
  const { code, stderr } = await within('a stop', EXIT_MS, service.kill('SIGTERM'));
  assert.equal(code, 0, stderr);
  assert.doesNotMatch(stderr, /\n {4}at /);
}

/** Asserts that the service ends without a signal and logs the reason in one line. */
async function assertGivesUp(service: Running, problem: RegExp): Promise<void> {
  const { code, stderr } = await within('the end of a service whose disk failed', EXIT_MS, service.finished);
  assert.equal(code, 5, stderr);
  assert.match(stderr, /"the disk failed and the service ends; /);
  assert.match(stderr, problem);
  assert.doesNotMatch(stderr, /\n {4}at /);
}

function assertOrder(strace: Strace, { data }: Running, acknowledged: Iterable<string>): void {
  const order = checkOrder(strace.calls(), data);
  assert.deepEqual(order.violations, []);
  assert.deepEqual(order.acknowledged, new Set(acknowledged));
}

function load(t: TestContext, { port }: Running): Load {
  const started = startLoad(port, { clients: 4, name: 'load' });
  t.after(started.stop);
  return started;
}

test('a refused write gets 503 with a reason, and the next write that succeeds 200, without a restart', {
  skip: withoutStrace,
}, async (t) => {
  await each(REFUSALS, AT_ONCE, async (code) => {
    const { service, strace } = await startFaulty(t, [`pwrite64:error=${code}:when=2`]);
    assert.equal(await report(service.port, 'a'), 200);
    const askedMs = performance.now();
    assertRefused(await ask(service.port, post(`${TARGET}b`)), REFUSES);
    assert.match(service.stderr(), new RegExp(`"problem":"${code}: `));
    await assertNotReady(service.port, /the disk refuses writes/, askedMs);
    assert.equal(await report(service.port, 'c'), 200);
    assert.equal((await ready(service.port)).status, 200);
    assert.match(service.stderr(), /"problem":"[^"]+, write"(.*\n)+.*"writes to the disk succeed again"/);
    await assertStops(service);
    assertOnly(service.events(), ['a', 'c']);
    assertOrder(strace, service, ['a', 'c']);
  });
});

test('a follower shows no line of a report that got 503, and none twice, even if the write is truncated slowly', {
  skip: withoutStrace || withoutPrlimit,
}, async (t) => {
  const { service } = await startFaulty(t, ['pwrite64:delay_exit=500000:when=2', 'ftruncate:delay_enter=1500000']);
  const follower = launch(['events', '--follow', '--data', service.data]);
  t.after(() => follower.child.kill('SIGKILL'));
  let shown = '';
  follower.child.stdout?.on('data', (text) => {
    shown += text;
  });
  const keysShown = () => [...shown.matchAll(/"asset_key":\["([^"]*)"\]/g)].map(([, key]) => key);
  const file = join(service.data, FIRST);
  assert.equal(await report(service.port, 'a'), 200);
  const lineBytes = statSync(file).size;
  await eventually('the first line is shown', () => keysShown().length === 1);
  const slow = report(service.port, 'b');
  await eventually('the second line is written', () => service.events().length === 2);
  // These reports share a batch. Three of its lines reach the disk, until they are cut off.
  limitFiles(service, Math.round(5.5 * lineBytes));
  const refused = ['u', 'v', 'w', 'x', 'y', 'z'].map((key) => report(service.port, key));
  assert.equal(await slow, 200);
  await eventually('a part of the batch is written', () => statSync(file).size > 3 * lineBytes);
  assert.deepEqual(new Set(await Promise.all(refused)), new Set([503]));
  limitFiles(service, 'unlimited');
  assert.equal(await report(service.port, 'c'), 200);
  await eventually('the last line is shown', () => keysShown().includes('c'));
  follower.child.kill('SIGTERM');
  const { code, stderr } = await follower.finished;
  assert.deepEqual([keysShown(), code, stderr], [['a', 'b', 'c'], 0, '']);
});

test('a refused write that cannot be truncated ends the service with 5', { skip: withoutStrace }, async (t) => {
  const { service } = await startFaulty(t, ['pwrite64:error=ENOSPC:when=2', 'ftruncate:error=EIO:when=1']);
  assert.equal(await report(service.port, 'a'), 200);
  assertRefused(await ask(service.port, post(`${TARGET}b`)), /^the disk failed/);
  await assertGivesUp(service, /"problem":"EIO: /);
  await assertStarts(t, service.data, ['a']);
});

test('a failed sync gets 503, is not tried again, and ends the service with 5', {
  skip: withoutStrace,
}, async (t) => {
  const table = [
    { call: 'pwrite64', error: 'EIO', when: 10 },
    { call: 'pwrite64', error: 'ENOSPC', when: 1 },
    { call: 'fsync', error: 'EIO', when: 5 }, // of the folder, when the third file is created
  ];
  await each(table, AT_ONCE, async ({ call, error, when }) => {
    const { service, strace } = await startFaulty(t, call === 'fsync' ? [`fsync:error=${error}:when=${when}`] : [], {
      // Without readers no state of assets is written, whose syncs may fail, and without keys no file of keys.
      args: ['--segment-bytes', '4096', '--no-read', '--idempotency-keys', '0'],
      ...(call === 'fsync' ? {} : { env: writesThatDoNotSync(error, when) }),
    });
    const { acknowledged, statuses, stop } = load(t, service);
    await assertGivesUp(service, new RegExp(`"problem":"${error}: `));
    await stop();
    assert.ok((statuses.get(503) ?? 0) > 0, 'the reports that waited got a reply');
    assertOrder(strace, service, acknowledged);
    const disk = strace.calls().filter(({ name }) => ['pwrite64', 'fdatasync', 'fsync'].includes(name));
    const last = disk.at(-1);
    assert.equal(last?.name, call, 'no further call to the disk');
    await assertStarts(t, service.data, acknowledged);
  });
});

test('a service is ready on a system that does not report the space of a disk', {
  skip: withoutStrace,
}, async (t) => {
  await each(['ENOSYS', 'EPERM'], AT_ONCE, async (code) => {
    const strace = underStrace(t, { calls: ['statfs'], inject: [`statfs:error=${code}`] });
    const service = await startService(t, strace.options);
    assert.equal(await report(service.port, 'a'), 200);
    assert.equal((await ready(service.port)).status, 200);
    await assertStops(service);
    assert.match(service.stderr(), /the file system reports no free space/);
  });
});

test('a sync that takes seconds is awaited, also by a stop, and other requests are answered meanwhile', {
  skip: withoutStrace,
}, async (t) => {
  const { service, strace } = await startFaulty(t, ['pwrite64:delay_exit=5000000:when=2']);
  assert.equal(await report(service.port, 'a'), 200);
  const started = performance.now();
  const waiting = [report(service.port, 'b')];
  await eventually('the line is written', () => service.events().length === 2);
  waiting.push(report(service.port, 'c'));
  assert.equal((await ready(service.port)).status, 200);
  assert.ok(performance.now() - started < 4_000, 'the service answers in the meantime');
  await assertStops(service);
  assert.deepEqual(await Promise.all(waiting), [200, 200]);
  assert.ok(performance.now() - started >= 5_000);
  assertOnly(service.events(), ['a', 'b', 'c']);
  assertOrder(strace, service, ['a', 'b', 'c']);
});

/**
 * A disk that hangs from the how manieth call on: a thread of the program then waits for a FIFO that nothing writes to. strace
 * cannot do it: it keeps a thread that it delays from ending with its process.
 */
function hanging(t: TestContext, call: 'write' | 'statfs', when: number): RunOptions {
  const fifo = join(newFolder(t), 'fifo');
  execFileSync('mkfifo', [fifo]);
  const hook = `import fs from 'node:fs'; import promises from 'node:fs/promises'; import { syncBuiltinESMExports } from 'node:module';
    const { open, write } = fs; const { statfs } = promises; let calls = 0;
    const hang = (done) => { console.error('${HANGS}'); open(${JSON.stringify(fifo)}, done); };
    if ('${call}' === 'write') fs.write = (...args) => ++calls === ${when} ? hang(args.at(-1)) : write(...args);
    else promises.statfs = (path) => ++calls === ${when} ? new Promise((resolve) => hang(resolve)) : statfs(path);
    syncBuiltinESMExports();`;
  return { env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` } };
}

const HANGS = 'a call hangs';

test('a stop ends without a second signal, also while the disk hangs', async (t) => {
  const service = await startService(t, hanging(t, 'write', 1));
  const reported = report(service.port, 'a');
  await eventually('the disk hangs', () => service.stderr().includes(HANGS));
  const started = performance.now();
  const { drainMs, lastSyncMs, lastCallMs } = limits;
  const boundMs = drainMs + lastSyncMs + lastCallMs + EXIT_MS;
  const { signal, stderr } = await within('a stop', boundMs, service.kill('SIGTERM'));
  assert.deepEqual([signal, await reported], ['SIGKILL', 0], stderr);
  assert.ok(performance.now() - started >= lastSyncMs);
  assert.match(stderr, /"the disk did not finish the last sync; the service ends without it","ms":20000\}\n/);
  assert.match(stderr, /\nassetlog: a system call has not returned for 1000 ms; .*, and not with exit code 5\n$/);
  await assertStarts(t, service.data, []);
});

test('a service whose disk failed ends without a signal, also while a call to the disk hangs', async (t) => {
  const service = await startService(t, hanging(t, 'statfs', 2));
  assert.equal(await report(service.port, 'a'), 200);
  await eventually('the disk hangs', () => service.stderr().includes(HANGS));
  appendFileSync(join(service.data, FIRST), '{}\n');
  assertRefused(await ask(service.port, post(`${TARGET}b`)), /^the disk failed/);
  const { signal, stderr } = await within('the end', EXIT_MS, service.finished);
  assert.equal(signal, 'SIGKILL', stderr);
  assert.match(stderr, /"the disk failed and the service ends; /);
  assert.match(stderr, /\nassetlog: a system call has not returned for 1000 ms; .*, and not with exit code 5\n$/);
});

test('a deployments file that the disk cannot read ends a start with 5', { skip: withoutStrace }, async (t) => {
  const file = join(newFolder(t), 'deployments.json');
  writeFileSync(file, '{"deployments": []}');
  const args = ['--port', '0', '--data', newFolder(t), '--deployments', file];
  for (const [code, exit] of [['EIO', 5] as const, ['EACCES', 2] as const]) {
    const strace = underStrace(t, { calls: ['openat'], inject: [`openat:error=${code}`], paths: [file] });
    const ended = await runWithin(EXIT_MS, args, strace.options);
    assert.equal(ended.code, exit, ended.stderr);
    assert.match(ended.stderr, new RegExp(`^assetlog: --deployments: ${code}: .*\\n$`));
  }
});

test('while four token files hang on a mount one thread waits, reports get 200, /readyz names a file and a stop ends', async (t) => {
  const folder = newFolder(t);
  const fifo = join(folder, 'fifo');
  execFileSync('mkfifo', [fifo]);
  const hook = `import fs from 'node:fs'; import promises from 'node:fs/promises'; import { syncBuiltinESMExports } from 'node:module';
    for (const name of ['open', 'stat']) {
      const real = promises[name];
      promises[name] = (path, ...rest) => /\\.token$/.test(path)
        ? new Promise((resolve) => { console.error('${HANGS}'); fs.open(${JSON.stringify(fifo)}, resolve); }) : real(path, ...rest);
    }
    syncBuiltinESMExports();`;
  const names = ['a', 'b', 'c', 'd'];
  const destinations = names.map((name) => ({ name, to: 'http://127.0.0.1:1', tokenFile: `${name}.token` }));
  const forward = join(folder, 'destinations.json');
  writeFileSync(forward, JSON.stringify({ destinations }));
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` };
  const service = await startService(t, { args: ['--forward', forward], env });
  assert.equal(await report(service.port, 'a'), 200);
  const isLogged = (name: string) =>
    new RegExp(`"destination":"${name}","reason":"no request was sent: .*[a-d]\\.token was not read`);
  await eventually('each destination says why it waits', () =>
    names.every((name) => isLogged(name).test(service.stderr())),
  );
  assert.equal(service.stderr().split(`${HANGS}\n`).length - 1, 1);
  assert.equal(await report(service.port, 'b'), 200);
  assert.match((await ready(service.port)).body, /^{"status":"degraded","files":{".*[a-d]\.token":"it does not answer/);
  const { signal, stderr } = await within('a stop', EXIT_MS, service.kill('SIGTERM'));
  assert.equal(signal, 'SIGKILL', 'a thread is inside a system call');
  assert.match(stderr, /\nassetlog: a system call has not returned for 1000 ms; .*, and not with exit code 0\n$/);
  await assertStarts(t, service.data, ['a', 'b']);
});

test('no report gets a 200 for a folder that is removed under load', async (t) => {
  const data = join(newFolder(t), 'data');
  const service = await startService(t, { data });
  const { acknowledged, stop } = load(t, service);
  await eventually('reports are accepted', () => acknowledged.size >= 50);
  rmSync(data, { recursive: true, force: true });
  const before = acknowledged.size;
  await assertGivesUp(service, /removed or replaced|ENOENT/);
  await stop();
  assert.ok(acknowledged.size - before <= 4, 'only replies that were on their way');
});
