/** Tasks that change what is known of some journals: two of them never change the same at a time. */

export class JournalTurns {
  /** By journal: the end of the last task that was begun for it. */
  readonly #last = new Map<string, Promise<unknown>>();

  /**
   * Runs a task after all earlier ones that have one of its journals. It takes its turns at all of them at once, so that no two tasks
   * wait for each other.
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
