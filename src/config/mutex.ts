/** Tasks that must not overlap, such as writes of one file. */

export class Mutex {
  #last: Promise<unknown> = Promise.resolve();

  /**
   * Runs a task after all tasks before it.
   * @returns what the task returns. A task that rejects does not keep the next one from running
   */
  run<Result>(task: () => Promise<Result>): Promise<Result> {
    const done = this.#last.then(task);
    this.#last = done.catch(() => {}); // the caller gets the error
    return done;
  }
}
