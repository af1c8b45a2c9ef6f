/**
 * The idempotency keys of all journals of a service: at most so many in total. When one more comes, the oldest key of the
 * service is forgotten, whichever journal it is from.
 */

import { type KeyHash, KeyTable, type LineLocation } from './idempotency-table.ts';

/** The keys of a service, such as `new KeyMemory(1_000_000)`; each journal that is open has a table in it. */
export class KeyMemory {
  /** The most keys that are remembered: `1_000_000`. */
  readonly keysMax: number;
  readonly #tables = new Set<KeyTable>();
  /** Number of keys in all tables, at most `keysMax`. */
  held = 0;
  /**
   * The largest `seconds` of a key so far. A key that is recorded now gets no lower one, even if the clock was set back: what
   * is recorded later is forgotten later.
   */
  #newestSeconds = 0;
  /** The table with the oldest key, and the seconds of the oldest key in all other tables; undefined if unknown. */
  #oldest: { readonly table: KeyTable; readonly othersSeconds: number } | undefined;

  /** @param keysMax the most keys that are remembered: `--idempotency-keys`, at least 1 */
  constructor(keysMax: number) {
    this.keysMax = keysMax;
  }

  /** @returns an empty table whose keys count from now on: its `size` is `0` */
  open(): KeyTable {
    const table = new KeyTable();
    this.#tables.add(table);
    return table;
  }

  /** Forgets all keys of a table, which is not used any more: `held` decreases by its `size`. Does nothing the second time. */
  close(table: KeyTable): void {
    if (!this.#tables.delete(table)) return;
    this.held -= table.size;
    this.#oldest = undefined;
  }

  /** How many more keys can be added before the oldest one is forgotten: `keysMax - held`. */
  get free(): number {
    return this.keysMax - this.held;
  }

  /**
   * Adds a key that was recorded now, in a line after those of all other keys of its table. With `keysMax` 2, a third key makes
   * the memory forget the oldest one, and `held` stays `2`.
   * @param nowSeconds since 1970; taken as the newest so far if it is lower
   */
  add(table: KeyTable, hash: KeyHash, location: LineLocation, nowSeconds: number): void {
    if (this.held === this.keysMax) this.#forgetOldest();
    this.#newestSeconds = Math.max(nowSeconds, this.#newestSeconds);
    if (table.size === 0) this.#oldest = undefined;
    table.add(hash, location, this.#newestSeconds);
    this.held += 1;
  }

  /**
   * Adds a key of a line that was read at a start, before those of all other keys of its table: one recorded at `1795362000` may
   * replace an older one of another table.
   * @param recordedSeconds when the line was recorded, in seconds since 1970
   * @returns false if it is older than all that are remembered, and no more can be
   */
  addOldest(table: KeyTable, hash: KeyHash, location: LineLocation, recordedSeconds: number): boolean {
    const seconds = Math.min(recordedSeconds, table.oldestSeconds);
    if (this.held === this.keysMax) {
      const { table: oldest } = this.#findOldest();
      if (oldest === table || oldest.oldestSeconds >= seconds) return false;
      this.#forgetOldest();
    }
    this.#newestSeconds = Math.max(seconds, this.#newestSeconds);
    table.addOldest(hash, location, seconds);
    this.held += 1;
    this.#oldest = undefined;
    return true;
  }

  /**
   * Forgets the keys of a table whose lines have a lower seq, because retention removed those lines: with keys at the seqs 2 and
   * 3, `forgetBefore(table, 3)` keeps one. Does nothing for a closed table.
   */
  forgetBefore(table: KeyTable, seq: number): void {
    if (!this.#tables.has(table)) return;
    for (let count = table.countBefore(seq); count > 0; count -= 1) {
      table.removeOldest();
      this.held -= 1;
    }
  }

  /** When the oldest key was recorded, in seconds since 1970, such as `1795362000`; undefined if none is remembered. */
  get oldestSeconds(): number | undefined {
    return this.held === 0 ? undefined : this.#findOldest().table.oldestSeconds;
  }

  #forgetOldest(): void {
    this.#findOldest().table.removeOldest();
    this.held -= 1;
  }

  /** All tables are searched only if the table that had the oldest key may have it no longer. */
  #findOldest(): { readonly table: KeyTable; readonly othersSeconds: number } {
    const known = this.#oldest;
    if (known !== undefined && known.table.oldestSeconds <= known.othersSeconds) return known;
    let found: KeyTable | undefined;
    let othersSeconds = Number.POSITIVE_INFINITY;
    for (const table of this.#tables) {
      if (found === undefined || table.oldestSeconds < found.oldestSeconds) {
        othersSeconds = Math.min(othersSeconds, found?.oldestSeconds ?? Number.POSITIVE_INFINITY);
        found = table;
      } else {
        othersSeconds = Math.min(othersSeconds, table.oldestSeconds);
      }
    }
    if (found === undefined) throw new Error('no table of idempotency keys is open');
    this.#oldest = { table: found, othersSeconds };
    return this.#oldest;
  }
}
