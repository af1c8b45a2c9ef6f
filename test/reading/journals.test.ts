/** What readings log of a journal that changes while they read it. */

import assert from 'node:assert/strict';
import { basename, dirname } from 'node:path';
import { test } from 'node:test';
import { limits as standardLimits } from '../../src/config/limits.ts';
import { CLEAN_STOP } from '../../src/journal/open/clean-stop.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { ReadableJournals } from '../../src/reading/journals.ts';
import { readExisting } from '../../src/reading/tail.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { diskWith, FIRST, type Files, quiet, segment } from '../support/segments.ts';
import { gate } from '../world/gate.ts';

/** Readings get all of the time, also right after a report. */
const limits = { ...standardLimits, readIdleMs: -1 };

/** Removes the second of three files while the first is read, and reads on. @returns the log */
async function readWhileOneGoes(how: 'by a reset' | 'by a reset that began before' | 'by hand'): Promise<string[]> {
  const second = segmentName(4);
  const files = { [FIRST]: segment(1, 3), [second]: segment(4, 6), [segmentName(7)]: segment(7, 9) };
  const disk = diskWith(files);
  const progress = new OwnProgress();
  progress.recorded(disk.folder, 10);
  const log: string[] = [];
  const notices = createNotices('info', false, (line) => log.push(line));
  const parts = { data: disk.folder, openDisk: () => disk, progress, open: () => undefined, limits, notices };
  const journal = new ReadableJournals(parts).of(undefined);
  const remove = () => disk.remove(second);
  const { opened: ended, open: end } = gate();
  const reset = how === 'by a reset that began before' ? journal.startOver(() => ended) : undefined;
  let isFirst = true;
  for await (const _ of readExisting(journal, 0, { filter: {}, signal: new AbortController().signal, limits })) {
    if (isFirst) await (how === 'by a reset' ? journal.startOver(remove) : remove());
    isFirst = false;
  }
  end();
  await reset;
  return log;
}

test('a reading whose journal is reset logs no damage, and one whose segment was removed does', async () => {
  assert.deepEqual(await readWhileOneGoes('by a reset'), []);
  assert.deepEqual(await readWhileOneGoes('by a reset that began before'), []);
  assert.match(
    (await readWhileOneGoes('by hand')).join(''),
    /a journal is damaged.*the events 4 to 6 before it are missing/,
  );
});

/**
 * Asks for the journal of a deployment that no report has opened.
 * @param opened what becomes of it when it is opened
 * @returns how often it was opened, and up to where it was durable then, or why it cannot be read
 */
async function askFor(
  files: Files,
  opened: (progress: OwnProgress, folder: string) => string | undefined,
  ending = new AbortController().signal,
) {
  const disk = diskWith(files);
  const progress = new OwnProgress();
  let opens = 0;
  const open = () => {
    opens += 1;
    return opened(progress, disk.folder);
  };
  const shared = { openDisk: () => disk, progress, open, notices: quiet, limits };
  const journals = new ReadableJournals({ ...shared, data: dirname(disk.folder) });
  const found = journals.whenReadable(basename(disk.folder), ending);
  const said = await found.then((journal) => journal.progress().durable()).catch(({ message }: Error) => message);
  return { opens, said };
}

test('the journal of a deployment is opened before it is read, since only that makes its last lines durable', async () => {
  const recorded = (progress: OwnProgress, folder: string) => void setImmediate(() => progress.recorded(folder, 3));
  const crashed = { [FIRST]: segment(1, 3) };
  assert.deepEqual(await askFor(crashed, recorded), { opens: 1, said: { kind: 'before', seq: 3 } });
  const stopped = { ...crashed, [CLEAN_STOP]: Buffer.alloc(0) };
  assert.deepEqual(await askFor(stopped, recorded), { opens: 0, said: { kind: 'unsaid' } });
  assert.deepEqual(await askFor({}, recorded), { opens: 0, said: { kind: 'unsaid' } });
});

test('the journal of a deployment is not read if it cannot be opened', async () => {
  const crashed = { [FIRST]: segment(1, 3) };
  assert.deepEqual(await askFor(crashed, () => 'the disk failed'), { opens: 1, said: 'the disk failed' });
  assert.deepEqual(await askFor(crashed, () => undefined, AbortSignal.abort()), {
    opens: 1,
    said: 'the journal is being opened',
  });
});
