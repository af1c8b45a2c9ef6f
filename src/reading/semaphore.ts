/** Bounds how many readings hold memory at a time; the others wait, in the order in which they ask. */

/** A counting semaphore: `const release = await buffers.acquire(signal)`, and when the caller holds no memory any more, `release()`. */
export class Semaphore {
  readonly #waiting = new Set<() => void>();
  #free: number;

  /** @param count how many callers may hold it at a time, at least 1 */
  constructor(count: number) {
    this.#free = count;
  }

  /** Whether the next caller has to wait. */
  get isExhausted(): boolean {
    return this.#free === 0;
  }

  /**
   * Resolves when fewer than `count` callers hold the semaphore.
   * @param signal removes the caller from the queue
   * @returns releases the semaphore; to be called once
   * @throws the reason of the signal
   */
  async acquire(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#handedOver(signal);
    return () => this.#release();
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

  #release(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free += 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
