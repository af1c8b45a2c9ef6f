/** Cuts a stream of bytes into lines. Every reader of lines in the program uses it: of journals, and of reports in a file. */

import { limits as standardLimits } from '../config/limits.ts';

/**
 * Takes one line.
 * @param end of the line in `bytes`, where its newline is
 * @param lineEnd position of that newline in everything that was pushed. The middle of an oversized line is not in `bytes`,
 *   so `end - start` can be less than the line's length
 */
export type TakeLine = (bytes: Buffer, start: number, end: number, lineEnd: number) => void;

/** Hands over each line where it stands in its chunk; only one that two chunks share is copied. */
export class LineCutter {
  readonly #take: TakeLine;
  readonly #lineBytesMax: number;
  #carried: Buffer[] = [];
  #carriedBytes = 0;
  /** Position of the current chunk. */
  #position = 0;

  /** @param lineBytesMax of a longer line about so many bytes are held in memory, however long it is */
  constructor(take: TakeLine, lineBytesMax: number = standardLimits.lineBytesMax) {
    this.#take = take;
    this.#lineBytesMax = lineBytesMax;
  }

  /** How much has come since the last newline. */
  get carriedBytes(): number {
    return this.#carriedBytes;
  }

  /** @returns what has come since the last newline, or the beginning of what is longer than a line */
  carried(): Buffer {
    return Buffer.concat(this.#carried);
  }

  push(chunk: Buffer): void {
    let from = 0;
    let end = chunk.indexOf(LINE_FEED);
    if (end !== -1 && this.#carriedBytes > 0) {
      const line = Buffer.concat([...this.#carried, chunk.subarray(0, end)]);
      this.#carried = [];
      this.#carriedBytes = 0;
      this.#take(line, 0, line.length, this.#position + end);
      from = end + 1;
      end = chunk.indexOf(LINE_FEED, from);
    }
    for (; end !== -1; end = chunk.indexOf(LINE_FEED, from)) {
      this.#take(chunk, from, end, this.#position + end);
      from = end + 1;
    }
    this.#position += chunk.length;
    if (from === chunk.length) return;
    this.#carriedBytes += chunk.length - from;
    // What is longer than any line need not be kept until its end shows up: its beginning is enough to refuse it.
    if (this.#carriedBytes <= this.#lineBytesMax) this.#carried.push(chunk.subarray(from));
  }
}

const LINE_FEED = 0x0a;
