/** Resets of an embedded service: the journal is not read while it begins anew. */

import type { RefusedRequests } from './refused.ts';
import type { Waits } from './waits.ts';

/** The resets of one service, one after the other. */
export class Resets {
  readonly #waits: Waits;
  readonly #refused: RefusedRequests;
  #last: Promise<void> | undefined;

  constructor(waits: Waits, refused: RefusedRequests) {
    this.#waits = waits;
    this.#refused = refused;
  }

  /**
   * Ends open waits, and runs a reset once nothing reads the journal.
   * @throws what `reset` throws
   */
  async around(reset: () => Promise<void>): Promise<void> {
    const before = this.#last;
    const run = async () => {
      await before;
      this.#waits.endOpen('the service was reset');
      await this.#waits.allEnded();
      await reset();
      this.#refused.clear();
    };
    const result = run();
    const last = result.catch(() => {}); // its error goes to the caller
    this.#last = last;
    await last;
    if (this.#last === last) this.#last = undefined;
    return result;
  }

  /** Resolves when no reset runs; undefined if none does, so that a read can begin at once. */
  get running(): Promise<void> | undefined {
    return this.#last;
  }
}
