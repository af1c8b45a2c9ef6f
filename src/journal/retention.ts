/**
 * Retention removes files of a journal that exceed the size or age limit, or files for which the disk has too little space. It removes
 * closed files, oldest first, and never the newest. With an age limit the newest file is closed before it is full, so that old events are
 * also removed from a small journal.
 *
 * The empty marker file `events-1-<last>.removed` means that the journal starts after the seq `last`; without it a start and
 * `verify` treat a missing file as damage. The marker is durable before the first file is removed, and it names the last seq
 * that will be removed. So the journal is valid after an interruption at any step, and the next run completes the removal.
 *
 * Files with events that are still to be forwarded are kept. If the limits require the removal of such a file, the journal refuses
 * reports with the reason in `refusal`, until the destination has received the events or the limits are met.
 */

import type { Limits } from '../config/limits.ts';
import type { Config } from '../config/options-of-service.ts';
import type { Notices } from '../telemetry/log.ts';
import { type Disk, isFull, SyncError } from './disk.ts';
import { clearName, readBytes } from './file-io.ts';
import type { Followers, HeldBack } from './follower.ts';
import { readTime, TIME_HEAD_BYTES } from './line/members.ts';
import { lastLine } from './open/scan.ts';
import { beforeGone, type Contents, contentsOf, goneName, goneRange, sidecarFirstSeq } from './segments.ts';

/**
 * A file is removed if it exceeds `retainBytes` or `retainDays`, or if `keepFree` needs its space. Without limits no
 * file is removed.
 */
export interface Retain extends Partial<Pick<Config, 'retainBytes' | 'retainDays' | 'keepFree'>> {
  /** Reports that exceed this size are refused, and nothing is removed for them. */
  readonly maxBytes?: number | undefined;
  /** The newest file is closed at this size at the latest. */
  readonly segmentBytesMax?: number | undefined;
}

/** A function if the limits can change while the journal is open. */
export type RetainNow = Retain | (() => Retain);

export interface RetentionOptions {
  readonly disk: Disk;
  readonly retain?: RetainNow;
  readonly limits: Limits;
  readonly notices: Notices;
  readonly followers?: Pick<Followers, 'removing' | 'tell'>;
  /** See `JournalOptions.heldBack`. */
  readonly heldBack?: (() => HeldBack | undefined) | undefined;
}

interface RetainedJournal {
  files: number;
  closedBytes?: number | undefined;
}

/** Retention of one journal, whose folder is locked. It runs concurrently with the batches, one system call at a time. */
export class Retention {
  readonly #options: RetentionOptions;
  readonly #journal: RetainedJournal;
  readonly #onSyncFailed: (error: SyncError) => void;
  readonly #onOld: () => void;
  /** A run is scheduled and has not started. It will see all changes until then. */
  #isDue = false;
  #running = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  /** The next run while files are held back: until then the destination might receive more, or space might be freed. */
  #nextRun: NodeJS.Timeout | undefined;
  #refusal: string | undefined;
  #isStopped = true;
  /** Number of removed files. */
  #removed = 0;
  /** The disk has too little free space, and the newest file is the only one. */
  #closesEarly = false;
  /** The newest file, if its first event is so old that the file must be closed. */
  #oldFile: string | undefined;
  /** The last logged failure and its time (monotonic clock): while the disk is low, a run every second would repeat it. */
  #logged = { text: '', atMs: Number.NEGATIVE_INFINITY };

  /**
   * @param journal its `files` and `closedBytes` are reduced by each removed file
   * @param onSyncFailed called when a sync has failed, after which nothing more is removed: a later successful sync would prove
   *   nothing, and without a durable marker a removed file is damage
   * @param onOld called by a run when the newest file must be closed because of its age: see `closeAtBytes`
   */
  constructor(
    options: RetentionOptions,
    journal: RetainedJournal,
    onSyncFailed: (error: SyncError) => void = () => {},
    onOld: () => void = () => {},
  ) {
    this.#options = options;
    this.#onSyncFailed = onSyncFailed;
    this.#onOld = onOld;
    this.#journal = journal;
  }

  /** Why no report may be recorded now, from `JournalOptions.heldBack`; undefined if no file is held back. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  /** The current limits. */
  get limits(): Retain {
    const { retain = NO_LIMITS } = this.#options;
    return typeof retain === 'function' ? retain() : retain;
  }

  /** Sets `refusal` and `closeAtBytes` before the first report of a journal is recorded, without removing files. Never rejects. */
  async checkAtOpen(): Promise<void> {
    const { disk, heldBack } = this.#options;
    // With a new event, an old file would be kept until that event is old.
    if ((heldBack === undefined && this.limits.retainDays === undefined) || !this.#hasLimits()) return;
    try {
      this.#refuse((await this.#choose(contentsOf(await disk.list()))).refusal);
    } catch (error) {
      this.#logFailure(error as Error);
    }
  }

  /**
   * Runs at once, and again every `limits.retainCheckMs`, since files can become too old without a rotation. Does nothing if there
   * are no limits and none can be added.
   */
  start(): void {
    if (!this.#hasLimits() && typeof this.#options.retain !== 'function') return;
    this.#isStopped = false;
    this.#timer = setInterval(() => this.run(), this.#options.limits.retainCheckMs).unref();
    this.run();
  }

  /** Like `makeSpace`, before the journal is open, for a disk that lacks the space to open it. Never rejects. */
  async makeSpaceToOpen(): Promise<boolean> {
    if (!this.#hasLimits()) return false;
    this.#isStopped = false;
    return this.makeSpace();
  }

  /**
   * Runs once, between `start` and `stop`. Never rejects.
   * @returns whether a file was removed: `false` if only the newest file is left
   */
  async makeSpace(): Promise<boolean> {
    const before = this.#removed;
    this.run();
    await this.#running;
    return this.#removed > before;
  }

  /** @returns how many events a run would remove, and whether it would remove or close a file. @throws the error of a system call */
  async due(): Promise<{ readonly events: number; readonly isDue: boolean }> {
    const { files } = await this.#choose(contentsOf(await this.#options.disk.list()));
    const events = files.reduce((sum, { first_seq, last_seq }) => sum + last_seq - first_seq + 1, 0);
    return { events, isDue: files.length > 0 || this.#oldFile !== undefined };
  }

  /**
   * @param segmentBytes the configured size
   * @param newest the name of the newest file
   * @returns the size at which the newest file is closed: `segmentBytes`, or at most `limits.earlyCloseBytes` if the newest is the
   *   only file and the disk has too little space, or any size if its first event is too old
   */
  closeAtBytes(segmentBytes: number, newest: string): number {
    if (newest === this.#oldFile) return 1;
    const bytes = Math.min(segmentBytes, this.limits.segmentBytesMax ?? segmentBytes);
    return this.#closesEarly ? Math.min(bytes, this.#options.limits.earlyCloseBytes) : bytes;
  }

  /**
   * Schedules a run after the current run. Another call before its start has no effect. Never throws: failures are logged, but a
   * failed sync is passed to `onSyncFailed`.
   */
  run(): void {
    if (this.#isStopped || this.#isDue) return;
    if (!this.#hasLimits() && this.#refusal === undefined) return;
    this.#isDue = true;
    clearTimeout(this.#nextRun);
    this.#running = this.#running
      .then(() => this.#removeOld())
      .catch((error: Error) => {
        if (!(error instanceof SyncError)) return this.#logFailure(error);
        this.#isStopped = true;
        this.#onSyncFailed(error);
      })
      .then(() => {
        if (this.#refusal === undefined || this.#isStopped || this.#timer === undefined) return;
        this.#nextRun = setTimeout(() => this.run(), this.#options.limits.spaceCheckMs).unref();
      });
  }

  /** Stops after the current removal; the next start completes the run. Nothing is removed after this resolves. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    clearTimeout(this.#nextRun);
    await this.#running;
  }

  #hasLimits(): boolean {
    const { retainBytes, retainDays, keepFree } = this.limits;
    return (retainBytes ?? retainDays ?? keepFree) !== undefined;
  }

  async #removeOld(): Promise<void> {
    this.#isDue = false;
    if (this.#isStopped) return;
    const { disk, notices, followers } = this.#options;
    const names = await disk.list();
    const contents = contentsOf(names);
    const { clearedSeq } = contents;
    const { files, refusal } = await this.#choose(contents);
    if (this.#oldFile !== undefined && !this.#isStopped) this.#onOld();
    const last = Math.max(clearedSeq, files.at(-1)?.last_seq ?? 0);
    const marker = goneName({ first: 1, last }, 'removed');
    const isStale = (name: string) => name !== marker && (goneRange(name, 'removed')?.last ?? last + 1) <= last;
    const stale = names.filter(isStale);
    // A sidecar might have been written after an earlier run removed its file.
    const sidecars = names.filter((name) => name.endsWith('.idx') && (sidecarFirstSeq(name) ?? last + 1) <= last);
    this.#refuse(refusal);
    if (last > clearedSeq) await followers?.removing(last, Math.max(clearedSeq + 1, files[0]!.first_seq));
    if (files.length + stale.length + sidecars.length === 0) return;
    // An existing marker might be from a run that was interrupted before the marker was durable.
    if (names.includes(marker)) await this.#syncFolder();
    else await this.#mark(marker, stale);
    followers?.tell('removed', last);
    for (const fields of files) {
      if (this.#isStopped) return;
      const { file } = fields;
      try {
        await disk.remove(file);
        this.#journal.files -= 1;
        if (this.#journal.closedBytes !== undefined) this.#journal.closedBytes -= fields.bytes;
        this.#removed += 1;
        notices.info('segment removed', fields);
      } catch (error) {
        this.#logFailure(error as Error, file);
      }
    }
    for (const name of [...stale, ...sidecars]) await clearName(disk, name);
    await this.#syncFolder();
  }

  /** @param stale the markers of earlier runs; a renamed marker is removed from the array */
  async #mark(marker: string, stale: string[]): Promise<void> {
    const { disk } = this.#options;
    try {
      await (await disk.create(marker)).close();
    } catch (error) {
      const old = isFull(error as Error) ? stale.shift() : undefined;
      if (old === undefined) throw error;
      // A full disk might have no inode for another file, so an old marker is renamed. Only on a full disk, since a reader that
      // lists the folder during the rename might see neither name.
      await disk.rename(old, marker);
      await this.#syncFolder();
    }
  }

  async #syncFolder(): Promise<void> {
    await this.#options.disk.syncFolder().catch((error: NodeJS.ErrnoException) => {
      throw error.syscall === 'open' ? error : new SyncError(error);
    });
  }

  /**
   * Chooses the files to be removed: the files beyond the limits, up to the first one that is held back.
   * @returns the files; if one is held back, `refusal` is the reason why reports are refused
   */
  async #choose({
    segments,
    lost,
    removed,
  }: Contents): Promise<{ readonly files: readonly OldFile[]; readonly refusal: string | undefined }> {
    const { disk, limits } = this.#options;
    const { retainBytes = Number.POSITIVE_INFINITY, retainDays, keepFree = 0 } = this.limits;
    let freeBytes = (keepFree > 0 ? (await disk.space())?.freeBytes : undefined) ?? Number.POSITIVE_INFINITY;
    this.#closesEarly = freeBytes < keepFree && segments.length === 1;
    this.#oldFile = retainDays === undefined ? undefined : await this.#findOld(segments.at(-1)?.name, retainDays);
    const sizes: number[] = [];
    for (const { name } of segments) sizes.push(await disk.size(name)); // in sequence: batches use the same thread pool
    let left = sizes.reduce((sum, size) => sum + size, 0);
    const files: OldFile[] = [];
    for (const [index, { name: file, firstSeq }] of segments.entries()) {
      const next = segments[index + 1];
      if (next === undefined) break; // the newest is written to
      const bytes = sizes[index] as number;
      let why: string;
      // A backup keeps the files before such a range.
      if (beforeGone(firstSeq, removed) < firstSeq) why = INTERRUPTED;
      else if (left > retainBytes) why = '--retain-bytes';
      else if (retainDays !== undefined && (await this.#ageMs(file, bytes)) > retainDays * DAY_MS)
        why = '--retain-days';
      else if (freeBytes < keepFree) why = '--keep-free';
      else break;
      // Lost events at the end hold no file back: a destination passes them only with the next event, which would be refused.
      let last_seq = beforeGone(next.firstSeq - 1, lost);
      // The file might have been restored since a repair recorded its events as lost.
      if (last_seq < next.firstSeq - 1)
        last_seq = Math.max(last_seq, (await lastLine(disk, file, bytes, limits))?.seq ?? 0);
      files.push({ file, first_seq: firstSeq, last_seq, bytes, why });
      left -= bytes;
      freeBytes += bytes; // not measured: while a reader holds a removed file open, too many files would be removed
    }
    return this.#excludeHeldBack(files);
  }

  /** @param files beyond the limits; files of an interrupted run are never held back, since its marker is already durable */
  #excludeHeldBack(files: readonly OldFile[]) {
    const held = files.length > 0 ? this.#options.heldBack?.() : undefined;
    const count = files.findIndex(({ why, last_seq }) => held && why !== INTERRUPTED && last_seq >= held.fromSeq);
    return count === -1 ? { files, refusal: undefined } : { files: files.slice(0, count), refusal: held?.reason };
  }

  /**
   * @returns the newest file if its first event is older than a tenth of the days, which is the most by which a removal is late; otherwise
   * undefined
   */
  async #findOld(newest: string | undefined, retainDays: number): Promise<string | undefined> {
    if (newest === undefined) return undefined;
    const time = readTime(await readBytes(this.#options.disk, newest, 0, TIME_HEAD_BYTES));
    return Date.now() - Date.parse(time ?? '') > (retainDays * DAY_MS) / 10 ? newest : undefined;
  }

  /** @returns the age of a file's last event; NaN if the last line has no time, as in a damaged file */
  async #ageMs(file: string, bytes: number): Promise<number> {
    const { disk, limits } = this.#options;
    const end = await lastLine(disk, file, bytes, limits);
    return Date.now() - Date.parse((end && readTime(end.line)) ?? '');
  }

  #refuse(reason: string | undefined): void {
    const { notices } = this.#options;
    const before = this.#refusal;
    this.#refusal = reason;
    if (reason !== undefined && before === undefined) {
      notices.error('reports get 503: retention would remove events that are still to be forwarded', {
        problem: reason,
      });
    } else if (reason === undefined && before !== undefined) {
      notices.info('reports are recorded again: retention no longer waits for a destination');
    }
  }

  #logFailure(error: Error, file?: string): void {
    const again = this.#isStopped ? 'at the next start' : 'later';
    const text = `${file}: ${error.message}`;
    const nowMs = performance.now();
    if (text === this.#logged.text && nowMs - this.#logged.atMs < this.#options.limits.notAcceptedNoticeMs) return;
    this.#logged = { text, atMs: nowMs };
    this.#options.notices.warn('old segments could not be removed', { file, problem: error.message, again });
  }
}

/** The fields of the log entry about a removed file. */
type OldFile = {
  readonly file: string;
  readonly first_seq: number;
  readonly last_seq: number;
  readonly bytes: number;
  readonly why: string;
};

const NO_LIMITS: Retain = {};
const INTERRUPTED = 'interrupted';
const DAY_MS = 24 * 60 * 60 * 1000;
