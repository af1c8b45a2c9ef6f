/** Bounds the bytes of the requests that are handled at a time; other requests wait, in the order of their arrival. */

/** Handles as many requests at a time as `bytesMax` allows, and at least one. */
export class Budget {
  readonly #bytesMax: number;
  readonly #waiting: { readonly bytes: number; readonly begin: () => void }[] = [];
  #bytes = 0;

  /** @param bytesMax bytes of the requests that are handled at a time */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** @returns what `work` returns. @throws what `work` throws */
  async run<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    if (this.#waiting.length === 0 && this.#allows(bytes)) this.#bytes += bytes;
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

  /** Waiting requests start in the next turn of the event loop, so reports that have just arrived are handled first. */
  #leave(bytes: number): void {
    this.#bytes -= bytes;
    for (let next = this.#waiting[0]; next !== undefined && this.#allows(next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#bytes += next.bytes;
      setImmediate(next.begin);
    }
  }
}
