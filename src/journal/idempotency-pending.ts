/**
 * The events with idempotency keys that wait for the disk, by key. A `Map` alone would do, but for garbage collection: it moves
 * to a new table each time that enough keys came and went, and what the old tables still refer to survives until the next
 * collection of the whole heap. So the map holds numbers, and the events are in an array whose elements are cleared. After
 * `add('run-7/12', event)`, `get('run-7/12')` is `event`.
 */
export class PendingKeys<Pending> {
  readonly #slotOf = new Map<string, number>();
  readonly #slots: (Pending | undefined)[] = [];
  readonly #free: number[] = [];

  /** Whether a key is pending: `has('run-7/12')` is `true` between its `add` and its `delete`. */
  has(key: string): boolean {
    return this.#slotOf.has(key);
  }

  /** @returns what was added with the key, such as `get('run-7/12')`; undefined if it is not pending */
  get(key: string): Pending | undefined {
    const slot = this.#slotOf.get(key);
    return slot === undefined ? undefined : this.#slots[slot];
  }

  /**
   * Adds an event that waits for the disk: `add('run-7/12', event)`.
   * @param key that is not pending
   */
  add(key: string, pending: Pending): void {
    const slot = this.#free.pop() ?? this.#slots.length;
    this.#slots[slot] = pending;
    this.#slotOf.set(key, slot);
  }

  /** Forgets a key, such as `delete('run-7/12')`; does nothing if it is not pending. */
  delete(key: string): void {
    const slot = this.#slotOf.get(key);
    if (slot === undefined) return;
    this.#slotOf.delete(key);
    this.#slots[slot] = undefined;
    this.#free.push(slot);
  }
}
