/**
 * The hooks of forwarding in a journal: they report files that are about to be removed, and hold back files that a destination
 * still needs. And the hooks of the state of its assets, which holds nothing back.
 */

import { Mutex } from '../config/mutex.ts';
import type { Notices } from '../telemetry/log.ts';
import type { LineMembers } from './line/record.ts';

/** The hooks of one journal. */
export interface JournalHooks {
  /**
   * Called at each run of retention that would remove files, even before the journal is open.
   * @returns the first seq that is still to be sent, and the destination. Files with events from this seq on stay; at the limit
   *   of retention, reports are refused with the reason. Undefined if all files may be removed
   */
  heldBack(): HeldBack | undefined;
  /** Called when a journal with retention is open, before it records an event. @param lastSeq its last seq, 0 if it is new */
  opened(lastSeq: number): void;
  /**
   * Called before files are removed. The files are removed after it resolves; if it rejects, nothing is removed, and a later run
   * calls it again. After a crash it can be called again with the same seqs.
   * @param lastSeq the last seq of the files
   * @param firstSeq the first seq of the files
   * @throws NotRemovableError if reports must be refused as well, as for events that are held back
   */
  removing(lastSeq: number, firstSeq: number): Promise<void>;
  /**
   * Called after a full file was closed, and before a clean stop is marked. A failure is only logged. One call at a time: only the
   * last file closed during a call is reported.
   * @param lastSeq the last durable seq
   */
  closed(lastSeq: number): Promise<void>;
}

/** What a journal tells the state of its assets. Nothing throws or rejects. */
export interface AssetHooks {
  /** Called when the journal is open, before it records an event. @param lastSeq its last seq, 0 if it is new */
  opened(lastSeq: number): void;
  /** Called when the lines of a batch are durable, before their replies leave. */
  recorded(batch: RecordedBatch): void;
  /** Called when a full file was closed. */
  rotated(): void;
  /** Called before files are removed, also before the journal is open. They are removed after it resolves. @param lastSeq of the files */
  removing(lastSeq: number): Promise<void>;
  /** Called before a clean stop is marked. */
  closing(): Promise<void>;
}

/** The lines of one write. */
export interface RecordedBatch {
  readonly lines: readonly LineMembers[];
  readonly firstSeq: number;
  /** The `time` of the lines. */
  readonly time: Date;
  /** Of the last line. */
  readonly lastId: string;
  readonly lastCrc: number;
  readonly bytes: number;
}

/** The files stay, and reports are refused with the message, until a later call of `removing` resolves. */
export class NotRemovableError extends Error {}

/** Events that must not be removed yet. */
export interface HeldBack {
  readonly fromSeq: number;
  /** The destination and what to do, for clients and operators. */
  readonly reason: string;
}

/**
 * Calls `JournalHooks.closed` of one journal, concurrently with its batches. Without hooks it does nothing.
 * @returns a function that schedules a call and resolves after it; it never rejects
 */
export function scheduleClosedCalls(
  hooks: JournalHooks | undefined,
  notices: Notices,
): (lastSeq: number) => Promise<void> {
  const calls = new Mutex();
  let due = 0;
  let next: Promise<void> | undefined;
  return (lastSeq) => {
    due = lastSeq;
    next ??= calls.run(async () => {
      next = undefined;
      try {
        await hooks?.closed(due);
      } catch (error) {
        const problem = (error as Error).message;
        notices.warn('forwarding could not record the last seq of the journal', { last_seq: due, problem });
      }
    });
    return next;
  };
}
