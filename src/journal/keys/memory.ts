/**
 * The idempotency keys of all journals of a service: at most `keysMax` in total. Beyond that, the journal with the most keys
 * forgets its oldest key, so a busy journal never reduces the equal share of another. Which journal forgets depends only on the
 * number of keys and the name of each journal. Therefore a restart remembers the same keys, whatever the order in which the
 * journals are opened.
 */

import { type KeyHash, KeyTable, type LineLocation } from './table.ts';

export class KeyMemory {
  readonly keysMax: number;
  readonly #holders = new Map<KeyTable, KeyHolder>();
  /**
   * The holders as a binary heap. The first one is the next to forget a key. Adding a key costs a few comparisons with
   * 1,000 journals.
   */
  readonly #heap: KeyHolder[] = [];
  /** Number of keys in all tables, at most `keysMax`. */
  held = 0;

  /** @param keysMax the most keys to remember, at least 1 */
  constructor(keysMax: number) {
    this.keysMax = keysMax;
  }

  /**
   * Opens a table whose keys count towards `keysMax`.
   * @param name the name of the journal, such as its folder. If two journals have equally many keys, the one with the greater name
   * forgets first
   */
  open(name: string): KeyTable {
    const holder = { table: new KeyTable(), name, index: this.#heap.length, hasForgotten: false };
    this.#holders.set(holder.table, holder);
    this.#heap.push(holder);
    this.#moveUp(holder);
    return holder.table;
  }

  /** Forgets all keys of a table and ignores it from now on. A second call has no effect. */
  close(table: KeyTable): void {
    const holder = this.#holders.get(table);
    if (holder === undefined) return;
    this.#holders.delete(table);
    this.held -= table.size;
    const last = this.#heap.pop() as KeyHolder;
    if (last === holder) return;
    this.#put(last, holder.index);
    this.#moveUp(last);
    this.#moveDown(last);
  }

  /**
   * Adds a key that was recorded now, in a line after the lines of all other keys of its table. Beyond `keysMax` one key is
   * forgotten. Does nothing for a closed table.
   * @param nowSeconds since 1970
   */
  add(table: KeyTable, hash: KeyHash, location: LineLocation, nowSeconds: number): void {
    const holder = this.#holders.get(table);
    if (holder === undefined) return;
    if (!this.#makeSpace(holder)) {
      if (table.size === 0) return; // more journals than `keysMax`
      table.removeOldest();
      this.held -= 1;
    }
    table.add(hash, location, nowSeconds);
    this.#countAdded(holder);
  }

  /**
   * Adds a key during a start, in a line before the lines of all other keys of its table.
   * @param recordedSeconds when the line was recorded, in seconds since 1970
   * @returns false if the table has its full share, has already forgotten a later key, or is closed
   */
  addOldest(table: KeyTable, hash: KeyHash, location: LineLocation, recordedSeconds: number): boolean {
    const holder = this.#holders.get(table);
    if (holder === undefined || holder.hasForgotten || !this.#makeSpace(holder)) return false;
    table.addOldest(hash, location, recordedSeconds);
    this.#countAdded(holder);
    return true;
  }

  /**
   * Allocates space in a table for the keys of a start, but not more than its share.
   * @param count number of the keys
   */
  reserve(table: KeyTable, count: number): void {
    const left = this.keysMax - this.held + table.size;
    table.reserve(Math.min(count, Math.max(left, Math.ceil(this.keysMax / this.#heap.length))));
  }

  /**
   * Forgets the keys of a table in lines with a lower seq, because retention removed these lines. Does nothing for a closed table.
   */
  forgetBefore(table: KeyTable, seq: number): void {
    const holder = this.#holders.get(table);
    if (holder === undefined) return;
    for (let count = table.countBefore(seq); count > 0; count -= 1) {
      table.removeOldest();
      this.held -= 1;
    }
    this.#moveDown(holder);
  }

  /**
   * The time since which every key is remembered, in seconds since 1970. A journal that has forgotten keys remembers every key
   * since its oldest one; the result is the latest of these times. Without forgotten keys it is the time of the oldest key;
   * undefined without keys.
   */
  get oldestSeconds(): number | undefined {
    const holders = this.#heap.filter(({ table }) => table.size > 0);
    const forgetting = holders.filter(({ hasForgotten }) => hasForgotten);
    const secondsOf = ({ table }: KeyHolder) => table.oldestSeconds;
    if (forgetting.length > 0) return forgetting.map(secondsOf).reduce((a, b) => Math.max(a, b));
    return holders.length === 0 ? undefined : holders.map(secondsOf).reduce((a, b) => Math.min(a, b));
  }

  /** @returns false if the holder itself has to forget a key, because one more key would make it the largest */
  #makeSpace(holder: KeyHolder): boolean {
    if (this.held < this.keysMax) return true;
    const largest = this.#heap[0] as KeyHolder;
    const victim = forgetsBefore(largest, { name: holder.name, size: holder.table.size + 1 }) ? largest : holder;
    victim.hasForgotten = true;
    if (victim === holder) return false;
    largest.table.removeOldest();
    this.held -= 1;
    this.#moveDown(largest);
    return true;
  }

  #countAdded(holder: KeyHolder): void {
    this.held += 1;
    this.#moveUp(holder);
  }

  #put(holder: KeyHolder, index: number): void {
    this.#heap[index] = holder;
    holder.index = index;
  }

  #moveUp(holder: KeyHolder): void {
    while (holder.index > 0) {
      const above = this.#heap[(holder.index - 1) >>> 1] as KeyHolder;
      if (!precedes(holder, above)) return;
      this.#swap(holder, above);
    }
  }

  #moveDown(holder: KeyHolder): void {
    for (;;) {
      const [left, right] = [this.#heap[2 * holder.index + 1], this.#heap[2 * holder.index + 2]];
      if (left === undefined) return;
      const below = right !== undefined && precedes(right, left) ? right : left;
      if (!precedes(below, holder)) return;
      this.#swap(holder, below);
    }
  }

  #swap(a: KeyHolder, b: KeyHolder): void {
    const { index } = a;
    this.#put(a, b.index);
    this.#put(b, index);
  }
}

/** The keys of one journal. */
interface KeyHolder {
  readonly table: KeyTable;
  readonly name: string;
  /** Index in the heap. */
  index: number;
  /** Whether an older key of the journal was forgotten because of `keysMax`. */
  hasForgotten: boolean;
}

function precedes(a: KeyHolder, b: KeyHolder): boolean {
  return forgetsBefore(a, { name: b.name, size: b.table.size });
}

function forgetsBefore({ table, name }: KeyHolder, other: { readonly name: string; readonly size: number }): boolean {
  return table.size > other.size || (table.size === other.size && name > other.name);
}
