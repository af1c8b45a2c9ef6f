/** How far a destination is, as its cursor says on the disk: of its slots of 512 bytes the valid one with the largest number counts. */

import { crc32 } from 'node:zlib';
import { upTo } from '../../support/tools.ts';
import type { SimulatedDisk } from '../../world/simulated-disk.ts';
import type { Destination } from './destinations.ts';
import type { JournalView, SeenLine } from './journal-view.ts';

export interface SeenCursor {
  /** Of its slot: the next save has a larger one. */
  readonly number: number;
  readonly seq: number;
  readonly id: string | null;
  /** The last event that a plain destination may have besides. */
  readonly sending?: number;
}

const SLOT_BYTES = 512;
const END = /,"crc":"([\da-f]{8})"\} *\n?$/;

/** @returns undefined if no slot is valid */
function cursorIn(bytes: Buffer | undefined = Buffer.alloc(0)): SeenCursor | undefined {
  let best: SeenCursor | undefined;
  for (let at = 0; at < bytes.length; at += SLOT_BYTES) {
    const slot = bytes.toString('utf8', at, at + SLOT_BYTES);
    const end = END.exec(slot);
    if (end === null || crc32(slot.slice(0, end.index)) !== Number.parseInt(end[1]!, 16)) continue;
    const value = JSON.parse(`${slot.slice(0, end.index)}}`);
    if (best === undefined || value.number > best.number) best = value;
  }
  return best;
}

/** @returns the cursor of a destination as it is durably; undefined if there is none */
export function durableCursor(disk: SimulatedDisk, name: string): SeenCursor | undefined {
  return cursorIn(disk.durableBytes(`forward-${name}.cursor`));
}

/** @returns the same as a start reads it: the process before may have left a later cursor in the cache, which is true as well */
export function readCursor(disk: SimulatedDisk, name: string): SeenCursor | undefined {
  return cursorIn(disk.bytes(`forward-${name}.cursor`));
}

/** @returns the seq up to which the cursor of a destination is, durably; 0 if there is none */
export function cursorSeq(disk: SimulatedDisk, name: string): number {
  return durableCursor(disk, name)?.seq ?? 0;
}

/** @returns the seqs of the events that it says are being sent */
export function sendingIn({ seq, sending = 0 }: Pick<SeenCursor, 'seq' | 'sending'> = { seq: 0 }): number[] {
  return upTo(sending, seq + 1);
}

/** @returns what is wrong with a cursor that passes events of a journal, if anything is */
export function wrongCursor(
  cursor: SeenCursor,
  { checkedSeq, doubts, letters }: Destination,
  view: JournalView,
  isSettled: (line: SeenLine) => boolean,
): string | undefined {
  if (cursor.seq <= checkedSeq) return undefined;
  for (let seq = checkedSeq + 1; seq <= cursor.seq; seq += 1) {
    const line = view.lines.get(seq);
    if (line === undefined && view.removed.has(seq)) continue; // as a repair says
    if (line === undefined) return `passes event ${seq}, which is not durable`;
    if (!isSettled(line)) return `passes event ${seq}, which is neither there nor in a dead letter`;
    // "At most the event in flight is doubled, and it is named in the dead letters."
    if (doubts.has(seq) && !letters.named.has(seq))
      return `passes event ${seq}, which was being sent before the start, and no dead letter says so`;
  }
  const isSame = cursor.id === null || cursor.id === view.lines.get(cursor.seq)?.id;
  return isSame ? undefined : `has another id for event ${cursor.seq}`;
}
