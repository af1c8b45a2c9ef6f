/** Bounds how many readings hold memory at a time; the others wait, in the order in which they ask. */

/** So many places: `const leave = await places.take(signal)`, and when the caller holds no memory any more, `leave()`. */
export class Places {
  readonly #waiting = new Set<() => void>();
  #free: number;

  /** @param count at least 1 */
  constructor(count: number) {
    this.#free = count;
  }

  /** Whether the next caller has to wait. */
  get areTaken(): boolean {
    return this.#free === 0;
  }

  /**
   * Resolves when there is a place for the caller.
   * @param signal removes the caller from the queue
   * @returns the function to call once when the caller leaves its place
   * @throws the reason of the signal
   */
  async take(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#handedOver(signal);
    return () => this.#leave();
  }

  #handedOver(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        this.#waiting.delete(begin);
        reject(signal?.reason);
      };
      const begin = () => {
        signal?.removeEventListener('abort', giveUp);
        resolve();
      };
      signal?.addEventListener('abort', giveUp);
      this.#waiting.add(begin);
    });
  }

  #leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free += 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
