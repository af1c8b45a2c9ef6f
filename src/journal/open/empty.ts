/** Empties the folder of a journal, so that the next journal in it begins with seq 1. Only a service for tests does that. */

import type { Disk } from '../disk.ts';
import { CLEAN_STOP } from './clean-stop.ts';

/**
 * Files of a journal: its lines, its markers of events that are gone, its idempotency keys, copies of damaged ends, and what it
 * has of other journals.
 */
const OWN_NAME = /^(?:(?:events|keys)-[0-9]{20}|forward-(?:sources|seen)\.json)/;

/**
 * Removes the files of a journal that no process has open, durably; other files stay. The marker of the clean stop goes first
 * and then the newest file: whenever it is interrupted, what is left is a journal that can be started.
 * @throws the error of a system call, after which the oldest files are still there
 */
export async function emptyJournal(disk: Disk): Promise<void> {
  const names = await disk.list();
  const own = names.filter((name) => OWN_NAME.test(name)).sort();
  if (names.includes(CLEAN_STOP)) own.push(CLEAN_STOP);
  for (const name of own.reverse()) await disk.remove(name);
  await disk.syncFolder();
}
