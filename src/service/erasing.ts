/** Erases events in the folder of a journal, by the service that has its lock or by a command. */

import { eraseInState } from '../assets/erase.ts';
import { eraseInForwarding } from '../forward/erase.ts';
import { describe, isFull } from '../journal/disk.ts';
import { type EraseParts, eraseInJournal } from '../journal/erase/erase.ts';
import { type EraseOrder, readOrder, removeOrder, writeOrder } from '../journal/erase/order.ts';
import type { Notices } from '../telemetry/log.ts';

/**
 * Erases events of a journal that no one writes, and whose folder is locked. After a crash or an error the next start finishes it.
 * @param done given to erase in parts, so that the reports of a journal that is open between two of them wait for a short time: empty at
 *   the first part, and the same set at the others
 * @returns whether all is erased
 * @throws DamagedError, or the error of a system call
 */
export async function erase(parts: EraseParts, order: EraseOrder, done?: Set<number>): Promise<boolean> {
  const isBegun = done !== undefined && done.size > 0;
  if (!isBegun) {
    await finishErase(parts);
    await writeOrder(parts.disk, order);
  }
  return carryOut(parts, order, done);
}

/** Finishes what was interrupted, before the journal is opened. @throws as `erase` */
export async function finishErase(parts: EraseParts): Promise<void> {
  const order = await readOrder(parts.disk);
  if (order === undefined) return;
  await carryOut(parts, order);
  parts.notices.info('an erase that was interrupted is finished', { events: order.seqs.size });
}

/** The same at a start. On a full disk the journal is opened all the same: retention might make space for the start after this one. */
export async function finishEraseAtStart(parts: EraseParts): Promise<void> {
  await finishErase(parts).catch((error: Error) => {
    if (!isFull(error)) throw error;
    reportUnfinished(parts.notices, describe(error));
  });
}

export function reportUnfinished(notices: Notices, problem: string): void {
  notices.error('an erase could not be finished, and some of its events may still be in files', { problem });
}

/** The state after the segments: it names a line of one by its crc. */
async function carryOut(parts: EraseParts, order: EraseOrder, done?: Set<number>): Promise<boolean> {
  const { disk, limits } = parts;
  const isAll = await eraseInJournal(parts, order, done);
  await eraseInState(disk, { ...order, all: order.all && isAll }, limits); // names are looked for once
  if (!isAll) return false;
  await eraseInForwarding(disk, order, limits);
  await removeOrder(disk);
  return true;
}
