/**
 * The lines of a damaged file, as pieces of consecutive lines. Most damaged files have a few long pieces; in the worst case each
 * line is a piece. So pieces are stored in typed arrays, 50 bytes a piece, instead of one object each.
 */

import { type Link, seedFor } from './chain.ts';

/** Lines of one file with consecutive seqs, the crc of each seeded with the stored crc of the previous line. */
export interface Piece extends Link {
  /** The first byte of the first line, and the byte after the last line: its newline's, or where that should be. */
  readonly start: number;
  readonly end: number;
  readonly firstSeq: number;
  readonly lines: number;
  /** The crc of the last line, as stored. */
  readonly lastCrc: number;
  /** Index of the previous piece in the file, -1 if there is none. */
  readonly before: number;
  /** The sum of some values of `Flag`. */
  readonly flags: number;
}

/** Properties of a piece, as bits of its `flags`. */
export const Flag = {
  /** Its lines are delimited by newlines, instead of found inside bytes that are no line. */
  whole: 1,
  /** Its lines end in CR LF. */
  carriageReturns: 2,
  /** Its first line is JSON. */
  json: 4,
  /** Its first line is proved by its crc and the previous line; the others always are. */
  good: 8,
  /** The crc of a line with the next seq is seeded with that of its last line. */
  confirmed: 16,
} as const;

/** The file has more pieces than `limits.salvagePiecesMax`. It has no message; `salvage` reports the file. */
export class TooManyPieces extends Error {}

/** The pieces of one file, by index in the order in which they were added. */
export class Pieces {
  readonly #countMax: number;
  readonly #columns = {
    start: new Float64Array(INITIAL_COUNT),
    end: new Float64Array(INITIAL_COUNT),
    firstSeq: new Float64Array(INITIAL_COUNT),
    lines: new Uint32Array(INITIAL_COUNT),
    lastCrc: new Uint32Array(INITIAL_COUNT),
    unseededCrc: new Uint32Array(INITIAL_COUNT),
    lineBytes: new Uint32Array(INITIAL_COUNT),
    before: new Int32Array(INITIAL_COUNT),
    flags: new Uint8Array(INITIAL_COUNT),
    /** The crc that the line before the piece must have. */
    seed: new Uint32Array(INITIAL_COUNT),
  };
  #byEnd = new Uint32Array(0);
  /** Number of pieces. */
  count = 0;

  /** @param countMax the most pieces; the next `add` throws */
  constructor(countMax: number) {
    this.#countMax = countMax;
  }

  /**
   * Adds a piece of one line, and computes the crc that the line before it must have.
   * @returns its index
   * @throws TooManyPieces
   */
  add(piece: Piece): number {
    const index = this.count;
    if (index === this.#countMax) throw new TooManyPieces();
    const columns = this.#columns as Record<string, Float64Array | Uint32Array | Int32Array | Uint8Array>;
    if (index === columns['start']?.length) {
      for (const [name, column] of Object.entries(columns)) {
        const larger = new (column.constructor as typeof Float64Array)(2 * column.length);
        larger.set(column);
        columns[name] = larger;
      }
    }
    for (const [name, value] of Object.entries({ ...piece, seed: seedFor(piece, piece.lastCrc) })) {
      (columns[name] as Float64Array)[index] = value;
    }
    this.count += 1;
    return index;
  }

  /**
   * Adds a line to the end of a piece.
   * @param end of the line: see `Piece`
   * @param crc of the line, as stored
   */
  extend(index: number, end: number, crc: number): void {
    const { lines, lastCrc, end: ends } = this.#columns;
    lines[index]! += 1;
    lastCrc[index] = crc;
    ends[index] = end;
  }

  /** @returns the piece with an index below `count`, as a copy */
  at(index: number): Piece {
    const { start, end, firstSeq, lines, lastCrc, unseededCrc, lineBytes, before, flags } = this.#columns;
    return {
      start: start[index]!,
      end: end[index]!,
      firstSeq: firstSeq[index]!,
      lines: lines[index]!,
      lastCrc: lastCrc[index]!,
      unseededCrc: unseededCrc[index]!,
      lineBytes: lineBytes[index]!,
      before: before[index]!,
      flags: flags[index]!,
    };
  }

  /** @returns the crc that the line before the piece must have */
  seed(index: number): number {
    return this.#columns.seed[index]!;
  }

  /** @returns the seq of its last line */
  lastSeq(index: number): number {
    return this.#columns.firstSeq[index]! + this.#columns.lines[index]! - 1;
  }

  /** @returns the crc of its last line, as stored */
  lastCrc(index: number): number {
    return this.#columns.lastCrc[index]!;
  }

  is(index: number, flag: number): boolean {
    return (this.#columns.flags[index]! & flag) !== 0;
  }

  mark(index: number, flag: number): void {
    this.#columns.flags[index]! |= flag;
  }

  /** Sorts all pieces by their last seq, for `endingWith`. Pieces that are added later are not found before the next call. */
  sortByEnd(): void {
    const { lastCrc } = this.#columns;
    this.#byEnd = Uint32Array.from({ length: this.count }, (_, index) => index).sort(
      (a, b) => this.lastSeq(a) - this.lastSeq(b) || lastCrc[a]! - lastCrc[b]! || a - b,
    );
  }

  /** Yields the indexes of the pieces whose last line has this seq, and this crc if one is given. */
  *endingWith(seq: number, crc?: number): Generator<number> {
    const isBefore = (index: number) =>
      this.lastSeq(index) - seq || (crc === undefined ? 0 : this.#columns.lastCrc[index]! - crc);
    let [low, high] = [0, this.#byEnd.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (isBefore(this.#byEnd[middle]!) < 0) low = middle + 1;
      else high = middle;
    }
    for (; low < this.#byEnd.length && isBefore(this.#byEnd[low]!) === 0; low += 1) yield this.#byEnd[low]!;
  }
}

const INITIAL_COUNT = 64;
