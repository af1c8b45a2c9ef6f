/** The assets of `--watch-asset` while their journal cannot be read, or not yet. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import type { ReadableJournal, ReadableJournals } from '../../src/reading/journals.ts';
import { WatchedAssets } from '../../src/reading/watched-assets.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { HANG_MS, within } from '../support/tools.ts';

function watching(whenReadable: () => Promise<ReadableJournal>) {
  const log: string[] = [];
  const watched = new WatchedAssets({
    keys: [['w']],
    isHosted: false,
    journals: { whenReadable } as unknown as ReadableJournals,
    notices: createNotices('info', false, (line) => log.push(JSON.parse(line).problem)),
    limits: { ...limits, watchWaitMs: 10 },
  });
  return { watched, log };
}

test('the metrics wait for a limited time, and an age that is not known is not there [watched-3]', async () => {
  let calls = 0;
  const { watched } = watching(() => {
    calls += 1;
    return new Promise(() => {});
  });
  for (let scrape = 0; scrape < 3; scrape += 1) await within('the wait', HANG_MS, watched.update());
  assert.deepEqual([calls, watched.ages(0).size], [1, 0]);
  watched.close();
});

test('what is wrong with a journal is logged once until it can be read, and tried each time', async () => {
  let calls = 0;
  const { watched, log } = watching(async () => {
    calls += 1;
    throw new Error(calls < 3 ? 'no' : 'other');
  });
  for (let scrape = 0; scrape < 4; scrape += 1) await watched.update();
  assert.deepEqual([calls, log, watched.ages(0).size], [4, ['no', 'other'], 0]);
  watched.close();
});
