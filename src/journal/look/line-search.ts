/** Finds lines in the chunks of a file by bytes that they contain. The lines between them are neither cut nor verified. */

import { LINE_FEED } from '../../event/json-bytes.ts';
import type { TextFilter } from '../../event/text-filter.ts';
import { type LineForm, readEndingCrc, readForm } from '../line/chain.ts';
import { LinesCutter, newlineAfter } from '../line/lines.ts';
import { textFinder } from './text-finder.ts';

/**
 * Called with a line that contains the bytes.
 * @param byte where the line starts in its file
 * @param seed the crc in the line before it, not verified; undefined if these bytes are not a line
 */
export type OnHit = (bytes: Buffer, start: number, end: number, byte: number, seed: number | undefined) => void;

/** What a search looks for. */
export interface Sought {
  /** Bytes that a line contains. */
  readonly trace: Buffer | undefined;
  /** Used without a trace: a text that a line contains. If undefined, each line is a hit. */
  readonly contains?: TextFilter | undefined;
  /** Whether a line with the trace or the text at `hit` can match. */
  mayMatch(bytes: Buffer, hit: number): boolean;
}

/** Where a search starts in a file. */
export interface SearchStart {
  readonly byte: number;
  /**
   * The crc before the line that starts there; undefined if the position might be within a line. The search then starts after that
   * line.
   */
  readonly seed: number | undefined;
}

/** The search in a part of a file. All chunks of the part are passed to `push`. */
export class LineSearch extends LinesCutter {
  readonly #sought: Sought;
  readonly #onHit: OnHit;
  #isInside: boolean;
  #seed: number | undefined;
  /**
   * Where the first complete line starts, and its seq; undefined if it does not have the form of a line, or there is none.
   */
  firstByte: number | undefined;
  firstSeq: number | undefined;
  /** Where the last complete line ends, after its newline, and its content; undefined in the same cases. */
  endByte: number;
  last: LineForm | undefined;

  constructor(sought: Sought, { byte, seed }: SearchStart, onHit: OnHit, lineBytesMax: number) {
    super((...lines) => this.#search(...lines), lineBytesMax, byte);
    this.#sought = sought;
    this.#onHit = onHit;
    this.#isInside = seed === undefined;
    this.#seed = seed;
    this.endByte = byte;
  }

  #search(bytes: Buffer, from: number, to: number, position: number): void {
    const first = this.#isInside ? this.#enter(bytes, from, to) : from;
    if (first === to) return;
    if (this.firstByte === undefined) {
      this.firstByte = position + first;
      this.firstSeq = readForm(bytes, first, newlineAfter(bytes, first, to))?.seq;
    }
    const { trace, contains } = this.#sought;
    const find =
      trace === undefined ? contains && textFinder(contains, bytes, to) : (at: number) => bytes.indexOf(trace, at);
    for (let at = first; at < to; ) {
      const hit = find === undefined ? at : find(at);
      if (hit === -1 || hit >= to) break;
      at = hit + 1;
      if (!this.#sought.mayMatch(bytes, hit)) continue;
      const start = find === undefined ? hit : bytes.lastIndexOf(LINE_FEED, hit) + 1;
      const end = newlineAfter(bytes, hit, to);
      this.#onHit(bytes, start, end, position + start, start === first ? this.#seed : readEndingCrc(bytes, start - 1));
      at = end + 1;
    }
    this.last = readForm(bytes, bytes.subarray(0, to - 1).lastIndexOf(LINE_FEED) + 1, to - 1);
    this.#seed = this.last?.crc;
    this.endByte = position + to;
  }

  /** @returns where the first line starts that follows a line with a readable crc; `to` if there is none */
  #enter(bytes: Buffer, from: number, to: number): number {
    let start = from;
    while (this.#isInside && start < to) {
      const end = newlineAfter(bytes, start, to);
      this.#seed = readEndingCrc(bytes, end);
      this.#isInside = this.#seed === undefined;
      start = end + 1;
    }
    return start;
  }
}
