/**
 * Looks that take turns, one at a time, so that the cost of an idle service does not grow with the number of things to look at.
 */

/** Never rejects. */
export type Look = () => Promise<void>;

export interface RotaOptions {
  readonly turnMs: number;
  /** Number of looks in one turn; the others wait for the next turns. */
  readonly turnMax: number;
}

/** Has no timer while there are no looks. */
export class Rota {
  readonly #options: RotaOptions;
  /** The first look is the one that was taken the longest ago. */
  readonly #looks = new Set<Look>();
  #timer: NodeJS.Timeout | undefined;
  #turning: Promise<void> | undefined;

  constructor(options: RotaOptions) {
    this.#options = options;
  }

  add(look: Look): void {
    this.#looks.add(look);
    this.#timer ??= setInterval(() => void this.turn(), this.#options.turnMs).unref();
  }

  delete(look: Look): void {
    this.#looks.delete(look);
    if (this.#looks.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Takes the next looks, in addition to the turns of the timer. Never rejects. */
  turn(): Promise<void> {
    this.#turning ??= this.#turn().finally(() => {
      this.#turning = undefined;
    });
    return this.#turning;
  }

  async #turn(): Promise<void> {
    for (const look of [...this.#looks].slice(0, this.#options.turnMax)) {
      if (!this.#looks.delete(look)) continue; // it was deleted during another look
      this.#looks.add(look);
      await look();
    }
  }
}
