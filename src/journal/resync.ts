/** Finds where the chain of lines continues after a bad line. */

import { crcOf, type LineForm, type Place } from './record.ts';

export class Resync {
  readonly #place: Place;
  readonly #isStart: boolean;
  /** Crcs that a good line may build on. */
  #seeds: readonly number[];

  /**
   * @param place what the first bad line should have had
   * @param isStart no good line is before it: then the seq may be any, since the file may have the wrong name
   */
  constructor(place: Place, isStart: boolean) {
    this.#place = place;
    this.#isStart = isStart;
    this.#seeds = [place.crc];
  }

  /** Whether a line builds on one before it: on the last good one, or on a bad one's crc. The first on none. */
  continuesWith(bytes: Buffer, form: LineForm): boolean {
    const isAhead = form.seq >= this.#place.seq || this.#isStart;
    return isAhead && this.#seeds.some((seed) => crcOf(bytes, form, seed) === form.crc);
  }

  /**
   * Passes a bad line. What comes after it may build on the crc that it has, or should have; or, if it is no line at all, on one
   * that was there before.
   */
  pass(bytes: Buffer, start: number, end: number, form: LineForm | undefined): void {
    const [, other = 0] = this.#seeds;
    const computed = crcOf(bytes, { start, end }, this.#place.crc);
    const kept = form === undefined ? this.#seeds.slice(2, 3) : [];
    this.#seeds = [this.#place.crc, form?.crc ?? other, computed, ...kept];
  }
}
