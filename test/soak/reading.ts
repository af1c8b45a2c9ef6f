/** One kind of reading, again and again, and how long it got no answer. */

export class Reading {
  readonly what: string;
  /** How many were answered. */
  good = 0;
  /** The longest time without an answer, from the first request that got none to the end of the next one that got one. */
  worstMs = 0;
  /** What it got in that time. */
  instead = '';
  #badSinceMs: number | undefined;

  constructor(what: string) {
    this.what = what;
  }

  /** @param instead of an answer; undefined for an answer */
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
