/**
 * Where a hook with `"begin": "now"` begins: "with the next" event. Its service decides that, once, and its first cursor says it. Until
 * the cursor is durable, a process that ends leaves the decision to the next one.
 */

import type { SimulatedDisk } from '../../world/simulated-disk.ts';
import type { MachineJournal } from '../machine.ts';
import { readCursor, type SeenCursor } from './cursor.ts';
import { type Destination, NEVER, type Watched } from './destinations.ts';
import { firstSeqOf, isJournalFile, wholeLines } from './journal-view.ts';

/** An operator has added a hook: it gets nothing that was answered with 200 before. */
export function added({ view }: Watched, destination: Destination): void {
  destination.beginSeq = NEVER;
  destination.mayBegin = { least: 1 + Math.max(0, ...view.acknowledged), most: NEVER };
}

/** The service learns of its hooks, since it starts or reads its destinations again: they get all that it records from now on. */
export function heard({ journal, sendsTo }: Watched): void {
  for (const { mayBegin } of sendsTo) if (mayBegin !== undefined) mayBegin.most = nextSeqIn(journal.disk);
}

/** @param cursor its first durable one @returns what is wrong with it */
export function begun(destination: Destination, { seq }: SeenCursor): string | undefined {
  const { mayBegin } = destination;
  if (mayBegin === undefined) return undefined;
  destination.mayBegin = undefined;
  destination.beginSeq = seq + 1;
  if (seq + 1 < mayBegin.least) return `begins with event ${seq + 1}, and ${mayBegin.least} was the next one`;
  return seq + 1 > mayBegin.most ? `begins with event ${seq + 1}, after event ${mayBegin.most}` : undefined;
}

/** Whether nothing in a folder says that a destination had a cursor. */
export function isNew({ disk }: MachineJournal, name: string): boolean {
  return (disk.bytes(`.forwarded-${name}`) ?? readCursor(disk, name)) === undefined;
}

/** @returns the seq after the last line, durable or in the cache of the system */
function nextSeqIn(disk: SimulatedDisk): number {
  const name = disk.names().filter(isJournalFile).sort().at(-1);
  return name === undefined ? 1 : wholeLines(disk.bytes(name)!, firstSeqOf(name));
}
