/** Finds where the chain of lines continues after a bad line. */

import { type ChainPosition, crcOf, type LineForm } from './record.ts';

/**
 * Where the checksum chain may continue after one bad line and those that follow it. Example:
 * `new Resync({ seq: 7, crc: 0x9ae0daaf }, false)`.
 */
export class Resync {
  readonly #chain: ChainPosition;
  readonly #isStart: boolean;
  /** Crcs with which the next valid line may be seeded. */
  #seeds: readonly number[];

  /**
   * @param chain the chain position of the first bad line
   * @param isStart whether no valid line is before it: then any seq is accepted, since the file may have the wrong name
   */
  constructor(chain: ChainPosition, isStart: boolean) {
    this.#chain = chain;
    this.#isStart = isStart;
    this.#seeds = [chain.crc];
  }

  /**
   * Whether a line's crc is seeded with that of the last valid line or of a bad one. The seed of a file's first line is 0. If the
   * first bad line should have the seq 7, the result for a line with the seq 6 is `false`, unless no valid line is before it.
   */
  continuesWith(bytes: Buffer, form: LineForm): boolean {
    const isAhead = form.seq >= this.#chain.seq || this.#isStart;
    return isAhead && this.#seeds.some((seed) => crcOf(bytes, form, seed) === form.crc);
  }

  /**
   * Passes a bad line. The next line may be seeded with the crc that it has, or should have; if it has not the form of a line,
   * also with the crc of an earlier line. Example: `pass(bytes, 0, 304, undefined)` for a line of 304 other bytes.
   */
  pass(bytes: Buffer, start: number, end: number, form: LineForm | undefined): void {
    const [, other = 0] = this.#seeds;
    const computed = crcOf(bytes, { start, end }, this.#chain.crc);
    const kept = form === undefined ? this.#seeds.slice(2, 3) : [];
    this.#seeds = [this.#chain.crc, form?.crc ?? other, computed, ...kept];
  }
}
