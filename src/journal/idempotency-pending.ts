import type { QueueEntry } from './queue-entry.ts';
import type { LineMembers } from './record.ts';

/** An event with an idempotency key that waits for the disk: `{ members: '"type":"AssetObservation",…', entry }`. */
export interface Pending {
  readonly members: LineMembers;
  /** In the queue, or in the batch that is being written. */
  readonly entry: QueueEntry;
}

/**
 * The events with idempotency keys that wait for the disk, by key. A `Map` alone would do, but for garbage collection: it moves
 * to a new table each time that enough keys came and went, and what the old tables still refer to survives until the next
 * collection of the whole heap. So the map holds numbers, and the events are in arrays whose elements are cleared. After
 * `add('run-7/12', members, entry)`, `get('run-7/12')` is `{ members, entry }`.
 */
export class PendingKeys {
  readonly #slotOf = new Map<string, number>();
  readonly #members: (LineMembers | undefined)[] = [];
  readonly #entries: (QueueEntry | undefined)[] = [];
  readonly #free: number[] = [];

  /** Whether a key is pending: `has('run-7/12')` is `true` between its `add` and its `delete`. */
  has(key: string): boolean {
    return this.#slotOf.has(key);
  }

  /** @returns what was added with the key, such as `get('run-7/12')`; undefined if it is not pending */
  get(key: string): Pending | undefined {
    const slot = this.#slotOf.get(key);
    if (slot === undefined) return undefined;
    return { members: this.#members[slot]!, entry: this.#entries[slot]! };
  }

  /**
   * Adds an event that waits for the disk: `add('run-7/12', members, entry)`.
   * @param key that is not pending
   */
  add(key: string, members: LineMembers, entry: QueueEntry): void {
    const slot = this.#free.pop() ?? this.#entries.length;
    this.#members[slot] = members;
    this.#entries[slot] = entry;
    this.#slotOf.set(key, slot);
  }

  /** Forgets a key, such as `delete('run-7/12')`; does nothing if it is not pending. */
  delete(key: string): void {
    const slot = this.#slotOf.get(key);
    if (slot === undefined) return;
    this.#slotOf.delete(key);
    this.#members[slot] = undefined;
    this.#entries[slot] = undefined;
    this.#free.push(slot);
  }
}
