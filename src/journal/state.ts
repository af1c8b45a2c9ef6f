/** The states of a journal. */

import type { RecordResult } from '../event/record-result.ts';
import type { LinesToAppend } from './append.ts';
import { SEQ_MAX } from './line/record.ts';
import type { Segment } from './open/recovery.ts';
import type { QueueEntry } from './queue-entry.ts';

export type JournalState =
  | { readonly kind: 'starting'; readonly reason: string; readonly isQueueing: boolean }
  | { readonly kind: 'open'; readonly segment: Segment; readonly trouble?: Trouble }
  | { readonly kind: 'closed'; readonly reason: string }
  /** The content of the disk is unknown, or the service contradicts itself. */
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

export const OPENING = 'the journal is being opened';

/** One write: whole entries, and their lines. */
export interface Batch extends LinesToAppend {
  readonly entries: readonly QueueEntry[];
}

export interface Committing {
  readonly batch: Batch;
  readonly committed: Promise<RecordResult>;
}
