/**
 * Walks a journal from file to file, checks each line and hands over those that are asked for. It takes no lock: a service may
 * write, begin files, rewrite its last one at a start and remove old ones meanwhile. What is wrong is told, and the walk goes on
 * behind it where the crc of a line builds on the line before it: `salvage.ts` finds more, but has to hold a whole file for it.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import { readLastStop } from './clean-stop.ts';
import type { Disk } from './disk.ts';
import { type Bounds, type Filter, isWanted, traceOf } from './filter.ts';
import { LineCutter } from './lines.ts';
import type { Progress } from './progress.ts';
import {
  checkLine,
  endingOf,
  metadataOf,
  type Place,
  type Recorded,
  readForm,
  readRecorded,
  readTime,
  timeOf,
} from './record.ts';
import { findingsOfNone, joinFindings } from './recovery.ts';
import { Resync } from './resync.ts';
import { lastLine } from './scan.ts';
import { type Contents, contentsOf, type SegmentName } from './segments.ts';

export type ReaderLimits = Pick<Limits, 'followMs' | 'lineBytesMax'>;

export interface Reading {
  /** Which lines are handed over: all without it. Files outside of its bounds are not read. */
  readonly filter?: Filter;
  /** Waits for what is recorded later, until this is aborted, and then looks a last time. The folder need not be there yet. */
  readonly follow?: AbortSignal | undefined;
  readonly progress: Progress;
  readonly limits: ReaderLimits;
}

/** What a reader should know besides the lines. */
export interface Remark {
  /** `damage` is what no crash explains: a service would not start on it. A `note` is in order. */
  readonly kind: 'damage' | 'note';
  readonly text: string;
}

/** A line that checked out. It holds on to the memory that its neighbours stand in as well. */
export class Line {
  readonly bytes: Buffer;
  readonly start: number;
  /** Where its newline would be. */
  readonly end: number;
  readonly seq: number;
  #event: Recorded | undefined;

  constructor(bytes: Buffer, start: number, end: number, seq: number) {
    this.bytes = bytes;
    this.start = start;
    this.end = end;
    this.seq = seq;
  }

  get event(): Recorded {
    this.#event ??= readRecorded(this.bytes, this.start, this.end);
    return this.#event;
  }

  /** Without its newline. */
  get text(): string {
    return this.bytes.toString('utf8', this.start, this.end);
  }

  /** JSON text, as it was sent. */
  get metadata(): string | undefined {
    return metadataOf(this.bytes, this.start, this.end);
  }
}

/**
 * @param tell called with what a reader should know, in the order of the lines
 * @returns the lines in the order of their seqs, many at a time
 * @throws the error of a system call; without `follow` also for a folder that is not there
 */
export function readJournal(
  disk: Disk,
  reading: Reading,
  tell: (remark: Remark) => void,
): AsyncGenerator<readonly Line[]> {
  return new Walk(disk, reading, tell).lines();
}

class Walk {
  readonly #disk: Disk;
  readonly #reading: Reading;
  readonly #tell: (remark: Remark) => void;
  readonly #bounds: Bounds;
  readonly #sieve: Sieve;
  /** The first seq in the name of the last file that was done with; 0 before the first. */
  #doneSeq = 0;
  /** Whether a file was looked into: before, nobody knows what is due. */
  #begun = false;
  /** The seq that is due next; undefined where nobody knows. */
  #due: number | undefined;

  constructor(disk: Disk, reading: Reading, tell: (remark: Remark) => void) {
    this.#disk = disk;
    this.#reading = reading;
    this.#tell = tell;
    this.#bounds = reading.filter ?? {};
    this.#sieve = new Sieve(reading.filter ?? {});
  }

  async *lines(): AsyncGenerator<readonly Line[]> {
    for (;;) {
      const isLastLook = !this.#following;
      const contents = await this.#contents();
      const fresh = contents.segments.filter(({ firstSeq }) => firstSeq > this.#doneSeq);
      let outcome: Outcome = 'on';
      for (const [index, segment] of fresh.entries()) {
        if (segment.firstSeq > (this.#bounds.untilSeq ?? Number.POSITIVE_INFINITY)) return;
        outcome = yield* this.#segment(segment, fresh[index + 1], contents);
        if (outcome !== 'on') break;
      }
      if (outcome === 'end') return;
      if (outcome !== 'gone' && fresh.length > 0) continue;
      if (isLastLook) return this.#begun ? undefined : this.#tellMissing(contents);
      await this.#more();
    }
  }

  /** A folder without a journal file may show that there was one. One that is followed may not have been filled yet. */
  async #tellMissing(contents: Contents): Promise<void> {
    if (this.#reading.follow !== undefined) return;
    const lastStop = await readLastStop(this.#disk, await this.#disk.list());
    for (const { file, problem } of findingsOfNone(contents, lastStop?.end)) {
      this.#tell({ kind: 'damage', text: `${file}: ${problem}` });
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
      return unlessAbsent<string[]>(error, []);
    };
    return contentsOf(await this.#disk.list().catch(absent));
  }

  /** @param next the file behind it, of the same look at the folder: with one behind it nothing is added to a file any more */
  async *#segment(
    segment: SegmentName,
    next: SegmentName | undefined,
    contents: Contents,
  ): AsyncGenerator<readonly Line[], Outcome> {
    if (!this.#begun && next !== undefined && next.firstSeq <= this.#sieve.passedSeq + 1) {
      this.#doneSeq = segment.firstSeq;
      return 'on';
    }
    this.#join(segment, contents);
    try {
      if (next !== undefined && (await this.#isOutOfTime(segment))) return 'on';
      return yield* this.#file(segment, next !== undefined);
    } catch (error) {
      unlessAbsent(error as Error, undefined);
      return this.#vanished(segment);
    }
  }

  /** Looks whether the file is the one that is due. */
  #join(segment: SegmentName, { gone, removedLast }: Contents): void {
    if (!this.#begun) this.#due = Math.min(this.#sieve.passedSeq + 1, segment.firstSeq);
    this.#begun = true;
    if (this.#due === undefined) return;
    const findings = joinFindings(segment, this.#due, gone);
    for (const { file, problem } of findings) this.#tell({ kind: 'damage', text: `${file}: ${problem}` });
    if (findings.length > 0 || segment.firstSeq === this.#due) return;
    const last = segment.firstSeq - 1;
    const why = last <= removedLast ? 'retention removed them' : 'an earlier repair could not find all of them';
    const text = `the events ${this.#due} to ${last} are not there any more: ${why}`;
    this.#tell({ kind: 'note', text });
  }

  /** Passes over a file that begins and ends before or behind the time that is asked for. */
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
    this.#sieve.passedSeq = Math.max(this.#sieve.passedSeq, last.seq);
    return true;
  }

  async #firstTime({ name }: SegmentName): Promise<string | undefined> {
    const head: Buffer[] = [];
    for await (const chunk of this.#disk.read(name, 0, HEAD_BYTES)) head.push(chunk);
    return readTime(Buffer.concat(head));
  }

  async *#file(segment: SegmentName, hasNext: boolean): AsyncGenerator<readonly Line[], Outcome> {
    const file = new FileWalk(this.#disk, segment, this.#sieve, this.#reading, this.#tell);
    let isClosed = hasNext;
    let lookedTwice = false;
    for (;;) {
      // Read before the look: what is recorded before the end of following is handed over.
      const isLastLook = !this.#following;
      yield* file.read(isClosed);
      if (isClosed) break;
      const { segments } = await this.#contents();
      isClosed = segments.some(({ firstSeq }) => firstSeq > segment.firstSeq);
      if (isClosed) continue; // to what was added before the next one was begun
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

  async #vanished({ name, firstSeq }: SegmentName): Promise<Outcome> {
    const { segments } = await this.#contents();
    this.#begun = false;
    if (!this.#following || segments.some((other) => other.firstSeq > firstSeq)) {
      this.#doneSeq = firstSeq;
      return 'again';
    }
    if (segments.some((other) => other.firstSeq === firstSeq)) return 'gone'; // and back again
    // Retention never takes the last one: there will be another journal.
    if (this.#sieve.passedSeq > 0) {
      this.#tell({ kind: 'note', text: `${name} is gone; what comes next is read from its beginning` });
    }
    this.#doneSeq = 0;
    this.#sieve.passedSeq = 0;
    return 'gone';
  }
}

/**
 * What comes behind a file: `on` to the next one · the `end` · it vanished, so look at the folder `again` · it is `gone` with
 * nothing behind it, so wait first.
 */
type Outcome = 'on' | 'end' | 'again' | 'gone';

/** One file on its way through: how far its lines are good, and what is wrong behind them. */
class FileWalk {
  readonly #disk: Disk;
  readonly #name: string;
  readonly #firstSeq: number;
  readonly #sieve: Sieve;
  readonly #tell: (remark: Remark) => void;
  /** Where the last good line ends, its number, and what the line behind it has to have. */
  #goodBytes = 0;
  #goodLines = 0;
  #place: Place;
  #firstCrc: number | undefined;
  /** What the sieve had passed when the last look began. */
  #passedBefore = 0;
  /** Where the next line begins, and its number; all bytes that were there. */
  #byte = 0;
  #line = 1;
  #readBytes = -1;
  #isTorn = false;
  #trouble: Trouble | undefined;
  readonly #reading: Reading;
  /** Lines from this seq on may be taken back; as the writer said when it was last asked. */
  #durableSeq = 0;
  #isHeldBack = false;

  constructor(
    disk: Disk,
    { name, firstSeq }: SegmentName,
    sieve: Sieve,
    reading: Reading,
    tell: (remark: Remark) => void,
  ) {
    this.#disk = disk;
    this.#name = name;
    this.#firstSeq = firstSeq;
    this.#sieve = sieve;
    this.#reading = reading;
    this.#tell = tell;
    this.#place = { seq: firstSeq, crc: 0 };
  }

  /** Whether something is behind the good lines. */
  get isIncomplete(): boolean {
    return this.#isTorn || this.#trouble !== undefined;
  }

  /**
   * Reads what is behind the good lines, where the file has grown or shrunk since the last time.
   * @param isClosed all of the file is durable: the next one is begun only after that
   */
  async *read(isClosed: boolean): AsyncGenerator<readonly Line[]> {
    const size = await this.#disk.size(this.#name);
    if (size === this.#readBytes && !this.#isHeldBack) return;
    // Asked before the file is read: what comes after the answer is not covered by it.
    const endBytes = await this.#askDurable(isClosed, size);
    if (this.#goodBytes > 0 && !(await this.#endsAsBefore())) this.#beginAgain();
    this.#passedBefore = this.#sieve.passedSeq;
    this.#byte = this.#goodBytes;
    this.#line = this.#goodLines + 1;
    this.#trouble = undefined;
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
      yield this.#sieve.caught();
      if (this.#isHeldBack) break;
    }
    this.#readBytes = readBytes;
    this.#isTorn = cutter.carriedBytes > 0 && this.#place.seq < this.#durableSeq;
    this.#isHeldBack ||= this.#place.seq >= this.#durableSeq && size > this.#goodBytes;
  }

  /** @returns how many bytes of the file may be read: what the writer did not say may be only what was there before it was asked */
  async #askDurable(isClosed: boolean, size: number): Promise<number | undefined> {
    const { progress, follow } = this.#reading;
    if (isClosed) {
      this.#durableSeq = Number.POSITIVE_INFINITY;
      return undefined;
    }
    let said = await progress.durable();
    for (let asked = 1; said.kind === 'unanswered' && asked < ASKED_MAX; asked += 1) said = await progress.durable();
    if (said.kind === 'before') {
      this.#durableSeq = said.seq;
      return undefined;
    }
    if (said.kind === 'unanswered') {
      const isFollowing = follow !== undefined;
      const what = isFollowing ? 'held back until it does' : 'shown, and the last of them may yet be taken back';
      this.#tell({
        kind: 'note',
        text: `the service that writes ${this.#name} does not answer: its newest lines are ${what}`,
      });
      if (isFollowing) {
        // An earlier look may have found no writer: what it found is shown, and what was added since is held back.
        if (this.#durableSeq === Number.POSITIVE_INFINITY) this.#durableSeq = this.#place.seq;
        return undefined;
      }
    }
    this.#durableSeq = Number.POSITIVE_INFINITY;
    return size;
  }

  /**
   * Tells what is behind the good lines.
   * @returns the seq that is due in the next file, undefined where nobody knows
   */
  end(hasNext: boolean): number | undefined {
    if (this.#isTorn) this.#trouble ??= this.#troubleHere('it ends without a newline');
    if (this.#trouble === undefined) {
      if (hasNext && this.#goodLines === 0) this.#remark('damage', this.#troubleHere('it is empty'), '');
      return this.#place.seq;
    }
    // As the table in recovery.ts has it: only at the very end a crash, or a writer, explains what is no good line.
    if (!hasNext && this.#trouble.formsBehind === 0) {
      this.#remark(
        'note',
        this.#trouble,
        '; this end is left out: a crash or a copy may have cut it off, or a service is writing it',
      );
    } else {
      this.#remark('damage', this.#trouble, '; what follows in this file can not be believed and is left out');
    }
    return undefined;
  }

  #take(bytes: Buffer, start: number, end: number, lineEnd: number): void {
    if (this.#isHeldBack) return;
    if (this.#place.seq >= this.#durableSeq) {
      this.#isHeldBack = true;
      return;
    }
    const byte = this.#byte;
    this.#byte = lineEnd + 1;
    this.#line += 1;
    const isFirst = this.#trouble === undefined;
    if (this.#trouble === undefined) {
      const next = checkLine(bytes, start, end, this.#place);
      if (typeof next === 'object') {
        this.#accept(bytes, start, end, next);
        return;
      }
      this.#trouble = { ...this.#troubleHere(next), line: this.#line - 1, byte };
    }
    const form = readForm(bytes, start, end);
    if (form !== undefined) {
      if (!isFirst) this.#trouble.formsBehind += 1;
      if (form.seq < this.#durableSeq && this.#trouble.resync.continuesWith(bytes, form)) {
        this.#remark('damage', this.#trouble, leftOut(this.#trouble.linesLeft, form.seq));
        this.#trouble = undefined;
        this.#accept(bytes, start, end, { seq: form.seq + 1, crc: form.crc });
        return;
      }
    }
    this.#trouble.resync.pass(bytes, start, end, form);
    this.#trouble.linesLeft += 1;
  }

  #accept(bytes: Buffer, start: number, end: number, next: Place): void {
    if (this.#goodBytes === 0) {
      if (this.#firstCrc !== undefined && this.#firstCrc !== next.crc) this.#sieve.passedSeq = 0; // another journal
      this.#firstCrc = next.crc;
    }
    this.#place = next;
    this.#goodBytes = this.#byte;
    this.#goodLines = this.#line - 1;
    this.#sieve.take(bytes, start, end, next.seq - 1);
  }

  /** A service that starts puts a copy in the file's place, which changes nothing. */
  async #endsAsBefore(): Promise<boolean> {
    const ending = endingOf(this.#place.crc);
    const found: Buffer[] = [];
    const start = this.#goodBytes - ending.length;
    for await (const chunk of this.#disk.read(this.#name, start, this.#goodBytes)) found.push(chunk);
    return Buffer.concat(found).equals(ending);
  }

  /** A service takes back what a full disk did not take whole; or somebody began another journal. */
  #beginAgain(): void {
    this.#sieve.passedSeq = Math.min(this.#sieve.passedSeq, this.#passedBefore);
    const text = `${this.#name} was cut back or replaced while it was read; from seq ${this.#sieve.passedSeq + 1} on it is read again`;
    this.#tell({ kind: 'note', text });
    this.#goodBytes = 0;
    this.#goodLines = 0;
    this.#place = { seq: this.#firstSeq, crc: 0 };
  }

  #troubleHere(problem: string): Trouble {
    const resync = new Resync(this.#place, this.#goodBytes === 0);
    return { line: this.#line, byte: this.#byte, problem, resync, linesLeft: 0, formsBehind: 0 };
  }

  #remark(kind: Remark['kind'], { line, byte, problem }: Trouble, more: string): void {
    this.#tell({ kind, text: `${this.#name}, line ${line}, byte ${byte}: ${problem}${more}` });
  }
}

/** A stretch without good lines: where it begins and what is wrong there. */
interface Trouble {
  readonly line: number;
  readonly byte: number;
  readonly problem: string;
  readonly resync: Resync;
  linesLeft: number;
  /** Lines that look like ours, behind the first one that is bad. */
  formsBehind: number;
}

function leftOut(lines: number, seq: number): string {
  return lines === 0
    ? `; it goes on with seq ${seq}`
    : `; ${lines === 1 ? '1 line is' : `${lines} lines are`} left out, it goes on with seq ${seq}`;
}

/** Lets those lines through that are asked for. */
class Sieve {
  readonly #bounds: Bounds;
  readonly #timed: boolean;
  /** The filter without its bounds, which another journal of the folder is not held to. */
  readonly #members: Filter;
  readonly #trace: Buffer | undefined;
  /** No line with this seq or a smaller one is let through. */
  passedSeq: number;
  #caught: Line[] = [];
  /** Where the trace is next, from the last line on: -1 for nowhere in these bytes. */
  #searched: Buffer | undefined;
  #hit = -1;

  constructor({ afterSeq = 0, untilSeq, since, until, ...members }: Filter) {
    this.#bounds = { untilSeq, since, until };
    this.#timed = since !== undefined || until !== undefined;
    this.#members = members;
    this.#trace = traceOf(members);
    this.passedSeq = afterSeq;
  }

  take(bytes: Buffer, start: number, end: number, seq: number): void {
    if (seq <= this.passedSeq) return;
    this.passedSeq = seq;
    if (this.#trace !== undefined && !this.#holds(bytes, start, end, this.#trace)) return;
    const { untilSeq, since = '', until } = this.#bounds;
    if (untilSeq !== undefined && seq > untilSeq) return;
    if (this.#timed) {
      const time = timeOf(bytes, start, seq);
      if (time < since || (until !== undefined && time >= until)) return;
    }
    const line = new Line(bytes, start, end, seq);
    // Only a line that is looked for by its members has to be parsed. Text in metadata may hold the trace too.
    if (this.#trace === undefined || isWanted(line.event, this.#members)) this.#caught.push(line);
  }

  /** @returns what was let through since the last time */
  caught(): readonly Line[] {
    const lines = this.#caught;
    this.#caught = [];
    return lines;
  }

  /** One search goes over all lines of a chunk: most of them need not be looked at one by one. */
  #holds(bytes: Buffer, start: number, end: number, trace: Buffer): boolean {
    if (bytes !== this.#searched || (this.#hit !== -1 && this.#hit < start)) {
      this.#searched = bytes;
      this.#hit = bytes.indexOf(trace, start);
    }
    return this.#hit !== -1 && this.#hit + trace.length <= end;
  }
}

/** How often a writer is asked that does not answer: one that starts or ends at this moment may be missed. */
const ASKED_MAX = 3;
/** Enough of a line to hold its time. */
const HEAD_BYTES = 256;

/** @throws the error, but for a file or folder that is not there */
function unlessAbsent<Value>(error: NodeJS.ErrnoException, value: Value): Value {
  if (error.code !== 'ENOENT') throw error;
  return value;
}
