/**
 * The idempotency keys of one journal, in memory: for each key 8 bytes of its SHA-256 and the location of its line. The keys
 * themselves stay in the journal. Hashes can collide, so a caller reads the line that it finds here and compares the key.
 *
 * The keys are a ring in the order of their lines, in typed arrays of 24 bytes a key. An index of 32-bit slots (open addressing
 * with linear probing, at most half full) finds a hash in the ring. Keys leave the ring only at its oldest end, and later keys
 * move back into their slots, so a table that always loses its oldest key never fills up with tombstones.
 */

import { hash, randomInt } from 'node:crypto';

/** The first 64 bits of the SHA-256 of a key, as two signed 32-bit numbers, for which V8 allocates no memory. */
export interface KeyHash {
  readonly high: number;
  readonly low: number;
}

/** A key and its hash, which is computed once. */
export interface HashedKey extends KeyHash {
  readonly text: string;
}

/** Computes the hash that a table stores: `hashKey`, or in tests a function whose hashes collide. */
export type HashKey = (text: string) => HashedKey;

/**
 * @param text a key, in visible ASCII
 * @returns the text with the first 8 bytes of its SHA-256: `{ text: 'run-7/12', high: 1505020612, low: 2145905118 }`
 */
export function hashKey(text: string): HashedKey {
  const digest = hash('sha256', text, 'binary'); // a string is created faster than a Buffer
  const word = (at: number) =>
    (digest.charCodeAt(at) << 24) |
    (digest.charCodeAt(at + 1) << 16) |
    (digest.charCodeAt(at + 2) << 8) |
    digest.charCodeAt(at + 3);
  return { text, high: word(0), low: word(4) };
}

/** The location of a key's line. The seq determines the file, the offset the first byte in that file. */
export interface LineLocation {
  readonly seq: number;
  /** In bytes, below 2^32: a journal file is closed at 1 GiB at most. */
  readonly offset: number;
}

/** A key that a table holds. */
export interface Entry extends KeyHash, LineLocation {
  /** When its line was recorded, in whole seconds since 1970. */
  readonly seconds: number;
}

/** The largest offset of a line that a table can hold, in bytes. */
export const OFFSET_MAX = 2 ** 32 - 1;

/** The keys of one journal. */
export class KeyTable {
  /** Number of keys. */
  size = 0;
  /** Position of the oldest key in the ring. */
  #head = 0;
  #columns = columnsFor(0);
  /** For each slot 0 if it is empty, otherwise 1 + the position of a key in the ring. */
  #slots = new Uint32Array(0);
  /** Secret odd factors against hash flooding: a client can choose keys whose hashes share bits, but not keys that share a slot. */
  readonly #highFactor = randomInt(2 ** 32) | 1;
  readonly #lowFactor = randomInt(2 ** 32) | 1;

  /**
   * Adds a key whose line comes after the lines of all other keys.
   * @param seconds see `Entry`
   */
  add(hash: KeyHash, location: LineLocation, seconds: number): void {
    this.#makeSpace();
    const position = this.#positionOf(this.size);
    this.size += 1;
    this.#put(position, hash, location, seconds);
  }

  /**
   * Adds a key whose line comes before the lines of all other keys.
   * @param seconds see `Entry`
   */
  addOldest(hash: KeyHash, location: LineLocation, seconds: number): void {
    this.#makeSpace();
    this.#head = this.#positionOf(this.#capacity - 1);
    this.size += 1;
    this.#put(this.#head, hash, location, seconds);
  }

  /**
   * @returns the lines of all keys with this hash, the latest first: one line unless hashes collide, none for an unknown hash
   */
  find({ high, low }: KeyHash): readonly LineLocation[] {
    if (this.size === 0) return NO_LINES;
    const { high: highs, low: lows, seq, offset } = this.#columns;
    const mask = this.#slots.length - 1;
    let found: LineLocation[] | undefined; // most keys are new
    for (let slot = this.#homeOf(high, low); this.#slots[slot] !== 0; slot = (slot + 1) & mask) {
      const position = this.#slots[slot]! - 1;
      if (lows[position] !== low || highs[position] !== high) continue;
      found ??= [];
      found.push({ seq: seq[position]!, offset: offset[position]! });
    }
    return found?.sort((a, b) => b.seq - a.seq) ?? NO_LINES;
  }

  /** @param index from 0, the oldest key, to `size - 1` */
  at(index: number): Entry {
    const { high, low, seq, offset, seconds } = this.#columns;
    const position = this.#positionOf(index);
    return {
      high: high[position]!,
      low: low[position]!,
      seq: seq[position]!,
      offset: offset[position]!,
      seconds: seconds[position]!,
    };
  }

  /** When the line of the oldest key was recorded, in seconds since 1970; infinite if there is no key. */
  get oldestSeconds(): number {
    return this.size === 0 ? Number.POSITIVE_INFINITY : this.#columns.seconds[this.#head]!;
  }

  /** @returns the number of keys in lines with a lower seq, which is also the index of the first key after them */
  countBefore(seq: number): number {
    let [low, high] = [0, this.size];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#columns.seq[this.#positionOf(middle)]! < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Removes the oldest key, if there is one. Memory is freed as the table shrinks. */
  removeOldest(): void {
    if (this.size === 0) return;
    this.#clearSlot(this.#head);
    this.#head = this.#positionOf(1);
    this.size -= 1;
    if (this.size === 0) this.#resize(0);
    else if (this.#capacity > CAPACITY_MIN && this.size <= this.#capacity / 8) this.#resize(this.#capacity / 4);
  }

  /**
   * Allocates space for this number of keys at once: a table that grows step by step holds its old arrays together with
   * the new ones.
   */
  reserve(count: number): void {
    let capacity = Math.max(CAPACITY_MIN, this.#capacity);
    while (capacity < count) capacity *= 2;
    if (count > this.#capacity) this.#resize(capacity);
  }

  #makeSpace(): void {
    if (this.size === this.#capacity) this.#resize(Math.max(CAPACITY_MIN, 2 * this.#capacity));
  }

  get #capacity(): number {
    return this.#columns.seq.length;
  }

  /** The position in the ring of the key with this index. The capacity is a power of two. */
  #positionOf(index: number): number {
    return (this.#head + index) & (this.#capacity - 1);
  }

  #put(position: number, hash: KeyHash, location: LineLocation, seconds: number): void {
    const columns = this.#columns;
    columns.high[position] = hash.high;
    columns.low[position] = hash.low;
    columns.seq[position] = location.seq;
    columns.offset[position] = location.offset;
    columns.seconds[position] = seconds;
    this.#fillSlot(position);
  }

  /** The slot at which the search for a hash starts: the highest bits of a product, which depend on all bits of the hash. */
  #homeOf(high: number, low: number): number {
    const product = Math.imul(high, this.#highFactor) + Math.imul(low, this.#lowFactor);
    return product >>> (Math.clz32(this.#slots.length) + 1);
  }

  #homeAt(position: number): number {
    return this.#homeOf(this.#columns.high[position]!, this.#columns.low[position]!);
  }

  #fillSlot(position: number): void {
    const mask = this.#slots.length - 1;
    let slot = this.#homeAt(position);
    while (this.#slots[slot] !== 0) slot = (slot + 1) & mask;
    this.#slots[slot] = position + 1;
  }

  /** Empties the slot of a key, and moves back each later key that a search would not find beyond the empty slot. */
  #clearSlot(position: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let empty = this.#homeAt(position);
    while (slots[empty] !== position + 1) empty = (empty + 1) & mask;
    for (let slot = (empty + 1) & mask; slots[slot] !== 0; slot = (slot + 1) & mask) {
      const home = this.#homeAt(slots[slot]! - 1);
      if (((slot - home) & mask) < ((slot - empty) & mask)) continue;
      slots[empty] = slots[slot]!;
      empty = slot;
    }
    slots[empty] = 0;
  }

  /** Moves the keys to arrays of this capacity: 0, or a power of two that is at least `size`. */
  #resize(capacity: number): void {
    const before = this.#columns;
    const after = columnsFor(capacity);
    const firstPart = Math.min(this.size, this.#capacity - this.#head);
    for (const name of Object.keys(after) as (keyof Columns)[]) {
      after[name].set(before[name].subarray(this.#head, this.#head + firstPart));
      after[name].set(before[name].subarray(0, this.size - firstPart), firstPart);
    }
    this.#columns = after;
    this.#head = 0;
    this.#slots = new Uint32Array(2 * capacity);
    for (let position = 0; position < this.size; position += 1) this.#fillSlot(position);
  }
}

interface Columns {
  readonly high: Int32Array;
  readonly low: Int32Array;
  readonly seq: Float64Array;
  readonly offset: Uint32Array;
  readonly seconds: Uint32Array;
}

const CAPACITY_MIN = 64;
const NO_LINES: readonly LineLocation[] = [];

function columnsFor(capacity: number): Columns {
  return {
    high: new Int32Array(capacity),
    low: new Int32Array(capacity),
    seq: new Float64Array(capacity),
    offset: new Uint32Array(capacity),
    seconds: new Uint32Array(capacity),
  };
}
