/** A start on a full disk waits for space, and writes nothing before there is enough. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JournalOptions } from '../../../src/journal/options.ts';
import { goneName, segmentName } from '../../../src/journal/segments.ts';
import { createJournal, openJournal, quickLimits, recorded } from '../../support/journal.ts';
import { diskWith, FIRST, makeLines, segment } from '../../support/segments.ts';
import { eventually } from '../../support/tools.ts';
import { SimulatedDisk, systemError } from '../../world/simulated-disk.ts';

test('a start on a full disk waits for space, logs it once, and then opens', async () => {
  const disk = new SimulatedDisk();
  const { report, journal } = await openJournal(disk);
  await report('a');
  const crashed = disk.afterCrash();
  void journal.close();
  crashed.fault = (call) => (call === 'write' ? systemError('ENOSPC') : undefined);
  const { journal: second, notices } = createJournal(crashed);
  const opening = second.open();
  await eventually('a second attempt', () => crashed.count('write') >= 3);
  const reason = 'the disk is full; the service waits for space to open its journal';
  assert.equal(second.trouble, reason);
  assert.equal(notices.filter((line) => line.includes(reason)).length, 1);
  crashed.fault = () => undefined;
  await opening;
  assert.equal(second.trouble, undefined);
  assert.deepEqual(await recorded(crashed), ['a']);
  await second.close();
});

/** Starts on a disk without the space for the copy of the last file. @returns also `waits`, which resolves once the start waits */
function openWithoutSpace(disk: SimulatedDisk, options: Partial<JournalOptions> = {}) {
  const limits = { ...quickLimits, probeMs: 1, openRetryMs: 1, openRetryMsMax: 4 };
  const created = createJournal(disk, { limits, ...options });
  const { journal } = created;
  const waits = () => eventually('the start waits', () => journal.trouble?.startsWith('the disk is full') === true);
  return { ...created, opening: journal.open(), waits };
}

test('a start checks the free space before it copies, and opens as soon as there is enough', async () => {
  const { bytes } = makeLines(20);
  const torn = Buffer.from('{"seq":21,');
  const disk = diskWith({ [FIRST]: Buffer.concat([bytes, torn]) });
  const neededBytes = bytes.length + torn.length + quickLimits.openReserveBytes;
  disk.freeSpace = { ...disk.freeSpace, usableBytes: neededBytes - 1 };
  const { journal, opening, notices, waits } = openWithoutSpace(disk, {
    limits: { ...quickLimits, probeMs: 1, openRetryMs: 3_600_000, openRetryMsMax: 3_600_000 },
  });
  await waits();
  assert.deepEqual([disk.count('write'), disk.count('create')], [0, 0]);
  assert.equal(notices.filter((line) => line.includes(`that needs ${neededBytes} bytes, and`)).length, 1);
  disk.freeSpace = { ...disk.freeSpace, usableBytes: neededBytes };
  await opening;
  assert.equal(journal.trouble, undefined);
  assert.deepEqual(disk.bytes(FIRST), bytes);
  await journal.close();
});

test('each attempt to open on a full disk doubles the pause before the next, up to a limit', async () => {
  const disk = diskWith({ [FIRST]: makeLines(2).bytes });
  const attemptsMs: number[] = [];
  disk.fault = (call) => {
    if (call !== 'create') return undefined;
    attemptsMs.push(performance.now());
    return attemptsMs.length < 7 ? systemError('ENOSPC') : undefined;
  };
  const { opening, journal } = openWithoutSpace(disk, {
    limits: { ...quickLimits, probeMs: 1, openRetryMs: 4, openRetryMsMax: 32 },
  });
  await opening;
  const pausesMs = attemptsMs.slice(1).map((atMs, index) => atMs - (attemptsMs[index] ?? 0));
  for (const [index, leastMs] of [4, 8, 16, 32, 32, 32].entries())
    assert.ok((pausesMs[index] ?? 0) >= leastMs - 1, `${pausesMs}`);
  await journal.close();
});

test('closing a journal ends its wait for space', async () => {
  const disk = diskWith({ [FIRST]: makeLines(2).bytes });
  disk.freeSpace = { ...disk.freeSpace, usableBytes: 0 };
  const { journal, opening, waits } = openWithoutSpace(disk, {
    limits: { ...quickLimits, probeMs: 1, openRetryMs: 3_600_000, openRetryMsMax: 3_600_000 },
  });
  await waits();
  await journal.close();
  await opening;
  assert.deepEqual([disk.count('write'), disk.names()], [0, [FIRST]]);
});

test('retention makes space for a start, even on a disk without an inode for a marker', async () => {
  const files = Object.fromEntries([9, 12, 15].map((firstSeq) => [segmentName(firstSeq), segment(firstSeq, 3)]));
  const marker = goneName({ first: 1, last: 8 }, 'removed');
  const disk = diskWith({ ...files, [marker]: Buffer.alloc(0) });
  disk.freeSpace = { ...disk.freeSpace, usableBytes: 0 };
  let full = true;
  disk.fault = (call, name) => {
    if (call === 'remove' && name === segmentName(12)) {
      disk.freeSpace = { ...disk.freeSpace, usableBytes: 1_000_000 };
      full = false;
    }
    return call === 'create' && full ? systemError('ENOSPC') : undefined;
  };
  const { opening, journal } = openWithoutSpace(disk, { retain: { retainBytes: 1, retainDays: undefined } });
  await opening;
  assert.equal(journal.lastSeq, 17);
  assert.equal(journal.files, 1);
  assert.deepEqual(disk.names().sort(), [goneName({ first: 1, last: 14 }, 'removed'), segmentName(15)].sort());
  await journal.close();
});
