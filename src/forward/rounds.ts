/** Questions that several callers have at the same time are asked once for all callers. */

/** A round serves the callers that asked before it began. A question during a round waits for the next round. */
interface Round {
  readonly running: Promise<void>;
  next: Promise<void> | undefined;
}

/** At most two rounds of a name at a time: one that runs, and the next one. */
export class Rounds {
  readonly #rounds = new Map<string, Round>();

  /** Resolves after a round that began after the call. @param work never rejects */
  ask(name: string, work: () => Promise<void>): Promise<void> {
    const round = this.#rounds.get(name);
    if (round === undefined) return this.#begin(name, work);
    round.next ??= round.running.then(() => this.#begin(name, work));
    return round.next;
  }

  #begin(name: string, work: () => Promise<void>): Promise<void> {
    const running = work().then(() => {
      if (this.#rounds.get(name)?.running === running) this.#rounds.delete(name);
    });
    this.#rounds.set(name, { running, next: undefined });
    return running;
  }
}
