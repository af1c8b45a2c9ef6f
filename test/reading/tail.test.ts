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

/** Follows a journal of 9 lines from its beginning. `durable` lines are durable, and more each time that its folder is listed. */
async function seqsOf(durable: number, later: readonly number[]): Promise<number[]> {
  const disk = diskWith({ [FIRST]: segment(1, 9) });
  const progress = new OwnProgress();
  progress.recorded(disk.folder, durable + 1);
  const steps = [...later];
  const step = () => {
    const lastSeq = steps.shift();
    if (lastSeq !== undefined) progress.recorded(disk.folder, lastSeq + 1);
  };
  disk.fault = (call) => {
    if (call === 'list') step();
    return undefined;
  };
  const timer = setInterval(step, 50); // a follower that waits lists nothing, and its timers do not keep the process alive
  const journals = new ReadableJournals({
    data: disk.folder,
    openDisk: () => disk,
    progress,
    open: () => undefined,
    limits,
    notices: quiet,
  });
  const ending = new AbortController();
  const seen: number[] = [];
  const following = { afterSeq: 0, filter: {}, signal: ending.signal, idleMs: 20, limits };
  for await (const found of follow(journals.of(undefined), following)) {
    if (found.kind !== 'lines') return assert.fail(found.kind);
    seen.push(...found.lines.map(({ seq }) => seq));
    if (found.lines.length === 0 && seen.at(-1) === 9) ending.abort();
  }
  clearInterval(timer);
  return seen;
}

test('each line is yielded once, whenever it becomes durable', async () => {
  for (let first = 1; first <= 9; first += 1) {
    for (let second = first; second <= 9; second += 2) {
      const seen = await seqsOf(first, [second, 9]);
      assert.deepEqual(seen, [1, 2, 3, 4, 5, 6, 7, 8, 9], `${first}, ${second}`);
    }
  }
});

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
