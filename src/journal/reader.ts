/**
 * Reads a journal file by file, checks each line and yields those that match a filter. It takes no lock: a service may write,
 * begin files, rewrite its last file at a start and remove old files meanwhile. Damage is reported, and reading continues at
 * the next line whose crc continues the chain. `salvage.ts` finds more lines, but needs a whole file for it.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import { readLastStop } from './clean-stop.ts';
import { type ReadableDisk, unlessAbsent } from './disk.ts';
import { type Bounds, type Filter, isWanted, traceOf } from './filter.ts';
import { LineCutter } from './lines.ts';
import { askDurable, type Progress } from './progress.ts';
import {
  type ChainPosition,
  checkLine,
  endingOf,
  metadataOf,
  type Recorded,
  readForm,
  readRecorded,
  readTime,
  timeOf,
} from './record.ts';
import { findingsOfNone, joinFindings } from './recovery.ts';
import { Resync } from './resync.ts';
import { lastLine } from './scan.ts';
import { seekLine } from './seek.ts';
import { type Contents, contentsOf, type Gone, type GoneRange, type SegmentName } from './segments.ts';

/** Interval of the polls in milliseconds, and bytes of a line: `{ followMs: 200, lineBytesMax: 4_194_304 }`. */
export type ReaderLimits = Pick<Limits, 'followMs' | 'lineBytesMax'>;

/** What is read of a journal: `{ filter: { type: 'AssetObservation' }, progress, limits }`. */
export interface Reading {
  /** Which lines are yielded; all by default. Files outside of its bounds are not read. */
  readonly filter?: Filter;
  /**
   * Finds the first line after `filter.afterSeq` inside its file instead of reading the file up to it, so that the lines before it
   * are not verified.
   */
  readonly seek?: boolean;
  /** If set, waits for later lines until it is aborted, and then reads a last time. The folder need not exist yet. */
  readonly follow?: AbortSignal | undefined;
  readonly progress: Progress;
  readonly limits: ReaderLimits;
}

/**
 * A message about the journal besides its lines. Example:
 * `{ kind: 'damage', text: 'events-00000000000000000001.jsonl, line 3, byte 612: …' }`.
 */
export interface Remark {
  /** `damage` is what no crash explains: a service would refuse to start. A `note` is no damage. */
  readonly kind: 'damage' | 'note';
  readonly text: string;
  /** The lines that are not yielded because of it; the next line is after them. Undefined if that is not known. */
  readonly gone?: GoneLines | undefined;
}

/** Lines that a reader does not yield, and why the first of them is gone: `{ first: 1, last: 53, why: 'removed' }`. */
export interface GoneLines extends GoneRange {
  readonly why: Gone;
}

/** A verified line. It keeps the whole chunk alive that it was read from. Example: `new Line(bytes, 0, 304, 7)`. */
export class Line {
  /** The chunk that it was read from; empty after `drop`. */
  bytes: Buffer;
  /** Index of its first byte in `bytes`. */
  readonly start: number;
  /** Index after its last byte: its newline is not included. */
  readonly end: number;
  /** Its seq: `7`. */
  readonly seq: number;
  /** Its file, and where it begins there; empty and -1 if it was not read from a file of a journal. */
  readonly file: string;
  readonly byte: number;
  #event: Recorded | undefined;

  /** @param end of the line: the index of its newline */
  constructor(bytes: Buffer, start: number, end: number, seq: number, file = '', byte = -1) {
    this.bytes = bytes;
    this.start = start;
    this.end = end;
    this.seq = seq;
    this.file = file;
    this.byte = byte;
  }

  /** Frees the memory of the line, for a reader that sends it from its file. */
  drop(): void {
    this.bytes = NO_BYTES;
    this.#event = undefined;
  }

  get isDropped(): boolean {
    return this.bytes === NO_BYTES;
  }

  /** Its event without the metadata: `{ seq: 7, type: 'AssetObservation', asset_key: ['a'], … }`. Parsed at the first use. */
  get event(): Recorded {
    this.#event ??= readRecorded(this.bytes, this.start, this.end);
    return this.#event;
  }

  /** JSON text without its newline: `{"seq":7,…,"crc":"9ae0daaf"}`. */
  get text(): string {
    return this.bytes.toString('utf8', this.start, this.end);
  }

  /** JSON text of the metadata, as it was sent: `{"rows":1.0}`; undefined if the report had none. */
  get metadata(): string | undefined {
    return metadataOf(this.bytes, this.start, this.end);
  }
}

/**
 * Reads the lines of a journal that match a filter: with `{ type: 'AssetObservation' }` those of observations.
 * @param onRemark called with each remark, in the order of the lines
 * @returns arrays of lines, in the order of their seqs; an array may be empty
 * @throws the error of a system call; without `follow` also if the folder does not exist
 */
export function readJournal(
  disk: ReadableDisk,
  reading: Reading,
  onRemark: (remark: Remark) => void,
): AsyncGenerator<readonly Line[]> {
  return new JournalReader(disk, reading, onRemark).lines();
}

/**
 * @param lines such as a page of `readJournal`; adjacent ones are copied as one slice
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

/** @returns the number of bytes that `bytesOf` returns */
export function sizeOf(lines: readonly Line[]): number {
  return lines.reduce((bytes, { start, end }) => bytes + end + 1 - start, 0);
}

const NEWLINE = Buffer.from('\n');
const NO_BYTES = Buffer.alloc(0);

class JournalReader {
  readonly #disk: ReadableDisk;
  readonly #reading: Reading;
  readonly #onRemark: (remark: Remark) => void;
  readonly #bounds: Bounds;
  readonly #lineFilter: LineFilter;
  /** The first seq of the last file that was read or skipped; 0 before the first file. */
  #doneSeq = 0;
  /** Whether a file was examined: before that the expected seq is unknown. */
  #begun = false;
  /** The expected seq of the next line; undefined if unknown. */
  #due: number | undefined;

  constructor(disk: ReadableDisk, reading: Reading, onRemark: (remark: Remark) => void) {
    this.#disk = disk;
    this.#reading = reading;
    this.#onRemark = onRemark;
    this.#bounds = reading.filter ?? {};
    this.#lineFilter = new LineFilter(reading.filter ?? {});
  }

  async *lines(): AsyncGenerator<readonly Line[]> {
    for (;;) {
      const isLastLook = !this.#following;
      const contents = await this.#contents();
      const fresh = contents.segments.filter(({ firstSeq }) => firstSeq > this.#doneSeq);
      let outcome: FileEnd = 'on';
      for (const [index, segment] of fresh.entries()) {
        if (segment.firstSeq > (this.#bounds.untilSeq ?? Number.POSITIVE_INFINITY)) return;
        outcome = yield* this.#segment(segment, fresh[index + 1], contents);
        if (outcome !== 'on') break;
      }
      if (outcome === 'end') return;
      if (outcome !== 'gone' && fresh.length > 0) continue;
      if (isLastLook) return this.#begun ? undefined : this.#remarkMissing(contents);
      await this.#more();
    }
  }

  /** Reports that all journal files are missing, if markers show it. Not with `follow`: the journal may be created later. */
  async #remarkMissing(contents: Contents): Promise<void> {
    if (this.#reading.follow !== undefined) return;
    const lastStop = await readLastStop(this.#disk, await this.#disk.list());
    for (const { file, problem } of findingsOfNone(contents, lastStop?.end)) {
      this.#onRemark({ kind: 'damage', text: `${file}: ${problem}` });
    }
  }

  get #following(): boolean {
    return this.#reading.follow?.aborted === false;
  }

  async #more(): Promise<void> {
    const { follow, progress } = this.#reading;
    if (follow !== undefined) await progress.more(follow);
  }

  async #contents(): Promise<Contents> {
    const absent = (error: Error) => {
      if (this.#reading.follow === undefined) throw error;
      return unlessAbsent<string[]>([])(error);
    };
    return contentsOf(await this.#disk.list().catch(absent));
  }

  /** @param next the file after it in the same listing of the folder: a file that has a next one is not appended to any more */
  async *#segment(
    segment: SegmentName,
    next: SegmentName | undefined,
    contents: Contents,
  ): AsyncGenerator<readonly Line[], FileEnd> {
    if (!this.#begun && next !== undefined && next.firstSeq <= this.#lineFilter.passedSeq + 1) {
      this.#doneSeq = segment.firstSeq;
      return 'on';
    }
    this.#join(segment, contents);
    try {
      if (next !== undefined && (await this.#isOutOfTime(segment))) return 'on';
      return yield* this.#file(segment, next !== undefined);
    } catch (error) {
      unlessAbsent(undefined)(error as NodeJS.ErrnoException);
      return this.#vanished(segment);
    }
  }

  /** Checks that the file begins with the expected seq, and reports a gap. */
  #join(segment: SegmentName, { gone, removedLast }: Contents): void {
    if (!this.#begun) this.#due = Math.min(this.#lineFilter.passedSeq + 1, segment.firstSeq);
    this.#begun = true;
    if (this.#due === undefined) return;
    const findings = joinFindings(segment, this.#due, gone);
    const last = segment.firstSeq - 1;
    const why: Gone = this.#due <= removedLast ? 'removed' : 'lost';
    const missing = this.#due <= last ? { gone: { first: this.#due, last, why } } : {};
    for (const { file, problem } of findings)
      this.#onRemark({ kind: 'damage', text: `${file}: ${problem}`, ...missing });
    if (findings.length > 0 || segment.firstSeq === this.#due) return;
    const reason = last <= removedLast ? 'retention removed them' : 'an earlier repair could not find all of them';
    const text = `the events ${this.#due} to ${last} are not there any more: ${reason}`;
    this.#onRemark({ kind: 'note', text, ...missing });
  }

  /** Skips a file whose first and last line are both before the filter's times, or both after them. @returns whether it did */
  async #isOutOfTime(segment: SegmentName): Promise<boolean> {
    const { since = '', until } = this.#bounds;
    if (since === '' && until === undefined) return false;
    const last = await lastLine(this.#disk, segment.name, await this.#disk.size(segment.name));
    const times = [await this.#firstTime(segment), last && readTime(last.line)];
    const outside =
      times.every((time) => time !== undefined && time < since) ||
      times.every((time) => time !== undefined && until !== undefined && time >= until);
    if (!outside || last === undefined) return false;
    this.#doneSeq = segment.firstSeq;
    this.#due = last.seq + 1;
    this.#lineFilter.passedSeq = Math.max(this.#lineFilter.passedSeq, last.seq);
    return true;
  }

  async #firstTime({ name }: SegmentName): Promise<string | undefined> {
    const head: Buffer[] = [];
    for await (const chunk of this.#disk.read(name, 0, HEAD_BYTES)) head.push(chunk);
    return readTime(Buffer.concat(head));
  }

  async *#file(segment: SegmentName, hasNext: boolean): AsyncGenerator<readonly Line[], FileEnd> {
    const file = new FileReader(this.#disk, segment, this.#lineFilter, this.#reading, this.#onRemark);
    if (this.#reading.seek === true) await file.seek();
    let isClosed = hasNext;
    let lookedTwice = false;
    for (;;) {
      // Evaluated before the read, so that all lines recorded before the abort are yielded.
      const isLastLook = !this.#following;
      yield* file.read(isClosed);
      if (isClosed) break;
      const { segments } = await this.#contents();
      isClosed = segments.some(({ firstSeq }) => firstSeq > segment.firstSeq);
      if (isClosed) continue; // read what was appended before the next file was begun
      if (!isLastLook) {
        await this.#more();
      } else if (this.#reading.follow === undefined && file.isIncomplete && !lookedTwice) {
        lookedTwice = true; // a service may be in the middle of a write
        await sleep(this.#reading.limits.followMs);
      } else {
        break;
      }
    }
    this.#due = file.end(isClosed);
    this.#doneSeq = segment.firstSeq;
    return isClosed ? 'on' : 'end';
  }

  async #vanished({ name, firstSeq }: SegmentName): Promise<FileEnd> {
    const { segments } = await this.#contents();
    this.#begun = false;
    if (!this.#following || segments.some((other) => other.firstSeq > firstSeq)) {
      this.#doneSeq = firstSeq;
      return 'again';
    }
    if (segments.some((other) => other.firstSeq === firstSeq)) return 'gone'; // it exists again
    // Retention never removes the last file, so the folder will get another journal.
    if (this.#lineFilter.passedSeq > 0) {
      this.#onRemark({ kind: 'note', text: `${name} is gone; what comes next is read from its beginning` });
    }
    this.#doneSeq = 0;
    this.#lineFilter.passedSeq = 0;
    return 'gone';
  }
}

/**
 * What follows a file: `on` to the next one · the `end` · it vanished, so list the folder `again` · it is `gone` and no file
 * follows it, so wait before listing the folder.
 */
type FileEnd = 'on' | 'end' | 'again' | 'gone';

/** The state of reading one file: how far its lines are valid, and what is wrong after them. */
class FileReader {
  readonly #disk: ReadableDisk;
  readonly #name: string;
  readonly #firstSeq: number;
  readonly #lineFilter: LineFilter;
  readonly #onRemark: (remark: Remark) => void;
  /** Where the last valid line ends, its number, and the chain position after it. */
  #goodBytes = 0;
  #goodLines = 0;
  #chain: ChainPosition;
  #firstCrc: number | undefined;
  /** The `passedSeq` of the line filter when the last read began. */
  #passedBefore = 0;
  /** Where the next line begins, and its number; the number of bytes that were read. */
  #byte = 0;
  #line = 1;
  #readBytes = -1;
  #isTorn = false;
  #badLines: BadLines | undefined;
  readonly #reading: Reading;
  /** Lines from this seq on may still be truncated, as of the writer's last answer. */
  #durableSeq = 0;
  #isHeldBack = false;

  constructor(
    disk: ReadableDisk,
    { name, firstSeq }: SegmentName,
    lineFilter: LineFilter,
    reading: Reading,
    onRemark: (remark: Remark) => void,
  ) {
    this.#disk = disk;
    this.#name = name;
    this.#firstSeq = firstSeq;
    this.#lineFilter = lineFilter;
    this.#reading = reading;
    this.#onRemark = onRemark;
    this.#chain = { seq: firstSeq, crc: 0 };
  }

  /** Whether there are bytes after the valid lines. */
  get isIncomplete(): boolean {
    return this.#isTorn || this.#badLines !== undefined;
  }

  /** Continues after the last line that the filter skips, if it is found; the lines before it are not verified. */
  async seek(): Promise<void> {
    const { passedSeq } = this.#lineFilter;
    if (passedSeq < this.#firstSeq) return;
    const size = await this.#disk.size(this.#name);
    const found = await seekLine(this.#disk, this.#name, size, passedSeq, this.#reading.limits);
    if (found === undefined) return;
    this.#goodBytes = found.bytes;
    this.#goodLines = found.chain.seq - this.#firstSeq;
    this.#chain = found.chain;
  }

  /**
   * Reads from the end of the valid lines, if the file's size changed since the last read.
   * @param isClosed whether all of the file is durable: the next file is begun only after that
   */
  async *read(isClosed: boolean): AsyncGenerator<readonly Line[]> {
    const size = await this.#disk.size(this.#name);
    if (size === this.#readBytes && !this.#isHeldBack) return;
    // Asked before the file is read: the answer does not cover what is written later.
    const endBytes = await this.#askDurable(isClosed, size);
    if (this.#goodBytes > 0 && !(await this.#endsAsBefore())) this.#beginAgain();
    this.#passedBefore = this.#lineFilter.passedSeq;
    this.#byte = this.#goodBytes;
    this.#line = this.#goodLines + 1;
    this.#badLines = undefined;
    this.#isHeldBack = false;
    const from = this.#goodBytes;
    let readBytes = from;
    const cutter = new LineCutter(
      (bytes, start, end, lineEnd) => this.#take(bytes, start, end, from + lineEnd),
      this.#reading.limits.lineBytesMax,
    );
    for await (const chunk of this.#disk.read(this.#name, from, endBytes)) {
      cutter.push(chunk);
      readBytes += chunk.length;
      // Inside of a long line the caller gets no turn: what it may wait for would keep the beginning of the line in memory.
      if (cutter.carriedBytes < chunk.length) yield this.#lineFilter.matches();
      if (this.#isHeldBack) break;
    }
    this.#readBytes = readBytes;
    this.#isTorn = cutter.carriedBytes > 0 && this.#chain.seq < this.#durableSeq;
    this.#isHeldBack ||= this.#chain.seq >= this.#durableSeq && size > this.#goodBytes;
  }

  /**
   * Asks the writer how far the journal is durable.
   * @returns how many bytes of the file may be read. Without an answer that is its size before the question
   */
  async #askDurable(isClosed: boolean, size: number): Promise<number | undefined> {
    const { progress, follow } = this.#reading;
    if (isClosed) {
      this.#durableSeq = Number.POSITIVE_INFINITY;
      return undefined;
    }
    const said = await askDurable(progress);
    if (said.kind === 'before') {
      this.#durableSeq = said.seq;
      return undefined;
    }
    if (said.kind === 'unanswered') {
      const isFollowing = follow !== undefined;
      const what = isFollowing ? 'held back until it does' : 'shown, and the last of them may still be truncated';
      this.#onRemark({
        kind: 'note',
        text: `the service that writes ${this.#name} does not answer: its newest lines are ${what}`,
      });
      if (isFollowing) {
        // If an earlier read found no writer, its lines were yielded, and only later ones are held back.
        if (this.#durableSeq === Number.POSITIVE_INFINITY) this.#durableSeq = this.#chain.seq;
        return undefined;
      }
    }
    this.#durableSeq = Number.POSITIVE_INFINITY;
    return size;
  }

  /**
   * Reports what is after the valid lines.
   * @returns the seq that is expected in the next file; undefined if unknown
   */
  end(hasNext: boolean): number | undefined {
    if (this.#isTorn) this.#badLines ??= this.#badLinesHere('it ends without a newline');
    if (this.#badLines === undefined) {
      if (hasNext && this.#goodLines === 0) this.#remark('damage', this.#badLinesHere('it is empty'), '');
      return this.#chain.seq;
    }
    // As in the table of recovery.ts: a crash, or a running write, explains bad bytes only at the end of the last file.
    if (!hasNext && this.#badLines.formsAfter === 0) {
      this.#remark(
        'note',
        this.#badLines,
        '; this end is skipped: a crash or a copy may have cut it off, or a service is writing it',
      );
    } else {
      this.#remark('damage', this.#badLines, '; what follows in this file can not be verified and is skipped');
    }
    return undefined;
  }

  #take(bytes: Buffer, start: number, end: number, lineEnd: number): void {
    if (this.#isHeldBack) return;
    if (this.#chain.seq >= this.#durableSeq) {
      this.#isHeldBack = true;
      return;
    }
    const byte = this.#byte;
    this.#byte = lineEnd + 1;
    this.#line += 1;
    const isFirst = this.#badLines === undefined;
    if (this.#badLines === undefined) {
      const check = checkLine(bytes, start, end, this.#chain);
      if (check.kind === 'good') {
        this.#accept(bytes, start, end, check.chain, byte);
        return;
      }
      this.#badLines = { ...this.#badLinesHere(check.problem), line: this.#line - 1, byte };
    }
    const form = readForm(bytes, start, end);
    if (form !== undefined) {
      if (!isFirst) this.#badLines.formsAfter += 1;
      if (form.seq < this.#durableSeq && this.#badLines.resync.continuesWith(bytes, form)) {
        const gone: GoneLines = { first: this.#chain.seq, last: form.seq - 1, why: 'lost' };
        const more = gone.first <= gone.last ? { gone } : {};
        this.#remark('damage', this.#badLines, skipped(this.#badLines.linesSkipped, form.seq), more);
        this.#badLines = undefined;
        this.#accept(bytes, start, end, { seq: form.seq + 1, crc: form.crc }, byte);
        return;
      }
    }
    this.#badLines.resync.pass(bytes, start, end, form);
    this.#badLines.linesSkipped += 1;
  }

  #accept(bytes: Buffer, start: number, end: number, next: ChainPosition, byte: number): void {
    if (this.#goodBytes === 0) {
      if (this.#firstCrc !== undefined && this.#firstCrc !== next.crc) this.#lineFilter.passedSeq = 0; // another journal
      this.#firstCrc = next.crc;
    }
    this.#chain = next;
    this.#goodBytes = this.#byte;
    this.#goodLines = this.#line - 1;
    this.#lineFilter.take(bytes, start, end, next.seq - 1, this.#name, byte);
  }

  /** Checks that the last valid line is unchanged. A service that starts replaces the file by a copy with the same lines. */
  async #endsAsBefore(): Promise<boolean> {
    const ending = endingOf(this.#chain.crc);
    const found: Buffer[] = [];
    const start = this.#goodBytes - ending.length;
    for await (const chunk of this.#disk.read(this.#name, start, this.#goodBytes)) found.push(chunk);
    return Buffer.concat(found).equals(ending);
  }

  /** Restarts the file: a service truncated it after a failed write, or another journal was begun. */
  #beginAgain(): void {
    this.#lineFilter.passedSeq = Math.min(this.#lineFilter.passedSeq, this.#passedBefore);
    const text = `${this.#name} was truncated or replaced while it was read; from seq ${this.#lineFilter.passedSeq + 1} on it is read again`;
    this.#onRemark({ kind: 'note', text });
    this.#goodBytes = 0;
    this.#goodLines = 0;
    this.#chain = { seq: this.#firstSeq, crc: 0 };
  }

  #badLinesHere(problem: string): BadLines {
    const resync = new Resync(this.#chain, this.#goodBytes === 0);
    return { line: this.#line, byte: this.#byte, problem, resync, linesSkipped: 0, formsAfter: 0 };
  }

  #remark(kind: Remark['kind'], at: BadLines, more: string, gone: Pick<Remark, 'gone'> = {}): void {
    const { line, byte, problem } = at;
    this.#onRemark({ kind, text: `${this.#name}, line ${line}, byte ${byte}: ${problem}${more}`, ...gone });
  }
}

/** A range without valid lines: where it begins and what is wrong there. */
interface BadLines {
  readonly line: number;
  readonly byte: number;
  readonly problem: string;
  readonly resync: Resync;
  linesSkipped: number;
  /** Number of lines in the form of a journal line, after the first bad one. */
  formsAfter: number;
}

function skipped(lines: number, seq: number): string {
  return lines === 0
    ? `; reading continues with seq ${seq}`
    : `; ${lines === 1 ? '1 line is' : `${lines} lines are`} skipped, reading continues with seq ${seq}`;
}

/** Collects the lines that match the filter. */
class LineFilter {
  readonly #bounds: Bounds;
  readonly #timed: boolean;
  /** The filter without its bounds, which do not apply to another journal of the same folder. */
  readonly #members: Filter;
  readonly #trace: Buffer | undefined;
  /** Lines with this seq or a smaller one are skipped. */
  passedSeq: number;
  #matches: Line[] = [];
  /** The next occurrence of the trace, from the last line on: -1 if these bytes have no more. */
  #searched: Buffer | undefined;
  #hit = -1;

  constructor({ afterSeq = 0, untilSeq, since, until, ...members }: Filter) {
    this.#bounds = { untilSeq, since, until };
    this.#timed = since !== undefined || until !== undefined;
    this.#members = members;
    this.#trace = traceOf(members);
    this.passedSeq = afterSeq;
  }

  take(bytes: Buffer, start: number, end: number, seq: number, file: string, byte: number): void {
    if (seq <= this.passedSeq) return;
    this.passedSeq = seq;
    if (this.#trace !== undefined && !this.#holds(bytes, start, end, this.#trace)) return;
    const { untilSeq, since = '', until } = this.#bounds;
    if (untilSeq !== undefined && seq > untilSeq) return;
    if (this.#timed) {
      const time = timeOf(bytes, start, seq);
      if (time < since || (until !== undefined && time >= until)) return;
    }
    const line = new Line(bytes, start, end, seq, file, byte);
    // A line is parsed only if the filter has members to match. Text in metadata may contain the trace too.
    if (this.#trace === undefined || isWanted(line.event, this.#members)) this.#matches.push(line);
  }

  /** @returns the lines collected since the last call */
  matches(): readonly Line[] {
    const lines = this.#matches;
    this.#matches = [];
    this.#searched = undefined; // it may be a long line
    return lines;
  }

  /** Searches all lines of a chunk at once, so that lines without the trace cost no search each. */
  #holds(bytes: Buffer, start: number, end: number, trace: Buffer): boolean {
    if (bytes !== this.#searched || (this.#hit !== -1 && this.#hit < start)) {
      this.#searched = bytes;
      this.#hit = bytes.indexOf(trace, start);
    }
    return this.#hit !== -1 && this.#hit + trace.length <= end;
  }
}

/** Bytes at the beginning of a line that include its time. */
const HEAD_BYTES = 256;
