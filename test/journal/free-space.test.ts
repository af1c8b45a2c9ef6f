import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits as standardLimits } from '../../src/config/limits.ts';
import { watchSpace } from '../../src/journal/free-space.ts';
import { type Space, spaceOf, unlessUnsupported } from '../../src/journal/space.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { eventually } from '../support/tools.ts';
import { SimulatedDisk, systemError } from '../world/simulated-disk.ts';

const MIB = 1024 * 1024;
const limits = { ...standardLimits, spaceCheckMs: 10, spaceIdleCheckMs: 10 };

async function troubleWith(space: Space, minFreeBytes?: number, keepFree?: number): Promise<string | undefined> {
  const disk = new SimulatedDisk();
  disk.freeSpace = space;
  const watch = await watchSpace(
    disk,
    { minFreeBytes, keepFree },
    limits,
    createNotices('error', false, () => {}),
  );
  watch.stop();
  return watch.trouble;
}

test('there is trouble below 64 MiB, below 5 % of a smaller disk, or below --min-free-bytes', async () => {
  const large = { usableBytes: 0, totalBytes: 100_000 * MIB };
  assert.equal(await troubleWith({ ...large, freeBytes: 64 * MIB }), undefined);
  assert.equal(
    await troubleWith({ ...large, freeBytes: 64 * MIB - 1 }),
    'the disk is nearly full: 67108863 bytes are free, --min-free-bytes asks for 67108864',
  );
  const small = { usableBytes: 0, totalBytes: 20 * MIB };
  assert.equal(await troubleWith({ ...small, freeBytes: MIB }), undefined);
  assert.match((await troubleWith({ ...small, freeBytes: MIB - 1 })) ?? '', /asks for 1048576$/);
  assert.match((await troubleWith({ ...large, freeBytes: 5_000 * MIB }, 6_000 * MIB)) ?? '', /nearly full/);
  assert.equal(await troubleWith({ ...large, freeBytes: 0 }, 0), undefined);
  // With `keepFree` the free space stays near that value.
  assert.equal(await troubleWith({ ...large, freeBytes: MIB }, undefined, 2 * MIB), undefined);
  assert.match((await troubleWith({ ...large, freeBytes: MIB - 1 }, undefined, 2 * MIB)) ?? '', /asks for 1048576$/);
});

test('the space is checked repeatedly, each change is reported once, and a failed check is trouble', async () => {
  const disk = new SimulatedDisk();
  const logged: string[] = [];
  const notices = createNotices('info', false, (line) => logged.push(line));
  const watch = await watchSpace(disk, { minFreeBytes: 100 }, limits, notices);
  const until = (wanted: RegExp) => eventually(`${wanted}`, () => wanted.test(watch.trouble ?? 'none'));
  assert.equal(watch.trouble, undefined);
  disk.freeSpace = { freeBytes: 99, usableBytes: 99, totalBytes: 1000 };
  await until(/nearly full: 99 bytes/);
  disk.freeSpace = { freeBytes: 98, usableBytes: 98, totalBytes: 1000 };
  await until(/nearly full: 98 bytes/);
  disk.freeSpace = { freeBytes: 100, usableBytes: 100, totalBytes: 1000 };
  await until(/^none$/);
  disk.space = () => Promise.reject(new Error('ENOENT'));
  await until(/^the free space of the disk is unknown: ENOENT$/);
  watch.stop();
  assert.equal(logged.filter((line) => line.includes('not ready')).length, 2);
  assert.equal(logged.filter((line) => line.includes('enough free space again')).length, 1);
});

test('a file system that reports no free space is no trouble, and is reported once', async () => {
  assert.equal(spaceOf({ bavail: 0, bfree: 0, blocks: 0, bsize: 4_096 }), undefined, 'such as ramfs');
  for (const code of ['ENOSYS', 'EPERM']) assert.equal(unlessUnsupported(systemError(code)), undefined);
  assert.throws(() => unlessUnsupported(systemError('EIO')), { code: 'EIO' });
  const disk = new SimulatedDisk();
  let checks = 0;
  disk.space = async () => {
    checks += 1;
    return undefined;
  };
  const logged: string[] = [];
  const notices = createNotices('info', false, (line) => logged.push(line));
  const watch = await watchSpace(disk, { minFreeBytes: 100 }, limits, notices);
  await eventually('several checks', () => checks > 3);
  watch.stop();
  const { trouble, freeBytes, totalBytes, isUnreported } = watch;
  assert.deepEqual([trouble, freeBytes, totalBytes, isUnreported], [undefined, undefined, undefined, true]);
  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? '', /"warn".*the file system reports no free space/);
});

test('the free space is checked rarely when idle, and soon after a write and during a shortage', async () => {
  const disk = new SimulatedDisk();
  const enough = { freeBytes: 80, usableBytes: 80, totalBytes: 1000 };
  let checks = 0;
  disk.space = async () => {
    checks += 1;
    return disk.freeSpace;
  };
  disk.freeSpace = enough;
  const notices = createNotices('error', false, () => {});
  const idle = { ...limits, spaceIdleCheckMs: 3_600_000 };
  let lows = 0;
  const watch = await watchSpace(disk, { minFreeBytes: 50, keepFree: 80 }, idle, notices, () => {
    lows += 1;
  });
  await sleep(50);
  assert.equal(checks, 1, 'while nothing is written');
  for (const write of [1, 2]) {
    for (let call = 0; call < 5; call += 1) watch.written();
    await eventually('one check', () => checks === 1 + write);
    await sleep(50);
    assert.equal(checks, 1 + write);
  }
  assert.equal(lows, 0);
  for (const freeBytes of [79, 49]) {
    disk.freeSpace = { ...enough, freeBytes };
    watch.written();
    const before: number = checks;
    await eventually('checks', () => checks > before + 3);
    assert.equal(watch.trouble !== undefined, freeBytes < 50);
    disk.freeSpace = enough;
    await eventually('the space is enough again', () => watch.freeBytes === 80);
    await sleep(50);
    const seen: number = checks;
    await sleep(50);
    assert.equal(checks, seen);
  }
  assert.ok(lows >= 6, `${lows}`);
  watch.stop();
  watch.written();
  const last = checks;
  await sleep(50);
  assert.equal(checks, last, 'after the end');
});
