import type { RecordResult } from '../event/record-result.ts';
import type { HashedKey } from './idempotency-table.ts';
import type { LineMembers } from './record.ts';

/**
 * Called once for each call of `append`, with the result of all its events. Example:
 * `(result) => { if (result.kind === 'refused') retry(); }`.
 */
export type Done = (result: RecordResult) => void;

/**
 * The events of one call of `append`, which are written together, and recorded or refused together. All entries have the same
 * members, and so one hidden class. Example:
 * `{ lines: [members], lineBytes: 1_320, heldBytes: 2_600, done, ids: undefined, keys: undefined, joined: undefined }`.
 */
export interface QueueEntry {
  /** The members of each line, from `encodeMembers`. */
  readonly lines: readonly LineMembers[];
  /** Upper bound of the bytes of its lines. */
  readonly lineBytes: number;
  /** Approximate memory that it takes while it waits, in bytes. */
  readonly heldBytes: number;
  readonly done: Done;
  /** For each line the id that it has in the journal which recorded it first, undefined for a new one; undefined if all are new. */
  readonly ids: readonly (string | undefined)[] | undefined;
  /** For each line its idempotency key, undefined for a line without one; undefined if no line has one, or keys are not looked up. */
  readonly keys: readonly (HashedKey | undefined)[] | undefined;
  /** Reports that repeat one of the keys while the entry waits: they get its result after `done`. Undefined if there is none. */
  joined: Done[] | undefined;
}

/** An entry of which at least one line has an idempotency key: `keys` is such as `[{ text: 'run-7/12', high, low }]`. */
export interface KeyedEntry extends QueueEntry {
  readonly keys: readonly (HashedKey | undefined)[];
}
