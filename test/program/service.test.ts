/** The service in this process, with short limits and a disk that fails when it is told to. */

import assert from 'node:assert/strict';
import { chmodSync, closeSync, mkdirSync, openSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { options, readConfig } from '../../src/config/config.ts';
import { exitCodes } from '../../src/config/exit-codes.ts';
import { type Limits, limits as standardLimits } from '../../src/config/limits.ts';
import { endpoints } from '../../src/event/parameters.ts';
import { readFields } from '../../src/http/request.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { type Service, type ServiceParts, StartError, startService } from '../../src/service.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { freePort, newFolder } from '../support/program.ts';
import { type Call, SimulatedDisk, systemError } from '../support/simulated-disk.ts';
import { eventually } from '../support/tools.ts';
import { ask, errorOf, post, readFailure, Wire } from '../support/wire.ts';

const TARGET = '/report_asset_materialization/';
const READY = 'GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n';
const LIVE = 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n';

interface Started {
  readonly service: Service;
  readonly port: number;
  readonly notices: string[];
}

async function start(
  t: TestContext,
  parts: ServiceParts = {},
  args: readonly string[] = [],
  data = newFolder(t),
): Promise<Started> {
  const read = readConfig(['--port', '0', '--data', data, '--log-level', 'debug', ...args], {});
  assert.ok(read.kind === 'valid');
  const notices: string[] = [];
  const service = await startService(
    read.config,
    createNotices('debug', false, (line) => notices.push(line)),
    parts,
  );
  t.after(() => service.stop());
  return { service, port: Number(new URL(service.url).port), notices };
}

async function simulated(t: TestContext, limits: Limits = standardLimits): Promise<Started & { disk: SimulatedDisk }> {
  const disk = new SimulatedDisk(newFolder(t));
  return { disk, ...(await start(t, { openDisk: () => disk, limits })) };
}

test('while the disk refuses writes reports get 503 with Retry-After and the service is alive and not ready', async (t) => {
  const { disk, port } = await simulated(t);
  assert.equal((await ask(port, READY)).status, 200);
  disk.fault = (call) => (call === 'write' ? systemError('ENOSPC') : undefined);
  const refused = await ask(port, post(`${TARGET}a`));
  assert.equal(refused.status, 503);
  assert.equal(refused.headers.get('retry-after'), '1');
  assert.equal(errorOf(refused), 'the disk refuses writes; send the report again later');
  const ready = await ask(port, READY);
  assert.equal(ready.status, 503);
  assert.equal(ready.headers.get('retry-after'), '1');
  assert.match(errorOf(ready), /^the disk refuses writes/);
  assert.equal((await ask(port, LIVE)).status, 200);
  disk.fault = () => undefined;
  assert.equal((await ask(port, post(`${TARGET}a`))).status, 200);
  assert.equal((await ask(port, READY)).status, 200);
  assert.equal(disk.text(segmentName(1)).split('\n').length, 2);
});

test('each limit of a request is the one that the service was given', async (t) => {
  const head = (target: string) => post(`${TARGET}${target}`);
  const rows: readonly [Partial<Limits>, string, number, RegExp][] = [
    [{ bodyBytesMax: 20 }, post(TARGET, '{"asset_key":"abcdef"}'), 413, /larger than 20 bytes/],
    [{ bodyMembersMax: 1 }, post(TARGET, '{"asset_key":"a","x":1}'), 400, /\b1 member/],
    [{ jsonDepthMax: 2 }, post(TARGET, '{"asset_key":"a","metadata":{"x":[]}}'), 400, /\b2 levels/],
    [{ jsonDepthMax: 2 }, head('a?metadata={"x":[[]]}'), 400, /\b2 levels/],
    [{ keyBytesMax: 8 }, head('warehouse'), 400, /at most 8 are taken/],
    [{ headersMax: 1 }, head('a').replace('\r\n\r\n', '\r\nA: b\r\nC: d\r\n\r\n'), 431, /at most 1 are read/],
    [{ headBytesMax: 100 }, head('a'.repeat(100)), 431, /over 100 bytes/],
  ];
  for (const [changed, request, status, error] of rows) {
    const { port } = await simulated(t, { ...standardLimits, ...changed });
    const reply = await ask(port, request);
    assert.equal(reply.status, status, JSON.stringify(changed));
    assert.match(errorOf(reply), error);
    const document = await ask(port, 'GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n');
    if (document.status === 200) {
      for (const value of Object.values(changed)) assert.match(document.body, new RegExp(`\\b${value}\\b`));
    }
  }
  const { disk, port } = await simulated(t, { ...standardLimits, retryAfterSeconds: 7 });
  disk.fault = (call) => (call === 'write' ? systemError('ENOSPC') : undefined);
  for (const request of [post(`${TARGET}a`), READY]) {
    assert.equal((await ask(port, request)).headers.get('retry-after'), '7');
  }
});

test('a failed sync answers everybody 503 and ends the service with 5', async (t) => {
  const { disk, port, service, notices } = await simulated(t);
  disk.fault = (call) => (call === 'sync' ? systemError('EIO') : undefined);
  const wires = await Promise.all(Array.from({ length: 10 }, () => Wire.open(port)));
  await eventually('all are accepted', async () => (await connectionsOf(port)) > wires.length);
  for (const wire of wires) wire.send(post(`${TARGET}a`));
  for (const wire of wires) assert.equal((await wire.reply())?.status, 503);
  assert.equal(await service.ended, exitCodes.diskFailed);
  assert.match(notices.join(''), /the disk failed and the service ends.*EIO/);
  await assert.rejects(ask(port, LIVE));
});

test('a lock file that is removed ends the service with 5, at the next report or without one [service-8]', async (t) => {
  for (const lockCheckMs of [20, 60_000]) {
    const data = newFolder(t);
    const { port, service, notices } = await start(t, { limits: { ...standardLimits, lockCheckMs } }, [], data);
    for (const name of readdirSync(data)) if (name.startsWith('.lock-')) rmSync(join(data, name));
    if (lockCheckMs > 20) assert.equal((await ask(port, post(`${TARGET}a`))).status, 503);
    assert.equal(await service.ended, exitCodes.diskFailed);
    assert.match(notices.join(''), /"problem":"the lock file \S+ was removed or replaced by another program/);
  }
});

test('while the journal is being read the service is alive, not ready, and refuses reports', async (t) => {
  const folder = newFolder(t);
  const disk = new SimulatedDisk(folder);
  disk.put(segmentName(1), Buffer.alloc(0));
  let release = () => {};
  const reading = new Promise<void>((resolve) => {
    release = resolve;
  });
  disk.fault = (call) => (call === 'list' ? reading : undefined);
  const port = await freePort(t);
  const starting = start(t, { openDisk: () => disk }, ['--port', String(port)], folder);
  await eventually('it listens', () => ask(port, LIVE).then(Boolean, () => false));
  assert.equal((await ask(port, LIVE)).status, 200);
  assert.equal(errorOf(await ask(port, READY)), 'the journal is being opened');
  assert.equal((await ask(port, post(`${TARGET}a`))).status, 503);
  release();
  await starting;
  assert.equal((await ask(port, post(`${TARGET}a`))).status, 200);
});

test('a start that fails says why, with the exit code of its reason, and leaves folder and port to others [service-7]', async (t) => {
  const failure = (args: readonly string[], data?: string, parts?: ServiceParts) =>
    start(t, parts, args, data).then(
      () => assert.fail('it started'),
      (error) => {
        assert.ok(error instanceof StartError, String(error));
        assert.doesNotMatch(error.message, /\n/);
        return `${error.exitCode} ${error.message}`;
      },
    );
  const { service, port } = await start(t);
  assert.match(
    await failure(['--port', String(port)]),
    /^2 port \d+ on 127\.0\.0\.1 is busy; stop what listens there or choose another with --port$/,
  );
  assert.match(
    await failure(['--host', '192.0.2.1']),
    /^2 can not listen on 192\.0\.2\.1 port 0: .*EADDRNOTAVAIL.*; choose another with --host and --port$/,
  );
  assert.match(
    await failure(['--host', 'name.invalid']),
    /^2 --host name\.invalid is not an address of this machine: /,
  );
  assert.match(
    await failure([], '/dev/null/data'),
    /^2 the data folder \/dev\/null\/data can not be used: .*; make it writable or choose another with --data$/,
  );

  const taken = newFolder(t);
  const first = await start(t, {}, [], taken);
  assert.match(await failure([], taken), /^4 .* is in use by process \d+; stop it, or use another --data$/);
  await first.service.stop();

  const damaged = newFolder(t);
  writeFileSync(join(damaged, segmentName(1)), 'garbage\n{"seq":2,"x":1,"crc":"00000000"}\n');
  assert.match(
    await failure([], damaged),
    /^3 the journal is damaged: .*events-0+1\.jsonl, line 1, byte 0: it is not of the form/,
  );
  writeFileSync(join(damaged, segmentName(1)), '');
  await (await start(t, {}, [], damaged)).service.stop();

  const broken = newFolder(t);
  mkdirSync(join(broken, segmentName(1)));
  assert.match(
    await failure([], broken),
    /^5 the journal in .* can not be opened: .*is not a regular file; move it away/,
  );
  await service.stop();
});

test('a start ends with 5 if the disk fails, and with 2 only for a mistake of the operator [service-10]', async (t) => {
  const ended = async (code: string, arrange: (disk: SimulatedDisk, error: Error) => void) => {
    const disk = new SimulatedDisk(newFolder(t));
    arrange(disk, systemError(code));
    const error: unknown = await start(t, { openDisk: () => disk }).catch((error) => error);
    assert.ok(error instanceof StartError, String(error));
    return `${error.exitCode} ${error.message}`;
  };
  const steps: [string, RegExp, (disk: SimulatedDisk, error: Error) => void][] = [
    ['the folder is made', /^5 the data folder \S+ can not be used: E\w+: simulated, 'file'$/, failPrepare],
    ['the mount is asked for', /^5 the start failed: E\w+: simulated, 'file'$/, failMount],
    ['the folder is listed', /^5 the folder \S+ can not be read: E\w+: simulated, 'file'$/, fail('list')],
    ['the file is made', /^5 the journal in \S+ can not be opened: E\w+: simulated, 'file'$/, fail('create')],
  ];
  for (const [step, expected, arrange] of steps) {
    for (const code of ['EIO', 'EMFILE', 'ENFILE', 'ENOMEM']) assert.match(await ended(code, arrange), expected, step);
    for (const code of ['EACCES', 'EPERM']) assert.match(await ended(code, arrange), /^2 .*E(ACCES|PERM)/, step);
  }
  assert.match(await ended('EROFS', failPrepare), /^2 .*; make it writable or choose another with --data$/);
});

test('a start warns if --retain-bytes exceeds the disk, and names --keep-free [service-11]', async (t) => {
  const warned = async (...args: string[]) => {
    const disk = new SimulatedDisk(newFolder(t));
    disk.freeSpace = { freeBytes: 9_000_000, usableBytes: 9_000_000, totalBytes: 10_000_000 };
    const { notices, service } = await start(t, { openDisk: () => disk }, ['--min-free-bytes', '0', ...args]);
    await service.stop();
    return notices.some((line) => /"warn".*--retain-bytes exceeds the disk.*--keep-free.*10000000/.test(line));
  };
  assert.equal(await warned('--retain-bytes', '10MB'), true);
  assert.equal(await warned('--retain-bytes', '9MB'), false);
  assert.equal(await warned('--retain-bytes', '10MB', '--keep-free', '1MB'), false);
  assert.equal(await warned(), false);
});

function failPrepare(disk: SimulatedDisk, error: Error): void {
  disk.prepare = () => Promise.reject(error);
}

function failMount(disk: SimulatedDisk, error: Error): void {
  disk.mount = () => Promise.reject(error);
}

function fail(failing: Call): (disk: SimulatedDisk, error: Error) => void {
  return (disk, error) => {
    disk.fault = (call) => (call === failing ? error : undefined);
  };
}

test('a folder that is locked late, since the disk was full, is warned about as well', async (t) => {
  const data = join(newFolder(t), 'data');
  const disk = new SimulatedDisk(data);
  let prepare = async (): Promise<void> => {
    throw systemError('ENOSPC');
  };
  disk.prepare = () => prepare();
  const limits = { ...standardLimits, probeMs: 10 };
  const notices: string[] = [];
  const read = readConfig(['--port', '0', '--data', data], {});
  assert.ok(read.kind === 'valid');
  const starting = startService(
    read.config,
    createNotices('debug', false, (line) => notices.push(line)),
    { openDisk: () => disk, limits },
  );
  await eventually('it waits for space', () => /waits for space to lock its data folder/.test(notices.join('')));
  prepare = async () => {
    mkdirSync(data, { recursive: true });
    chmodSync(data, 0o777);
  };
  const service = await starting;
  assert.match(notices.join(''), /every user of this machine may write to the data folder/);
  await service.stop();
});

test('a start that fails keeps its folder locked while the journal that it opened may still be written [service-9]', async (t) => {
  const data = newFolder(t);
  const disk = new SimulatedDisk(data);
  const isLocked = () => readdirSync(data).some((name) => name.startsWith('.lock-'));
  let release = () => {};
  const reading = new Promise<void>((resolve) => {
    release = resolve;
  });
  disk.fault = (call) => (call === 'list' ? reading : undefined);
  const fd = openSync(join(data, 'no-socket'), 'w');
  t.after(() => closeSync(fd));
  const limits = { ...standardLimits, openWaitMs: 20, lastSyncMs: 20 };
  const alive = setInterval(() => {}, 1_000); // as the request to a real disk would keep the process
  await assert.rejects(start(t, { openDisk: () => disk, limits, fd }, [], data), /the socket that was passed/);
  clearInterval(alive);
  assert.equal(disk.count('list'), 1);
  assert.ok(isLocked());
  release();
  await eventually('the folder is free', () => !isLocked());
});

test('slow requests are told 408, in their turn, and the connection ends', async (t) => {
  const limits = { ...standardLimits, headersMs: 300, requestMs: 600, deadlineCheckMs: 50, discardMs: 200 };
  const { port } = await start(t, { limits });
  const slow: readonly (readonly [string, RegExp])[] = [
    ['', /the request took too long/],
    ['POST / HTTP/1.1\r\nHost: loc', /the request took too long/],
    [post(TARGET, '{"asset_key":"a"}').slice(0, -3), /the body took too long/],
  ];
  for (const [bytes, error] of slow) {
    const wire = await Wire.open(port);
    wire.send(`${post(`${TARGET}before`)}${bytes}`.slice(bytes === '' ? 10_000 : 0));
    if (bytes !== '') assert.equal((await wire.reply())?.status, 200);
    const reply = await wire.reply();
    assert.equal(reply?.status, 408, bytes);
    assert.equal(reply?.headers.get('connection'), 'close');
    assert.match(errorOf(reply), error);
    assert.equal(await wire.ends(2_000), true);
  }
  assert.equal((await ask(port, LIVE)).status, 200);
});

test('an idle connection is closed after its time, and an endless refused upload is cut off', async (t) => {
  const limits = { ...standardLimits, idleMs: 200, discardMs: 300, discardBytesMax: 1_000_000, deadlineCheckMs: 50 };
  const { port } = await start(t, { limits });
  const idle = await Wire.open(port);
  idle.send(LIVE);
  assert.equal((await idle.reply())?.status, 200);
  assert.equal(await idle.ends(3_000), true);

  for (const pauseMs of [1, 400]) {
    const upload = await Wire.open(port);
    upload.send(`POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n`);
    assert.equal((await upload.reply())?.status, 404);
    for (let sent = 0; sent < 100 && !upload.ended; sent += 1) {
      upload.send(Buffer.alloc(100_000));
      await sleep(pauseMs);
    }
    assert.equal(upload.ended, true, 'it was read on and on');
    upload.close();
  }
});

test('a connection on which a reply is due, or requests come, is not idle', async (t) => {
  const { disk, port } = await simulated(t, { ...standardLimits, idleMs: 800, deadlineCheckMs: 20 });
  const wire = await Wire.open(port);
  disk.fault = (call) => (call === 'sync' ? sleep(1_200) : undefined);
  wire.send(post(`${TARGET}slow`));
  assert.equal((await wire.reply())?.status, 200);
  disk.fault = () => undefined;
  for (let count = 0; count < 5; count += 1) {
    await sleep(250);
    wire.send(post(`${TARGET}quick`));
    const reply = await wire.reply();
    assert.deepEqual([reply?.status, reply?.headers.get('keep-alive')], [200, 'timeout=0']);
  }
  assert.equal(await wire.ends(3_000), true);
});

test('a connection whose client reads no replies is cut off after the idle time, and one that reads slowly is not [service-2]', async (t) => {
  const limits = { ...standardLimits, idleMs: 1_000, deadlineCheckMs: 50, unansweredMax: 5_000 };
  const { port } = await start(t, { limits });
  const documents = 'GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(3_000); // 67 MB: more than the system buffers
  const [unread, slow] = await Promise.all([Wire.open(port), Wire.open(port)]);
  for (const wire of [unread, slow]) {
    wire.send(LIVE); // connected is not yet accepted
    assert.equal((await wire.reply())?.status, 200);
    wire.socket.pause();
  }
  let read = 0;
  slow.socket.on('data', (text) => {
    read += text.length;
    slow.socket.pause();
  });
  slow.socket.pause();
  for (const wire of [unread, slow]) wire.send(documents);
  const beat = setInterval(() => slow.socket.resume(), 20);
  t.after(() => clearInterval(beat));
  for (const late = performance.now() + 10_000; (await connectionsOf(port)) > 2; await sleep(20))
    assert.ok(performance.now() < late, 'the connection that is not read is still there');
  assert.equal(slow.socket.destroyed, false);
  const before = read;
  for (const late = performance.now() + 5_000; read === before; await sleep(5))
    assert.ok(performance.now() < late, 'the slow reader gets nothing more');
  for (const wire of [unread, slow]) wire.close();
});

test('the last of too many unanswered requests ends its connection, and what comes after it is not recorded [service-3]', async (t) => {
  const { disk, port } = await simulated(t, { ...standardLimits, discardMs: 300 });
  const wire = await Wire.open(port);
  disk.fault = (call) => (call === 'sync' ? sleep(100) : undefined);
  const max = standardLimits.unansweredMax;
  wire.send(Array.from({ length: 200 }, (_, count) => post(`${TARGET}${count}`)).join(''));
  for (let count = 1; count <= max; count += 1) {
    const reply = await wire.reply();
    assert.deepEqual([reply?.status, reply?.headers.get('connection')], [200, count < max ? 'keep-alive' : 'close']);
  }
  assert.equal(await wire.ends(3_000), true);
  wire.close();
  disk.fault = () => undefined;
  assert.equal((await ask(port, post(`${TARGET}after`))).status, 200);
  assert.equal(disk.text(segmentName(1)).split('\n').length, max + 2);
});

test('a client that resets its connection before its reply does not stop the service', async (t) => {
  const { disk, port } = await simulated(t);
  let release = () => {};
  const syncing = new Promise<void>((resolve) => {
    release = resolve;
  });
  disk.fault = (call) => (call === 'sync' ? syncing : undefined);
  const wire = await Wire.open(port);
  wire.send(post(`${TARGET}a`));
  await eventually('the sync is under way', () => disk.count('sync') === 1);
  wire.socket.resetAndDestroy();
  await eventually('the reset has arrived', async () => (await connectionsOf(port)) === 1);
  release();
  assert.equal((await ask(port, LIVE)).status, 200);
  await eventually('the report is recorded', () => disk.text(segmentName(1)).endsWith('\n'));
});

test('reading pauses while replies are due, and goes on when they are out', async (t) => {
  const { disk, port } = await simulated(t);
  const wire = await Wire.open(port);
  disk.fault = (call) => (call === 'sync' ? sleep(50) : undefined);
  const body = JSON.stringify({ description: 'x'.repeat(5_000) }); // a dozen fit into what Node reads at once
  for (let count = 0; count < 150; count += 1) wire.send(post(`${TARGET}${count}`, body));
  for (let count = 0; count < 150; count += 1) {
    const reply = await wire.reply();
    assert.deepEqual([count, reply?.status, reply?.headers.get('connection')], [count, 200, 'keep-alive']);
  }
  wire.close();
});

test('a stop does not wait for a client that reads no replies, and its other limits hold', async (t) => {
  const limits = { ...standardLimits, drainMs: 300, unansweredMax: 5_000 };
  const { port, service } = await start(t, { limits });
  const wires = await Promise.all(Array.from({ length: 5 }, () => Wire.open(port)));
  for (const wire of wires) {
    wire.socket.pause();
    wire.send('GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(500));
  }
  assert.equal((await ask(port, LIVE)).status, 200);
  const startedMs = performance.now();
  await service.stop();
  assert.ok(performance.now() - startedMs >= 250, 'replies that are due get their time');
  assert.equal(await service.ended, exitCodes.done);
  for (const wire of wires) wire.close();
});

test('at the cap the connection that was idle longest ends for a new one, and none that waits for its reply [service-4]', async (t) => {
  const limits = { ...standardLimits, evictableMs: 1_000, deadlineCheckMs: 20 };
  const disk = new SimulatedDisk(newFolder(t));
  const { port, notices } = await start(t, { openDisk: () => disk, limits }, ['--max-connections', '3']);
  let release = () => {};
  const syncing = new Promise<void>((resolve) => {
    release = resolve;
  });
  const waiting = await Wire.open(port);
  disk.fault = (call) => (call === 'sync' ? syncing : undefined);
  waiting.send(post(`${TARGET}waiting`));
  const oldest = await Wire.open(port);
  await sleep(100); // by so much it is older
  const younger = await Wire.open(port);
  await sleep(limits.evictableMs + 100); // both have been idle for long enough
  const newcomer = await Wire.open(port);
  assert.equal(await oldest.ends(), true);
  newcomer.send(LIVE);
  assert.equal((await newcomer.reply())?.status, 200);
  younger.send(LIVE);
  assert.equal((await younger.reply())?.status, 200);
  assert.equal(await (await Wire.open(port)).ends(), true, 'nothing was idle long enough');
  release();
  assert.equal((await waiting.reply())?.status, 200);
  assert.match(notices.join(''), /at the cap, the longest idle connection is closed for a new one.*"cap":3/);
  assert.match(notices.join(''), /connections over the cap are closed at once.*"cap":3/);
  for (const wire of [waiting, younger, newcomer]) wire.close();
});

test('when upload memory is used up the upload that stalled longest gets 408, and one that moves is not ended [service-5]', async (t) => {
  const limits = { ...standardLimits, uploadBytesMax: 250_000, stalledUploadMs: 2_000, deadlineCheckMs: 20 };
  const { port } = await start(t, { limits });
  const body = JSON.stringify({ asset_key: 'a', description: 'x'.repeat(100_000) });
  const open = post(TARGET, body).slice(0, -1_000);
  const [stalled, moving] = await Promise.all([Wire.open(port), Wire.open(port)]);
  stalled.send(open);
  moving.send(open);
  const beat = setInterval(() => moving.send('x'), 50);
  t.after(() => clearInterval(beat));
  await sleep(1.5 * limits.stalledUploadMs); // as long as an upload must stall
  const reply = await ask(port, post(TARGET, body));
  assert.equal(reply.status, 200, reply.body);
  const ended = await stalled.reply();
  assert.equal(ended?.status, 408);
  assert.match(errorOf(ended), /stalled while others needed its memory/);
  const other = await Wire.open(port);
  other.send(open);
  await sleep(10 * limits.deadlineCheckMs); // it has been read, and since then there was no progress
  assert.equal((await ask(port, post(TARGET, body))).status, 503, 'no upload had stalled');
  assert.equal(moving.ended, false);
  for (const wire of [stalled, moving, other]) wire.close();
});

async function connectionsOf(port: number): Promise<number> {
  const { body } = await ask(port, 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
  return Number(/^assetlog_connections (\d+)$/m.exec(body)?.[1]);
}

test('an upload for which no memory can be allocated gets 503 and is read to its end, and the service continues [service-6]', async (t) => {
  // More than any machine can allocate: the same error as that of a machine without memory.
  const { port, notices } = await start(t, {
    limits: { ...standardLimits, bodyBytesMax: 2 ** 52, uploadBytesMax: 2 ** 52 },
  });
  const body = JSON.stringify({ asset_key: 'a', description: 'x'.repeat(300_000) });
  const wire = await Wire.open(port);
  wire.send(post(TARGET, body));
  const refused = await wire.reply();
  assert.equal(refused?.status, 503);
  assert.match(errorOf(refused), /^the service is short of memory; send the report again later$/);
  assert.equal(refused?.headers.get('retry-after'), '1');
  assert.equal(await wire.ends(), true);
  assert.match(notices.join(''), /a body could not be received and gets 503; is memory short\?/);
  assert.equal((await ask(port, post(TARGET, '{"asset_key":"a"}'))).status, 200);
});

test('bodies that are being received are bounded together, and room is given back', async (t) => {
  const { port } = await start(t, { limits: { ...standardLimits, uploadBytesMax: 300_000 } });
  const body = JSON.stringify({ asset_key: 'a', description: 'x'.repeat(100_000) });
  for (const leave of ['finishes', 'goes away']) {
    const uploads = await Promise.all(Array.from({ length: 3 }, () => Wire.open(port)));
    for (const wire of uploads.slice(0, 2)) wire.send(post(TARGET, body).slice(0, -1));
    await ask(port, LIVE); // what was sent before it has been read
    uploads[2]?.send(post(TARGET, body).slice(0, -1));
    const refused = await uploads[2]?.reply();
    assert.equal(refused?.status, 503);
    assert.equal(refused?.headers.get('retry-after'), '1');
    for (const wire of uploads.slice(0, 2)) {
      if (leave === 'finishes') {
        wire.send('}');
        assert.equal((await wire.reply())?.status, 200);
      }
      wire.close();
    }
    uploads[2]?.close();
    await eventually('only the one that asks is connected', async () => (await connectionsOf(port)) === 1);
    assert.equal((await ask(port, post(TARGET, body))).status, 200, leave);
  }
});

test('a garbage collection is asked for as bodies arrive, whether they are taken or thrown away [service-1]', async (t) => {
  let collections = 0;
  const collectGarbage = () => {
    collections += 1;
  };
  const { port } = await start(t, { limits: { ...standardLimits, collectBytes: 100_000 }, collectGarbage });
  const body = JSON.stringify({ asset_key: 'a', description: 'x'.repeat(50_000) });
  const collectionsAfter: number[] = [];
  for (let count = 0; count < 4; count += 1) {
    assert.equal((await ask(port, post(TARGET, body))).status, 200);
    collectionsAfter.push(collections);
  }
  assert.deepEqual(collectionsAfter, [0, 1, 1, 2]);
  assert.equal((await ask(port, post('/nowhere', body.repeat(2)))).status, 404);
  for (const late = performance.now() + 5_000; collections < 3 && performance.now() < late; ) await sleep(5);
  assert.equal(collections, 3);
});

test('a stop answers what was read and what is still being received, and accepts nobody', async (t) => {
  const { disk, port, service } = await simulated(t);
  let release = () => {};
  const syncing = new Promise<void>((resolve) => {
    release = resolve;
  });
  disk.fault = (call) => (call === 'sync' ? syncing : undefined);
  const [read, receiving, silent] = await Promise.all([Wire.open(port), Wire.open(port), Wire.open(port)]);
  read.send(post(`${TARGET}read`));
  const late = post(TARGET, '{"asset_key":"received"}');
  await eventually('a sync', () => disk.count('sync') === 1);
  receiving.send(late.slice(0, -5));
  await ask(port, LIVE); // all that was sent before it has been read
  const stopped = service.stop();
  const refused = () =>
    ask(port, LIVE).then(
      () => false,
      () => true,
    );
  await eventually('connections are refused', refused);
  assert.equal(await silent.ends(1_000), true);
  receiving.send(late.slice(-5));
  release();
  for (const wire of [read, receiving]) {
    const reply = await wire.reply();
    assert.equal(reply?.status, 200);
    assert.equal(reply?.headers.get('connection'), 'close');
  }
  await stopped;
  assert.equal(await service.ended, exitCodes.done);
  assert.equal(disk.text(segmentName(1)).split('\n').length, 3);
  assert.ok(disk.names().includes('.stopped-cleanly'));
});

test('a sync that fails during a stop is not a clean stop', async (t) => {
  const { disk, port, service } = await simulated(t);
  let fail = () => {};
  const failing = new Promise<never>((_, reject) => {
    fail = () => reject(systemError('EIO'));
  });
  disk.fault = (call) => (call === 'sync' ? failing : undefined);
  const wire = await Wire.open(port);
  wire.send(post(`${TARGET}a`));
  await eventually('the sync', () => disk.count('sync') === 1);
  const stopped = service.stop();
  fail();
  await stopped;
  assert.equal((await wire.reply())?.status, 503);
  assert.equal(await service.ended, exitCodes.diskFailed);
  assert.equal(disk.names().includes('.stopped-cleanly'), false);
});

test('a stop does not wait for ever for a request that is never finished', async (t) => {
  const { port, service, notices } = await start(t, { limits: { ...standardLimits, drainMs: 200 } });
  const wire = await Wire.open(port);
  wire.send(post(TARGET, '{"asset_key":"a"}').slice(0, -5));
  await ask(port, LIVE); // what was sent before it has been read
  await service.stop();
  assert.equal(await service.ended, exitCodes.done);
  assert.match(notices.join(''), /requests that were still being received are cut off/);
});

test('a stop gives up a disk that hangs, and keeps its folder locked until the disk has answered', async (t) => {
  const data = newFolder(t);
  const disk = new SimulatedDisk(data);
  const limits = { ...standardLimits, drainMs: 50, lastSyncMs: 100 };
  const { port, service, notices } = await start(t, { openDisk: () => disk, limits }, [], data);
  const isLocked = () => readdirSync(data).some((name) => name.startsWith('.lock-'));
  let answer = () => {};
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  disk.fault = (call) => (call === 'sync' ? answered : undefined);
  const wire = await Wire.open(port);
  wire.send(post(`${TARGET}a`));
  await eventually('the sync hangs', () => disk.count('sync') === 1);
  const alive = setInterval(() => {}, 1_000); // as the request to a real disk would keep the process
  await service.stop();
  clearInterval(alive);
  assert.equal(await service.ended, exitCodes.diskFailed);
  assert.match(notices.join(''), /the disk did not finish the last sync/);
  assert.ok(isLocked());
  await assert.rejects(start(t, {}, [], data), /is in use by process/);
  answer();
  await eventually('the folder is free', () => !isLocked());
});

test('the log has a line a request at debug, and never a query, a body or a forged line', async (t) => {
  const { port, notices } = await start(t);
  const secret = 'sEcReT';
  await ask(port, post(`${TARGET}a%0Ab?metadata={"k":"${secret}"}`, `{"uri":1,"metadata":{"k":"${secret}"}}`));
  await ask(
    port,
    post(`${TARGET}a?x=1`, `{"uri":1,"asset_key":"other","metadata":{"k":"${secret}"}}`, [
      `Service-Cloud-Api-Token: ${secret}`,
    ]),
  );
  await ask(port, post(`${TARGET}a`, `{"metadata":["${secret}"]}`));
  await ask(port, 'GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n');
  await ask(port, 'GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n');
  const log = notices.join('');
  assert.doesNotMatch(log, new RegExp(secret));
  assert.equal(log.match(/"message":"request"/g)?.length, 5);
  assert.match(
    log,
    /"message":"request","request_id":"[0-9a-f-]{36}","method":"POST","path":"\/report_asset_materialization\/a","status":200,"ms":[\d.]+/,
  );
  assert.match(
    log,
    /"message":"the asset key in the path won over another one in the same request","request_id":"[0-9a-f-]{36}","path":"[^"]+","recorded":\["a"\],"ignored":"other"/,
  );
  assert.equal(
    log.match(/"message":"an unknown parameter is ignored","request_id":"[0-9a-f-]{36}","name":"uri"/g)?.length,
    1,
  );
  assert.equal(log.match(/"level":"warn",.*Host \\"evil\.example\\" is not this service/g)?.length, 1);
});

test('each failure has an id of its own that finds its lines in the log, and none that a client chose', async (t) => {
  const limits = { ...standardLimits, headersMs: 300, requestMs: 600, deadlineCheckMs: 50, discardMs: 200 };
  const { disk, port, notices } = await simulated(t, limits);
  const chosen = ['X-Request-Id: deadbeef-1', 'Request-Id: deadbeef-1'];
  const asked: readonly (readonly [status: number, bytes: string])[] = [
    [400, post(`${TARGET}a`, '{"passed":', chosen)],
    [404, post('/nowhere', undefined, chosen)],
    [405, `GET ${TARGET}a HTTP/1.1\r\nHost: localhost\r\n\r\n`],
    [413, post(TARGET, 'x'.repeat(1_100_000))],
    [403, 'GET /readyz HTTP/1.1\r\nHost: evil.example\r\n\r\n'],
    [400, 'no HTTP at all\r\n\r\n'],
    [400, 'CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    [408, post(TARGET, '{"asset_key":"a"}').slice(0, -3)],
    [408, 'POST / HTTP/1.1\r\nHost: loc'],
    [503, post(`${TARGET}a`)],
    [503, READY],
  ];
  const ids = new Set<string>();
  for (const [status, bytes] of asked) {
    if (status === 503) disk.fault = (call) => (call === 'write' ? systemError('ENOSPC') : undefined);
    const reply = await ask(port, bytes);
    assert.equal(reply.status, status, bytes.slice(0, 100));
    const { error, requestId } = readFailure(reply.body) ?? assert.fail(reply.body);
    const lines = notices
      .filter((line) => line.includes(`"request_id":"${requestId}"`))
      .map((line) => JSON.parse(line));
    assert.ok(
      lines.some((line) => line.status === status),
      `${requestId} in\n${notices.join('')}`,
    );
    if (status === 503) assert.equal(lines[0].problem, error);
    if (status === 403) assert.ok(lines.some(({ level, problem }) => level === 'warn' && problem === error));
    ids.add(requestId);
  }
  assert.equal(ids.size, asked.length);
  // A part that is the same in all could be followed by a count, which would tell strangers how many others fail.
  for (const part of [0, 4])
    assert.equal(new Set([...ids].map((id) => id.split('-')[part])).size, ids.size, [...ids].join(' '));
  assert.doesNotMatch(notices.join(''), /deadbeef/);
});

test('a defect of ours is a 503 for the client and a full account for the operator, never a 500', async () => {
  const { createApp } = await import('../../src/http/app.ts');
  const notices: string[] = [];
  const app = createApp({
    endpoints,
    takesKeys: true,
    pathPrefix: options.pathPrefix.initial,
    checkAccess: () => {
      throw new TypeError('defect');
    },
    namesDeployment: false,
    tokenHeaders: new Set(),
    findRecorder: () => ({
      prefix: '',
      deployment: undefined,
      begin: () => {},
      append: () => {},
      refusal: () => undefined,
    }),
    readings: [],
    findReadable: () => ({ deployment: undefined, whileAllowed: () => () => {} }),
    contract: () => '{}',
    readiness: () => ({ kind: 'body', status: 200, body: '{}' }),
    limits: standardLimits,
    metrics: new Metrics(),
    freeBytes: () => undefined,
    notices: createNotices('info', false, (line) => notices.push(line)),
    activity: { showsRecorded: false, textOf: () => '', recorded: () => {}, pathOf: (url) => url },
  });
  const fields = readFields(['Host', 'localhost']);
  const ending = AbortSignal.abort();
  const decision = app({
    id: 'f00d-7',
    method: 'POST',
    url: TARGET,
    httpVersion: '1.1',
    fields,
    ending,
    endReply: () => {},
  });
  assert.ok(decision.kind === 'refuse');
  assert.equal(decision.reply.status, 503);
  assert.match(notices[0] ?? '', /"request_id":"f00d-7",.*TypeError: defect/);
});
