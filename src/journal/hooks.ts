/**
 * What forwarding needs of a journal: to know before files are removed, and to hold files back that a destination still needs.
 */

import { Mutex } from '../config/mutex.ts';
import type { Notices } from '../telemetry/log.ts';

/** For one journal at most. */
export interface JournalHooks {
  /**
   * Asked at each run of retention whose limits ask for files to be removed, also before the journal is open.
   * @returns the seq from which on events are still to be sent, and the destination. Files with these events
   *   stay; at the limit of retention, reports are refused with the reason. Undefined if all may be removed
   */
  heldBack(): HeldBack | undefined;
  /** Called when a journal that files may be removed from is open, before it records an event. @param lastSeq its last seq, 0 if it is new */
  opened(lastSeq: number): void;
  /**
   * Called before files are removed. They are removed after it resolves; if it rejects, nothing is removed, and a later run calls
   * it again. After a crash it may be called again with the same seqs.
   * @param lastSeq the last seq that the journal will no longer have
   * @param firstSeq the first seq of the files
   * @throws NotRemovableError if reports are to be refused as well, as for events that are held back
   */
  removing(lastSeq: number, firstSeq: number): Promise<void>;
  /**
   * Called after a file was closed because it is full, and before a clean stop is noted. Its failure is logged and changes nothing
   * else. One call at a time: of files that are closed during a call, only the last is reported.
   * @param lastSeq the last durable seq
   */
  closed(lastSeq: number): Promise<void>;
}

/** The files stay, and reports are refused with its message, until a later call of `removing` resolves. */
export class NotRemovableError extends Error {}

/** Events that may not be removed yet. */
export interface HeldBack {
  readonly fromSeq: number;
  /** For clients and operators: which destination, and what to do. */
  readonly reason: string;
}

/**
 * Calls `JournalHooks.closed` of one journal beside its batches. Without hooks it does nothing.
 * @returns schedules a call, and resolves after it; never rejects
 */
export function closedCalls(hooks: JournalHooks | undefined, notices: Notices): (lastSeq: number) => Promise<void> {
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
        notices.warn('forwarding could not note how far the journal is', { last_seq: due, problem });
      }
    });
    return next;
  };
}
