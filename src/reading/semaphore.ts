/** Limits how many readings hold memory at a time. The others wait, in the order of their requests. */

import { Waiters } from '../waiting/waiters.ts';

export class Semaphore {
  readonly #waiting = new Waiters();
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
   * @returns a function that releases the semaphore; it must be called once
   * @throws the reason of the signal
   */
  async acquire(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else if (!(await this.#waiting.wait(signal))) throw signal?.reason;
    return () => {
      if (!this.#waiting.wakeFirst()) this.#free += 1; // otherwise the caller that was waiting holds it now
    };
  }
}
