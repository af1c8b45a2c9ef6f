/**
 * Reads a journal file by file, checks each line, and yields the lines that match a filter. It needs no lock: at the same time a
 * service can write, create files, rewrite its last file at a start, and remove old files. Damage is reported, and reading
 * continues at the next line whose crc continues the chain.
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
 * @param bytesMax the most bytes of these lines that are kept
 * @returns the newest `count` lines that match, in order, or all if there are fewer; dropped if they have more bytes
 * @throws the errors of `readJournal`
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
  #contents: Contents = contentsOf([]);
  /** The files of `#contents` that come next, and the file that is being read. */
  #listed: SegmentName[] = [];
  #file: FileReader | undefined;
  /** The first seq of the last file that was opened or skipped; 0 before the first file. */
  #begunSeq = 0;
  /** Whether the end of `#file` was read again when no later file existed. */
  #isReadTwice = false;
  /** Whether a file was examined. Before that the expected seq is unknown. */
  #begun = false;
  /** The expected seq of the next line; undefined if unknown. */
  #due: number | undefined;

  constructor(disk: ReadableDisk, reading: Reading, onRemark: (remark: Remark) => void) {
    this.#disk = disk;
    this.#reading = reading;
    this.#onRemark = onRemark;
    this.#bounds = reading.filter ?? {};
    this.#lineFilter = new LineFilter(reading.filter ?? {}, reading.isSearch);
  }

  async *lines(): AsyncGenerator<readonly Line[]> {
    for (;;) {
      // Evaluated before the read, so that all lines recorded before the abort are yielded.
      const isLastLook = !this.#following;
      try {
        const isClosed = this.#listed.length > 0; // the next file is created only after all of this one is durable
        if (this.#file !== undefined) yield* this.#file.read(isClosed);
        const next = isClosed ? this.#endFile() : await this.#look(isLastLook);
        if (next === 'end') return;
        if (next === 'wait') await this.#more();
        // A follower might wait long for the next line after a gap.
        if (next === 'begin' && (await this.#begin())) yield [];
      } catch (error) {
        if (this.#file === undefined) throw error;
        unlessAbsent(undefined)(error as NodeJS.ErrnoException);
        await this.#leave(this.#file.segment);
      }
    }
  }

  /** Ends the file that is being read, since another one follows. @returns what to do next */
  #endFile(): 'begin' | 'end' {
    if (this.#file !== undefined) this.#due = this.#file.end(true);
    this.#file = undefined;
    return this.#listed[0]!.firstSeq > (this.#bounds.untilSeq ?? Number.POSITIVE_INFINITY) ? 'end' : 'begin';
  }

  /** Looks for files after the one that is being read. @returns what to do next */
  async #look(isLastLook: boolean): Promise<'read' | 'wait' | 'end'> {
    // The next file has no line that was durable when the writer was asked, so an event alone does not require a new
    // listing.
    if (!isLastLook && this.#file?.hasAllDurable === true) return 'wait';
    await this.#list();
    if (this.#listed.length > 0) return 'read'; // reads the lines that were appended before the next file was created
    if (!isLastLook) return 'wait';
    return (await this.#isRead()) ? 'end' : 'read';
  }

  /** Reads the segments from the newest to the oldest. */
  async readNewest(found: NewestLines): Promise<void> {
    await this.#list();
    const { passedSeq } = this.#lineFilter;
    let next: SegmentName | undefined;
    for (const segment of this.#listed.toReversed()) {
      if (found.isFull || (next !== undefined && next.firstSeq <= passedSeq + 1)) return;
      try {
        if (next === undefined || !(await this.#isOutOfTime(segment))) {
          const lineFilter = new LineFilter(this.#reading.filter ?? {}, this.#reading.isSearch);
          const file = new FileReader(this.#disk, segment, lineFilter, this.#reading, this.#onRemark);
          await file.readNewest(next !== undefined, found);
          this.#due = file.end(next !== undefined);
        }
      } catch (error) {
        return unlessAbsent(undefined)(error as NodeJS.ErrnoException); // retention removed it and the files before it
      }
      this.#begun = true;
      if (next !== undefined) this.#join(next);
      next = segment;
    }
    if (next === undefined) await this.#remarkMissing();
  }

  /** Reports that all segments are missing, if markers show it. Not with `follow`: the journal may be created later. */
  async #remarkMissing(): Promise<void> {
    if (this.#reading.follow !== undefined) return;
    const lastStop = await readLastStop(this.#disk, await this.#disk.list());
    for (const { file, problem } of findMissingFiles(this.#contents, lastStop?.end)) {
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

  /** Lists the folder and selects the files that come next. */
  async #list(): Promise<void> {
    const absent = (error: Error) => {
      if (this.#reading.follow === undefined) throw error;
      return unlessAbsent<string[]>([])(error);
    };
    this.#contents = contentsOf(await this.#disk.list().catch(absent));
    this.#listed = this.#contents.segments.filter(({ firstSeq }) => firstSeq > this.#begunSeq);
  }

  /** Ends the reading, or waits at the end of the last file. @returns whether everything was read */
  async #isRead(): Promise<boolean> {
    const { follow, limits } = this.#reading;
    if (follow === undefined && this.#file?.isIncomplete === true && !this.#isReadTwice) {
      this.#isReadTwice = true;
      await sleep(limits.followMs); // a service might be in the middle of a write
      return false;
    }
    if (this.#file !== undefined) this.#file.end(false);
    else if (!this.#begun) await this.#remarkMissing();
    return true;
  }

  /** Opens the next file, unless the filter skips it. @returns whether events before it are missing */
  async #begin(): Promise<boolean> {
    const segment = this.#listed.shift()!;
    this.#begunSeq = segment.firstSeq;
    const [next] = this.#listed;
    if (!this.#begun && next !== undefined && next.firstSeq <= this.#lineFilter.passedSeq + 1) return false;
    const isGap = this.#join(segment);
    this.#isReadTwice = false;
    this.#file = new FileReader(this.#disk, segment, this.#lineFilter, this.#reading, this.#onRemark);
    // No more lines are appended to a file that has a successor.
    if (next !== undefined && (await this.#isOutOfTime(segment))) this.#file = undefined;
    else if (this.#reading.seek === true) await this.#file.seek();
    return isGap;
  }

  /** Checks that the file starts with the expected seq, and reports a gap. @returns whether there is a gap */
  #join(segment: SegmentName): boolean {
    if (!this.#begun) this.#due = Math.min(this.#lineFilter.passedSeq + 1, segment.firstSeq);
    this.#begun = true;
    if (this.#due === undefined) return false;
    const afterRemoved = afterGone(this.#due, this.#contents.removed);
    const findings = findJoinFlaws(segment, this.#due, this.#contents);
    const last = segment.firstSeq - 1;
    const why: Gone = this.#due < afterRemoved ? 'removed' : 'lost';
    const missing = this.#due <= last ? { gone: { first: this.#due, last, why } } : {};
    for (const { file, problem } of findings)
      this.#onRemark({ kind: 'damage', text: `${file}: ${problem}`, ...missing });
    if (findings.length > 0 || segment.firstSeq === this.#due) return this.#due <= last;
    const reason = last < afterRemoved ? 'retention removed them' : 'an earlier repair could not find all of them';
    const text = `the events ${this.#due} to ${last} are no longer there: ${reason}`;
    this.#onRemark({ kind: 'note', text, ...missing });
    return true;
  }

  /**
   * Skips a file if the times of its first and its last line are both before, or both after, the times of the filter. @returns
   * whether it was skipped
   */
  async #isOutOfTime(segment: SegmentName): Promise<boolean> {
    const { since = '', until } = this.#bounds;
    if (since === '' && until === undefined) return false;
    const last = await lastLine(this.#disk, segment.name, await this.#disk.size(segment.name), this.#reading.limits);
    const times = [await this.#firstTime(segment), last && readTime(last.line)];
    const outside =
      times.every((time) => time !== undefined && time < since) ||
      times.every((time) => time !== undefined && until !== undefined && time >= until);
    if (!outside || last === undefined) return false;
    this.#due = last.seq + 1;
    this.#lineFilter.passedSeq = Math.max(this.#lineFilter.passedSeq, last.seq);
    return true;
  }

  async #firstTime({ name }: SegmentName): Promise<string | undefined> {
    return readTime(await readBytes(this.#disk, name, 0, TIME_HEAD_BYTES));
  }

  /**
   * Leaves a file that has vanished. Later the folder might have files after it, the same file again, or another journal.
   */
  async #leave({ name, firstSeq }: SegmentName): Promise<void> {
    this.#file = undefined;
    this.#begun = false;
    await this.#list();
    if (!this.#following || this.#listed.length > 0) return;
    const isThere = this.#contents.segments.some((other) => other.firstSeq === firstSeq);
    this.#begunSeq = isThere ? firstSeq - 1 : 0;
    // Retention never removes the last file, so the folder will get another journal.
    if (!isThere && this.#lineFilter.passedSeq > 0) {
      this.#onRemark({ kind: 'note', text: `${name} is gone; the next file is read from its start` });
      this.#lineFilter.passedSeq = 0;
    }
    await this.#more();
  }
}
