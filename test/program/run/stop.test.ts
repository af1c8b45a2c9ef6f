/** Signals, and the waits of a stop. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { exitCodes } from '../../../src/config/exit-codes.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { launch, newFolder, type Running, run, type Scope, startService } from '../../support/program.ts';
import { serve, serveSimulated } from '../../support/service.ts';
import { noTerminal, serveOnTerminal } from '../../support/terminal.ts';
import { eventually, HANG_MS, within } from '../../support/tools.ts';
import { ask, get, post, Wire } from '../../support/wire.ts';
import { hold } from '../../world/gate.ts';

const TARGET = '/report_asset_materialization/';
const LIVE = get('/livez');

test('SIGTERM and SIGINT are logged, and end the service with 0 when everything is on the disk', async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const service = await startService(t);
    const wires = await Promise.all(Array.from({ length: 20 }, () => Wire.open(service.port)));
    await ask(service.port, LIVE); // the connections before it have been accepted
    for (const wire of wires) wire.send(post(`${TARGET}a`));
    await sleep(5);
    const ended = service.kill(signal);
    let acknowledged = 0;
    for (const wire of wires) if ((await wire.reply())?.status === 200) acknowledged += 1;
    const { code, stdout, stderr } = await ended;
    assert.deepEqual([code, stdout], [0, `assetlog listening on ${service.url}\n`], stderr);
    assert.match(stderr, new RegExp(`"message":"stopping","signal":"${signal}"`));
    assert.equal(service.events().length, acknowledged);
    const names = ['.stopped-cleanly', 'assets.state', 'events-00000000000000000001.jsonl'];
    assert.deepEqual(readdirSync(service.data).sort(), names);
  }
});

test('requests that arrived before a stop get their replies, even if they were not read yet', async (t) => {
  const service = await serve(t);
  const wires = await Promise.all(Array.from({ length: 64 }, () => Wire.open(service.port)));
  for (const wire of wires) wire.send(post(`${TARGET}before`));
  for (const wire of wires) assert.equal((await wire.reply())?.status, 200); // idle now
  for (const wire of wires) wire.send(post(`${TARGET}a`)); // to the kernel: nothing is read before this turn has ended
  const stopped = service.stop();
  for (const wire of wires) {
    const reply = await wire.reply();
    assert.deepEqual([reply?.status, reply?.headers.get('connection')], [200, 'close']);
  }
  await stopped;
});

test('a stop ends the pause of --commit-delay, and a request that was read before starts no other one', async (t) => {
  const deployments = writeDeployments(t, ['prod']);
  for (const [args, path, headers] of [
    [[], '', []],
    [deployments.args, '/prod', [`Service-Cloud-Api-Token: ${deployments.tokenOf('prod')}`]],
  ] as const) {
    const service = await serve(t, { args, config: { commitDelay: 3_600_000 } });
    const [paused, unfinished] = [await Wire.open(service.port), await Wire.open(service.port)];
    paused.send(post(`${path}${TARGET}a`, undefined, headers));
    await eventually('the pause', () => service.progress.isWaiting());
    const request = post(`${path}${TARGET}`, '{"asset_key":"b"}', headers);
    unfinished.send(request.slice(0, -5));
    await ask(service.port, LIVE);
    const stopped = service.stop();
    assert.equal((await within('the reply', HANG_MS, paused.reply()))?.status, 200);
    unfinished.send(request.slice(-5));
    assert.equal((await within('the other reply', HANG_MS, unfinished.reply()))?.status, 200);
    await stopped;
    assert.equal(await service.ended, 0);
  }
});

/** A service whose stop waits for the rest of a request. */
async function startStopping(t: Scope, signal: NodeJS.Signals): Promise<{ service: Running; wire: Wire }> {
  const service = await startService(t);
  const wire = await sendUnfinished(service.port);
  process.kill(service.pid, signal);
  await eventually('the stop has started', () =>
    service.stderr().includes(`"message":"stopping","signal":"${signal}"`),
  );
  return { service, wire };
}

async function sendUnfinished(port: number): Promise<Wire> {
  const wire = await Wire.open(port);
  wire.send(`${post(`${TARGET}before`)}${UNFINISHED}`);
  assert.equal((await wire.reply())?.status, 200); // so the bytes after it were read too
  return wire;
}

const UNFINISHED = post(TARGET, '{"asset_key":"a"}').slice(0, -5);

test('a second signal ends the process at once, and by that signal', async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const { service } = await startStopping(t, 'SIGTERM');
    const end = await within('the end', HANG_MS, service.kill(signal));
    assert.deepEqual([end.code, end.signal], [null, signal]);
  }
});

test('SIGHUP stops a service on a terminal cleanly, even if a closing terminal sends it more than once', {
  skip: noTerminal(),
}, async (t) => {
  const data = newFolder(t);
  const { port, shown } = await serveOnTerminal(t, ['--data', data]);
  const pid = Number(/pid=(\d+)/.exec(shown())?.[1]);
  const wire = await sendUnfinished(port);
  process.kill(pid, 'SIGHUP');
  await eventually('the stop has started', () => shown().includes('stopping'));
  for (let count = 0; count < 3; count += 1) process.kill(pid, 'SIGHUP');
  wire.send(post(TARGET, '{"asset_key":"a"}').slice(-5));
  assert.equal((await wire.reply())?.status, 200);
  await eventually('the end', () => shown().includes('stopped'));
  assert.equal(shown().match(/stopping/g)?.length, 1);
  assert.ok(existsSync(join(data, '.stopped-cleanly')));
});

test('SIGHUP is ignored with one line if no stream is a terminal, as with nohup and under systemd', async (t) => {
  const service = await startService(t);
  for (let count = 0; count < 3; count += 1) {
    process.kill(service.pid, 'SIGHUP');
    assert.equal((await ask(service.port, post(`${TARGET}a`))).status, 200);
  }
  const { code, stderr } = await service.kill('SIGTERM');
  assert.equal(code, 0, stderr);
  assert.equal(stderr.match(/SIGHUP is ignored/g)?.length, 1);
});

test('a signal also ends a start that waits for its file, and SIGHUP does not end a service with deployments', async (t) => {
  const data = newFolder(t);
  const under = ['bash', '-c', 'exec "$@" --deployments <(exec sleep 20)', 'bash']; // nothing is written
  const { child, finished } = launch(['--port', '0', '--data', data], { under });
  t.after(() => child.kill('SIGKILL'));
  await eventually('the lock', () => readdirSync(data).some((name) => name.startsWith('.lock-')));
  child.kill('SIGHUP');
  child.kill('SIGTERM');
  const { code, stderr } = await within('the end', HANG_MS, finished);
  assert.equal(code, 0, stderr);
  assert.match(stderr, /"message":"stopping","signal":"SIGTERM"\}/);
});

test('a service continues when the reader of its output closes it', async (t) => {
  const { child } = launch(['--port', '0', '--data', newFolder(t), '--log-level', 'debug']);
  t.after(() => child.kill('SIGKILL'));
  const port = await new Promise<number>((resolve) => {
    child.stdout?.once('data', (text: string) => resolve(Number(new URL(/http\S+/.exec(text)?.[0] ?? '').port)));
  });
  child.stdout?.destroy();
  child.stderr?.destroy();
  for (let count = 0; count < 3; count += 1) assert.equal((await ask(port, post(`${TARGET}a`))).status, 200);
  child.kill('SIGTERM');
  assert.equal((await once(child, 'exit'))[0], 0);
});

test('a command whose output is never confirmed ends with 1 and a message', async (t) => {
  const service = await startService(t);
  assert.equal((await ask(service.port, post(`${TARGET}a`))).status, 200);
  // Standard output that accepts everything and never confirms a write.
  const broken = '--import=data:text/javascript,process.stdout.write=()=>true';
  const { code, stderr } = await run(['events', '--data', service.data], { env: { NODE_OPTIONS: broken } });
  assert.deepEqual([code, stderr.split(';')[0]], [1, 'assetlog: ended before its work was done']);
});

test('a stop gives clients that read no replies a limited time, and then ends with 0', async (t) => {
  const limits = { drainMs: 300, unansweredMax: 5_000 };
  const service = await serve(t, { limits });
  const { port } = service;
  const wires = await Promise.all(Array.from({ length: 5 }, () => Wire.open(port)));
  for (const wire of wires) {
    wire.socket.pause();
    wire.send(get('/openapi.json').repeat(500));
  }
  assert.equal((await ask(port, LIVE)).status, 200);
  const startedMs = performance.now();
  await service.stop();
  assert.ok(performance.now() - startedMs >= 250, 'replies that are due get their time');
  assert.equal(await service.ended, exitCodes.done);
  for (const wire of wires) wire.close();
});

test('a stop waits for an unfinished request, but only for a limited time', async (t) => {
  const service = await serve(t, { limits: { drainMs: 200 } });
  const { port, notices } = service;
  const wire = await Wire.open(port);
  wire.send(post(TARGET, '{"asset_key":"a"}').slice(0, -5));
  await ask(port, LIVE); // the bytes before it have been read
  await service.stop();
  assert.equal(await service.ended, exitCodes.done);
  assert.match(notices.join(''), /requests that were still being received are cut off/);
});

test('a stop gives up a disk that hangs, and keeps its folder locked until the disk has answered', async (t) => {
  const service = await serveSimulated(t, { limits: { drainMs: 50, lastSyncMs: 100 } });
  const { data, disk, port, notices } = service;
  const isLocked = () => readdirSync(data).some((name) => name.startsWith('.lock-'));
  const answer = hold(disk, 'sync');
  const wire = await Wire.open(port);
  wire.send(post(`${TARGET}a`));
  await eventually('the sync hangs', () => disk.count('sync') === 1);
  const alive = setInterval(() => {}, 1_000); // keeps the process alive, like a request to a real disk
  await service.stop();
  clearInterval(alive);
  assert.equal(await service.ended, exitCodes.diskFailed);
  assert.match(notices.join(''), /the disk did not finish the last sync/);
  assert.ok(isLocked());
  await assert.rejects(serve(t, { data }), /is in use by process/);
  answer();
  await eventually('the folder is free', () => !isLocked());
});
