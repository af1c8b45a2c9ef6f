/**
 * Reads lines and checks them against the checksum chain: one line, the lines of a file, and lines among other bytes. A line is
 * given as `bytes`, the index `start` of its first byte, and `end`, the index of its newline.
 */

import { crc32 } from 'node:zlib';
import { CLOSE_BRACE, COMMA, isDigit, QUOTE, ZERO } from '../../event/json-bytes.ts';
import { seedOf } from './crc.ts';
import {
  type ChainPosition,
  CRC_MEMBER_BYTES,
  CRC_TAIL_BYTES,
  HEX_DIGITS,
  hex,
  SEQ_PREFIX,
  writeHex,
} from './record.ts';

/** Whether a line continues the chain: the chain position after it, or what is wrong, as a clause. */
export type LineCheck =
  | { readonly kind: 'good'; readonly chain: ChainPosition }
  | { readonly kind: 'bad'; readonly problem: string };

/** Checks one line against the chain position that it must have. */
export function checkLine(bytes: Buffer, start: number, end: number, chain: ChainPosition): LineCheck {
  const form = readForm(bytes, start, end);
  if (form === undefined) return { kind: 'bad', problem: FORMLESS };
  const crc = crcOf(bytes, form, chain.crc);
  if (form.crc !== crc) return { kind: 'bad', problem: `its crc is ${hex(form.crc)}, computed ${hex(crc)}` };
  if (form.seq !== chain.seq) return { kind: 'bad', problem: `its seq is ${form.seq}, expected ${chain.seq}` };
  return { kind: 'good', chain: { seq: chain.seq + 1, crc } };
}

/** Result of the check of a line after the earlier lines of its file. */
export type FollowedLine =
  /** It continues the chain. */
  | { readonly kind: 'good'; readonly chain: ChainPosition }
  /** The chain resumes with this line after bad lines; the expected seq is `due`. */
  | {
      readonly kind: 'resumed';
      readonly chain: ChainPosition;
      readonly due: number;
      /** Set if the line follows a valid line and does not have the expected seq; undefined after bad lines. */
      readonly problem: string | undefined;
    }
  | {
      readonly kind: 'bad';
      /** What is wrong, for the first bad line after a valid line; undefined for further bad lines. */
      readonly problem: string | undefined;
      readonly hasForm: boolean;
      /** Whether the line does not have the expected seq. */
      readonly hasOtherSeq: boolean;
    };

/**
 * Follows the checksum chain of one file, line by line. After bad lines the chain resumes at the next line whose crc is seeded
 * with the crc of the last valid line or of a bad line.
 */
export class ChainFollower {
  #chain: ChainPosition;
  #isStart: boolean;
  /** The possible seeds of the next valid line; empty unless it follows a bad line. */
  #seeds: readonly number[] = [];

  /**
   * @param chain the chain position of the next line
   * @param isStart whether it has no valid line before it: then any seq is accepted after a bad line, since the file might have the
   *   wrong name
   */
  constructor(chain: ChainPosition, isStart: boolean) {
    this.#chain = chain;
    this.#isStart = isStart;
  }

  /** @param endSeq the chain does not resume at this seq or a later one */
  take(bytes: Buffer, start: number, end: number, endSeq = Number.POSITIVE_INFINITY): FollowedLine {
    let problem: string | undefined;
    if (this.#seeds.length === 0) {
      const check = checkLine(bytes, start, end, this.#chain);
      if (check.kind === 'good') {
        this.#continueAt(check.chain);
        return check;
      }
      problem = check.problem;
      this.#seeds = [this.#chain.crc];
    }
    const form = readForm(bytes, start, end);
    if (form !== undefined && form.seq < endSeq && this.#resumesWith(bytes, form)) {
      const due = this.#chain.seq;
      this.#continueAt({ seq: form.seq + 1, crc: form.crc });
      return { kind: 'resumed', chain: this.#chain, due, problem };
    }
    this.#pass(bytes, start, end, form);
    return { kind: 'bad', problem, hasForm: form !== undefined, hasOtherSeq: form?.seq !== this.#chain.seq };
  }

  #continueAt(chain: ChainPosition): void {
    this.#chain = chain;
    this.#isStart = false;
    if (this.#seeds.length > 0) this.#seeds = [];
  }

  /** Whether a line's crc is seeded with the crc of the last valid line or of a bad line. The seed of a file's first line is 0. */
  #resumesWith(bytes: Buffer, form: LineForm): boolean {
    const isAhead = form.seq >= this.#chain.seq || this.#isStart;
    return isAhead && this.#seeds.some((seed) => crcOf(bytes, form, seed) === form.crc);
  }

  /**
   * Skips a bad line. The seed of the next line can be the crc in the bad line, or the crc that this line should have; if the bad
   * line does not have the form of a line, also the crc of an earlier line.
   */
  #pass(bytes: Buffer, start: number, end: number, form: LineForm | undefined): void {
    const [, other = 0] = this.#seeds;
    const computed = crcOf(bytes, { start, end }, this.#chain.crc);
    const kept = form === undefined ? this.#seeds.slice(2, 3) : [];
    this.#seeds = [this.#chain.crc, form?.crc ?? readEndingCrc(bytes, end) ?? other, computed, ...kept];
  }
}

/**
 * Finds a valid line that does not start at `start`, or that is not directly followed by a newline. A conversion of line ends
 * leaves misplaced lines, a crash never does.
 * @param end the end of the bytes: the index of the next newline, or the end of the file
 * @param bytesMax the most bytes of a line
 * @returns what is wrong around the line, as a clause; undefined if there is no such line
 */
export function findMisplaced(
  bytes: Buffer,
  start: number,
  end: number,
  chain: ChainPosition,
  bytesMax: number,
): string | undefined {
  const line = bytes.subarray(start, end);
  const isGood = (form: Pick<LineForm, 'start' | 'end'>) =>
    checkLine(line, form.start, form.end, chain).kind === 'good';
  if (line.at(-1) === CARRIAGE_RETURN && isGood({ start: 0, end: line.length - 1 })) {
    return 'its line is good but ends with a carriage return: a program converted the line ends, so turn them back before a repair';
  }
  const form = findForms(line, bytesMax).find(isGood);
  if (form === undefined) return undefined;
  if (form.start > 0) return `its line is good, but ${form.start} bytes are before it`;
  const after = line.toString('latin1', form.end, form.end + AFTER_LINE_BYTES);
  return AFTER_MISPLACED.test(after) ? 'its line is good, but something other than a newline follows it' : undefined;
}

/** The seq and crc that a line contains, not verified. */
export interface LineForm {
  readonly seq: number;
  readonly crc: number;
  readonly start: number;
  /** Index of its newline, or where it should be. */
  readonly end: number;
}

/**
 * Reads the seq and the crc of a line, and verifies neither.
 * @returns undefined if the bytes do not start and end like a line
 */
export function readForm(bytes: Buffer, start: number, end: number): LineForm | undefined {
  const bodyEnd = end - CRC_MEMBER_BYTES;
  if (bodyEnd < start + SEQ_PREFIX.length) return undefined;
  for (let at = 0; at < SEQ_PREFIX.length; at += 1) if (bytes[start + at] !== SEQ_PREFIX[at]) return undefined;
  for (let at = 0; at < CRC_PREFIX.length; at += 1) if (bytes[bodyEnd + at] !== CRC_PREFIX[at]) return undefined;
  if (bytes[end - 2] !== QUOTE || bytes[end - 1] !== CLOSE_BRACE) return undefined;

  let crc = 0;
  for (let at = end - CRC_TAIL_BYTES; at < end - 2; at += 1) {
    const digit = HEX_VALUES[bytes[at]!]!;
    if (digit < 0) return undefined;
    crc = crc * 16 + digit;
  }
  let seq = 0;
  let at = start + SEQ_PREFIX.length;
  // The digit's value is computed first: an intermediate sum above 2^53 would be rounded.
  for (; isDigit(bytes[at]!); at += 1) seq = seq * 10 + (bytes[at]! - ZERO);
  const isValid = seq > 0 && Number.isSafeInteger(seq) && bytes[at] === COMMA && at < bodyEnd;
  return isValid ? { seq, crc, start, end } : undefined;
}

/** @returns the seq in the first bytes of a line, not verified; undefined if the bytes do not start like a line */
export function readSeq(bytes: Buffer, start: number): number | undefined {
  const [, digits] = LINE_SEQ.exec(bytes.toString('latin1', start, start + 32)) ?? [];
  const seq = Number(digits);
  return Number.isSafeInteger(seq) ? seq : undefined;
}

/**
 * Finds every text with the form of a line anywhere in the bytes, for a line whose newline is damaged or that follows other bytes.
 * Metadata can contain such a text: only the crc distinguishes it from a line.
 * @param bytesMax the most bytes of a line
 */
function findForms(bytes: Buffer, bytesMax: number): LineForm[] {
  const forms: LineForm[] = [];
  if (bytes.indexOf(SEQ_PREFIX) === -1) return forms; // most damaged bytes contain no line
  const text = bytes.toString('latin1');
  let starts = 0;
  for (const { index: from } of text.matchAll(LINE_START)) {
    starts += 1;
    if (starts > MISPLACED_MAX) break;
    const ending = new RegExp(LINE_ENDING);
    ending.lastIndex = from;
    for (let ends = 0; ends < MISPLACED_MAX && ending.test(text); ends += 1) {
      if (ending.lastIndex - from > bytesMax) break;
      const form = readForm(bytes, from, ending.lastIndex);
      if (form !== undefined) forms.push(form);
    }
  }
  return forms;
}

/** @returns the crc that a line must have after a line with the crc `seed`, which is 0 for a file's first line */
export function crcOf(bytes: Buffer, { start, end }: Pick<LineForm, 'start' | 'end'>, seed: number): number {
  return crc32(bytes.subarray(start, end - CRC_MEMBER_BYTES), seed);
}

/** @returns the last bytes of a line with this crc, including its newline */
export function endingOf(crc: number): Buffer {
  return Buffer.from(`,"crc":"${hex(crc)}"}\n`);
}

/**
 * @param end index of the newline of a line, or where it should be; only the last bytes of the line have to be there
 * @returns the crc that the line contains, not verified; undefined if the bytes do not end like a line
 */
export function readEndingCrc(bytes: Buffer, end: number): number | undefined {
  const [, digits] = /^([0-9a-f]{8})"\}$/.exec(bytes.toString('latin1', end - CRC_TAIL_BYTES, end)) ?? [];
  return digits === undefined ? undefined : Number.parseInt(digits, 16);
}

/**
 * Overwrites a line's crc with the crc that it must have after a line with the crc `seed`.
 * @returns that crc
 */
export function rechain(bytes: Buffer, start: number, end: number, seed: number): number {
  const crc = crcOf(bytes, { start, end }, seed);
  writeHex(crc, bytes, end - CRC_TAIL_BYTES);
  return crc;
}

/**
 * @returns the crc of the line before this one in its file; 0 for a file's first line, and for bytes that are not a line
 */
export function crcBefore(bytes: Buffer, start: number, end: number): number {
  const form = readForm(bytes, start, end);
  return form === undefined ? 0 : seedOf(crcOf(bytes, form, 0), end - start - CRC_MEMBER_BYTES, form.crc);
}

const FORMLESS = 'it is not of the form {"seq":…,"crc":"…"}';
const CARRIAGE_RETURN = 0x0d;
const CRC_PREFIX = Buffer.from(',"crc":"');
const LINE_SEQ = /^\{"seq":([0-9]{1,16}),/;
const LINE_START = /\{"seq":[0-9]{1,16},"id":"/g;
const LINE_ENDING = /,"crc":"[0-9a-f]{8}"\}/g;
/** How many starts and ends are tried to find a misplaced line. */
const MISPLACED_MAX = 8;
const AFTER_LINE_BYTES = 16;
/** White space to the end, or the next line. Zeros are excluded: a crash can leave them after a valid line. */
const AFTER_MISPLACED = /^(\s+$|[^\0]{0,2}\{"seq":[0-9])/;
/** Bytes at the end of a line, with its newline, that contain its crc: the seed of the next line. */
export const ENDING_BYTES = CRC_TAIL_BYTES + 1;

/** For each byte its value as a hexadecimal digit in lower case, or -1 if it is not one. */
const HEX_VALUES = Int8Array.from({ length: 256 }, (_, byte) => HEX_DIGITS.indexOf(byte));
