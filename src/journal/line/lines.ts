/** Splits a stream of bytes into lines. All code that reads lines uses it, for journals and for files with reports. */

/**
 * Takes one line.
 * @param bytes the chunk, or a copy of the line if it spans chunks: then it ends where they end
 * @param end of the line in `bytes`: the index of its newline
 * @param lineEnd position of that newline in everything that was pushed. The middle of an oversized line is not in `bytes`, so
 *   `end - start` can be less than the line's length
 */
export type TakeLine = (bytes: Buffer, start: number, end: number, lineEnd: number) => void;

/** Passes each line as a range of its chunk, without a copy. Only a line that spans chunks is copied: nothing of a chunk is kept. */
export class LineCutter {
  readonly #take: TakeLine;
  readonly #lineBytesMax: number;
  #carried: Buffer[] = [];
  #carriedBytes = 0;
  /** Position of the current chunk. */
  #position = 0;

  /**
   * @param take called with each line
   * @param lineBytesMax about so many bytes of a longer line are held in memory, regardless of its length
   */
  constructor(take: TakeLine, lineBytesMax: number) {
    this.#take = take;
    this.#lineBytesMax = lineBytesMax;
  }

  /** Number of bytes since the last newline. */
  get carriedBytes(): number {
    return this.#carriedBytes;
  }

  /** @returns the bytes since the last newline; only the beginning if they exceed the limit of a line */
  carried(): Buffer {
    return Buffer.concat(this.#carried);
  }

  push(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, from)) {
      if (this.#carriedBytes === 0) this.#take(chunk, from, end, this.#position + end);
      else {
        const line = Buffer.concat([...this.#carried, chunk.subarray(0, end)]);
        this.#carried = [];
        this.#carriedBytes = 0;
        this.#take(line, 0, line.length, this.#position + end);
      }
      from = end + 1;
    }
    this.#position += chunk.length;
    if (from === chunk.length) return;
    this.#carriedBytes += chunk.length - from;
    // A line longer than the limit is not kept whole: its beginning is sufficient to refuse it.
    if (this.#carriedBytes <= this.#lineBytesMax) this.#carried.push(Buffer.from(chunk.subarray(from)));
  }
}

/** Passes each line of the chunks to `take`. @returns what has the bytes after the last newline */
export async function takeLines(
  chunks: AsyncIterable<Buffer>,
  lineBytesMax: number,
  take: TakeLine,
): Promise<LineCutter> {
  const cutter = new LineCutter(take, lineBytesMax);
  for await (const chunk of chunks) cutter.push(chunk);
  return cutter;
}

const LINE_FEED = 0x0a;
