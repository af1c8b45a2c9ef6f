/** The request to a reader of a journal, and its results: lines, and remarks about the journal. */

import type { Limits } from '../../config/limits.ts';
import type { Recorded } from '../../event/event.ts';
import type { Filter, Searched } from '../../event/search.ts';
import { membersOf, metadataOf, readRecorded, timeOf, typeOf } from '../line/members.ts';
import type { Progress } from '../progress.ts';
import type { Gone, GoneRange } from '../segments.ts';

/** A request to read a journal. */
export interface Reading {
  /** Which lines are yielded; all by default. Files outside of its bounds are not read. */
  readonly filter?: Filter;
  /**
   * Finds the first line after `filter.afterSeq` inside its file instead of reading the file up to it, so that the lines before it
   * are not verified.
   */
  readonly seek?: boolean;
  /**
   * Whether only the yielded lines are verified. Lines are then found by bytes that each match contains, if the filter has such a
   * member. A file with a doubtful line is read line by line instead.
   */
  readonly isSearch?: boolean;
  /**
   * If set, waits for later lines until it is aborted, and then reads a last time. The folder can be missing at first.
   */
  readonly follow?: AbortSignal | undefined;
  readonly progress: Progress;
  readonly limits: Limits;
}

/** A message about the journal that accompanies its lines. */
export interface Remark {
  /** `damage` is a problem that no crash explains: a service would refuse to start. A `note` is not damage. */
  readonly kind: 'damage' | 'note';
  readonly text: string;
  /** The lines that are missing because of it; the next line comes after them. Undefined if unknown. */
  readonly gone?: GoneLines | undefined;
}

/** Lines that a reader cannot yield, and why the first of them is missing. */
export interface GoneLines extends GoneRange {
  readonly why: Gone;
}

/** A verified line. It keeps the whole chunk in memory from which it was read. */
export class Line implements Searched {
  /** The chunk from which it was read; empty after `drop`. */
  bytes: Buffer;
  /** Index of its first byte in `bytes`. */
  readonly start: number;
  /** Index after its last byte, without its newline. */
  readonly end: number;
  readonly seq: number;
  /** The file of the line, and where the line starts there; empty and -1 if it was not read from a file of a journal. */
  readonly file: string;
  readonly byte: number;
  /** The name of the deployment, set by a reader of several journals. */
  deployment = '';
  #event: Recorded | undefined;
  #time: string | undefined;
  #type: string | undefined;

  /** @param end the index of the line's newline */
  constructor(bytes: Buffer, start: number, end: number, seq: number, file = '', byte = -1) {
    this.bytes = bytes;
    this.start = start;
    this.end = end;
    this.seq = seq;
    this.file = file;
    this.byte = byte;
  }

  /** When it was recorded: `2026-11-20T15:19:45.266Z`. */
  get time(): string {
    this.#time ??= timeOf(this.bytes, this.start, this.seq);
    return this.#time;
  }

  /** The type of its event: `AssetObservation`. */
  get type(): string {
    this.#type ??= typeOf(this.bytes, this.start, this.seq);
    return this.#type;
  }

  /**
   * Frees the memory of the line, for a reader that sends the line from its file. Afterwards only its seq, time and type
   * are known.
   */
  drop(): void {
    void this.time;
    void this.type;
    this.bytes = NO_BYTES;
    this.#event = undefined;
  }

  get isDropped(): boolean {
    return this.bytes === NO_BYTES;
  }

  /** The event without the metadata. Parsed when it is first used. */
  get event(): Recorded {
    this.#event ??= readRecorded(this.bytes, this.start, this.end);
    return this.#event;
  }

  /** JSON text without its newline. */
  get text(): string {
    return this.bytes.toString('utf8', this.start, this.end);
  }

  /** The bytes of the members that come from the report, each as a character (latin1). */
  get members(): string {
    return membersOf(this.bytes, this.start, this.end, this.seq).toString('latin1');
  }

  /** JSON text of the metadata, as it was sent; undefined if the report had none. */
  get metadata(): string | undefined {
    return metadataOf(this.bytes, this.start, this.end);
  }
}

/**
 * @param lines adjacent lines of a chunk are copied as one slice
 * @returns the lines byte for byte as in the journal, each with its newline
 */
export function bytesOf(lines: readonly Line[]): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at < lines.length; ) {
    const { bytes, start } = lines[at]!;
    let { end } = lines[at]!;
    for (at += 1; lines[at]?.bytes === bytes && lines[at]?.start === end + 1; at += 1) end = lines[at]!.end;
    pieces.push(bytes.subarray(start, end), NEWLINE);
  }
  return Buffer.concat(pieces);
}

/** @returns the lines before the first one for which `isEnd` returns true */
export function linesBefore(lines: readonly Line[], isEnd: (line: Line, index: number) => boolean): readonly Line[] {
  const end = lines.findIndex(isEnd);
  return end === -1 ? lines : lines.slice(0, end);
}

/** @returns the number of bytes that `bytesOf` returns */
export function sizeOf(lines: readonly Line[]): number {
  return lines.reduce((bytes, { start, end }) => bytes + end + 1 - start, 0);
}

const NEWLINE = Buffer.from('\n');
const NO_BYTES = Buffer.alloc(0);
