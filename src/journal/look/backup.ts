/**
 * Copies a journal into another folder, which then is a journal too. A service can write, create files and remove old files at the
 * same time: the copy has the events that were durable when the backup started.
 *
 * Each run copies the files that are new or have grown. A file is copied under another name, verified line by line, truncated to
 * its durable lines, synced, and only then renamed. So a file under its own name is complete, and after an interruption at any step
 * the next run copies the missing files.
 *
 * The last line of a copy shows which file was copied, since its crc depends on all lines before it. An erase rewrites files,
 * and records which. For these files it is enough that the last line has the same event. They are copied again completely, so that
 * the erased texts are removed from the backup too.
 *
 * The newest file is empty after a rotation. It is copied only if the backup lacks the event before it, since retention might
 * remove it before the next run. It would then be an empty file before other files in the copy, which no crash explains. Such a
 * file from an earlier run or an earlier version is removed.
 *
 * The backup also includes the state of the assets, the journal's id, the marks of the destinations to which it is forwarded, and
 * their dead letters, but not the cursors. A copy that replaces its journal therefore knows that it was forwarded, but not how far:
 * a hub is asked, and a plain destination stops. With yesterday's cursor it would send today's events again, and without the marks
 * all events.
 */

import { isDeepStrictEqual } from 'node:util';
import type { Limits } from '../../config/limits.ts';
import type { Disk, ReadableDisk } from '../disk.ts';
import { readAnew } from '../erase/order.ts';
import { counted, readBytes, writeFile } from '../file-io.ts';
import { markOf } from '../line/members.ts';
import { type LastStop, readLastStop } from '../open/clean-stop.ts';
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
import { seekLine } from './seek.ts';
import type { OnProgress } from './verify.ts';

export interface BackupOptions {
  /** The journal to back up. It is only read. */
  readonly source: Disk;
  /** An existing folder, which no other process writes to. */
  readonly target: Disk;
  /** The progress of the process that writes the source. */
  readonly progress: Progress;
  readonly limits: Limits;
  readonly onProgress?: OnProgress;
}

export interface Backup {
  /** Number of events that this run added to the backup. */
  readonly events: number;
  readonly bytes: number;
  /** The first and the last seq that the backup holds; undefined if it holds no event. */
  readonly seqs: { readonly first: number; readonly last: number } | undefined;
  /** Sentences about events that are missing from the backup. */
  readonly remarks: readonly string[];
  /** False if the writer does not answer, so that its newest file was left out. */
  readonly isComplete: boolean;
}

/**
 * The backup in the target cannot be continued from this source. The file that the message names changed nothing in it.
 */
export class OtherJournalError extends Error {}

/**
 * Brings a backup up to date. A second run at once adds no event.
 * @throws OtherJournalError, DamagedError for damage in the source, after everything before the damage was copied, or the
 * error of a
 *   system call. In each case the backup is a valid journal, and another run continues it
 */
export function backUp(options: BackupOptions): Promise<Backup> {
  return new BackupRun(options).run();
}

/**
 * A service started while the files of a stopped service were copied: the recovery can remove lines that were not
 * synced.
 */
class StartedError extends Error {}

/** The end of a file of the backup, which is 0 if the file is to be copied again completely, and the seq after it. */
interface CopyEnd {
  readonly bytes: number;
  readonly nextSeq: number;
}

class BackupRun {
  readonly #source: Disk;
  readonly #target: Disk;
  readonly #options: BackupOptions;
  /** The content of the source after its writer reported how far it is durable. */
  #contents: Contents = contentsOf([]);
  #lastStop: LastStop;
  /** See `readAnew`. */
  #anew: ReadonlySet<number> = new Set();
  /** The lines before this seq are durable; infinite if no process writes. */
  #endSeq = Number.POSITIVE_INFINITY;
  /** The file with the line before `#endSeq`; undefined if the writer does not answer. */
  #last: SegmentName | undefined;
  /** The files that the backup had when it was checked, by name. */
  #held: ReadonlyMap<string, CopyEnd> = new Map();
  /** The only file of the backup, if it is empty and the source no longer has it. */
  #onlyEmpty: string | undefined;
  /** The seq after the last line that is in the backup so far. */
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
    await this.#target.syncFolder(); // an earlier run might have ended before its renames were durable
    for (let listings = 1; ; listings += 1) {
      try {
        return await this.#copyAll();
      } catch (error) {
        if (error instanceof OtherJournalError) await this.#removePartial();
        if (listings === this.#options.limits.verifyListingsMax || !(await this.#isOvertaken(error))) throw error;
      }
    }
  }

  /** Whether a change of the journal explains an error: a file vanished, a service started, or files were rewritten. */
  async #isOvertaken(error: unknown): Promise<boolean> {
    if (error instanceof StartedError || (error as NodeJS.ErrnoException).code === 'ENOENT') return true;
    return error instanceof DamagedError && !isDeepStrictEqual(this.#contents, contentsOf(await this.#source.list()));
  }

  async #copyAll(): Promise<Backup> {
    await this.#removePartial();
    // Listed before the question, since these files must not be ahead of the copied events.
    const counting = (await this.#source.list(true)).filter((name) => COUNTING.has(name));
    for (const name of counting) await this.#copyBeside(name);
    const said = await askDurable(this.#options.progress);
    // Listed after the answer, so that every durable line is in a file of this listing.
    const names = await this.#source.list();
    this.#contents = contentsOf(names);
    this.#lastStop = await readLastStop(this.#source, names);
    this.#anew = await readAnew(this.#source);
    this.#endSeq = said.kind === 'before' ? said.seq : Number.POSITIVE_INFINITY;
    const due = this.#contents.segments.filter(({ firstSeq }) => firstSeq <= this.#endSeq);
    const isComplete = said.kind !== 'unanswered';
    this.#last = isComplete ? due.at(-1) : undefined;
    await this.#check();
    // Copied before the first event: events without these files would be forwarded from the beginning.
    for (const name of names.filter((name) => FORWARDED.test(name)).sort()) {
      await this.#copyBeside(name);
      await this.#complete(name);
    }
    await this.#copySegments(isComplete ? due : due.slice(0, -1));
    // Completed only after all events that they count: otherwise a hub would claim events that it does not have.
    if (isComplete) for (const name of counting) await this.#complete(name);
    const first = contentsOf(await this.#target.list()).segments[0]?.firstSeq ?? this.#nextSeq;
    const seqs = first < this.#nextSeq ? { first, last: this.#nextSeq - 1 } : undefined;
    return { events: this.#events, bytes: this.#bytes, seqs, remarks: [...this.#remarks], isComplete };
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

  /**
   * Finds where each file of the backup ends, and where the backup ends before the first file of the source. Then it removes empty
   * files that the source no longer has, since they would be damage before other files.
   * @throws OtherJournalError if the backup is not a prefix of the source; nothing is changed then
   */
  async #check(): Promise<void> {
    const { segments } = this.#contents;
    const [missing] = findMissingFiles(this.#contents, this.#lastStop?.end);
    if (missing !== undefined) throw new DamagedError(this.#source.folder, missing);
    const ours = new Set(segments.map(({ name }) => name));
    const firstSeq = segments[0]?.firstSeq ?? 1;
    const held = new Map<string, CopyEnd>();
    const empty: string[] = [];
    this.#nextSeq = 1;
    for (const segment of contentsOf(await this.#target.list()).segments) {
      const { name } = segment;
      const { bytes, nextSeq } = await this.#checkCopy(segment, ours.has(name));
      held.set(name, { bytes, nextSeq });
      if (ours.has(name)) continue;
      // Retention removed the file at the source; the backup keeps it.
      if (nextSeq <= firstSeq) this.#nextSeq = nextSeq;
      if (bytes === 0) empty.push(name);
      else if (nextSeq > firstSeq) {
        throw this.#otherJournal(
          `${name} in it holds the events to ${nextSeq - 1}, and ${this.#source.folder} has those from ${firstSeq} on in other files`,
        );
      }
    }
    this.#held = held;
    this.#onlyEmpty = held.size === 1 ? empty[0] : undefined;
    if (held.size > 1) for (const name of empty) await this.#target.remove(name);
  }

  /** @param isOurs whether the source has a file of that name; the copy must then be a prefix of it */
  async #checkCopy(segment: SegmentName, isOurs: boolean): Promise<CopyEnd> {
    const { name, firstSeq } = segment;
    const bytes = await this.#target.size(name);
    if (bytes === 0) return { bytes, nextSeq: firstSeq };
    const found = await lastLine(this.#target, name, bytes, this.#options.limits);
    if (found === undefined) throw this.#otherJournal(`${name} in it does not end with a line`);
    const isOld = isOurs && !(await isPrefix(found.line, bytes, this.#source, name));
    if (isOld && !(this.#anew.has(firstSeq) && (await this.#hasEvent(name, found)))) {
      const scan = await scanSegment(this.#source.read(name), firstSeq, this.#options.limits);
      const damage = this.#damage(segment, scan);
      if (damage !== undefined) throw new DamagedError(this.#source.folder, damage);
      throw this.#otherJournal(`${name} differs from that in ${this.#source.folder}`);
    }
    return { bytes: isOld ? 0 : bytes, nextSeq: found.seq + 1 };
  }

  /** Whether a file of the source has the event of a line, regardless of its other bytes. */
  async #hasEvent(name: string, { seq, line }: { readonly seq: number; readonly line: Buffer }): Promise<boolean> {
    const { limits } = this.#options;
    const found = await seekLine(this.#source, name, await this.#source.size(name), seq, limits);
    const own = found && (await lastLine(this.#source, name, found.bytes, limits));
    return own?.seq === seq && markOf(own.line, 0, own.line.length, seq).id === markOf(line, 0, line.length, seq).id;
  }

  async #copySegments(segments: readonly SegmentName[]): Promise<void> {
    const sizes = await Promise.all(segments.map(({ name }) => this.#source.size(name)));
    const total = sizes.reduce((sum, size) => sum + size, 0);
    let doneBytes = 0;
    for (const [index, segment] of segments.entries()) {
      const size = sizes[index] ?? 0;
      await this.#copySegment(segment, size, (bytes) => this.#options.onProgress?.(doneBytes + bytes, total));
      doneBytes += size;
    }
  }

  async #copySegment(segment: SegmentName, size: number, onRead: (bytes: number) => void): Promise<void> {
    const { name, firstSeq } = segment;
    const { progress, limits } = this.#options;
    const [isLast, hasWriter] = [segment === this.#last, Number.isFinite(this.#endSeq)];
    const markers = this.#gapBefore(segment);
    const held = this.#held.get(name);
    const { bytes: heldBytes, nextSeq: heldSeq } = held ?? { bytes: 0, nextSeq: firstSeq };
    this.#nextSeq = heldSeq;
    const isWhole = isLast && hasWriter && heldBytes > 0 ? heldSeq >= this.#endSeq : heldBytes === size;
    if (held !== undefined && isWhole) return;
    const partial = `${name}${PARTIAL}`;
    await this.#target.copyFrom(this.#source, name, partial);
    if (isLast && !hasWriter && (await askDurable(progress)).kind !== 'unsaid')
      throw new StartedError('a service started while its journal was copied');
    let durableBytes: number | undefined;
    const chunks = counted(this.#target.read(partial), onRead);
    const scan = await scanSegment(chunks, firstSeq, limits, (_bytes, _start, _end, seq, offset) => {
      if (seq === this.#endSeq) durableBytes = offset;
    });
    const damage = this.#damage(segment, scan);
    const bytes = durableBytes ?? scan.bytes;
    // An empty file is the last one. It shows the next seq if the backup lacks the event before it.
    const isFirst = this.#held.size === 0 && this.#events === 0;
    if (bytes > heldBytes || (damage === undefined && (isFirst || markers.length > 0))) {
      const copy = await this.#target.openLog(partial);
      await copy.truncate(bytes).finally(() => copy.close());
      for (const marker of markers) await this.#mark(marker);
      // Renamed, since a folder that has markers but no journal file is damaged, and so is an empty file before other
      // files.
      if (this.#onlyEmpty !== undefined) await this.#target.rename(this.#onlyEmpty, name);
      this.#onlyEmpty = undefined;
      await this.#complete(name);
      this.#nextSeq = Math.min(scan.chain.seq, this.#endSeq);
      this.#events += this.#nextSeq - heldSeq;
      this.#bytes += bytes - heldBytes;
    } else await this.#target.remove(partial);
    if (damage !== undefined) throw new DamagedError(this.#source.folder, damage);
  }

  /**
   * Checks that the file continues the one before it.
   * @returns names of the markers for the events that are missing between them
   */
  #gapBefore(segment: SegmentName): string[] {
    const [due, last] = [this.#nextSeq, segment.firstSeq - 1];
    const [finding] = findJoinFlaws(segment, due, this.#contents);
    if (finding !== undefined) throw new DamagedError(this.#source.folder, finding);
    if (due > last) return [];
    const lost = this.#contents.lost.filter((range) => range.first <= last && range.last >= due);
    const removed = goneBetween(due, last, this.#contents.removed);
    for (const { first, last } of this.#held.size > 0 ? removed : []) {
      this.#remarks.add(
        `retention removed the events ${first} to ${last} before they were copied; back up more often to keep them`,
      );
    }
    return [...lost.map((range) => goneName(range, 'lost')), ...removed.map((range) => goneName(range, 'removed'))];
  }

  async #mark(marker: string): Promise<void> {
    const isThere = (await this.#target.list()).includes(marker);
    if (!isThere) await (await this.#target.create(marker)).close();
  }

  /** @returns the damage in the source after the good lines; undefined if a crash or a running write explains it */
  #damage(segment: SegmentName, scan: Scan): Finding | undefined {
    const { limits } = this.#options;
    const { lines, bytes, chain } = scan;
    const at = { file: segment.name, line: lines + 1, byte: bytes };
    if (chain.seq >= this.#endSeq) return undefined;
    const isLast = segment.name === this.#last?.name;
    if (isLast && this.#endSeq === Number.POSITIVE_INFINITY) {
      const findings = findingsInLast(segment, scan, this.#lastStop, this.#contents, limits);
      const torn = findings.find(({ decision }) => decision === 'truncate');
      if (torn !== undefined) {
        this.#remarks.add(
          `${at.file}, line ${at.line}, byte ${at.byte}: ${torn.problem}; this end was left out, a start truncates it`,
        );
      }
      return findings.find(({ decision }) => decision === 'refuse');
    }
    const [finding] = findingsIn(segment, scan, 'earlier', limits);
    if (finding !== undefined || !isLast) return finding;
    const problem = `the events ${chain.seq} to ${this.#endSeq - 1} are missing`;
    return { kind: 'missing file', decision: 'refuse', ...at, problem };
  }

  #otherJournal(how: string): OtherJournalError {
    return new OtherJournalError(
      `${this.#target.folder} holds a backup of another journal, or the journal was repaired or replaced since: ${how}; ` +
        'keep it, and give an empty folder with --to',
    );
  }
}

/** End of the name of a file while it is copied. A start, `verify` and `events` ignore it. */
const PARTIAL = '.partial';
/**
 * The files that record to which destinations the journal is forwarded, its id, and which files an erase rewrote. In the order of their names the id
 * follows the destinations. A dead letter that is being written can be torn in its copy; readers skip it.
 */
const FORWARDED = /^(\.forwarded-.*|\.journal-(?:id|begin)|dead-.*\.jsonl|erased\.json)$/;
/** How far a hub has the journals that are forwarded to it, and the state of assets, each as of a seq of the journal. */
const COUNTING: ReadonlySet<string> = new Set(['forward-sources.json', STATE_FILE]);
const NEWLINE = Buffer.from('\n');

/**
 * Whether a file starts with all of its copy. The last line of the copy decides, since its crc depends on all lines
 * before it.
 */
async function isPrefix(line: Buffer, bytes: number, source: ReadableDisk, name: string): Promise<boolean> {
  const end = Buffer.concat([line, NEWLINE]);
  return (await readBytes(source, name, bytes - end.length, bytes)).equals(end);
}
