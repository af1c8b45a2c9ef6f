/** The states of a journal. */

import type { RecordResult } from '../event/record-result.ts';
import type { LinesToAppend } from './append.ts';
import { type LineMembers, SEQ_MAX } from './line/record.ts';
import type { Segment } from './open/recovery.ts';
import type { QueueEntry } from './queue-entry.ts';

export type JournalState =
  | { readonly kind: 'starting'; readonly reason: string; readonly isQueueing: boolean }
  | { readonly kind: 'open'; readonly segment: Segment; readonly trouble?: Trouble }
  | { readonly kind: 'closed'; readonly reason: string }
  /** The content of the disk is unknown, or the service found an inconsistency in itself. */
  | { readonly kind: 'failed'; readonly reason: string; readonly error: Error; readonly nextSeq: number };

export interface Trouble {
  /**
   * `refusing`: the last write failed, but the next might succeed, so reports are still queued. `stalled`: the current write has
   * stalled. `used up`: the largest seq is assigned.
   */
  readonly kind: 'refusing' | 'stalled' | 'used up';
  readonly reason: string;
}

export type OpenState = Extract<JournalState, { kind: 'open' }>;

export const USED_UP: Trouble = {
  kind: 'used up',
  reason: `the journal is full: its last event has seq ${SEQ_MAX}, the largest possible seq; give the service a new --data folder`,
};

export const NOT_OPEN_YET = 'the journal is being opened';

/** One write: complete entries, and their lines. */
export interface Batch extends LinesToAppend {
  readonly entries: readonly QueueEntry[];
}

/**
 * Takes complete entries from the start of a queue, but at least one.
 * @param bytesMax the most bytes of their lines @param linesMax the number of seqs that are left
 * @returns the batch, and the rest of the queue
 */
export function takeBatch(
  queue: QueueEntry[],
  bytesMax: number,
  linesMax: number,
): { readonly batch: Batch; readonly rest: QueueEntry[] } {
  const lines: LineMembers[] = [];
  let ids: (string | undefined)[] | undefined;
  let bytes = 0;
  let count = 0;
  for (const entry of queue) {
    bytes += entry.lineBytes;
    if (count > 0 && (bytes > bytesMax || lines.length + entry.lines.length > linesMax)) break;
    if (entry.ids !== undefined) {
      ids ??= [];
      for (const [index, id] of entry.ids.entries()) ids[lines.length + index] = id;
    }
    for (const members of entry.lines) lines.push(members);
    count += 1;
  }
  const rest = queue.splice(count);
  return { batch: { entries: queue, lines, ids }, rest };
}

export interface Committing {
  readonly batch: Batch;
  readonly committed: Promise<RecordResult>;
}
