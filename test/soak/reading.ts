/** A repeated reading, and the longest time without an answer. */

export class Reading {
  readonly what: string;
  good = 0;
  /** The longest time without an answer: from the first request without one to the end of the next request with one. */
  worstMs = 0;
  /** The failure in that time. */
  instead = '';
  #badSinceMs: number | undefined;

  constructor(what: string) {
    this.what = what;
  }

  /** @param instead the failure; undefined for an answer */
  add(instead: string | undefined, beganMs: number): void {
    if (instead !== undefined) this.#badSinceMs ??= beganMs;
    const badMs = this.#badSinceMs === undefined ? 0 : performance.now() - this.#badSinceMs;
    if (badMs > this.worstMs) {
      this.worstMs = badMs;
      this.instead = instead ?? this.instead;
    }
    if (instead !== undefined) return;
    this.#badSinceMs = undefined;
    this.good += 1;
  }
}
