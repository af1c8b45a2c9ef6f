/** Bounds the bytes of the requests that are at work at a time; the others wait, in the order in which they came. */

/** `new Budget(2_097_152)`: as many requests at a time as have 2 MiB together, and at least one. */
export class Budget {
  readonly #bytesMax: number;
  readonly #waiting: { readonly bytes: number; readonly begin: () => void }[] = [];
  #bytes = 0;

  /** @param bytesMax at work at a time */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Whether a request of so many bytes would not wait. */
  fits(bytes: number): boolean {
    return this.#waiting.length === 0 && this.#allows(bytes);
  }

  /** @returns what `work` returns: `await budget.run(300, () => record(events))`. Rejects with its error */
  async run<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    if (this.fits(bytes)) this.#bytes += bytes;
    else await new Promise<void>((begin) => this.#waiting.push({ bytes, begin }));
    try {
      return await work();
    } finally {
      this.#leave(bytes);
    }
  }

  #allows(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#bytesMax;
  }

  /** Those that wait begin after what has arrived meanwhile: reports are handled between two of them. */
  #leave(bytes: number): void {
    this.#bytes -= bytes;
    for (let next = this.#waiting[0]; next !== undefined && this.#allows(next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#bytes += next.bytes;
      setImmediate(next.begin);
    }
  }
}
