/**
 * Reads a journal file by file, checks each line and yields the lines that match a filter. It takes no lock: a service may write,
 * begin files, rewrite its last file at a start and remove old files meanwhile. Damage is reported, and reading continues at
 * the next line whose crc continues the chain.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Bounds } from '../../event/search.ts';
import { type ReadableDisk, unlessAbsent } from '../disk.ts';
import { readBytes } from '../file-io.ts';
import { readTime, TIME_HEAD_BYTES } from '../line/members.ts';
import { readLastStop } from '../open/clean-stop.ts';
import { findJoinFlaws, findMissingFiles } from '../open/recovery.ts';
import { lastLine } from '../open/scan.ts';
import { afterGone, type Contents, contentsOf, type Gone, type SegmentName } from '../segments.ts';
import { FileReader, LineFilter } from './file-reader.ts';
import { NewestLines } from './newest-lines.ts';
import type { Line, Reading, Remark } from './reading.ts';

/**
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
 * Reads a journal from its end, each part once.
 * @param bytesMax of their bytes that are kept
 * @returns the newest `count` lines that match, in order, or all if they are fewer; dropped if they have more bytes
 * @throws as `readJournal`
 */
export async function readNewest(
  disk: ReadableDisk,
  reading: Reading,
  onRemark: (remark: Remark) => void,
  count: number,
  bytesMax: number,
): Promise<readonly Line[]> {
  const found = new NewestLines(count, bytesMax);
  await new JournalReader(disk, reading, onRemark).readNewest(found);
  return found.lines;
}

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

  /** Reads the segments from the newest to the oldest. */
  async readNewest(found: NewestLines): Promise<void> {
    const contents = await this.#contents();
    const { passedSeq } = this.#lineFilter;
    let next: SegmentName | undefined;
    for (const segment of contents.segments.toReversed()) {
      if (found.isFull || (next !== undefined && next.firstSeq <= passedSeq + 1)) return;
      try {
        if (next === undefined || !(await this.#isOutOfTime(segment))) {
          const lineFilter = new LineFilter(this.#reading.filter ?? {});
          const file = new FileReader(this.#disk, segment, lineFilter, this.#reading, this.#onRemark);
          await file.readNewest(next !== undefined, found);
          this.#due = file.end(next !== undefined);
        }
      } catch (error) {
        return unlessAbsent(undefined)(error as NodeJS.ErrnoException); // retention removed it, and what is before it
      }
      this.#begun = true;
      if (next !== undefined) this.#join(next, contents);
      next = segment;
    }
    if (next === undefined) await this.#remarkMissing(contents);
  }

  /** Reports that all segments are missing, if markers show it. Not with `follow`: the journal may be created later. */
  async #remarkMissing(contents: Contents): Promise<void> {
    if (this.#reading.follow !== undefined) return;
    const lastStop = await readLastStop(this.#disk, await this.#disk.list());
    for (const { file, problem } of findMissingFiles(contents, lastStop?.end)) {
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
    // Who follows the journal may wait long for the next line.
    if (this.#join(segment, contents)) yield [];
    try {
      if (next !== undefined && (await this.#isOutOfTime(segment))) return 'on';
      return yield* this.#file(segment, next !== undefined);
    } catch (error) {
      unlessAbsent(undefined)(error as NodeJS.ErrnoException);
      return this.#vanished(segment);
    }
  }

  /** Checks that the file begins with the expected seq, and reports a gap. @returns whether there is one */
  #join(segment: SegmentName, contents: Contents): boolean {
    if (!this.#begun) this.#due = Math.min(this.#lineFilter.passedSeq + 1, segment.firstSeq);
    this.#begun = true;
    if (this.#due === undefined) return false;
    const afterRemoved = afterGone(this.#due, contents.removed);
    const findings = findJoinFlaws(segment, this.#due, contents);
    const last = segment.firstSeq - 1;
    const why: Gone = this.#due < afterRemoved ? 'removed' : 'lost';
    const missing = this.#due <= last ? { gone: { first: this.#due, last, why } } : {};
    for (const { file, problem } of findings)
      this.#onRemark({ kind: 'damage', text: `${file}: ${problem}`, ...missing });
    if (findings.length > 0 || segment.firstSeq === this.#due) return this.#due <= last;
    const reason = last < afterRemoved ? 'retention removed them' : 'an earlier repair could not find all of them';
    const text = `the events ${this.#due} to ${last} are not there any more: ${reason}`;
    this.#onRemark({ kind: 'note', text, ...missing });
    return true;
  }

  /** Skips a file whose first and last line are both before the filter's times, or both after them. @returns whether it did */
  async #isOutOfTime(segment: SegmentName): Promise<boolean> {
    const { since = '', until } = this.#bounds;
    if (since === '' && until === undefined) return false;
    const last = await lastLine(this.#disk, segment.name, await this.#disk.size(segment.name), this.#reading.limits);
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
    return readTime(await readBytes(this.#disk, name, 0, TIME_HEAD_BYTES));
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
