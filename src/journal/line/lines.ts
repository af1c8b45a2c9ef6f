/** Splits a stream of bytes into lines. The bytes come from a journal or from a file with reports. */

import { LINE_FEED } from '../../event/json-bytes.ts';

/**
 * Called with one line.
 * @param bytes the chunk; if the line spans chunks, a copy of the line, which ends at `end`
 * @param end index of the line's newline in `bytes`
 * @param lineEnd position of that newline in the stream. The middle of an oversized line is not in `bytes`, so
 *   `end - start` can be less than the line's length
 */
export type OnLine = (bytes: Buffer, start: number, end: number, lineEnd: number) => void;

/**
 * Called with whole lines.
 * @param bytes the chunk, or a copy of a line that spans chunks
 * @param from index of the first line
 * @param to index after the newline of the last line; a copy has no newline
 * @param position of `bytes` in the stream; for an oversized line it is computed as if `bytes` held only the end of the
 * line
 */
export type OnLines = (bytes: Buffer, from: number, to: number, position: number) => void;

/** Splits chunks at the end of their last line. Only a line that spans chunks is copied, and no chunk is kept. */
export class LinesCutter {
  readonly #onLines: OnLines;
  readonly #lineBytesMax: number;
  #carried: Buffer[] = [];
  #carriedBytes = 0;
  #position: number;

  /**
   * @param lineBytesMax the most bytes of an incomplete line that are held in memory
   * @param position of the first chunk
   */
  constructor(onLines: OnLines, lineBytesMax: number, position = 0) {
    this.#onLines = onLines;
    this.#lineBytesMax = lineBytesMax;
    this.#position = position;
  }

  /** Number of bytes since the last newline. */
  get carriedBytes(): number {
    return this.#carriedBytes;
  }

  /** The position in the stream after the last chunk. */
  get position(): number {
    return this.#position;
  }

  /** @returns the bytes since the last newline; only the first of them if they exceed `lineBytesMax` */
  carried(): Buffer {
    return Buffer.concat(this.#carried);
  }

  push(chunk: Buffer): void {
    const end = chunk.lastIndexOf(LINE_FEED) + 1;
    const position = this.#position;
    let from = 0;
    if (end > 0 && this.#carriedBytes > 0) {
      const newline = chunk.indexOf(LINE_FEED);
      const line = Buffer.concat([...this.#carried, chunk.subarray(0, newline)]);
      from = newline + 1;
      this.#carried = [];
      this.#carriedBytes = 0;
      this.#onLines(line, 0, line.length + 1, position + newline - line.length);
    }
    if (from < end) this.#onLines(chunk, from, end, position);
    this.#position += chunk.length;
    if (end === chunk.length) return;
    this.#carriedBytes += chunk.length - end;
    // A line longer than the limit is not kept whole: its first bytes are enough to refuse it.
    if (this.#carriedBytes <= this.#lineBytesMax) this.#carried.push(Buffer.from(chunk.subarray(end)));
  }
}

/** @param to see `OnLines` @returns the index of the newline of the line that starts at `start` */
export function newlineAfter(bytes: Buffer, start: number, to: number): number {
  const newline = bytes.indexOf(LINE_FEED, start);
  return newline === -1 ? to - 1 : newline;
}

/** Passes each line as a range of its chunk, without a copy. */
export class LineCutter extends LinesCutter {
  /** The parameters are the same as for `LinesCutter`. */
  constructor(onLine: OnLine, lineBytesMax: number, position?: number) {
    super(
      (bytes, from, to, position) => {
        for (let start = from; start < to; ) {
          const end = newlineAfter(bytes, start, to);
          onLine(bytes, start, end, position + end);
          start = end + 1;
        }
      },
      lineBytesMax,
      position,
    );
  }
}

/**
 * Yields other lines in place of those of the chunks.
 * @param rewrite gets a line like `OnLine`, and returns another one with its newline; undefined to leave it out
 * @returns the cutter, which holds the bytes after the last newline
 */
export async function* rewriteLines(
  chunks: AsyncIterable<Buffer>,
  lineBytesMax: number,
  rewrite: (...line: Parameters<OnLine>) => Buffer | undefined,
): AsyncGenerator<Buffer, LineCutter> {
  let lines: Buffer[] = [];
  const cutter = new LineCutter((...line) => {
    const rewritten = rewrite(...line);
    if (rewritten !== undefined) lines.push(rewritten);
  }, lineBytesMax);
  for await (const chunk of chunks) {
    cutter.push(chunk);
    yield Buffer.concat(lines);
    lines = [];
  }
  return cutter;
}

/** Calls `onLine` with each line of the chunks. @returns the cutter, which holds the bytes after the last newline */
export async function forEachLine(
  chunks: AsyncIterable<Buffer>,
  lineBytesMax: number,
  onLine: OnLine,
): Promise<LineCutter> {
  const cutter = new LineCutter(onLine, lineBytesMax);
  for await (const chunk of chunks) cutter.push(chunk);
  return cutter;
}
