/** Tasks that change what is known about some journals. Two tasks never change the same journal at the same time. */

export class JournalTurns {
  /** By journal: the end of the last task that was started for it. */
  readonly #last = new Map<string, Promise<unknown>>();

  /**
   * Runs a task after all earlier tasks that involve one of its journals. It queues for all of them at once, so no two tasks wait for
   * each other.
   * @returns what the task returns, also if it rejects
   */
  run<Result>(journals: ReadonlySet<string>, task: () => Promise<Result>): Promise<Result> {
    const before = [...journals].map((journal) => this.#last.get(journal));
    const done = Promise.all(before).then(task);
    const end: Promise<void> = done.then(
      () => this.#end(journals, end),
      () => this.#end(journals, end),
    );
    for (const journal of journals) this.#last.set(journal, end);
    return done;
  }

  #end(journals: ReadonlySet<string>, end: Promise<void>): void {
    for (const journal of journals) if (this.#last.get(journal) === end) this.#last.delete(journal);
  }
}
