/** Following a journal whose lines become durable while they are read. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits as standardLimits } from '../../src/config/limits.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { ReadableJournals } from '../../src/reading/journals.ts';
import { follow } from '../../src/reading/tail.ts';
import { diskWith, FIRST, quiet, segment } from '../support/segments.ts';
import { eventually } from '../support/tools.ts';
import { gate } from '../world/gate.ts';

/** Readings get all of the time, also right after a report. */
const limits = { ...standardLimits, readIdleMs: -1 };

test('a follower that falls behind the newest lines in memory skips none of them [tail-1]', async (t) => {
  const disk = diskWith({ [FIRST]: segment(1, 90) });
  const progress = new OwnProgress();
  progress.recorded(disk.folder, 2);
  const small = { ...limits, sharedLinesBytesMax: 1, streamWakeMs: 0 };
  const parts = {
    data: disk.folder,
    openDisk: () => disk,
    progress,
    open: () => undefined,
    limits: small,
    notices: quiet,
  };
  const journal = new ReadableJournals(parts).of(undefined);
  const ending = new AbortController();
  t.after(() => ending.abort());
  const read = async (seen: number[], pause: Promise<void>) => {
    const following = { afterSeq: 0, filter: {}, signal: ending.signal, idleMs: 1_000, limits: small };
    for await (const found of follow(journal, following)) {
      if (found.kind !== 'lines') return assert.fail(found.kind);
      seen.push(...found.lines.map(({ seq }) => seq));
      await pause;
    }
  };
  const [quick, slow]: [number[], number[]] = [[], []];
  const behind = gate();
  const both = [read(quick, Promise.resolve()), read(slow, behind.opened)];
  for (let seq = 2; seq <= 90; seq += 8) {
    progress.recorded(disk.folder, seq + 1);
    await eventually(`the quick one has line ${seq}`, () => quick.at(-1) === seq);
  }
  assert.deepEqual(slow, [1, 2]);
  behind.open();
  await eventually('both have the last line', () => quick.at(-1) === 90 && slow.at(-1) === 90);
  ending.abort();
  await Promise.all(both);
  const all = Array.from({ length: 90 }, (_, at) => at + 1);
  assert.deepEqual([quick, slow], [all, all]);
});
