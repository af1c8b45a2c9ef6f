/** Callers that wait for the same thing. */

export class Waiters {
  /** A function for each waiting caller that lets it continue, in the order of their calls. */
  readonly #waiting = new Set<() => void>();

  /** Number of callers that wait. */
  get size(): number {
    return this.#waiting.size;
  }

  /**
   * Waits for `wake` or `wakeFirst`, until a signal aborts or `ms` milliseconds have passed. Never rejects.
   * @returns whether it was woken
   */
  wait(signal?: AbortSignal, ms?: number): Promise<boolean> {
    return new Promise((resolve) => {
      const leave = (isWoken: boolean) => {
        clearTimeout(late);
        signal?.removeEventListener('abort', aborted);
        this.#waiting.delete(wake);
        resolve(isWoken);
      };
      const wake = () => leave(true);
      const aborted = () => leave(false);
      const late = ms === undefined ? undefined : setTimeout(leave, ms, false).unref();
      if (signal?.aborted === true) return leave(false);
      signal?.addEventListener('abort', aborted);
      this.#waiting.add(wake);
    });
  }

  /** Lets all callers that wait now continue. */
  wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  /** Lets the caller that has waited longest continue. @returns false if none waits */
  wakeFirst(): boolean {
    const [wake] = this.#waiting;
    wake?.();
    return wake !== undefined;
  }
}
