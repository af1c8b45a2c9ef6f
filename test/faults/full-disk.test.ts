/**
 * A disk that is really full. A failed write is cut back before its 503 is sent, so here, unlike after a power cut, an event with
 * a 503 is never in the journal: the journal has exactly the acknowledged events.
 */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cursor, readCursor } from '../../src/forward/ledger/cursor.ts';
import { openDisk } from '../../src/journal/disk.ts';
import { openLetters } from '../forward/scripted.ts';
import { type Deployments, writeDeployments } from '../support/deployments.ts';
import type { Load } from '../support/load.ts';
import { withoutMounts, withoutXfs } from '../support/machine.ts';
import { eventsIn, launch, newFolder, type Running, startService } from '../support/program.ts';
import { eventually, HANG_MS, runWithin } from '../support/tools.ts';
import { ask, errorOf, post } from '../support/wire.ts';
import { assertOnce, assertOnly, compare, report, startLoad } from './load.ts';
import { type Kind, type Mount, type MountOptions, mountNew } from './mounts.ts';

const MIB = 1024 * 1024;
const TARGET = '/report_asset_materialization/';
const READY = 'GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n';
const LIVE = READY.replace('readyz', 'livez');
const CLIENTS = 8;

for (const kind of ['ext4', 'tmpfs'] as const) {
  test(`on a full ${kind} reports get 503 until there is space again, and no event is lost or torn`, {
    skip: withoutMounts,
  }, async (t) => {
    const { mount, service } = await startOn(t, kind);
    mount.fill(2 * MIB);
    const load = loadOn(t, service, { name: 'a', bodyBytes: 2_000 });
    await untilRefused(service, load);
    // Larger than the reports of the load, so that it never fits.
    const full = await ask(
      service.port,
      post(`${TARGET}full`, JSON.stringify({ metadata: { text: 'x'.repeat(100_000) } })),
    );
    assert.equal(full.status, 503);
    assert.match(full.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
    assert.match(errorOf(full), /^the disk refuses writes/);
    await eventually('not ready, for the same reason', async () => {
      const ready = await ask(service.port, READY);
      return ready.status === 503 && errorOf(ready) === errorOf(full);
    });

    for (let round = 0; round < 3; round += 1) {
      const before = load.acknowledged.size;
      mount.free();
      await eventually('200 again', () => load.acknowledged.size > before + 20);
      mount.fill();
      await untilRefused(service, load);
    }
    mount.free();
    await eventually('ready again', async () => (await ask(service.port, READY)).status === 200);
    await load.stop();
    assert.match(service.stderr(), /"writes to the disk succeed again"/);
    assert.equal((await service.kill()).code, 0);
    assertExact(service.data, load.acknowledged);
  });
}

for (const kind of ['ext4', 'tmpfs', 'xfs'] as const)
  test(`a start on a full ${kind} after SIGKILL waits, alive and not ready, and recovers without a restart`, {
    skip: withoutXfs,
  }, async (t) => {
    const { mount, service } = await startOn(t, kind);
    const load = loadOn(t, service, { name: 'a', bodyBytes: 500 });
    await eventually('some reports', () => load.acknowledged.size > 50);
    await load.stop();
    await service.kill('SIGKILL');
    mount.fill();
    // Whether an inode is left for the lock file depends on the free blocks.
    const waiting = await startWaiting(t, service.data, /the disk is full; the service waits for space to/);
    mount.free();
    const acknowledged = new Set(load.acknowledged);
    await eventually('200', async () => (await report(waiting.port, 'freed')) === 200);
    acknowledged.add('freed');
    await waiting.end();
    assertExact(service.data, acknowledged);
  });

for (const mode of ['local', 'hosted'] as const) {
  test(`a start without an inode for its folder and its lock waits, and recovers without a restart: ${mode} [full-disk-1]`, {
    skip: withoutMounts,
  }, async (t) => {
    const mount = mountNew(t, 'ext4', { bytes: 8 * MIB, inodes: 64 });
    const hosted = mode === 'hosted' ? writeDeployments(t, ['prod']) : undefined;
    for (const made of [false, true]) {
      const data = join(mount.folder, `data-${made}`);
      if (made) mkdirSync(data); // without the folder its inode is missing, with it the lock's
      // A deployment on another file system could record immediately.
      if (made && mode === 'hosted') symlinkSync(newFolder(t), join(data, 'prod'));
      const freeInodes = mount.fillInodes();
      const waiting = await startWaiting(t, data, FULL_FOLDER, hosted);
      assert.equal(await waiting.report('early'), 503);
      freeInodes();
      await eventually('200', async () => (await waiting.report('freed')) === 200);
      await waiting.end();
      assertExact(mode === 'local' ? data : join(data, 'prod'), new Set(['freed']));
    }
  });
}

test('a full folder that another process holds is in use, and a start does not wait', {
  skip: withoutMounts,
}, async (t) => {
  const mount = mountNew(t, 'ext4', { bytes: 8 * MIB, inodes: 64 });
  const data = join(mount.folder, 'data');
  mkdirSync(data);
  const service = await startService(t, { data });
  mount.fillInodes();
  // A start that waited for space would not end without a signal.
  const { code, stderr } = await runWithin(HANG_MS, ['serve', '--port', '0', '--data', data]);
  assert.equal(code, 4, stderr);
  assert.match(stderr, new RegExp(`is in use by process ${service.pid}`));
});

for (const kind of ['ext4', 'tmpfs'] as const) {
  test(`on a full ${kind} a cursor is still saved in place, and a dead letter waits for space`, {
    skip: withoutMounts,
  }, async (t) => {
    const mount = mountNew(t, kind, { bytes: 8 * MIB });
    const disk = openDisk(mount.folder);
    const value = { seq: 0, id: null, sending: undefined, kind: undefined, to: 'https://hub.example/prod' };
    const { cursor } = await Cursor.open(disk, 'hub');
    const letters = await openLetters(disk, 'hub');
    t.after(() => cursor.close());
    await cursor.save(value);
    mount.fill();
    for (let seq = 1; seq <= 5; seq += 1) await cursor.save({ ...value, seq });
    const found = await readCursor(disk, 'hub');
    assert.equal(found.kind === 'found' && found.value.seq, 5);
    const letter = { time: '2026-11-20T15:19:45.266Z', outcome: 'refused', reason: 'x'.repeat(10_000) } as const;
    await assert.rejects(letters.append(letter), /ENOSPC|bytes were written/);
    mount.free();
    await letters.append(letter);
    assert.equal((await openLetters(disk, 'hub')).count, 1);
  });
}

for (const [kind, bytes, args] of [
  ['tmpfs', 3 * MIB, ['--retain-bytes', '1000000']],
  ['ext4', 8 * MIB, ['--keep-free', '2MB']],
] as const) {
  test(`with ${args.join(' ')} a ${kind} of ${bytes / MIB} MiB stores ten times its size without a 503`, {
    skip: withoutMounts,
  }, async (t) => {
    const { service } = await startOn(t, kind, { bytes, args });
    const bodyBytes = 20_000;
    const load = loadOn(t, service, { name: 'a', bodyBytes });
    for (const late = performance.now() + 120_000; load.acknowledged.size * bodyBytes < 10 * bytes; await sleep(20)) {
      assert.ok(performance.now() < late, `${load.acknowledged.size} reports in two minutes`);
    }
    await load.stop();
    assert.deepEqual([...load.statuses.keys()], [200], service.stderr().slice(-2_000));
    const { code, stderr } = await service.kill();
    assert.equal(code, 0, stderr);
    assert.match(stderr, new RegExp(`"why":"${args[0]}"`));
    await assertNewest(service.data, load.acknowledged);
  });
}

test('space to keep free that the whole disk does not have is refused with 2', { skip: withoutMounts }, async (t) => {
  const { folder } = mountNew(t, 'tmpfs', { bytes: 8 * MIB });
  const args = ['serve', '--port', '0', '--data', join(folder, 'data'), '--keep-free', '8MiB'];
  const { code, stderr } = await runWithin(HANG_MS, args);
  assert.equal(code, 2, stderr);
  assert.match(stderr, /assetlog: --keep-free is 8388608, but the disk of \S+ has 8388608 bytes: .*; give less\n$/);
});

test('a service whose file system turns read-only under load ends with 5, and sends no wrong 200', {
  skip: withoutMounts,
}, async (t) => {
  const { mount, service } = await startOn(t, 'ext4', { options: 'errors=remount-ro' });
  const load = loadOn(t, service, { name: 'a', bodyBytes: 500 });
  await eventually('some reports', () => load.acknowledged.size > 50);
  const before = new Set(load.acknowledged);
  mount.breakDown();
  await eventually('refused or gone', () => refusals(load) > 0);
  const met = refusals(load);
  await eventually('more replies, such as a wrong 200', () => refusals(load) >= met + 2 * CLIENTS);
  await load.stop();
  const { code, stderr } = await service.finished;
  assert.equal(code, 5, stderr);
  mount.remount();
  const next = await startService(t, { data: service.data });
  // The batch that met the error got 503, but might have been written.
  assertOnce(next.events(), before);
  // Linux can report success for the sync that was on its way, although ext4 had given up its transaction.
  const { lost: lostLater } = compare(next.events(), load.acknowledged);
  assert.ok(lostLater.length <= CLIENTS, `lost although it was read-only: ${lostLater}`);
});

test('a disk with less space than it reported ends the service with 5 when a sync fails, and no 200 was wrong', {
  skip: withoutMounts,
}, async (t) => {
  const below = mountNew(t, 'tmpfs', { bytes: 24 * MIB });
  const { mount, service } = await startOn(t, 'ext4', { bytes: 256 * MIB, within: below });
  const load = loadOn(t, service, { name: 'a', bodyBytes: 50_000 });
  const { code, stderr } = await service.finished;
  assert.equal(code, 5, stderr);
  assert.match(stderr, /"the disk failed and the service ends; .*EIO/);
  await load.stop();
  assert.ok((load.statuses.get(503) ?? 0) > 0, 'the reports that waited got a reply');
  below.change(`size=${300 * MIB}`);
  mount.remount();
  const next = await startService(t, { data: service.data });
  assertOnce(next.events(), load.acknowledged);
  await next.kill();
});

test('a read-only file system ends a start and each command that writes with 5 and one line, until it is writable', {
  skip: withoutMounts,
}, async (t) => {
  const { mount, service } = await startOn(t, 'ext4');
  await report(service.port, 'a');
  await service.kill();
  mount.change('ro');
  const within = join(mount.folder, 'new');
  for (const [args, problem] of [
    [
      ['serve', '--port', '0', '--data', service.data],
      'the data folder \\S+ cannot be used: .*EROFS.*; make it writable',
    ],
    [['backup', '--data', service.data, '--to', within], 'the folder \\S+ cannot be used: .*EROFS.*; make it writable'],
    [['token', '--out', within], '.*EROFS.*'],
  ] as const) {
    const { code, stderr } = await runWithin(HANG_MS, args);
    assert.equal(code, 5, stderr);
    assert.match(stderr, new RegExp(`^assetlog: ${problem}.*\\n$`));
  }
  mount.change('rw');
  const next = await startService(t, { data: service.data });
  assert.equal(await report(next.port, 'b'), 200);
});

const FULL_FOLDER = /the disk is full; the service waits for space to lock its data folder/;
interface WaitingStart {
  readonly port: number;
  /** @returns the status of a report of this asset */
  report(asset: string): Promise<number>;
  /** Stops the service, which has to be clean. */
  end(): Promise<void>;
}

/** Waits until a start is alive, not ready, and has logged the reason. @param hosted has the deployment `prod`, which gets the reports */
async function startWaiting(t: TestContext, data: string, reason: RegExp, hosted?: Deployments): Promise<WaitingStart> {
  const { child, finished } = launch(['serve', '--port', '0', '--data', data, ...(hosted?.args ?? [])]);
  const pid = child.pid as number;
  t.after(() => child.kill('SIGKILL'));
  let log = '';
  child.stderr?.on('data', (text) => {
    log += text;
  });
  await eventually('it logs that it waits', () => {
    assert.equal(child.exitCode, null, log);
    return reason.test(log);
  });
  await eventually('it listens', () => listeningPort(pid) !== undefined);
  const port = listeningPort(pid) as number;
  assert.equal((await ask(port, LIVE)).status, 200);
  const ready = await ask(port, READY);
  assert.equal(ready.status, 503);
  assert.match(errorOf(ready), reason);
  const [under, token] = hosted === undefined ? ['', []] : ['/prod', [hosted.headerOf('prod')]];
  return {
    port,
    report: async (asset) => (await ask(port, post(`${under}${TARGET}${asset}`, undefined, token))).status,
    end: async () => {
      child.kill('SIGTERM');
      assert.equal((await finished).code, 0);
    },
  };
}

/** The port is printed only when the service is ready, so it is looked up in /proc. */
function listeningPort(pid: number): number | undefined {
  const folder = `/proc/${pid}/fd`;
  const open = new Set(readdirSync(folder).map((fd) => linkOf(join(folder, fd))));
  for (const line of readFileSync('/proc/net/tcp', 'latin1').split('\n').slice(1)) {
    const [, local = '', , state, , , , , , inode] = line.trim().split(/\s+/);
    if (state === '0A' && open.has(`socket:[${inode}]`)) return Number.parseInt(local.split(':')[1] ?? '', 16);
  }
  return undefined;
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return ''; // it was closed in the meantime
  }
}

interface Started {
  readonly mount: Mount;
  readonly service: Running;
}

interface StartOptions extends Partial<MountOptions> {
  readonly args?: readonly string[];
}

async function startOn(t: TestContext, kind: Kind, { args = [], ...options }: StartOptions = {}): Promise<Started> {
  const mount = mountNew(t, kind, { bytes: 8 * MIB, ...options });
  const data = join(mount.folder, 'data');
  mkdirSync(data);
  return { mount, service: await startService(t, { data, args }) };
}

/** @returns the number of reports with a 503 or without a reply */
function refusals({ statuses }: Load): number {
  return (statuses.get(503) ?? 0) + (statuses.get(0) ?? 0);
}

/** Starts clients that stop with the test, even if it fails. */
function loadOn(t: TestContext, { port }: Running, options: { name: string; bodyBytes: number }): Load {
  const load = startLoad(port, { clients: CLIENTS, ...options });
  t.after(load.stop);
  return load;
}

async function untilRefused(service: Running, load: Load): Promise<void> {
  const before = load.statuses.get(503) ?? 0;
  await eventually('503', () => (load.statuses.get(503) ?? 0) >= before + 8);
  await eventually('not ready', async () => (await ask(service.port, READY)).status === 503);
}

/** Asserts that the journal verifies, and has each acknowledged event after the removed files. */
async function assertNewest(data: string, acknowledged: ReadonlySet<string>): Promise<void> {
  const { good, findings } = JSON.parse((await launch(['verify', '--json', '--data', data]).finished).stdout);
  assert.deepEqual([good, findings], [true, []]);
  const { doubled, events, lost } = compare(eventsIn(data), acknowledged);
  assert.deepEqual(doubled, []);
  assert.equal(events + lost.length, acknowledged.size);
  assert.ok(events > 0 && lost.length > 0, `${events} events, ${lost.length} removed`);
}

/** Asserts that the journal has exactly these events, once each, and no other byte. */
function assertExact(data: string, acknowledged: ReadonlySet<string>): void {
  for (const name of readdirSync(data)) {
    assert.doesNotMatch(name, /torn|rewrite/);
    if (name.startsWith('events-')) assert.match(readFileSync(join(data, name), 'latin1').slice(-2), /^$|^\}\n$/, name);
  }
  assertOnly(eventsIn(data), acknowledged);
}
