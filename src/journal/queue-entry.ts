/** The entries in the queue of a journal: their events, their memory, and whether they fit. */

import type { Limits } from '../config/limits.ts';
import type { Event } from '../event/event.ts';
import type { Done } from '../event/record-result.ts';
import type { HashedKey } from './keys/table.ts';
import { type LineMembers, lineBytesMax } from './line/record.ts';

/**
 * The events of one call of `append`, which are written together, and recorded or refused together. All entries have the same
 * members, so that V8 uses one hidden class.
 */
export interface QueueEntry {
  /** The members of each line, `Event.encoded`. */
  readonly lines: readonly LineMembers[];
  /** Upper bound of the bytes of the lines. */
  readonly lineBytes: number;
  /** Approximate memory of the waiting entry, in bytes. */
  readonly heldBytes: number;
  readonly done: Done;
  /**
   * For each line its id in the journal that recorded it first, or undefined for a new line; undefined if all lines are new.
   */
  readonly ids: readonly (string | undefined)[] | undefined;
  /** For each line its idempotency key, if it has one; undefined if no line has a key, or keys are not looked up. */
  readonly keys: readonly (HashedKey | undefined)[] | undefined;
  /**
   * Reports that repeat one of the keys while the entry waits. They get its result after `done` is called. Undefined if there are
   * none.
   */
  joined: Done[] | undefined;
}

/** An entry with at least one idempotency key. */
export interface KeyedEntry extends QueueEntry {
  readonly keys: readonly (HashedKey | undefined)[];
}

/** The events of a report in the form of journal lines, without the members that depend on the position in the journal. */
export interface EncodedEvents extends Pick<QueueEntry, 'lines' | 'lineBytes' | 'heldBytes' | 'ids'> {
  /** Whether an event has an idempotency key that this journal looks up. Keys of forwarded events are not looked up. */
  readonly hasKey: boolean;
}

export function encodeEvents(events: readonly Event[], { queueLineBytes }: Limits): EncodedEvents {
  const lines: LineMembers[] = [];
  let hasKey = false;
  let isForwarded = false;
  let heldBytes = (events.length - 1) * queueLineBytes;
  let lineBytes = 0;
  for (const event of events) {
    const members = event.encoded;
    lines.push(members);
    if (event.origin !== undefined) isForwarded = true;
    else if (event.idempotencyKey !== undefined) hasKey = true;
    heldBytes += members.length;
    lineBytes += lineBytesMax(members);
  }
  const ids = isForwarded ? events.map(({ origin }) => origin?.id) : undefined;
  return { lines, lineBytes, heldBytes, ids, hasKey };
}

/** Approximate memory of the events that wait for a disk, in bytes. */
export interface QueuedBytes {
  bytes: number;
}

/**
 * A start must be able to explain the lines as one torn write (`tornBytesMax`), and the events must fit into an empty queue. A
 * single event always fits, see `limitsFor`.
 * @returns why the events can never be recorded together; undefined if they can
 */
export function explainOversize(
  count: number,
  { lineBytes, heldBytes }: EncodedEvents,
  limits: Limits,
): string | undefined {
  if (count === 1) return undefined;
  const { tornBytesMax, queueBytesMax, queueEventBytes } = limits;
  if (lineBytes > tornBytesMax) {
    return `the ${count} events take up to ${lineBytes} bytes in the journal, and at most ${tornBytesMax} are written together; send them in parts`;
  }
  if (heldBytes + queueEventBytes > queueBytesMax) {
    return `the ${count} events take ${heldBytes} bytes of memory, and the service has ${queueBytesMax} for events that wait; send them in parts`;
  }
  return undefined;
}

/**
 * @param bytes memory of the new events
 * @param waitingBytes memory of the events that wait for this journal
 * @returns why the new events would exceed a limit of the queue, as a clause for the client; undefined if they fit
 */
export function overload(
  bytes: number,
  waitingBytes: number,
  backlog: QueuedBytes,
  limits: Limits,
): string | undefined {
  const { queueBytesMax, backlogBytesMax, queueEventBytes } = limits;
  const more = bytes + queueEventBytes;
  if (waitingBytes + more <= queueBytesMax && backlog.bytes + more <= backlogBytesMax) return undefined;
  return 'the disk does not keep up: too many reports are waiting for it';
}
