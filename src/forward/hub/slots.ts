/** Bounds how many requests are at work at a time; the others wait for a slot, in the order in which they came. */

/** `new Slots(2)`: two at a time. */
export class Slots {
  readonly #max: number;
  readonly #waiting: (() => void)[] = [];
  #used = 0;

  /** @param max at work at a time */
  constructor(max: number) {
    this.#max = max;
  }

  /** @returns what `work` returns: `await slots.run(() => record(events))`. Rejects with its error */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#used < this.#max) this.#used += 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      this.#leave();
    }
  }

  /** Hands the slot on after what has arrived meanwhile: reports are handled between two of those that wait. */
  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#used -= 1;
    else setImmediate(next);
  }
}
