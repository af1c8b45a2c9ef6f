/** Replies that are held back on purpose. */

/** Holds replies back, at most `max` at a time. */
export class Delays {
  readonly #max: number;
  readonly #waiting = new Set<() => void>();

  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Calls `send` after `ms` milliseconds, or at once when `ending` aborts.
   * @returns false if too many replies wait already; `send` was then called at once
   */
  wait(ms: number, ending: AbortSignal, send: () => void): boolean {
    const isFull = this.#waiting.size >= this.#max;
    if (isFull || ending.aborted) {
      send();
      return !isFull;
    }
    const end = () => {
      clearTimeout(timer);
      ending.removeEventListener('abort', end);
      this.#waiting.delete(end);
      send();
    };
    const timer = setTimeout(end, ms).unref();
    ending.addEventListener('abort', end);
    this.#waiting.add(end);
    return true;
  }

  /** Sends all replies that wait. */
  end(): void {
    for (const end of [...this.#waiting]) end();
  }
}
