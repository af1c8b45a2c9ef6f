/** The result for the events of a report or of a batch: all of them are recorded, or none. */
export type RecordResult =
  | RecordedResult
  /** No event is acknowledged; `reason` is the cause and what to do, such as `the service is stopping`. */
  | { readonly kind: 'refused'; readonly reason: string }
  /**
   * No event is recorded, because idempotency keys belong to other events. There is at least one conflict; the conflicts
   * are in the order of the events.
   */
  | { readonly kind: 'conflict'; readonly conflicts: readonly KeyConflict[] }
  /**
   * The events can never be recorded together, however long the client waits. `reason` includes advice: `…; send them in
   * parts`.
   */
  | { readonly kind: 'too large'; readonly reason: string };

/** The events are on stable storage, except those in `conflicts`. */
export interface RecordedResult {
  readonly kind: 'recorded';
  /** The events that were left out because of `ConflictHandling`, in their order. Absent if there are none. */
  readonly conflicts?: readonly KeyConflict[];
  /**
   * Indexes of events that were recorded earlier with the same idempotency key, in ascending order. Absent if there are
   * none.
   */
  readonly replayed?: readonly number[];
}

/** On a conflict none of the other events of the report is recorded (`refuse all`), or all of them are (`leave out`). */
export type ConflictHandling = 'refuse all' | 'leave out';

/** An event whose idempotency key belongs to another event. */
export interface KeyConflict {
  /** Index of the event in the report, from 0. */
  readonly index: number;
  readonly key: string;
  /** The first member of the two lines that differs. */
  readonly member: string;
  /** Index of the event in the same report that has the key; undefined if an event of an earlier report has it. */
  readonly first: number | undefined;
}

/**
 * Called once for each report or batch, with the result of all its events. If they are recorded, `before` has the seqs of the
 * events that were recorded earlier, and the range from `first` to `last` has all other events. The range is empty, with `first`
 * above `last`, if all events were recorded earlier.
 */
export type Done = (result: RecordResult, first?: number, last?: number, before?: readonly number[]) => void;

/** The result of most reports, shared so that a report allocates none. */
export const recorded: RecordedResult = { kind: 'recorded' };

/** @param reason the cause for the client, with what to do */
export function refused(reason: string): RecordResult {
  return { kind: 'refused', reason };
}
