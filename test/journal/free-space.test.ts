import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits as standardLimits } from '../../src/config/limits.ts';
import type { Space } from '../../src/journal/disk.ts';
import { watchSpace } from '../../src/journal/free-space.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { SimulatedDisk } from '../support/simulated-disk.ts';

const MIB = 1024 * 1024;
const limits = { ...standardLimits, spaceCheckMs: 10 };

async function troubleWith(space: Space, minFreeBytes?: number): Promise<string | undefined> {
  const disk = new SimulatedDisk();
  disk.freeSpace = space;
  const watch = await watchSpace(
    disk,
    minFreeBytes,
    limits,
    createNotices('error', false, () => {}),
  );
  watch.stop();
  return watch.trouble;
}

test('there is trouble below 64 MiB, below 5 % of a smaller disk, or below what was asked for', async () => {
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
});

test('the space is looked at again and again, changes are told once, and a failure to look is trouble', async () => {
  const disk = new SimulatedDisk();
  const told: string[] = [];
  const notices = createNotices('info', false, (line) => told.push(line));
  const watch = await watchSpace(disk, 100, limits, notices);
  const until = async (wanted: RegExp | undefined) => {
    for (let waited = 0; waited < 300; waited += 1) {
      if (wanted === undefined ? watch.trouble === undefined : wanted.test(watch.trouble ?? '')) return;
      await sleep(10);
    }
    assert.fail(`still ${watch.trouble}`);
  };
  assert.equal(watch.trouble, undefined);
  disk.freeSpace = { freeBytes: 99, usableBytes: 99, totalBytes: 1000 };
  await until(/nearly full: 99 bytes/);
  disk.freeSpace = { freeBytes: 98, usableBytes: 98, totalBytes: 1000 };
  await until(/nearly full: 98 bytes/);
  disk.freeSpace = { freeBytes: 100, usableBytes: 100, totalBytes: 1000 };
  await until(undefined);
  disk.space = () => Promise.reject(new Error('ENOENT'));
  await until(/^the free space of the disk is not known: ENOENT$/);
  watch.stop();
  assert.equal(told.filter((line) => line.includes('not ready')).length, 2);
  assert.equal(told.filter((line) => line.includes('enough free space again')).length, 1);
});
