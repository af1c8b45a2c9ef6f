/** Reads one file of a journal, even while a service writes it. Checks each line, and reports damage. */

import { LINE_FEED } from '../../event/json-bytes.ts';
import { type Bounds, type Filter, isMatch, type SourceFilter } from '../../event/search.ts';
import type { TextFilter } from '../../event/text-filter.ts';
import type { ReadableDisk } from '../disk.ts';
import { ChainFollower, crcOf, endingOf, readForm } from '../line/chain.ts';
import { LineCutter, type LinesCutter } from '../line/lines.ts';
import { isInMembers, markOf, timeOf } from '../line/members.ts';
import type { ChainPosition } from '../line/record.ts';
import { askDurable } from '../progress.ts';
import type { SegmentName } from '../segments.ts';
import { LineSearch, type SearchStart } from './line-search.ts';
import type { NewestLines } from './newest-lines.ts';
import type { GoneLines, Reading, Remark } from './reading.ts';
import { Line } from './reading.ts';
import { type LineEnd, seekLine } from './seek.ts';
import { traceOf } from './trace.ts';

export class FileReader {
  readonly #disk: ReadableDisk;
  readonly segment: SegmentName;
  readonly #lineFilter: LineFilter;
  readonly #onRemark: (remark: Remark) => void;
  /** The end of the last valid line, its number, and the chain position after it. */
  #goodBytes = 0;
  #goodLines = 0;
  #chain: ChainPosition;
  #firstId: string | undefined;
  /** The `passedSeq` of the line filter when the last read started; when it ended, if all of its lines are final. */
  #passedBefore = 0;
  #isDurable = false;
  /** The start of the next line, its number, and the number of bytes read so far. */
  #byte = 0;
  #line = 1;
  #readBytes = -1;
  #isTorn = false;
  #follower: ChainFollower;
  #badLines: BadLines | undefined;
  readonly #reading: Reading;
  /** Lines from this seq on can still be truncated, according to the writer's last answer. */
  #durableSeq = 0;
  #isHeldBack = false;
  /** Whether the last valid line was missing when the file was read again. */
  #isOther = false;
  /** Whether the last `read` looked into the file because its size had changed. */
  #hasRead = false;
  /** Whether a search finds the lines by their trace or text, and where the lines that it examines start. */
  #isSearching: boolean;
  #begin: LineEnd;
  /** The seqs between which the next hit must be. A hit is doubtful if it is outside of them, or fails verification. */
  #hitsAfter = 0;
  #hitsBefore = Number.POSITIVE_INFINITY;
  #isDoubtful = false;

  constructor(
    disk: ReadableDisk,
    segment: SegmentName,
    lineFilter: LineFilter,
    reading: Reading,
    onRemark: (remark: Remark) => void,
  ) {
    this.#disk = disk;
    this.segment = segment;
    this.#lineFilter = lineFilter;
    this.#reading = reading;
    this.#onRemark = onRemark;
    this.#chain = { seq: segment.firstSeq, crc: 0 };
    this.#begin = { bytes: 0, chain: this.#chain };
    this.#isSearching = reading.isSearch === true && (lineFilter.trace ?? lineFilter.contains) !== undefined;
    this.#follower = new ChainFollower(this.#chain, true);
  }

  /** Whether there are bytes after the valid lines. */
  get isIncomplete(): boolean {
    return this.#isTorn || this.#badLines !== undefined;
  }

  /** Whether the last `read` found new lines, and found all lines that were durable in the journal before it. */
  get hasAllDurable(): boolean {
    return this.#hasRead && this.#chain.seq >= this.#durableSeq;
  }

  /**
   * Continues after the last line that the filter skips, if that line is found. The lines before it are not verified.
   */
  async seek(): Promise<void> {
    const { passedSeq } = this.#lineFilter;
    if (passedSeq < this.segment.firstSeq) return;
    const size = await this.#disk.size(this.segment.name);
    const found = await seekLine(this.#disk, this.segment.name, size, passedSeq, this.#reading.limits);
    if (found === undefined) return;
    this.#begin = found;
    this.#continueAfter(found);
  }

  #continueAfter({ bytes, chain }: LineEnd): void {
    this.#goodBytes = bytes;
    this.#goodLines = chain.seq - this.segment.firstSeq;
    this.#chain = chain;
  }

  /**
   * Reads from the end of the valid lines, if the file's size changed since the last read.
   * @param isClosed whether all of the file is durable, since the next file is created only after that
   */
  async *read(isClosed: boolean): AsyncGenerator<readonly Line[]> {
    const { progress } = this.#reading;
    const fresh = this.#isSearching ? undefined : progress.fresh?.(this.segment.name, this.#goodBytes);
    if (fresh !== undefined) return yield this.#takeFresh(fresh.bytes, fresh.nextSeq);
    const size = await this.#disk.size(this.segment.name);
    this.#hasRead = size !== this.#readBytes;
    if (!this.#hasRead && !this.#isHeldBack) return;
    // Asked before the file is read, since the answer does not cover later writes.
    const endBytes = await this.#askDurable(isClosed, size);
    this.#isHeldBack = false;
    let { passedSeq } = this.#lineFilter;
    if (this.#isSearching) {
      const search = yield* this.#readOn(() => this.#searchOn(), size, endBytes, passedSeq);
      const isFirst = search.firstByte === undefined || search.firstSeq === this.#chain.seq;
      if (!this.#isDoubtful && isFirst && this.#endsWell(search, size)) return;
      this.#continueByLines();
      passedSeq = this.#passedBefore;
    }
    const { carriedBytes } = yield* this.#readOn(() => this.#cutOn(), size, endBytes, passedSeq);
    this.#isTorn = carriedBytes > 0 && this.#chain.seq < this.#durableSeq;
    this.#isHeldBack ||= this.#chain.seq >= this.#durableSeq && size > this.#goodBytes;
  }

  /**
   * Passes the bytes after the valid lines to a search or a cutter; from the start of the file if it was replaced in the
   * meantime.
   * @param passedBefore the `passedSeq` of the line filter when the read started
   */
  async *#readOn<Lines extends LinesCutter>(
    start: () => Lines,
    size: number,
    endBytes: number | undefined,
    passedBefore: number,
  ): AsyncGenerator<readonly Line[], Lines> {
    for (let passedSeq = passedBefore; ; passedSeq = this.#lineFilter.passedSeq) {
      const lines = start();
      for await (const chunk of this.#chunksOn(size, endBytes)) {
        lines.push(chunk);
        if (this.#isDoubtful) break;
        // Within a long line the caller gets no turn: if it waited, the start of the line would stay in memory.
        if (lines.carriedBytes < chunk.length) yield this.#takeMatches();
        if (this.#isHeldBack || this.#chain.seq >= this.#durableSeq) break; // avoids a call that only finds the end of the file
      }
      if (!this.#isOther) {
        this.#passedBefore = this.#isDurable ? this.#lineFilter.passedSeq : passedSeq;
        this.#readBytes = lines.position;
        return lines;
      }
      this.#beginAgain();
    }
  }

  /** @param nextSeq the seq of the line after these bytes; all of them are durable */
  #takeFresh(bytes: Buffer, nextSeq: number): readonly Line[] {
    this.#durableSeq = nextSeq;
    this.#hasRead = true;
    this.#isHeldBack = this.#isTorn = false;
    const lines = this.#cutOn();
    lines.push(bytes);
    this.#passedBefore = this.#lineFilter.passedSeq;
    this.#readBytes = lines.position;
    return this.#takeMatches();
  }

  #searchOn(): LineSearch {
    this.#hitsAfter = this.#chain.seq - 1;
    return this.#searchFrom({ byte: this.#goodBytes, seed: this.#chain.crc });
  }

  /** Collects all lines after the valid lines. */
  #cutOn(): LineCutter {
    this.#byte = this.#goodBytes;
    this.#line = this.#goodLines + 1;
    this.#follower = new ChainFollower(this.#chain, this.#goodBytes === 0);
    this.#badLines = undefined;
    return new LineCutter(this.#take.bind(this), this.#reading.limits.lineBytesMax, this.#goodBytes);
  }

  /**
   * Adds the newest lines that match. Reads the file in blocks, the last one first and each block once.
   * @param isClosed see `read`
   */
  async readNewest(isClosed: boolean, found: NewestLines): Promise<void> {
    const { passedSeq } = this.#lineFilter;
    const size = await this.#disk.size(this.segment.name);
    const fileEnd = (await this.#askDurable(isClosed, size)) ?? size;
    let end = fileEnd;
    for (let bytes = BLOCK_BYTES; ; ) {
      const byte = Math.max(0, end - bytes);
      this.#lineFilter.passedSeq = passedSeq;
      const { search, first } = await this.#searchBlock(byte, end, found);
      bytes *= BLOCK_FACTOR;
      if (search.firstByte === undefined && byte > 0) continue; // the block is within a long line
      if (this.#isDoubtful || (byte === 0 && search.firstSeq !== this.segment.firstSeq)) break;
      if (end === fileEnd && !this.#endsWell(search, size)) break;
      found.endBlock();
      if (byte === 0 || found.isFull || search.firstSeq! <= passedSeq + 1) return;
      this.#hitsBefore = first?.seq ?? this.#hitsBefore;
      end = search.firstByte!;
      bytes = Math.min(bytes, BLOCK_BYTES_MAX);
    }
    found.forget(this.segment.name);
    this.#lineFilter.passedSeq = passedSeq;
    this.#continueByLines();
    for await (const lines of this.read(isClosed)) found.add(lines);
    found.endBlock();
  }

  /** Adds the matching lines of a block. @returns the search, and the first of these lines */
  async #searchBlock(byte: number, end: number, found: NewestLines): Promise<{ search: LineSearch; first?: Line }> {
    const search = this.#searchFrom({ byte, seed: byte === 0 ? 0 : undefined });
    this.#hitsAfter = 0;
    let first: Line | undefined;
    for await (const chunk of this.#disk.read(this.segment.name, byte, end)) {
      search.push(chunk);
      const lines = this.#takeMatches();
      first ??= lines[0];
      found.add(lines);
    }
    return { search, ...(first !== undefined && { first }) };
  }

  #searchFrom(start: SearchStart): LineSearch {
    const { lineBytesMax } = this.#reading.limits;
    return new LineSearch(this.#lineFilter, start, this.#takeHit.bind(this), lineBytesMax);
  }

  /** Verifies a line: the seed of its crc must be the crc of the line before it. */
  #takeHit(bytes: Buffer, start: number, end: number, byte: number, seed: number | undefined): void {
    if (this.#isDoubtful) return;
    const form = readForm(bytes, start, end);
    const isGood = form !== undefined && seed !== undefined && crcOf(bytes, form, seed) === form.crc;
    this.#isDoubtful = !isGood || form.seq <= this.#hitsAfter || form.seq >= this.#hitsBefore;
    if (!isGood || this.#isDoubtful) return;
    this.#hitsAfter = form.seq;
    if (form.seq >= this.#durableSeq) return;
    const line = Buffer.from(bytes.subarray(start, end));
    this.#lineFilter.take(line, 0, line.length, form.seq, this.segment.name, byte);
  }

  /**
   * Whether a search ended with a complete line, as far as the file is durable. The next read then continues after it.
   */
  #endsWell({ firstByte, last, endByte, carriedBytes }: LineSearch, size: number): boolean {
    if (firstByte === undefined ? this.#goodBytes === 0 : last === undefined) return false;
    const seq = last === undefined ? this.#chain.seq : last.seq + 1;
    if (carriedBytes > 0 && seq < this.#durableSeq) return false;
    if (last !== undefined && last.seq < this.#durableSeq) {
      this.#continueAfter({ bytes: endByte, chain: { seq, crc: last.crc } });
    }
    this.#isHeldBack = seq >= this.#durableSeq && size > this.#goodBytes;
    return true;
  }

  /** Starts again and reads all lines, so that the checksum chain decides what is damaged. */
  #continueByLines(): void {
    this.#isSearching = false;
    this.#isDoubtful = false;
    this.#continueAfter(this.#begin);
  }

  /** @throws Defect if any of them is not durable, even in a file that counts as closed */
  #takeMatches(): readonly Line[] {
    const lines = this.#lineFilter.matches();
    if (lines.length > 0) this.#reading.progress.checkShown?.(lines.at(-1)!.seq);
    return lines;
  }

  /** @returns how many bytes of the file may be read. If the writer does not answer, this is the size before the question */
  async #askDurable(isClosed: boolean, size: number): Promise<number | undefined> {
    const { progress, follow } = this.#reading;
    this.#isDurable = isClosed;
    if (isClosed) {
      this.#durableSeq = Number.POSITIVE_INFINITY;
      return undefined;
    }
    const said = await askDurable(progress);
    if (said.kind === 'before') {
      this.#isDurable = true;
      this.#durableSeq = said.seq;
      return undefined;
    }
    if (said.kind === 'unanswered') {
      const isFollowing = follow !== undefined;
      const what = isFollowing ? 'held back until it does' : 'shown, and the last of them might still be truncated';
      this.#onRemark({
        kind: 'note',
        text: `the service that writes ${this.segment.name} does not answer: its newest lines are ${what}`,
      });
      if (isFollowing) {
        // If an earlier read found no writer, its lines were yielded, and only later lines are held back.
        if (this.#durableSeq === Number.POSITIVE_INFINITY) this.#durableSeq = this.#chain.seq;
        return undefined;
      }
    }
    this.#durableSeq = Number.POSITIVE_INFINITY;
    return size;
  }

  /**
   * Reports the bytes after the valid lines.
   * @returns the seq that is expected in the next file; undefined if unknown
   */
  end(hasNext: boolean): number | undefined {
    if (this.#isTorn) this.#badLines ??= this.#badLinesHere('it ends without a newline');
    if (this.#badLines === undefined) {
      if (hasNext && this.#goodLines === 0) this.#remark('damage', this.#badLinesHere('it is empty'), '');
      return this.#chain.seq;
    }
    // As in the table of recovery.ts: a crash, or a running write, explains bad bytes only at the end of the last file.
    if (!hasNext && this.#badLines.unexplained === 0) {
      this.#remark(
        'note',
        this.#badLines,
        '; this end is skipped: a crash or a copy might have cut it off, or a service is writing it',
      );
    } else {
      this.#remark('damage', this.#badLines, '; the rest of this file cannot be verified and is skipped');
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
    const found = this.#follower.take(bytes, start, end, this.#durableSeq);
    if (found.kind === 'good') {
      this.#accept(bytes, start, end, found.chain, byte);
      return;
    }
    const isFirst = found.problem !== undefined;
    const bad = this.#badLines ?? { ...this.#badLinesHere(found.problem ?? ''), line: this.#line - 1, byte };
    if (found.kind === 'resumed') {
      const seq = found.chain.seq - 1;
      const gone: GoneLines = { first: found.due, last: seq - 1, why: 'lost' };
      this.#remark('damage', bad, skipped(bad.linesSkipped, seq), gone.first <= gone.last ? { gone } : {});
      this.#badLines = undefined;
      this.#accept(bytes, start, end, found.chain, byte);
      return;
    }
    if (found.hasForm && (!isFirst || found.hasOtherSeq)) bad.unexplained += 1;
    bad.linesSkipped += 1;
    this.#badLines = bad;
  }

  #accept(bytes: Buffer, start: number, end: number, next: ChainPosition, byte: number): void {
    if (this.#goodBytes === 0) {
      const { id } = markOf(bytes, start, end, next.seq - 1); // its crc changes in an erase
      if (this.#firstId !== undefined && this.#firstId !== id) this.#lineFilter.passedSeq = 0; // another journal
      this.#firstId = id;
    }
    this.#chain = next;
    this.#goodBytes = this.#byte;
    this.#goodLines = this.#line - 1;
    this.#lineFilter.take(bytes, start, end, next.seq - 1, this.segment.name, byte);
  }

  /**
   * Reads the bytes after the last valid line, and the end of that line as well, so that the file is opened once. If that line
   * has changed, sets `#isOther` and yields nothing. A service that starts replaces the file by a copy with the same lines.
   */
  async *#chunksOn(size: number, endBytes: number | undefined): AsyncGenerator<Buffer> {
    const ending = this.#goodBytes > 0 ? endingOf(this.#chain.crc) : NO_ENDING;
    const options = size - this.#goodBytes < FEW_BYTES ? { chunkBytes: FEW_BYTES } : {};
    const chunks = this.#disk.read(this.segment.name, this.#goodBytes - ending.length, endBytes, options);
    let checked = 0;
    this.#isOther = false;
    for await (const chunk of chunks) {
      const due = ending.subarray(checked, checked + chunk.length);
      checked += due.length;
      this.#isOther = !due.equals(chunk.subarray(0, due.length));
      if (this.#isOther) return;
      if (due.length < chunk.length) yield chunk.subarray(due.length);
    }
    this.#isOther = checked < ending.length;
  }

  /** Restarts the file: a service truncated it after a failed write, or another journal was created. */
  #beginAgain(): void {
    this.#lineFilter.passedSeq = Math.min(this.#lineFilter.passedSeq, this.#passedBefore);
    const text = `${this.segment.name} was truncated or replaced while it was read; from seq ${this.#lineFilter.passedSeq + 1} on it is read again`;
    this.#onRemark({ kind: 'note', text });
    this.#begin = { bytes: 0, chain: { seq: this.segment.firstSeq, crc: 0 } };
    this.#continueAfter(this.#begin);
  }

  #badLinesHere(problem: string): BadLines {
    return { line: this.#line, byte: this.#byte, problem, linesSkipped: 0, unexplained: 0 };
  }

  #remark(kind: Remark['kind'], at: BadLines, more: string, gone: Pick<Remark, 'gone'> = {}): void {
    const { line, byte, problem } = at;
    this.#onRemark({ kind, text: `${this.segment.name}, line ${line}, byte ${byte}: ${problem}${more}`, ...gone });
  }
}

/** A range without valid lines: its start and the problem there. */
interface BadLines {
  readonly line: number;
  readonly byte: number;
  readonly problem: string;
  linesSkipped: number;
  /**
   * Number of lines in the form of a journal line that no crash explains: after the first bad line, or with a seq other than the
   * expected one.
   */
  unexplained: number;
}

function skipped(lines: number, seq: number): string {
  return lines === 0
    ? `; reading continues with seq ${seq}`
    : `; ${lines === 1 ? '1 line is' : `${lines} lines are`} skipped, reading continues with seq ${seq}`;
}

/** Collects the lines that match the filter. */
export class LineFilter {
  readonly #bounds: Bounds;
  readonly #timed: boolean;
  /** The filter without its text and its bounds, which do not apply to another journal in the same folder. */
  readonly #members: Filter;
  /** Bytes that each matching line contains: see `traceOf`. */
  readonly trace: Buffer | undefined;
  /** A text that each matching line contains. */
  readonly contains: TextFilter | undefined;
  /** The source, if the trace matches any source. */
  readonly #source: SourceFilter | undefined;
  /** Lines with this seq or a smaller one are skipped. */
  passedSeq: number;
  #matches: Line[] = [];

  /** @param isSearch whether only existing events are read: a source that gets its name later has no event yet */
  constructor({ afterSeq = 0, untilSeq, since, until, contains, ...members }: Filter, isSearch = false) {
    this.#bounds = { untilSeq, since, until };
    this.#timed = since !== undefined || until !== undefined;
    this.#members = members;
    const id = isSearch ? members.source?.onlyId?.() : undefined;
    this.trace = traceOf(id === undefined ? members : { ...members, source: { text: id, has: () => true } });
    this.contains = contains;
    if (this.trace?.equals(ANY_SOURCE)) this.#source = members.source;
    this.passedSeq = afterSeq;
  }

  take(bytes: Buffer, start: number, end: number, seq: number, file: string, byte: number): void {
    if (seq <= this.passedSeq) return;
    this.passedSeq = seq;
    if (this.trace !== undefined && !bytes.subarray(start, end).includes(this.trace)) return;
    const { untilSeq, since = '', until } = this.#bounds;
    if (untilSeq !== undefined && seq > untilSeq) return;
    if (this.#timed) {
      const time = timeOf(bytes, start, seq);
      if (time < since || (until !== undefined && time >= until)) return;
    }
    const line = new Line(bytes, start, end, seq, file, byte);
    if (this.contains !== undefined && this.contains.find(line.members, 0) === -1) return;
    // A line is parsed only if the filter has members to match. Text in metadata can contain the trace too.
    if (this.trace === undefined || isMatch(line, this.#members)) this.#matches.push(line);
  }

  /**
   * Whether a line with the trace or the text at `hit` can match. On a hub, each line has the trace of a source with a name, and
   * a text can also be in the members that the service added.
   */
  mayMatch(bytes: Buffer, hit: number): boolean {
    if (this.trace === undefined && this.contains !== undefined) return isInMembers(bytes, hit);
    if (this.#source === undefined) return true;
    const isWanted = (at: number) => this.#source!.has(bytes.toString('latin1', at, at + ID_BYTES));
    if (isWanted(hit + ANY_SOURCE.length)) return true;
    const start = bytes.lastIndexOf(LINE_FEED, hit) + 1;
    const at = bytes.subarray(start, hit).indexOf(ANY_ORIGIN); // the first one is the member; others are in metadata
    return at !== -1 && isWanted(start + at + ANY_ORIGIN.length);
  }

  /**
   * @returns the lines collected since the last call, with a copy of their chunk, whose memory the next chunk reuses
   */
  matches(): readonly Line[] {
    const lines = this.#matches;
    let copy: Buffer | undefined;
    for (const line of lines) {
      if (line.end === line.bytes.length) continue; // a line that spans chunks is a copy
      copy ??= Buffer.from(line.bytes);
      line.bytes = copy;
    }
    this.#matches = [];
    return lines;
  }
}

/** The bytes before the id of any source. */
const ANY_SOURCE = traceOf({ source: { text: '', has: () => true } })!;
const ANY_ORIGIN = Buffer.from('"origin":["');
const ID_BYTES = 36;
const NO_ENDING = Buffer.alloc(0);
/** A read of fewer bytes than this uses little memory, for a journal that is followed event by event. */
const FEW_BYTES = 16 * 1024;
/** How much of the end of a file is read first, and how much more at each further step. */
const BLOCK_BYTES = 64 * 1024;
const BLOCK_FACTOR = 8;
const BLOCK_BYTES_MAX = 4 * 1024 * 1024;
