/**
 * The idempotency keys of all journals of a service: at most so many in total. When there is one more, the journal with the most
 * keys forgets its oldest key. So each journal has an equal share: what another journal forgets for a busy one is above that
 * share. Which journal forgets depends on the numbers of keys and the names of the journals alone. So a start knows the same keys
 * as the service before, in whatever order the journals are opened.
 */

import { type KeyHash, KeyTable, type LineLocation } from './table.ts';

export class KeyMemory {
  readonly keysMax: number;
  readonly #holders = new Map<KeyTable, KeyShare>();
  /** The same as a binary heap: the first is the holder that forgets next. A key costs a few comparisons for 1,000 journals. */
  readonly #heap: KeyShare[] = [];
  /** Number of keys in all tables, at most `keysMax`. */
  held = 0;

  /** @param keysMax the most keys that are remembered, at least 1 */
  constructor(keysMax: number) {
    this.keysMax = keysMax;
  }

  /**
   * Opens a table whose keys count towards `keysMax`.
   * @param name of the journal, such as its folder: of two journals with as many keys, the journal with the greater name forgets first
   */
  open(name: string): KeyTable {
    const holder = { table: new KeyTable(), name, index: this.#heap.length, hasForgotten: false };
    this.#holders.set(holder.table, holder);
    this.#heap.push(holder);
    this.#moveUp(holder);
    return holder.table;
  }

  /** Forgets all keys of a table, which is not used any more. Does nothing the second time. */
  close(table: KeyTable): void {
    const holder = this.#holders.get(table);
    if (holder === undefined) return;
    this.#holders.delete(table);
    this.held -= table.size;
    const last = this.#heap.pop() as KeyShare;
    if (last === holder) return;
    this.#put(last, holder.index);
    this.#moveUp(last);
    this.#moveDown(last);
  }

  /**
   * Adds a key that was recorded now, in a line after the lines of all other keys of its table. Above `keysMax` one key is forgotten.
   * Does nothing for a closed table.
   * @param nowSeconds since 1970
   */
  add(table: KeyTable, hash: KeyHash, location: LineLocation, nowSeconds: number): void {
    const holder = this.#holders.get(table);
    if (holder === undefined) return;
    if (!this.#makeSpace(holder)) {
      if (table.size === 0) return; // more journals than keys
      table.removeOldest();
      this.held -= 1;
    }
    table.add(hash, location, nowSeconds);
    this.#added(holder);
  }

  /**
   * Adds a key of a line that was read at a start, before the lines of all other keys of its table.
   * @param recordedSeconds when the line was recorded, in seconds since 1970
   * @returns false if the table has its share, has forgotten a later key, or is closed
   */
  addOldest(table: KeyTable, hash: KeyHash, location: LineLocation, recordedSeconds: number): boolean {
    const holder = this.#holders.get(table);
    if (holder === undefined || holder.hasForgotten || !this.#makeSpace(holder)) return false;
    table.addOldest(hash, location, recordedSeconds);
    this.#added(holder);
    return true;
  }

  /**
   * Forgets the keys of a table whose lines have a lower seq, because retention removed those lines. Does nothing for a closed
   * table.
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
   * Since when each key is remembered, in seconds since 1970: when the oldest key was recorded, in that of the journals with
   * forgotten keys whose oldest key is the latest. Without forgotten keys, when the oldest of all was recorded; undefined without
   * keys.
   */
  get oldestSeconds(): number | undefined {
    const holders = this.#heap.filter(({ table }) => table.size > 0);
    const forgetful = holders.filter(({ hasForgotten }) => hasForgotten);
    const secondsOf = ({ table }: KeyShare) => table.oldestSeconds;
    if (forgetful.length > 0) return forgetful.map(secondsOf).reduce((a, b) => Math.max(a, b));
    return holders.length === 0 ? undefined : holders.map(secondsOf).reduce((a, b) => Math.min(a, b));
  }

  /** @returns false if the holder itself would have the most keys with one more, so that it has to forget one */
  #makeSpace(holder: KeyShare): boolean {
    if (this.held < this.keysMax) return true;
    const most = this.#heap[0] as KeyShare;
    const forgets = forgetsBefore(most, { name: holder.name, size: holder.table.size + 1 }) ? most : holder;
    forgets.hasForgotten = true;
    if (forgets === holder) return false;
    most.table.removeOldest();
    this.held -= 1;
    this.#moveDown(most);
    return true;
  }

  #added(holder: KeyShare): void {
    this.held += 1;
    this.#moveUp(holder);
  }

  #put(holder: KeyShare, index: number): void {
    this.#heap[index] = holder;
    holder.index = index;
  }

  #moveUp(holder: KeyShare): void {
    while (holder.index > 0) {
      const above = this.#heap[(holder.index - 1) >>> 1] as KeyShare;
      if (!precedes(holder, above)) return;
      this.#swap(holder, above);
    }
  }

  #moveDown(holder: KeyShare): void {
    for (;;) {
      const [left, right] = [this.#heap[2 * holder.index + 1], this.#heap[2 * holder.index + 2]];
      if (left === undefined) return;
      const below = right !== undefined && precedes(right, left) ? right : left;
      if (!precedes(below, holder)) return;
      this.#swap(holder, below);
    }
  }

  #swap(a: KeyShare, b: KeyShare): void {
    const { index } = a;
    this.#put(a, b.index);
    this.#put(b, index);
  }
}

/** The keys of one journal. */
interface KeyShare {
  readonly table: KeyTable;
  readonly name: string;
  /** Of the holder in the heap. */
  index: number;
  /** Whether an older key of the journal is not remembered, because there were too many. */
  hasForgotten: boolean;
}

function precedes(a: KeyShare, b: KeyShare): boolean {
  return forgetsBefore(a, { name: b.name, size: b.table.size });
}

function forgetsBefore({ table, name }: KeyShare, other: { readonly name: string; readonly size: number }): boolean {
  return table.size > other.size || (table.size === other.size && name > other.name);
}
