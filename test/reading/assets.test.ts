/** Readings of the state of assets that wait: for a journal that is being read, or cannot be. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { AllAssets } from '../../src/assets/all-assets.ts';
import { limits } from '../../src/config/limits.ts';
import { Refusal } from '../../src/http/message.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { AssetReadings } from '../../src/reading/assets.ts';
import type { ReadableJournal, ReadableJournals } from '../../src/reading/journals.ts';
import { FIRST, makeLines, quiet } from '../support/segments.ts';
import { HANG_MS, within } from '../support/tools.ts';
import { gate } from '../world/gate.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';

const NEVER = new AbortController().signal;
setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** A journal at rest with 1,000 events, whose chunks wait for the gate. In a service the listener keeps the process alive. */
function waiting(t: TestContext, keys: readonly (readonly string[])[], fail?: Error) {
  const alive = setInterval(() => {}, 1_000);
  t.after(() => clearInterval(alive));
  const disk = new SimulatedDisk();
  disk.put(FIRST, makeLines(1_000).bytes);
  const progress = new OwnProgress();
  const [turns, part] = [gate(), gate()];
  let chunks = 0;
  const readable = {
    folder: disk.folder,
    list: () => disk.list(),
    size: (name: string) => disk.size(name),
    async *read(name: string, start?: number, end?: number) {
      for await (const chunk of disk.read(name, start, end)) {
        if (fail !== undefined) throw fail;
        chunks += 1;
        if (chunks > 50) {
          part.open();
          await turns.opened;
        }
        yield chunk;
      }
    },
  };
  const journal = {
    diskFor: () => readable,
    progress: () => progress.of(disk.folder),
    remarks: () => () => {},
    range: async () => ({ first: 1, last: 1_000 }),
  };
  const all = new AllAssets({
    keys,
    isHosted: false,
    openDisk: () => disk,
    journalOf: () => journal,
    nextSeq: (folder) => progress.nextSeq(folder),
    turn: async () => {},
    notices: quiet,
    limits,
  });
  const journals = {
    whenReadable: async () => journal as unknown as ReadableJournal,
    shared: { turns: { take: async () => {} } },
  } as unknown as ReadableJournals;
  const readings = new AssetReadings({
    journals,
    assets: all,
    limits: { ...limits, assetsWaitMs: 20, watchWaitMs: 20 },
  });
  return { all, readings, open: turns.open, partIsRead: part.opened };
}

test('a request for assets waits only for a while when the state is read, and its 503 says how far it is', async (t) => {
  const { readings, open, partIsRead } = waiting(t, []);
  await Promise.all([partIsRead, assert.rejects(readings.upToDate(undefined, NEVER))]);
  for (let asked = 0; asked < 2; asked += 1) {
    const answer = within('the wait', HANG_MS, readings.upToDate(undefined, NEVER)).catch((e) => e);
    await turn();
    collectGarbage(); // not of what ends the wait
    const error: unknown = await answer;
    assert.ok(error instanceof Refusal, String(error));
    assert.equal(error.reply.status, 503);
    assert.match(
      error.message,
      /^the journal is being read to find the state of its assets \([1-9]\d? % so far\); ask again$/,
    );
  }
  open();
  let kept = await readings.upToDate(undefined, NEVER).catch(() => undefined);
  while (kept === undefined) kept = await readings.upToDate(undefined, NEVER).catch(() => undefined);
  assert.deepEqual([kept.seq, kept.states.size], [1_000, 1_000]);
});

test('a scrape waits only for a while, and leaves out the ages that are not known yet', async (t) => {
  const { all, readings, open } = waiting(t, [['a']]);
  for (let scrape = 0; scrape < 3; scrape += 1) await within('the wait', HANG_MS, readings.update());
  assert.equal(all.ages(0).size, 0);
  open();
  while (all.ages(0).size === 0) await readings.update();
  assert.deepEqual([...all.ages(Date.now()).keys()], ['a']);
  readings.close();
});

test('a state that cannot be read is read again by the next request', async (t) => {
  const { all, readings } = waiting(t, [['a']], new Error('the disk is broken'));
  for (let asked = 0; asked < 2; asked += 1)
    await assert.rejects(readings.upToDate(undefined, NEVER), /the disk is broken/);
  await readings.update();
  assert.equal(all.ages(0).size, 0);
});
