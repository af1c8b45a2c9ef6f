/**
 * Copies a journal into another folder, which is a journal then. A service may write, begin files and remove old files meanwhile:
 * what is copied is what was durable when the backup began.
 *
 * Each run copies the files that are new or have grown. A file is copied under another name, verified line by line, cut to what is
 * durable, synced, and only then renamed. So a file with its name is whole, and after an interruption at any step the next run
 * copies what is missing.
 *
 * A copy is known to be of a file by its last line, whose crc depends on all lines before it.
 *
 * The newest file is empty after a rotation. It is copied only if there is no other file, since retention may remove it before the
 * next run: then it would be an empty file before others in the copy, which no crash explains. Such a file of an earlier run, or
 * of an earlier version, is removed.
 *
 * With the journal it copies the state of its assets, its id, the marks of the destinations that it is forwarded to, and their dead letters, but not the
 * cursors. A copy that replaces its journal therefore knows that it was forwarded, and not how far: a hub is asked,
 * and a plain destination stops. With a cursor of yesterday it would send again what was sent today, and without the marks
 * everything.
 */

import { isDeepStrictEqual } from 'node:util';
import type { Limits } from '../../config/limits.ts';
import type { Disk, ReadableDisk } from '../disk.ts';
import { counted, readBytes, writeFile } from '../file-io.ts';
import { readLastStop } from '../open/clean-stop.ts';
import {
  DamagedError,
  type Finding,
  findingsIn,
  findingsInLast,
  findJoinFlaws,
  findMissingFiles,
} from '../open/recovery.ts';
import { lastLine, type Scan, scanSegment } from '../open/scan.ts';
import { askDurable, type Progress } from '../progress.ts';
import { type Contents, contentsOf, goneBetween, goneName, type SegmentName, STATE_FILE } from '../segments.ts';
import type { OnProgress } from './verify.ts';

/** In bytes the longest line and an interrupted write, and how often a journal that changes during the backup is listed. */
export type BackupLimits = Pick<Limits, 'lineBytesMax' | 'tornBytesMax' | 'verifyListingsMax'>;

export interface BackupOptions {
  /** The journal that is backed up; only read. */
  readonly source: Disk;
  /** An existing folder, which no other process writes to. */
  readonly target: Disk;
  /** Of the process that writes the source. */
  readonly progress: Progress;
  readonly limits: BackupLimits;
  readonly onProgress?: OnProgress;
}

export interface Backup {
  /** What this run added to the backup. */
  readonly events: number;
  readonly bytes: number;
  /** The first and the last seq that the backup holds; undefined if it holds no event. */
  readonly seqs: { readonly first: number; readonly last: number } | undefined;
  /** Sentences about events that it does not hold. */
  readonly remarks: readonly string[];
  /** False if the writer does not answer, so that its newest file was left out. */
  readonly isComplete: boolean;
}

/** The target cannot be continued with this source. Nothing in it was changed by the file that the message names. */
export class OtherJournalError extends Error {}

/**
 * Brings a backup up to date. A second run at once adds nothing.
 * @throws OtherJournalError, DamagedError for damage in the source, after what is before it was copied, or the error of a
 *   system call; after each the backup is a valid journal, and another run continues it
 */
export function backUp(options: BackupOptions): Promise<Backup> {
  return new BackupRun(options).run();
}

/** How far a file may be copied. */
type Extent =
  /** All of it: the next file was begun after it was durable. */
  | { readonly kind: 'closed' }
  /** The lines before this seq are durable. */
  | { readonly kind: 'before'; readonly seq: number }
  /** No process writes to it, and it had so many bytes when that was known. */
  | { readonly kind: 'size'; readonly bytes: number }
  /** The process that writes to it does not answer. */
  | { readonly kind: 'unanswered' };

/** The end of a file of the backup, and the seq after it. */
interface CopyEnd {
  readonly bytes: number;
  readonly nextSeq: number;
}

class BackupRun {
  readonly #source: Disk;
  readonly #target: Disk;
  readonly #options: BackupOptions;
  #contents: Contents = contentsOf([]);
  /** The files of the backup when it was checked, by name. */
  #held: ReadonlyMap<string, CopyEnd> = new Map();
  /** Names of files in the backup that are empty, and that the source no longer has. */
  #empty: readonly string[] = [];
  /** The seq after the last line of the backup, as far as this run has come. */
  #nextSeq = 1;
  #events = 0;
  #bytes = 0;
  readonly #remarks = new Set<string>();

  constructor(options: BackupOptions) {
    this.#options = options;
    this.#source = options.source;
    this.#target = options.target;
  }

  async run(): Promise<Backup> {
    await this.#target.syncFolder(); // a run before this one might have ended before its renames were durable
    const isComplete = await this.#copyFiles();
    await this.#removeEmpty();
    const first = contentsOf(await this.#target.list()).segments[0]?.firstSeq ?? this.#nextSeq;
    const seqs = first < this.#nextSeq ? { first, last: this.#nextSeq - 1 } : undefined;
    return { events: this.#events, bytes: this.#bytes, seqs, remarks: [...this.#remarks], isComplete };
  }

  /** Copies all files; again if one vanished, or if the journal has other files than before, which explains a gap. @returns as `#segment` */
  async #copyFiles(): Promise<boolean> {
    for (let listings = 1; ; listings += 1) {
      const before = contentsOf(await this.#source.list());
      try {
        return await this.#copyListed();
      } catch (error) {
        if (error instanceof OtherJournalError) await this.#removePartial();
        const isVanished = (error as NodeJS.ErrnoException).code === 'ENOENT';
        if (!(isVanished || error instanceof DamagedError) || listings === this.#options.limits.verifyListingsMax)
          throw error;
        if (!isVanished && isDeepStrictEqual(before, contentsOf(await this.#source.list()))) throw error;
      }
    }
  }

  /** @returns as `#segment` */
  async #copyListed(): Promise<boolean> {
    await this.#removePartial();
    const names = await this.#source.list(true);
    const counting = names.filter((name) => name === WATERMARKS || name === STATE_FILE);
    for (const name of counting) await this.#copyBeside(name);
    const last = await this.#look(names);
    await this.#check(last);
    // Before the first event: events without these files would be forwarded from the beginning.
    for (const name of names.filter((name) => FORWARDED.test(name)).sort()) {
      await this.#copyBeside(name);
      await this.#complete(name);
    }
    const { segments } = this.#contents;
    const sizes = await Promise.all(segments.map(({ name }) => this.#source.size(name)));
    const total = sizes.reduce((sum, size) => sum + size, 0);
    let doneBytes = 0;
    let isComplete = true;
    for (const [index, segment] of segments.entries()) {
      const extent: Extent = index === segments.length - 1 ? last : { kind: 'closed' };
      isComplete = await this.#segment(segment, extent, (bytes) =>
        this.#options.onProgress?.(doneBytes + bytes, total),
      );
      doneBytes += sizes[index] ?? 0;
    }
    // Only after all events that they count: otherwise a hub would say that it has events which it lacks.
    if (isComplete) for (const name of counting) await this.#complete(name);
    return isComplete;
  }

  async #removePartial(): Promise<void> {
    const names = await this.#target.list(true);
    for (const name of names.filter((name) => name.endsWith(PARTIAL))) await this.#target.remove(name);
  }

  /** Copies a file beside the journal under another name, durably. */
  #copyBeside(name: string): Promise<void> {
    return writeFile(this.#target, `${name}${PARTIAL}`, this.#source.read(name));
  }

  async #complete(name: string): Promise<void> {
    await this.#target.rename(`${name}${PARTIAL}`, name);
    await this.#target.syncFolder();
  }

  /** @param names in the folder of the source @returns how far its last file may be copied */
  async #look(names: readonly string[]): Promise<Extent> {
    this.#contents = contentsOf(names);
    const last = this.#contents.segments.at(-1);
    // Before the question: without a writer these bytes are from a process that has ended.
    const bytes = last === undefined ? 0 : await this.#source.size(last.name);
    const said = await askDurable(this.#options.progress);
    if (said.kind === 'unsaid') return { kind: 'size', bytes };
    // After the answer: every durable line is in a file of this listing.
    if (said.kind === 'before') this.#contents = contentsOf(await this.#source.list());
    return said;
  }

  /**
   * Finds where each file of the backup ends, and where the backup ends before the first file of the source.
   * @param last as in `#copyListed`
   * @throws OtherJournalError if the backup does not begin what the source has, with nothing changed
   */
  async #check(last: Extent): Promise<void> {
    const { segments } = this.#contents;
    const [missing] = findMissingFiles(this.#contents, (await this.#lastStop())?.end);
    if (missing !== undefined) throw new DamagedError(this.#source.folder, missing);
    const ours = new Set(segments.map(({ name }) => name));
    const firstSeq = segments[0]?.firstSeq ?? 1;
    const held = new Map<string, CopyEnd>();
    const empty: string[] = [];
    this.#nextSeq = 1;
    for (const segment of contentsOf(await this.#target.list()).segments) {
      const { name } = segment;
      const extent: Extent = name === segments.at(-1)?.name ? last : { kind: 'closed' };
      const end = await this.#checkCopy(segment, ours.has(name), extent);
      held.set(name, end);
      if (ours.has(name)) continue;
      // Retention removed it at the source; the backup keeps it.
      if (end.nextSeq <= firstSeq) this.#nextSeq = end.nextSeq;
      if (end.bytes === 0) empty.push(name);
      else if (end.nextSeq > firstSeq) {
        throw this.#otherJournal(
          `${name} in it holds the events to ${end.nextSeq - 1}, and ${this.#source.folder} has those from ${firstSeq} on in other files`,
        );
      }
    }
    this.#held = held;
    this.#empty = empty;
  }

  /** @param isOurs whether the source has a file of that name, which must begin with all of the copy */
  async #checkCopy(segment: SegmentName, isOurs: boolean, extent: Extent): Promise<CopyEnd> {
    const { name, firstSeq } = segment;
    const bytes = await this.#target.size(name);
    if (bytes === 0) return { bytes, nextSeq: firstSeq };
    const found = await lastLine(this.#target, name, bytes, this.#options.limits);
    if (found === undefined) throw this.#otherJournal(`${name} in it does not end with a line`);
    if (isOurs && !(await isPrefix(found.line, bytes, this.#source, name))) {
      const scan = await scanSegment(this.#source.read(name), firstSeq, this.#options.limits);
      const damage = await this.#damage(segment, extent, scan);
      if (damage !== undefined) throw new DamagedError(this.#source.folder, damage);
      throw this.#otherJournal(`${name} differs from that in ${this.#source.folder}`);
    }
    return { bytes, nextSeq: found.seq + 1 };
  }

  /** @returns false if the file was left out because its writer does not answer */
  async #segment(segment: SegmentName, extent: Extent, onRead: (bytes: number) => void): Promise<boolean> {
    const { name, firstSeq } = segment;
    if (extent.kind === 'unanswered') return false;
    if (extent.kind === 'before' && firstSeq > extent.seq) return true; // begun after the backup
    const held = this.#held.get(name);
    const markers = this.#join(segment);
    if (held !== undefined && (await this.#isWhole(segment, held, extent))) {
      this.#nextSeq = held.nextSeq;
      return true;
    }
    const partial = `${name}${PARTIAL}`;
    await this.#target.copyFrom(this.#source, name, partial);
    if (extent.kind === 'size') {
      const said = await askDurable(this.#options.progress);
      if (said.kind !== 'unsaid') {
        // A service has started since, so the bytes may be lines that are not durable yet.
        await this.#target.remove(partial);
        return this.#segment(segment, said, onRead);
      }
    }
    const { bytes, nextSeq, damage } = await this.#verify(partial, segment, extent, onRead);
    const { bytes: heldBytes, nextSeq: heldSeq } = held ?? { bytes: 0, nextSeq: firstSeq };
    const isNeedless = bytes === 0 && (damage !== undefined || (await this.#isNeedless(segment)));
    if (bytes < heldBytes || isNeedless) await this.#target.remove(partial);
    else {
      const copy = await this.#target.openLog(partial);
      await copy.truncate(bytes).finally(() => copy.close());
      for (const marker of markers) await this.#mark(marker);
      await this.#removeEmpty(name);
      await this.#complete(name);
      this.#events += nextSeq - heldSeq;
      this.#bytes += bytes - heldBytes;
      this.#nextSeq = nextSeq;
    }
    if (damage !== undefined) throw new DamagedError(this.#source.folder, damage);
    return true;
  }

  /**
   * Checks that the file continues the one before it.
   * @returns names of the markers for the events that are gone between them
   */
  #join(segment: SegmentName): string[] {
    const due = this.#nextSeq;
    const { lost, removed } = this.#contents;
    const [finding] = findJoinFlaws(segment, due, this.#contents);
    if (finding !== undefined) throw new DamagedError(this.#source.folder, finding);
    if (due === segment.firstSeq) return [];
    const last = segment.firstSeq - 1;
    const markers = lost
      .filter((range) => range.first <= last && range.last >= due)
      .map((range) => goneName(range, 'lost'));
    for (const range of goneBetween(due, last, removed)) {
      markers.push(goneName(range, 'removed'));
      if (this.#held.size === 0) continue;
      this.#remarks.add(
        `retention removed the events ${range.first} to ${range.last} before they were copied; back up more often to keep them`,
      );
    }
    return markers;
  }

  /** @returns where the lines of a copy end that may be kept, the seq after them, and what is wrong with the source there */
  async #verify(
    partial: string,
    segment: SegmentName,
    extent: Extent,
    onRead: (bytes: number) => void,
  ): Promise<{ readonly bytes: number; readonly nextSeq: number; readonly damage: Finding | undefined }> {
    const endBytes = extent.kind === 'size' ? extent.bytes : Number.POSITIVE_INFINITY;
    const endSeq = extent.kind === 'before' ? extent.seq : Number.POSITIVE_INFINITY;
    let durableBytes: number | undefined;
    const scan = await scanSegment(
      counted(this.#target.read(partial, 0, endBytes), onRead),
      segment.firstSeq,
      this.#options.limits,
      (_bytes, _start, _end, seq, offset) => {
        if (seq === endSeq) durableBytes = offset;
      },
    );
    const damage = await this.#damage(segment, extent, scan);
    return { bytes: durableBytes ?? scan.bytes, nextSeq: Math.min(scan.chain.seq, endSeq), damage };
  }

  /** Whether the backup holds the events up to the first one of an empty file of the source, and lacks the file. */
  async #isNeedless({ name, firstSeq }: SegmentName): Promise<boolean> {
    const { segments } = contentsOf(await this.#target.list());
    return this.#nextSeq === firstSeq && segments.length > 0 && !segments.some((held) => held.name === name);
  }

  /**
   * Removes the empty files that the source no longer has. The only file of the backup is renamed instead: markers without a
   * journal file are damage.
   * @param next the file that is about to be completed
   */
  async #removeEmpty(next?: string): Promise<void> {
    for (const name of this.#empty) {
      const isOnly = contentsOf(await this.#target.list()).segments.length === 1;
      if (isOnly && next === undefined) return;
      await (isOnly ? this.#target.rename(name, next as string) : this.#target.remove(name));
      await this.#target.syncFolder();
      this.#empty = this.#empty.filter((other) => other !== name);
    }
  }

  async #mark(marker: string): Promise<void> {
    const isThere = (await this.#target.list()).includes(marker);
    if (!isThere) return (await this.#target.create(marker)).close();
    await this.#target.syncFolder(); // an interrupted run may have made it without a sync
  }

  /** @returns what is wrong in the source after the good lines, if no crash and no running write explains it */
  async #damage(segment: SegmentName, extent: Extent, scan: Scan): Promise<Finding | undefined> {
    const { limits } = this.#options;
    const { lines, bytes, chain } = scan;
    const at = { file: segment.name, line: lines + 1, byte: bytes };
    if (extent.kind === 'size') {
      const lastStop = await this.#lastStop();
      const findings = findingsInLast(segment, scan, lastStop, this.#contents, limits);
      for (const { decision, problem } of findings) {
        if (decision === 'truncate') {
          this.#remarks.add(
            `${segment.name}, line ${at.line}, byte ${at.byte}: ${problem}; this end was left out, a start truncates it`,
          );
        }
      }
      return findings.find(({ decision }) => decision === 'refuse');
    }
    if (extent.kind === 'before' && chain.seq >= extent.seq) return undefined;
    const [finding] = findingsIn(segment, scan, 'earlier', limits);
    if (finding !== undefined || extent.kind !== 'before') return finding;
    const problem = `the events ${chain.seq} to ${extent.seq - 1} are missing`;
    return { kind: 'missing file', decision: 'refuse', ...at, problem };
  }

  async #isWhole({ name }: SegmentName, { bytes, nextSeq }: CopyEnd, extent: Extent): Promise<boolean> {
    if (extent.kind === 'before') return nextSeq >= extent.seq;
    return bytes === (extent.kind === 'size' ? extent.bytes : await this.#source.size(name));
  }

  #otherJournal(how: string): OtherJournalError {
    return new OtherJournalError(
      `${this.#target.folder} holds a backup of another journal, or the journal was repaired or replaced since: ${how}; ` +
        'keep it, and give an empty folder with --to',
    );
  }

  async #lastStop() {
    return readLastStop(this.#source, await this.#source.list());
  }
}

/** End of the name of a file while it is copied. A start, `verify` and `events` ignore it. */
const PARTIAL = '.partial';
/**
 * That it is forwarded, to which destinations, and its id: in the order of their names the id is after the destinations. A dead
 * letter that is being written can be torn in its copy: readers pass it.
 */
const FORWARDED = /^(\.forwarded-.*|\.journal-(?:id|begin)|dead-.*\.jsonl)$/;
/** How far a hub has the journals that are forwarded to it, as of one of its own seqs. */
const WATERMARKS = 'forward-sources.json';
const NEWLINE = Buffer.from('\n');

/** Whether a file begins with all of its copy, by the last line of that: its crc depends on all lines before it. */
async function isPrefix(line: Buffer, bytes: number, source: ReadableDisk, name: string): Promise<boolean> {
  const end = Buffer.concat([line, NEWLINE]);
  return (await readBytes(source, name, bytes - end.length, bytes)).equals(end);
}
