/** Tasks that must not overlap, such as writes of one file. */

export class Mutex {
  #size = 0;
  #last: Promise<unknown> = Promise.resolve();
  readonly #leave = (): void => {
    this.#size -= 1;
  };

  /** Number of tasks that run or wait. */
  get size(): number {
    return this.#size;
  }

  /** Resolves after the tasks that run or wait now. */
  get ended(): Promise<unknown> {
    return this.#last;
  }

  /**
   * Runs a task after all tasks before it.
   * @returns what the task returns. A task that rejects does not keep the next one from running
   */
  run<Result>(task: () => Promise<Result>): Promise<Result> {
    this.#size += 1;
    const done = this.#last.then(task);
    this.#last = done.then(this.#leave, this.#leave); // the caller gets the error
    return done;
  }
}
