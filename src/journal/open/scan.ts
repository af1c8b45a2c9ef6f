/** Reads journal files and finds the end of their valid lines, and the first flaw after them. */

import type { Limits } from '../../config/limits.ts';
import { LINE_FEED } from '../../event/json-bytes.ts';
import type { ReadableDisk } from '../disk.ts';
import { readBytes } from '../file-io.ts';
import { checkLine, findMisplaced, type LineForm, readForm } from '../line/chain.ts';
import { LineCutter } from '../line/lines.ts';
import type { ChainPosition } from '../line/record.ts';

/** A flaw of one file. The consequence depends on the file's position in the journal: see `recovery.ts`. */
export type Flaw =
  | 'torn end'
  | 'zeros at the end'
  | 'bad last line'
  | 'bad line inside'
  | 'bytes between lines'
  | 'gap'
  | 'repeat'
  | 'swapped lines'
  | 'name and first seq disagree';

/** The result of reading one file. */
export interface Scan {
  /** Bytes and lines up to the first flaw. */
  readonly bytes: number;
  readonly lines: number;
  /** The chain position after these lines. */
  readonly chain: ChainPosition;
  /** The first flaw, directly after the valid lines, and the number of bytes from there to the end of the file. */
  readonly flaw?: { readonly kind: Flaw; readonly problem: string; readonly bytes: number };
}

/**
 * Called with a good line, which starts at `start` of `bytes` and ends before the newline at `end`.
 * @param offset where the line starts in its file, in bytes
 */
export type OnGoodLine = (bytes: Buffer, start: number, end: number, seq: number, offset: number) => void;

/**
 * Checks every line of one file.
 * @param chunks all bytes of the file, in order; at most one line is held in memory besides the current chunk
 * @param firstSeq the seq in the file's name
 * @param onGoodLine called with each line before the first flaw
 * @throws the errors of `chunks`
 */
export async function scanSegment(
  chunks: AsyncIterable<Buffer>,
  firstSeq: number,
  { lineBytesMax }: Limits,
  onGoodLine?: OnGoodLine,
): Promise<Scan> {
  const scanner = new Scanner(firstSeq, lineBytesMax, onGoodLine);
  const lines = new LineCutter((bytes, start, end) => scanner.addLine(bytes, start, end), lineBytesMax);
  for await (const chunk of chunks) {
    lines.push(chunk);
    scanner.addChunk(chunk);
  }
  return scanner.result(lines.carriedBytes > 0, lines.carried());
}

/**
 * Reads the last line that ends before `end`, without checking its crc.
 * @param end the byte after the newline of a line
 * @returns the line without its newline; undefined if the bytes before `end` do not have the form of a line
 * @throws the error of a system call
 */
export async function lastLine(
  disk: ReadableDisk,
  name: string,
  end: number,
  { lineBytesMax }: Limits,
): Promise<{ seq: number; crc: number; line: Buffer } | undefined> {
  for (let bytes = 64 * 1024; ; bytes *= 8) {
    const read = await readBytes(disk, name, Math.max(0, end - bytes), end);
    if (read.at(-1) !== LINE_FEED) return undefined;
    const start = read.lastIndexOf(LINE_FEED, read.length - 2) + 1;
    if (start === 0 && bytes < end && bytes <= lineBytesMax) continue; // the line is longer
    const form = readForm(read, start, read.length - 1);
    return form && { ...form, line: read.subarray(start, read.length - 1) };
  }
}

/** Checks the lines of one file up to the first bad line, and then collects the facts that classify the flaw. */
class Scanner {
  readonly #firstSeq: number;
  readonly #lineBytesMax: number;
  readonly #onGoodLine: OnGoodLine | undefined;
  #chain: ChainPosition;
  #bytes = 0;
  #lines = 0;
  #problem: string | undefined;
  /** The first bad line and the first line after it; each only if it has the form of a line. */
  #bad: LineForm | undefined;
  #next: LineForm | undefined;
  #isMisnamed = false;
  /** The problem around the first bad line, if the line itself is valid. */
  #misplaced: string | undefined;
  #readBytes = 0;
  /** Whether all bytes after the valid lines are zeros so far. */
  #hasOnlyZeros = true;

  constructor(firstSeq: number, lineBytesMax: number, onGoodLine: OnGoodLine | undefined) {
    this.#onGoodLine = onGoodLine;
    this.#firstSeq = firstSeq;
    this.#lineBytesMax = lineBytesMax;
    this.#chain = { seq: firstSeq, crc: 0 };
  }

  addLine(bytes: Buffer, start: number, end: number): void {
    if (this.#problem !== undefined) {
      this.#next ??= readForm(bytes, start, end);
      return;
    }
    const check = checkLine(bytes, start, end, this.#chain);
    if (check.kind === 'good') {
      this.#onGoodLine?.(bytes, start, end, this.#chain.seq, this.#bytes);
      this.#chain = check.chain;
      this.#bytes += end - start + 1;
      this.#lines += 1;
      this.#hasOnlyZeros = true;
      return;
    }
    this.#problem = check.problem;
    this.#bad = readForm(bytes, start, end);
    // Only a correct crc distinguishes a wrong file name from a bad line.
    this.#isMisnamed =
      this.#lines === 0 &&
      this.#bad !== undefined &&
      checkLine(bytes, start, end, { seq: this.#bad.seq, crc: 0 }).kind === 'good';
    this.#misplaced = findMisplaced(bytes, start, end, this.#chain, this.#lineBytesMax);
  }

  /** Call after `addLine` with the lines of the chunk. */
  addChunk(chunk: Buffer): void {
    const rest = chunk.subarray(Math.max(0, this.#bytes - this.#readBytes));
    this.#readBytes += chunk.length;
    this.#hasOnlyZeros &&= isZero(rest);
  }

  /**
   * @param isTorn whether bytes follow the last newline
   * @param rest the bytes after the last newline, or the start of them
   */
  result(isTorn: boolean, rest: Buffer): Scan {
    const good = { bytes: this.#bytes, lines: this.#lines, chain: this.#chain };
    if (this.#problem === undefined) {
      if (!isTorn) return good;
      this.#misplaced = findMisplaced(rest, 0, rest.length, this.#chain, this.#lineBytesMax);
    }
    const kind = this.#classify(isTorn);
    return { ...good, flaw: { kind, problem: this.#describe(kind), bytes: this.#readBytes - this.#bytes } };
  }

  #classify(isTorn: boolean): Flaw {
    const expected = this.#chain.seq;
    const [bad, next] = [this.#bad, this.#next];
    if (this.#isMisnamed) return 'name and first seq disagree';
    if (this.#misplaced !== undefined) return 'bytes between lines';
    if (next === undefined) {
      // An interrupted write leaves zero bytes in place of digits, never other digits.
      if (bad !== undefined && bad.seq !== expected) return bad.seq > expected ? 'gap' : 'repeat';
      if (this.#readBytes > this.#bytes && this.#hasOnlyZeros) return 'zeros at the end';
      return isTorn ? 'torn end' : 'bad last line';
    }
    if (bad === undefined || bad.seq === expected) return 'bad line inside';
    if (bad.seq < expected) return 'repeat';
    if (next.seq === expected) return 'swapped lines';
    return next.seq === expected + 1 ? 'bad line inside' : 'gap';
  }

  #describe(kind: Flaw): string {
    const expected = this.#chain.seq;
    const seq = this.#bad?.seq;
    switch (kind) {
      case 'torn end':
        return this.#problem ?? 'it ends without a newline';
      case 'zeros at the end':
        return 'only zeros follow';
      case 'name and first seq disagree':
        return `its first seq is ${seq}, but its name has ${this.#firstSeq}`;
      case 'bytes between lines':
        return this.#misplaced ?? 'there are bytes between lines';
      case 'gap':
        return `its seq is ${seq}, expected ${expected}: lines are missing`;
      case 'repeat':
        return `its seq is ${seq}, which an earlier line has, expected ${expected}`;
      case 'swapped lines':
        return `its seq is ${seq}, and ${expected} comes after it`;
      default:
        return this.#problem ?? 'it is bad';
    }
  }
}

const ZEROS = Buffer.alloc(64 * 1024);

function isZero(bytes: Buffer): boolean {
  for (let at = 0; at < bytes.length; at += ZEROS.length) {
    const part = bytes.subarray(at, at + ZEROS.length);
    if (!part.equals(ZEROS.subarray(0, part.length))) return false;
  }
  return true;
}
