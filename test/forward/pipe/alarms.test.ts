/** Which results of checks a hook with `on` gets: by the state of the assets, when they are posted. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AssetStates } from '../../../src/assets/asset-state.ts';
import type { Kept } from '../../../src/assets/state-file.ts';
import type { KnownAssets } from '../../../src/forward/pipe/alarms.ts';
import type { AlarmKind } from '../../../src/forward/settings.ts';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { readReported } from '../../../src/journal/line/reported.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { diskWith, FIRST, plainEvent, START } from '../../support/segments.ts';
import { eventually, upTo } from '../../support/tools.ts';
import { Model } from '../../world/destination.ts';
import { startPipe } from '../scripted.ts';

const TIME = new Date('2026-11-20T15:19:45.266Z');

const result = (passed: boolean, checkName = 'c'): PlainEvent => ({
  type: 'AssetCheckEvaluation',
  assetKey: ['orders'],
  checkName,
  passed,
  severity: 'ERROR',
});

/** Events from a text: `F` and `P` of one check, `f` and `p` of another one, `.` of another type. */
function eventsOf(text: string): PlainEvent[] {
  return [...text].map((one, at) => {
    if (one === '.') return plainEvent(at + 1);
    return result(/p/i.test(one), one === one.toLowerCase() ? 'd' : 'c');
  });
}

/** A journal with these events, and the state of its assets, which takes them when it is told. */
function journalOf(text: string) {
  const members = eventsOf(text).map((event) => encodeMembers(event));
  const states = new AssetStates({ by: 'time' });
  const kept: Kept = { states, seq: 0, end: { seq: 0, id: '', crc: '' }, sinceSeq: 1, unseen: [] };
  const assets = { isLive: true, current: kept, whenCurrent: async () => {} };
  return {
    disk: diskWith({ [FIRST]: encodeBatch(members, START, TIME).bytes }),
    assets,
    take: (seq: number) => {
      states.take(seq, TIME.getTime() + seq, readReported(members[seq - 1]!));
      kept.seq = seq;
    },
  };
}

/** @returns the seqs that are posted if each event is posted before the next one is recorded, or all are recorded first */
async function postedOf(text: string, on: readonly AlarmKind[], isLate = false): Promise<readonly number[]> {
  const { disk, assets, take } = journalOf(text);
  const hook = new Model('hook');
  const destination = { to: 'hook+http://127.0.0.1:3000/…', on };
  const bench = startPipe(disk, 0, () => hook, { destination, assets: () => assets });
  await bench.until('idle');
  for (const seq of upTo(text.length)) {
    take(seq);
    if (isLate && seq < text.length) continue;
    bench.progress.recorded(disk.folder, seq + 1);
    await eventually(`event ${seq} is settled`, () => bench.ledger.value.seq === seq);
  }
  await bench.finish();
  return hook.recorded;
}

test('a hook gets each failure, each change, or each pass after a failure, as it says', async () => {
  //            1234567890
  const text = 'P.FFfFPPFP';
  assert.deepEqual(await postedOf(text, ['failed']), [3, 4, 5, 6, 9]);
  assert.deepEqual(await postedOf(text, ['changed']), [3, 5, 7, 9, 10]);
  assert.deepEqual(await postedOf(text, ['recovered']), [7, 10]);
  assert.deepEqual(await postedOf(text, ['failed', 'recovered']), [3, 4, 5, 6, 7, 9, 10]);
});

test('a result that has changed again is not posted, and the result after it is', async () => {
  const both = ['changed', 'recovered'] as const;
  assert.deepEqual(await postedOf('FFPPFfF', both, true), [5, 6]);
  assert.deepEqual(await postedOf('FPF', ['recovered'], true), []);
  assert.deepEqual(await postedOf('FPPP', ['recovered'], true), [2]);
  assert.deepEqual(await postedOf('FFP', ['failed'], true), [1, 2], 'each failure is wanted');
});

test('a hook waits until the state of the assets is there, and says so [alarms-3]', async () => {
  const { disk, assets, take } = journalOf('PF');
  const waiting: KnownAssets & { isLive: boolean } = { ...assets, isLive: false };
  const hook = new Model('hook');
  const destination = { to: 'hook+http://127.0.0.1:3000/…', on: ['changed'] as const };
  const limits = { forwardCheckMs: 5, assetsWaitMs: 5 };
  const bench = startPipe(disk, 2, () => hook, { destination, limits, assets: () => waiting });
  await bench.until('waiting');
  assert.equal(bench.pipe.status.reason, 'the state of the assets is being read');
  waiting.isLive = true;
  take(1); // it has no later event yet
  await eventually('the first event is passed', () => bench.ledger.value.seq === 1);
  assert.deepEqual(hook.requests, []);
  waiting.whenCurrent = async () => Promise.reject(new Error('EIO'));
  await eventually('why', () => bench.pipe.status.reason === 'the state of the assets cannot be read: EIO');
  take(2);
  await bench.untilDone();
  assert.deepEqual(hook.recorded, [2]);
  await bench.pipe.close();
});

test('a failure of a check that the memory has no space for is posted', async () => {
  const { disk, assets } = journalOf('FPF');
  assets.current.seq = 3;
  const hook = new Model('hook');
  const destination = { to: 'hook+http://127.0.0.1:3000/…', on: ['changed', 'recovered'] as const };
  const bench = startPipe(disk, 3, () => hook, { destination, assets: () => assets });
  await bench.finish();
  assert.deepEqual(hook.recorded, [1, 3]);
});
