/** A first-come, first-served queue of callers, each of which leaves it when its signal aborts. */

/** Callers that wait for the same thing. */
export class CallQueue {
  readonly #waiting = new Set<() => void>();

  /** How many callers wait. */
  get size(): number {
    return this.#waiting.size;
  }

  /**
   * Resolves when `next` lets the caller continue.
   * @throws the reason of the signal
   */
  wait(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const leave = () => {
        this.#waiting.delete(begin);
        reject(signal?.reason);
      };
      const begin = () => {
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      signal?.addEventListener('abort', leave);
      this.#waiting.add(begin);
    });
  }

  /** Lets the first caller continue. @returns false if none waits */
  next(): boolean {
    const [begin] = this.#waiting;
    if (begin === undefined) return false;
    this.#waiting.delete(begin);
    begin();
    return true;
  }
}
