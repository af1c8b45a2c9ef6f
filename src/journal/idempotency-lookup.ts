/** Reads back the line of an earlier report, to compare it with a report that has the same idempotency key, or the same hash. */

import type { Limits } from '../config/limits.ts';
import type { Disk } from './disk.ts';
import type { LineLocation } from './idempotency-table.ts';
import {
  checkLine,
  idempotencyKeyOf,
  type LineMembers,
  membersOf,
  packMembers,
  readEndingCrc,
  readMembers,
} from './record.ts';

/** What the line of an earlier report says about a report. Example: `{ kind: 'other event', member: 'metadata' }`. */
export type Comparison =
  /** The same key and the same event. */
  | { readonly kind: 'same' }
  /** The same key and another event; `member` is the first that differs, such as `metadata`. */
  | { readonly kind: 'other event'; readonly member: string }
  /** Another key, whose hash is the same. */
  | { readonly kind: 'other key' };

/**
 * There is no good line at a remembered position, which means damage:
 * `{ kind: 'unreadable', problem: 'no line begins at byte 1210' }`.
 */
export interface Unreadable {
  readonly kind: 'unreadable';
  /** What is there instead. */
  readonly problem: string;
}

/**
 * Compares two events as they are recorded: `1.0` and `1.00` in the metadata are different events.
 * @returns the name of the first member that differs, such as `metadata`; undefined if they are the same event
 */
export function differingMember(a: LineMembers, b: LineMembers): string | undefined {
  if (a === b) return undefined;
  const [one, other] = [bytesOf(a), bytesOf(b)];
  if (one.equals(other)) return undefined;
  const [left, right] = [readMembers(one), readMembers(other)];
  return [...left.keys(), ...right.keys()].find((name) => left.get(name) !== right.get(name));
}

/**
 * Reads lines of one journal. Lines that are near each other are read at once, so a caller reads them in their order. Example:
 * `new LineReader(disk, limits, 1)`.
 */
export class LineReader {
  readonly #disk: Disk;
  readonly #lineBytesMax: number;
  readonly #windowBytes: number;
  #file = '';
  #start = 0;
  #bytes: Buffer = Buffer.alloc(0);

  /** @param lineCount how many lines will be read: for `1` parts of 4 KiB are read, for more parts of 256 KiB */
  constructor(disk: Disk, { lineBytesMax }: Pick<Limits, 'lineBytesMax'>, lineCount: number) {
    this.#disk = disk;
    this.#lineBytesMax = lineBytesMax;
    this.#windowBytes = lineCount > 1 ? LARGE_WINDOW_BYTES : SMALL_WINDOW_BYTES;
  }

  /**
   * Reads the line of an earlier report, and verifies it with the crc of the line before it.
   * @param file that has the line: `events-00000000000000000001.jsonl`
   * @param key of the report: `run-7/12`
   * @param members of the report, from `encodeMembers`
   * @returns such as `{ kind: 'same' }`
   * @throws the error of a system call
   */
  async compare(
    file: string,
    { seq, offset }: LineLocation,
    key: string,
    members: LineMembers,
  ): Promise<Comparison | Unreadable> {
    const start = Math.max(0, offset - ENDING_BYTES);
    const bytes = await this.#read(file, start, offset);
    const at = offset - start;
    const end = bytes.indexOf(LINE_FEED, at);
    const seed = offset === 0 ? 0 : readEndingCrc(bytes, at - 1);
    if (end === -1 || seed === undefined) return { kind: 'unreadable', problem: `no line begins at byte ${offset}` };
    const check = checkLine(bytes, at, end, { seq, crc: seed });
    if (check.kind === 'bad') return { kind: 'unreadable', problem: `the line at byte ${offset}: ${check.problem}` };
    if (idempotencyKeyOf(bytes, at, end) !== key) return { kind: 'other key' };
    const member = differingMember(membersOf(bytes, at, end, seq), members);
    return member === undefined ? { kind: 'same' } : { kind: 'other event', member };
  }

  /** @returns the bytes from `start` at least up to the newline of the line at `offset`, if it has one */
  async #read(file: string, start: number, offset: number): Promise<Buffer> {
    if (file === this.#file && start >= this.#start) {
      const cached = this.#bytes.subarray(start - this.#start);
      if (cached.indexOf(LINE_FEED, offset - start) !== -1) return cached;
    }
    for (const bytesMax of [this.#windowBytes, this.#lineBytesMax + ENDING_BYTES]) {
      const chunks: Buffer[] = [];
      for await (const chunk of this.#disk.read(file, start, start + bytesMax)) chunks.push(chunk);
      this.#bytes = Buffer.concat(chunks);
      [this.#file, this.#start] = [file, start];
      if (this.#bytes.indexOf(LINE_FEED, offset - start) !== -1) break;
    }
    return this.#bytes;
  }
}

/** Bytes before a line that are read as well: the end of the line before it, with its crc. */
const ENDING_BYTES = '00000000"}\n'.length;
const SMALL_WINDOW_BYTES = 4 * 1024;
const LARGE_WINDOW_BYTES = 256 * 1024;
const LINE_FEED = 0x0a;

function bytesOf(members: LineMembers): Buffer {
  return typeof members === 'string' ? packMembers(members) : members;
}
