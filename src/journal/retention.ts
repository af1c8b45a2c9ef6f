/**
 * Removes what is too much or too old from the beginning of a journal: whole closed files, oldest first, never the newest.
 *
 * An empty file `events-1-<last>.removed` tells a start and `verify` that the journal begins behind `last`; without it they
 * take a missing file for damage. It is on the disk before the first file goes, and it names the last that is to go. So
 * whatever step is the last one, the journal is sound, and the next run finishes what this one began.
 */

import type { Config } from '../config/config.ts';
import type { Limits } from '../config/limits.ts';
import type { Notices } from '../telemetry/log.ts';
import { type Disk, isFull, SyncError } from './disk.ts';
import { readTime } from './record.ts';
import { lastLine } from './scan.ts';
import { contentsOf, goneName, goneRange, type SegmentName } from './segments.ts';

/** What may stay. Either limit is enough to remove a file; without both none is. */
export type Retain = Pick<Config, 'retainBytes' | 'retainDays'>;

export interface RetentionOptions {
  readonly disk: Disk;
  readonly retain?: Partial<Retain>;
  readonly limits: Limits;
  readonly notices: Notices;
}

/** Of one journal, whose folder is locked. Works beside the batches, one step after the other. */
export class Retention {
  readonly #options: RetentionOptions;
  readonly #journal: { files: number };
  /** A run that did not begin yet will see what has changed since. */
  #due = false;
  #running = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #stopped = true;
  /** A sync failed: another one that succeeds would prove nothing, so nothing is removed before the next start. */
  #failed = false;

  /** @param journal told how many files it has */
  constructor(options: RetentionOptions, journal: { files: number }) {
    this.#options = options;
    this.#journal = journal;
  }

  /** Runs now, and now and then: days go by without a rotation. */
  start(): void {
    if (!this.#mayRemove()) return;
    this.#stopped = false;
    this.#timer = setInterval(() => this.run(), this.#options.limits.retainCheckMs).unref();
    this.run();
  }

  /**
   * One run before the journal is open, for a disk without the space to open it. Never rejects.
   * @returns whether a file was removed
   */
  async makeSpace(): Promise<boolean> {
    if (!this.#mayRemove()) return false;
    this.#stopped = false;
    const before = this.#journal.files;
    this.run();
    await this.#running;
    return this.#journal.files < before;
  }

  /** Begins a run, behind the one that is under way. Never throws: what fails is told. */
  run(): void {
    if (this.#stopped || this.#due) return;
    this.#due = true;
    this.#running = this.#running.then(() => this.#removeOld()).catch((error: Error) => this.#tell(error));
  }

  /** Resolves when the folder is left alone, which is soon: the rest of a run is for the next start. Never rejects. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  #mayRemove(): boolean {
    const { retainBytes, retainDays } = this.#options.retain ?? {};
    return (retainBytes ?? retainDays) !== undefined && !this.#failed;
  }

  async #removeOld(): Promise<void> {
    this.#due = false;
    if (this.#stopped) return;
    const { disk, notices } = this.#options;
    const names = await disk.list();
    const { segments, removedLast } = contentsOf(names);
    const files = await this.#choose(segments, removedLast);
    const marker = goneName({ first: 1, last: Math.max(removedLast, files.at(-1)?.last_seq ?? 0) }, 'removed');
    const stale = names.filter((name) => name !== marker && goneRange(name, 'removed'));
    if (files.length + stale.length === 0) return;

    // One that is there already may be of a run that died before it was durable.
    if (names.includes(marker)) await this.#syncFolder();
    else await this.#mark(marker, stale);
    for (const fields of files) {
      if (this.#stopped) return;
      const { file } = fields;
      try {
        await disk.remove(file);
        this.#journal.files -= 1;
        notices.info('journal file removed', fields);
      } catch (error) {
        this.#tell(error as Error, file);
      }
    }
    for (const name of stale) await disk.remove(name);
    await disk.syncFolder();
  }

  /** @param stale the markers of earlier runs; the one that is used up is taken out */
  async #mark(marker: string, stale: string[]): Promise<void> {
    const { disk } = this.#options;
    try {
      await (await disk.create(marker)).close();
    } catch (error) {
      const old = isFull(error as Error) ? stale.shift() : undefined;
      if (old === undefined) throw error;
      // A full disk may have no inode for another file. A reader that lists the folder now may see neither name, so this is
      // not how it is done while there is space.
      await disk.rename(old, marker);
      await this.#syncFolder();
    }
  }

  async #syncFolder(): Promise<void> {
    await this.#options.disk.syncFolder().catch(({ message }) => {
      throw new SyncError(message);
    });
  }

  /** @param before up to which an earlier run meant to remove everything */
  async #choose(segments: readonly SegmentName[], before: number): Promise<OldFile[]> {
    const { disk, retain = {} } = this.#options;
    const { retainBytes = Number.POSITIVE_INFINITY, retainDays } = retain;
    const sizes: number[] = [];
    for (const { name } of segments) sizes.push(await disk.size(name)); // not at once: batches use the same threads
    let left = sizes.reduce((sum, size) => sum + size, 0);
    const files: OldFile[] = [];
    for (const [index, { name: file, firstSeq }] of segments.entries()) {
      const next = segments[index + 1];
      if (next === undefined) break; // the newest is written to
      const bytes = sizes[index] as number;
      let why: string;
      if (firstSeq <= before) why = 'interrupted';
      else if (left > retainBytes) why = '--retain-bytes';
      else if (retainDays !== undefined && (await ageMs(disk, file, bytes)) > retainDays * DAY_MS)
        why = '--retain-days';
      else break;
      files.push({ file, first_seq: firstSeq, last_seq: next.firstSeq - 1, bytes, why });
      left -= bytes;
    }
    return files;
  }

  #tell(error: Error, file?: string): void {
    // Behind a failed sync one that succeeds would prove nothing, and without the marker a removed file is damage.
    if (error instanceof SyncError) this.#stopped = this.#failed = true;
    const again = this.#stopped ? 'at the next start' : 'later';
    this.#options.notices.warn('old journal files could not be removed', { file, problem: error.message, again });
  }
}

/** As it is told to the operator. */
type OldFile = {
  readonly file: string;
  readonly first_seq: number;
  readonly last_seq: number;
  readonly bytes: number;
  readonly why: string;
};

/** @returns the age of a file's last event; NaN where it does not say, and then a start would refuse it */
async function ageMs(disk: Disk, file: string, bytes: number): Promise<number> {
  const end = await lastLine(disk, file, bytes);
  return Date.now() - Date.parse((end && readTime(end.line)) ?? '');
}

const DAY_MS = 24 * 60 * 60 * 1000;
