/** Takes out of the files of forwarding what erased events said: the service that has the folder forwards nothing meanwhile. */

import type { Limits } from '../config/limits.ts';
import type { Disk } from '../journal/disk.ts';
import type { EraseOrder } from '../journal/erase/order.ts';
import { replaceDurably } from '../journal/file-io.ts';
import { rechain } from '../journal/line/chain.ts';
import { erasedLine } from '../journal/line/erased.ts';
import { rewriteLines } from '../journal/line/lines.ts';
import type { ToldAlarm } from './alarms/alarm.ts';
import { readTold, toldName, writeTold } from './alarms/told-file.ts';
import { readNames } from './folder.ts';
import { decodeDeadLetter, encodeDeadLetter, seqsOf } from './ledger/letter.ts';
import { readPipeState, writePipeState } from './pipe/status.ts';

/**
 * Erases in the dead letters, in what hooks have heard, and in the last words of destinations: these may repeat a part of an event.
 * @throws the error of a system call; it may be called again
 */
export async function eraseInForwarding(disk: Disk, order: EraseOrder, limits: Limits): Promise<void> {
  const names = await disk.list();
  for (const name of names.filter((name) => LETTERS.test(name))) {
    const letters = eraseInLetters(disk, name, order, limits);
    await replaceDurably(disk, name, letters);
  }
  for (const name of names) {
    const hook = ALARMS.exec(name)?.[1];
    if (hook !== undefined) await eraseInTold(disk, hook, order, limits);
  }
  for (const name of await readNames(disk)) {
    const written = await readPipeState(disk, name, limits);
    if (written !== undefined) await writePipeState(disk, name, { ...written, reason: null, last_error: null });
  }
}

/** @returns the new file. A line that is no letter is left out: readers ignore it */
function eraseInLetters(disk: Disk, name: string, order: EraseOrder, { lineBytesMax }: Limits): AsyncIterable<Buffer> {
  return rewriteLines(disk.read(name), lineBytesMax, (bytes, start, end) => {
    const letter = eraseInLetter(bytes.toString('utf8', start, end), order);
    return letter === undefined ? undefined : Buffer.from(`${letter}\n`);
  });
}

function eraseInLetter(text: string, order: EraseOrder): string | undefined {
  const letter = decodeDeadLetter(text);
  if (letter === undefined) return undefined;
  const { line, ...others } = letter;
  const { first, last } = seqsOf(letter);
  if (!order.seqs.hasIn(first, last)) return text;
  // The reason might repeat a part of the event.
  const reason = line === undefined && letter.outcome === 'removed' ? letter.reason : 'the event was erased';
  const bytes = Buffer.from(line ?? '');
  const erased = line === undefined ? undefined : erasedLine(bytes, 0, bytes.length, order);
  if (erased === undefined) return encodeDeadLetter({ ...others, reason, line });
  rechain(erased, 0, erased.length - 1, 0);
  return encodeDeadLetter({ ...others, reason, line: erased.toString('utf8', 0, erased.length - 1) });
}

/** A hook hears nothing more of an alarm that it could only be told of with an erased text. */
async function eraseInTold(disk: Disk, name: string, { seqs, all }: EraseOrder, limits: Limits): Promise<void> {
  const file = await readTold(disk, name, limits);
  if (file === undefined) return disk.remove(toldName(name)); // it is damaged, and the hook counts as new anyway
  const hasText = (partition: string | undefined, seq: number | undefined) =>
    seq !== undefined && seqs.has(seq) && (all || partition !== undefined);
  for (const [key, { partition, sinceSeq }] of file.told as Map<string, ToldAlarm>)
    if (hasText(partition, sinceSeq)) file.told.delete(key);
  if (hasText(file.open?.about.partition, file.open?.seq)) file.open = undefined;
  await writeTold(disk, name, file);
}

const LETTERS = /^dead-.*\.jsonl(\..*)?$/;
const ALARMS = /^forward-(.+)\.alarms$/;
