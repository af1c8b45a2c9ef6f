/** Empties the folder of a journal, so that the next journal in it starts at seq 1. Only for services in test mode. */

import type { Disk } from '../disk.ts';
import { CLEAN_STOP } from './clean-stop.ts';

/**
 * The files of a journal: lines, markers of events that are gone, idempotency keys, copies of damaged ends, and the states of its
 * assets and of its sources.
 */
const OWN_NAME = /^(?:(?:events|keys)-[0-9]{20}|(?:forward-(?:sources|seen)|erased)\.json|assets\.(?:state|forget))/;

/**
 * Removes the files of a journal, durably; other files are kept. No process may have the journal open. The marker of the clean
 * stop is removed first, then the files from the newest to the oldest, so that the rest is still a valid journal after an
 * interruption.
 * @throws the error of a system call; the oldest files still exist then
 */
export async function emptyJournal(disk: Disk): Promise<void> {
  const names = await disk.list();
  const own = names.filter((name) => OWN_NAME.test(name)).sort();
  if (names.includes(CLEAN_STOP)) own.push(CLEAN_STOP);
  for (const name of own.reverse()) await disk.remove(name);
  await disk.syncFolder();
}
