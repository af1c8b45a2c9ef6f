/** The state of assets as a command reads it, and what a backup and a repair leave of it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assetJson } from '../../src/assets/asset-json.ts';
import { loadingOf, readKept, rebound } from '../../src/assets/kept.ts';
import { readState, writeState } from '../../src/assets/state-file.ts';
import { limits } from '../../src/config/limits.ts';
import { backUp } from '../../src/journal/look/backup.ts';
import { planRepair } from '../../src/journal/look/repair.ts';
import type { Progress } from '../../src/journal/progress.ts';
import { goneName, STATE_FILE, segmentName } from '../../src/journal/segments.ts';
import { countOf, eventAt, type KeptJournal, openKept } from '../support/kept-assets.ts';
import { diskWith, flip, segment } from '../support/segments.ts';
import { carryOut, verify } from '../support/standard-limits.ts';
import { settled } from '../world/power.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';

const AT_REST: Progress = { durable: async () => ({ kind: 'unsaid' }), more: async () => {} };
const RETAIN = { segmentBytes: 1_000, retain: { retainBytes: 4_000 } };

async function report(kept: KeptJournal, first: number, last: number): Promise<void> {
  for (let n = first; n <= last; n += 1) assert.equal(await kept.report([eventAt(n)]), undefined);
}

/** The state as a command reads it. */
async function read(disk: SimulatedDisk, progress = AT_REST) {
  const remarks: string[] = [];
  const { kept, firstSeq } = await readKept(loadingOf(disk, limits), progress, ({ text }) => remarks.push(text));
  const assets = JSON.parse(JSON.stringify([...kept.states.inOrder()].map((asset) => assetJson(asset, 0))));
  return { assets, firstSeq, remarks, kept };
}

test('a command reads again if retention removed lines after it had read the state file', async () => {
  const disk = new SimulatedDisk();
  const kept = await openKept(disk, { journal: RETAIN });
  await report(kept, 1, 10);
  await kept.journal.close();
  const again = await openKept(disk, { journal: RETAIN });
  await report(again, 11, 30);
  await settled();
  // After it has read the file, and before it reads the lines.
  let isRead = false;
  const listed: typeof disk.list = async () => {
    const names = await disk.list();
    if (!isRead && disk.calls.includes(`read ${STATE_FILE}`)) {
      isRead = true;
      await report(again, 31, 80);
      await settled();
    }
    return names;
  };
  disk.calls.length = 0;
  const beside = { folder: disk.folder, list: listed, size: disk.size.bind(disk), read: disk.read.bind(disk) };
  const remarks: string[] = [];
  const { kept: found } = await readKept(loadingOf(beside, limits), AT_REST, ({ text }) => remarks.push(text));
  assert.ok(isRead);
  const assets = JSON.parse(JSON.stringify([...found.states.inOrder()].map((asset) => assetJson(asset, 0))));
  assert.deepEqual([countOf(assets), remarks, found.unseen], [80, [], []]);
});

test('a backup has no state that is newer than its events, although events arrive during the copy', async () => {
  const source = new SimulatedDisk();
  const kept = await openKept(source, { journal: RETAIN });
  await report(kept, 1, 40);
  await settled();
  await kept.journal.close();
  const again = await openKept(source, { journal: RETAIN });
  const target = new SimulatedDisk('/target');
  let copied = 0;
  const onProgress = () => {
    copied += 1;
    if (copied > 1) return;
    // A newer state than the events that are copied.
    source.put(STATE_FILE, Buffer.from('newer\n'));
  };
  const progress: Progress = { durable: async () => ({ kind: 'before', seq: 41 }), more: async () => {} };
  await backUp({ source, target, progress, limits, onProgress });
  assert.ok(copied > 0);
  const { assets, remarks } = await read(target);
  assert.deepEqual([countOf(assets), remarks], [40, []]);
  assert.deepEqual(assets, (await again.state()).assets);
});

test('a repair keeps the state if the last line is good, and otherwise the state is rebuilt', async () => {
  for (const isLast of [false, true]) {
    const disk = new SimulatedDisk();
    const kept = await openKept(disk);
    await report(kept, 1, 20);
    await kept.journal.close();
    const lines = disk.text(segmentName(1)).split('\n');
    const at = isLast ? lines.slice(0, 19).join('\n').length + 50 : lines.slice(0, 7).join('\n').length + 50;
    disk.put(segmentName(1), flip(disk.bytes(segmentName(1))!, at));
    const plan = await planRepair(disk, await verify(disk), limits);
    await carryOut(disk, plan, 'damaged', '{}\n');
    const rebind = await rebound(loadingOf(disk, limits));
    assert.equal(rebind === undefined, isLast);
    if (rebind !== undefined) await writeState(disk, rebind, async () => {});
    assert.equal(await rebound(loadingOf(disk, limits)), undefined, 'once is enough');
    const { assets } = await (await openKept(disk)).state();
    assert.equal(countOf(assets), isLast ? 19 : 20);
    assert.ok(await readState(disk, loadingOf(disk, limits).newStates(), limits));
  }
});

test('events before a gap in a repaired or restored journal count, and the gap is reported as missing [kept-5]', async () => {
  for (const why of ['removed', 'lost'] as const) {
    const range = { first: 4, last: 6 };
    const files = { [segmentName(1)]: segment(1, 3), [segmentName(7)]: segment(7, 2) };
    const { assets, firstSeq, kept } = await read(diskWith({ ...files, [goneName(range, why)]: Buffer.alloc(0) }));
    assert.deepEqual([countOf(assets), firstSeq, kept.sinceSeq, kept.unseen], [5, 1, 1, [range]]);
  }
});

test('events lost at the end of a journal are reported as missing, except those of a segment that is back', async () => {
  const after = { [segmentName(7)]: Buffer.alloc(0), [goneName({ first: 4, last: 6 }, 'lost')]: Buffer.alloc(0) };
  const isBack = { [segmentName(4)]: segment(4, 2) };
  for (const [count, first, files] of [[3, 4, after] as const, [5, 6, { ...after, ...isBack }] as const]) {
    const unseen = [{ first, last: 6 }];
    const disk = diskWith({ [segmentName(1)]: segment(1, 3), ...files });
    const { assets, kept } = await read(disk);
    assert.deepEqual([countOf(assets), kept.unseen], [count, unseen]);
    for (let start = 0; start < 2; start += 1) {
      const service = await openKept(disk);
      assert.deepEqual((await service.state()).unseen, unseen);
      await report(service, 1, 1);
      const state = await service.state();
      assert.deepEqual([countOf(state.assets), state.unseen], [count + 1 + start, unseen], `start ${start}`);
      await service.journal.close();
    }
  }
});
