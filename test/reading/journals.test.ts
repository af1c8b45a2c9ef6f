/** What readings log of a journal that changes while they read it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { ReadableJournals } from '../../src/reading/journals.ts';
import { recorded } from '../../src/reading/tail.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { gate } from '../support/gate.ts';
import { diskWith, FIRST, segment } from '../support/segments.ts';

/** Removes the second of three files while the first is read, and reads on. @returns the log */
async function readWhileOneGoes(how: 'by a reset' | 'by a reset that began before' | 'by hand'): Promise<string[]> {
  const second = segmentName(4);
  const files = { [FIRST]: segment(1, 3), [second]: segment(4, 6), [segmentName(7)]: segment(7, 9) };
  const disk = diskWith(files);
  const progress = new OwnProgress();
  progress.recorded(disk.folder, 10);
  const log: string[] = [];
  const notices = createNotices('info', false, (line) => log.push(line));
  const journal = new ReadableJournals({ data: disk.folder, openDisk: () => disk, progress, limits, notices }).of(
    undefined,
  );
  const remove = () => disk.remove(second);
  const { opened: ended, open: end } = gate();
  const reset = how === 'by a reset that began before' ? journal.beginAnew(() => ended) : undefined;
  let isFirst = true;
  for await (const _ of recorded(journal, 0, { filter: {}, signal: new AbortController().signal, limits })) {
    if (isFirst) await (how === 'by a reset' ? journal.beginAnew(remove) : remove());
    isFirst = false;
  }
  end();
  await reset;
  return log;
}

test('a reading whose journal is reset logs no damage, and one whose file was removed does [journals-1]', async () => {
  assert.deepEqual(await readWhileOneGoes('by a reset'), []);
  assert.deepEqual(await readWhileOneGoes('by a reset that began before'), []);
  assert.match(
    (await readWhileOneGoes('by hand')).join(''),
    /a journal is damaged.*the events 4 to 6 before it are missing/,
  );
});
