/** Splits a stream of bytes into lines: of journals, and of files with reports. */

import { LINE_FEED } from '../../event/json-bytes.ts';

/**
 * Called with one line.
 * @param bytes the chunk; if the line spans chunks, a copy of the line, which ends at `end`
 * @param end index of the line's newline in `bytes`
 * @param lineEnd position of that newline in all bytes that were pushed. The middle of an oversized line is not in `bytes`, so
 *   `end - start` can be less than the line's length
 */
export type OnLine = (bytes: Buffer, start: number, end: number, lineEnd: number) => void;

/** Passes each line as a range of its chunk, without a copy. Only a line that spans chunks is copied: no chunk is kept. */
export class LineCutter {
  readonly #onLine: OnLine;
  readonly #lineBytesMax: number;
  #carried: Buffer[] = [];
  #carriedBytes = 0;
  /** Position of the current chunk. */
  #position = 0;

  /**
   * @param lineBytesMax most bytes of an incomplete line that are held in memory
   */
  constructor(onLine: OnLine, lineBytesMax: number) {
    this.#onLine = onLine;
    this.#lineBytesMax = lineBytesMax;
  }

  /** Number of bytes since the last newline. */
  get carriedBytes(): number {
    return this.#carriedBytes;
  }

  /** @returns the bytes since the last newline; only the first of them if they exceed `lineBytesMax` */
  carried(): Buffer {
    return Buffer.concat(this.#carried);
  }

  push(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, from)) {
      if (this.#carriedBytes === 0) this.#onLine(chunk, from, end, this.#position + end);
      else {
        const line = Buffer.concat([...this.#carried, chunk.subarray(0, end)]);
        this.#carried = [];
        this.#carriedBytes = 0;
        this.#onLine(line, 0, line.length, this.#position + end);
      }
      from = end + 1;
    }
    this.#position += chunk.length;
    if (from === chunk.length) return;
    this.#carriedBytes += chunk.length - from;
    // A line longer than the limit is not kept whole: its first bytes are enough to refuse it.
    if (this.#carriedBytes <= this.#lineBytesMax) this.#carried.push(Buffer.from(chunk.subarray(from)));
  }
}

/** Calls `onLine` with each line of the chunks. @returns the cutter, which has the bytes after the last newline */
export async function forEachLine(
  chunks: AsyncIterable<Buffer>,
  lineBytesMax: number,
  onLine: OnLine,
): Promise<LineCutter> {
  const cutter = new LineCutter(onLine, lineBytesMax);
  for await (const chunk of chunks) cutter.push(chunk);
  return cutter;
}
