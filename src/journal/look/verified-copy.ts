/** Reads a journal file for a copy of it: every byte that it passes on belongs to a line that it has verified before. */

import type { Limits } from '../../config/limits.ts';
import { checkLine } from '../line/chain.ts';
import type { ChainPosition } from '../line/record.ts';

/** The lines of one file up to the first line that must not be copied. */
export class VerifiedCopy {
  readonly #endSeq: number;
  readonly #lineBytesMax: number;
  /** The chain position after the lines that were passed on, and how many lines and bytes these are. */
  chain: ChainPosition;
  lines = 0;
  bytes = 0;
  /** What is wrong with the line after them, as a clause; undefined if nothing is. */
  problem: string | undefined;

  /**
   * @param firstSeq the seq in the file's name
   * @param endSeq the first seq that is not copied; infinity for a whole file
   */
  constructor(firstSeq: number, endSeq: number, { lineBytesMax }: Pick<Limits, 'lineBytesMax'>) {
    this.chain = { seq: firstSeq, crc: 0 };
    this.#endSeq = endSeq;
    this.#lineBytesMax = lineBytesMax;
  }

  /**
   * Passes on the verified lines, and counts them.
   * @param chunks all bytes of the file, in order; at most one line is held in memory besides the current chunk
   * @returns the bytes of its verified lines, in order
   * @throws what `chunks` throws; a bad line is no error
   */
  async *verified(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    let rest: Buffer = Buffer.alloc(0);
    for await (const chunk of chunks) {
      const read: Buffer = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      const end = this.#verify(read);
      if (end > 0) yield read.subarray(0, end);
      rest = Buffer.from(read.subarray(end));
      if (this.#isAtEnd) return;
      if (rest.length > this.#lineBytesMax) {
        this.problem = `it has more than ${this.#lineBytesMax} bytes`;
        return;
      }
    }
    if (rest.length > 0) this.problem = 'it ends without a newline';
  }

  get #isAtEnd(): boolean {
    return this.problem !== undefined || this.chain.seq >= this.#endSeq;
  }

  /** @returns where the last verified line of the bytes ends */
  #verify(bytes: Buffer): number {
    let start = 0;
    while (!this.#isAtEnd) {
      const end = bytes.indexOf(LINE_FEED, start);
      if (end === -1) break;
      const checked = checkLine(bytes, start, end, this.chain);
      if (checked.kind === 'bad') {
        this.problem = checked.problem;
        break;
      }
      this.chain = checked.chain;
      this.lines += 1;
      this.bytes += end + 1 - start;
      start = end + 1;
    }
    return start;
  }
}

const LINE_FEED = 0x0a;
