/** What became of the events of a report, or of a batch of reports: all of them are recorded, or none. */
export type RecordResult =
  | RecordedResult
  /** None of them is acknowledged; `reason` says why and what to do, such as `the service is stopping`. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** None of them is recorded: idempotency keys belong to other events. At least one conflict, in the order of the events. */
  | { readonly kind: 'conflict'; readonly conflicts: readonly KeyConflict[] }
  /** They can never be recorded together, however long the client waits; `reason` says what to do: `…; send them in parts`. */
  | { readonly kind: 'too large'; readonly reason: string };

/** The events are on stable storage, except those in `conflicts`. */
export interface RecordedResult {
  readonly kind: 'recorded';
  /** Events that were left out, as `ConflictHandling` asked for, in their order. Absent if none was left out. */
  readonly conflicts?: readonly KeyConflict[];
  /** Indexes of the events that were recorded before, with the same idempotency key. Ascending; absent if none was. */
  readonly replayed?: readonly number[];
}

/** What a conflict means for the other events of the report: none of them is recorded (`refuse all`), or all (`leave out`). */
export type ConflictHandling = 'refuse all' | 'leave out';

/** An event whose idempotency key belongs to another event. */
export interface KeyConflict {
  /** Index of the event among those of the report, from 0. */
  readonly index: number;
  readonly key: string;
  /** The first member of the line that differs. */
  readonly member: string;
  /** Index of the event of the same report that has the key; undefined if it belongs to an event of an earlier report. */
  readonly first: number | undefined;
}

/** One object for most reports, so that a report allocates none. */
export const recorded: RecordedResult = { kind: 'recorded' };

/** @param reason what the client reads, with what to do */
export function refused(reason: string): RecordResult {
  return { kind: 'refused', reason };
}
