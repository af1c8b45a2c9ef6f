/** Looks that are taken in turn, one at a time: what an idle service costs does not grow with the number of things to look at. */

/** Never rejects. */
export type Look = () => Promise<void>;

export interface RotaOptions {
  readonly turnMs: number;
  /** Looks of one turn; the others wait for the next turns. */
  readonly turnMax: number;
}

/** Has no timer while it has no look. */
export class Rota {
  readonly #options: RotaOptions;
  /** The first look is the one that was taken longest ago. */
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

  /** Takes the next looks, besides the turns of the timer. Never rejects. */
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
