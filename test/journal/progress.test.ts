/** When a reader in another process looks again. */

import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { type Progress, pollProgress } from '../../src/journal/progress.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { newFolder } from '../support/program.ts';

const { followMs, followIdleMs } = limits;

/** The progress of a folder by a clock that each poll moves on, and that starts with the first change. */
function polled(t: TestContext, folder: string): { progress: Progress; clock: { ms: number } } {
  const clock = { ms: 0 };
  t.mock.method(performance, 'now', () => clock.ms);
  const poll = async () => {
    clock.ms += followMs;
  };
  return { progress: pollProgress(folder, limits, poll), clock };
}

test('a folder that changed is read at the next poll, and an unchanged one ever more rarely, but always again', async (t) => {
  const folder = newFolder(t);
  const never = new AbortController().signal;
  writeFileSync(join(folder, segmentName(1)), 'a line\n');
  const { progress, clock } = polled(t, folder);
  const waited = async () => {
    const beforeMs = clock.ms;
    await progress.more(never);
    return clock.ms - beforeMs;
  };
  const changes: Record<string, () => void> = {
    'the first look': () => {},
    'the newest file grows': () => appendFileSync(join(folder, segmentName(1)), 'another\n'),
    'a file is begun': () => writeFileSync(join(folder, segmentName(3)), ''),
    'that file grows': () => appendFileSync(join(folder, segmentName(3)), 'a line\n'),
    'a file is removed': () => rmSync(join(folder, segmentName(1))),
    'the newest file is replaced': () => {
      rmSync(join(folder, segmentName(3)));
      writeFileSync(join(folder, 'other'), ''); // so that the number of the file is another one
      writeFileSync(join(folder, segmentName(3)), 'a line\n');
    },
  };
  for (const [what, change] of Object.entries(changes)) {
    change();
    assert.equal(await waited(), followMs, what);
    let sinceMs = 0;
    for (let ms = 0; ms < followIdleMs; sinceMs += ms) {
      ms = await waited();
      assert.ok(ms <= followMs + Math.min(followIdleMs, (sinceMs + ms) / 4), `${what}: ${ms} ms after ${sinceMs} ms`);
      assert.ok(ms >= Math.min(followIdleMs, (sinceMs + ms) / 4), `${what}: ${ms} ms after ${sinceMs} ms`);
    }
    assert.equal(await waited(), followIdleMs);
  }
});

test('a folder that cannot be watched, or has no journal yet, is read at each poll', async (t) => {
  const folder = join(newFolder(t), 'later');
  const never = new AbortController().signal;
  const { progress, clock } = polled(t, folder);
  for (const make of [() => {}, () => mkdirSync(folder)]) {
    make();
    for (let at = 0; at < 3; at += 1) {
      const beforeMs = clock.ms;
      await progress.more(never);
      assert.equal(clock.ms - beforeMs, followMs);
    }
  }
});

test('an abort ends the wait for changes', async (t) => {
  const folder = newFolder(t);
  writeFileSync(join(folder, segmentName(1)), '');
  const ending = new AbortController();
  const progress = pollProgress(folder, { ...limits, followMs: 3_600_000 });
  const waits = progress.more(ending.signal);
  ending.abort();
  await waits;
});
