/**
 * The state of the assets of one journal, in the memory of a service. It is the source of `/assets`, of the page and of the ages of
 * `--watch-asset`. Its file is read by the command while the service runs, and by the next start.
 *
 * - It follows the journal. If the state has all events before a batch, the batch is added after its sync, from the members in memory.
 * - Otherwise the state is behind, for example at a start, and reads the file and the lines after it. It reads in turns. For each byte
 *   that is recorded at the same time it also reads two bytes without a turn, so that it catches up however many reports arrive. The
 *   last batches are kept in memory until the reading reaches them, so that it ends.
 * - Appends and replies never wait for the file. Retention waits until the file has the events that will be removed, or the journal
 *   has closed another segment. If the file cannot be written, retention removes the events nevertheless, and the file is written
 *   later.
 * - The lock of the journal protects the file: it is written only while the journal is open, the last time before its clean stop.
 * - After the journal is closed, the state is kept in memory until other states need the memory (`drop`).
 */

import type { Limits } from '../config/limits.ts';
import { type Disk, describe, type ReadableDisk } from '../journal/disk.ts';
import type { Committed, Follower } from '../journal/follower.ts';
import { hex } from '../journal/line/record.ts';
import { readReported } from '../journal/line/reported.ts';
import { type Line, type Remark, sizeOf } from '../journal/look/reading.ts';
import type { Progress } from '../journal/progress.ts';
import type { Notices } from '../telemetry/log.ts';
import { Mutex } from '../waiting/mutex.ts';
import { Waiters } from '../waiting/waiters.ts';
import type { AssetStates } from './asset-state.ts';
import type { IsForgotten } from './forget.ts';
import { contentsIn, foldLines, isOfJournal, loadKept, noteUnseen, passUnseen } from './kept.ts';
import { isSaved, type Kept, type Saved, writeState } from './state-file.ts';

/** A journal of the service, for readers. */
export interface FoldedJournal {
  /**
   * @param mayReadNow whether a chunk of this many bytes can be read without a turn
   * @returns its disk, on which every other chunk of a file waits for its turn
   */
  diskFor(options: { readonly signal: AbortSignal; readonly mayReadNow: (bytes: number) => boolean }): ReadableDisk;
  progress(): Progress;
  remarks(): (remark: Remark) => void;
}

export interface JournalAssetsOptions {
  readonly disk: Disk;
  readonly journal: FoldedJournal;
  /** @returns the seq of the first line that is not durable yet, while the journal is open */
  readonly nextSeq: () => number | undefined;
  readonly newStates: () => AssetStates;
  /** Resolves when it is the caller's turn among all readings. */
  readonly turn: () => Promise<void>;
  readonly notices: Notices;
  readonly limits: Limits;
}

type Reading =
  /** Nothing is in memory; the next request reads it. `problem` is the reason why the last reading failed. */
  | { readonly kind: 'none'; readonly problem?: Error }
  | {
      readonly kind: 'behind';
      /** Undefined until the file is read. */
      kept: Kept | undefined;
      /** Whether it continues from a state that was in memory. */
      readonly isContinued: boolean;
      /** The last event to read while the journal is not open. */
      readonly untilSeq: number;
      /** Ends the reading permanently. */
      readonly ending: AbortController;
    }
  | { readonly kind: 'current'; readonly kept: Kept };

export class JournalAssets implements Follower {
  readonly #options: JournalAssetsOptions;
  #reading: Reading = { kind: 'none' };
  #isOpen = false;
  /** Whether the folder is locked, so that the file can be written. */
  #isLocked = false;
  readonly #readings = new Mutex();
  readonly #saves = new Mutex();
  readonly #advanced = new Waiters();
  readonly #rotations = new Waiters();
  readonly #hurried = new Waiters();
  #isClosing = false;
  /** Whether retention is waiting. The reading then continues without turns. */
  #isUrgent = false;
  /** Number of bytes that can be read without a turn. */
  #creditBytes = 0;
  /** The last consecutive batches that were recorded while the state was behind. */
  #waiting: Committed[] = [];
  #waitingBytes = 0;
  /** The file that was last read or written; undefined if no matching file exists. */
  #saved: Saved | undefined;
  /** Whether assets were forgotten since then. */
  #isChanged = false;
  /** Number of bytes of lines since then. */
  #grownBytes = 0;
  #retry: NodeJS.Timeout | undefined;
  #isSaving = false;
  /** Whether the file could not be written. */
  isUnsaved = false;

  constructor(options: JournalAssetsOptions) {
    this.#options = options;
  }

  /** Whether its journal is open, or a state is being read, so that the state must be kept in memory. */
  get isBusy(): boolean {
    return this.#isOpen || this.#reading.kind === 'behind';
  }

  /** Approximate memory in bytes. */
  get bytes(): number {
    return this.#kept?.states.bytes ?? 0;
  }

  get #isBehind(): boolean {
    return this.#reading.kind === 'behind' && !this.#reading.ending.signal.aborted;
  }

  /** The state as far as it was read; undefined if nothing was read. */
  get #kept(): Kept | undefined {
    return this.#reading.kind === 'none' ? undefined : this.#reading.kept;
  }

  /** The state with all durable events; undefined while it is being read. */
  get current(): Kept | undefined {
    return this.#reading.kind === 'current' ? this.#reading.kept : undefined;
  }

  /**
   * Like `current`, but while the journal is being opened again the previous state. Undefined until everything was read
   * once.
   */
  get lastKnown(): Kept | undefined {
    const reading = this.#reading;
    return reading.kind === 'behind' && !reading.isContinued ? undefined : this.#kept;
  }

  /** Whether `current` is known to be the state of its journal. */
  get isLive(): boolean {
    return this.#isOpen && this.#reading.kind === 'current';
  }

  /** The last event that was read; undefined before the reading started. */
  get lastSeq(): number | undefined {
    return this.#kept?.seq;
  }

  /**
   * Resolves when `current` is the state, reading it if necessary.
   * @param signal ends the wait
   * @throws the error of a system call; the next call starts over
   */
  async whenCurrent(signal: AbortSignal): Promise<void> {
    if (this.#reading.kind === 'current' && !this.#isOpen)
      this.#begin(this.#reading.kept); // its file might have changed
    else if (this.#reading.kind === 'none') this.#begin(undefined);
    while (this.#isBehind && !signal.aborted) await this.#advanced.wait(signal);
    if (this.#reading.kind === 'none')
      throw this.#reading.problem ?? new Error('the state of the assets cannot be read');
  }

  /** Frees the memory of a journal that is not busy. */
  drop(): void {
    this.#kept?.states.drop();
    this.#reading = { kind: 'none' };
    this.#dropWaiting();
  }

  /** Ends the reading in progress. It no longer waits for turns, since there are none while the service stops. */
  close(): void {
    this.#isClosing = true;
    this.#hurried.wake();
    clearTimeout(this.#retry);
    if (this.#reading.kind === 'behind') this.#reading.ending.abort();
    this.#advanced.wake();
  }

  readonly opened = (): void => {
    this.#isOpen = true;
    this.#isClosing = false;
    this.#isLocked = true;
    this.#begin(this.current);
  };

  readonly committed = (batch: Committed): void => {
    const kept = this.#kept;
    if (kept === undefined || batch.lines.length === 0) return; // the next reading will read these lines
    const bytes = batch.after.bytes - batch.before.bytes;
    this.#grownBytes += bytes;
    if (kept.seq === batch.before.chain.seq - 1) take(kept, batch);
    else this.#wait(batch, bytes);
  };

  /** Keeps a batch that the reading has not reached yet. */
  #wait(batch: Committed, bytes: number): void {
    this.#creditBytes += CREDIT_FACTOR * bytes;
    if (this.#waitingBytes + bytes > this.#options.limits.assetsWaitBytes) this.#dropWaiting();
    this.#waiting.push(batch);
    this.#waitingBytes += bytes;
  }

  /** They are read from the journal instead. */
  #dropWaiting(): void {
    this.#waiting = [];
    this.#waitingBytes = 0;
  }

  /** Adds the batches that the reading has reached. @returns whether the state has all durable events */
  #catchUp(kept: Kept): boolean {
    for (const batch of this.#waiting) if (batch.before.chain.seq <= kept.seq + 1) take(kept, batch);
    const isCurrent = !this.#isOpen || kept.seq >= this.#durableSeq();
    if (isCurrent) {
      this.#dropWaiting();
      this.#creditBytes = 0;
    }
    return isCurrent;
  }

  readonly rotated = (): void => {
    this.#rotations.wake();
    const isDue = this.#grownBytes >= (this.#saved?.bytes ?? 0);
    if (this.current !== undefined && isDue && !this.#isSaving) void this.#save();
  };

  readonly removing = async (lastSeq: number): Promise<void> => {
    if (this.#reading.kind === 'none') this.#begin(undefined, this.#isOpen ? undefined : lastSeq);
    this.#isLocked = true;
    this.#isUrgent = true;
    while (this.#isBehind && (this.lastSeq ?? -1) < lastSeq) await this.#advanced.wait();
    this.#isUrgent = false;
    // A disk can fill up in the time of a few writes, so the closing of another segment ends the wait for the file.
    if ((this.#saved?.seq ?? -1) < lastSeq) await Promise.race([this.#save(), this.#rotations.wait()]);
    if (!this.#isOpen && this.#reading.kind === 'current') this.drop(); // the state ended with the removed file
  };

  readonly closing = async (): Promise<void> => {
    this.close();
    await this.#save();
    this.#isOpen = false;
    this.#isLocked = false;
    if (this.#reading.kind === 'behind') this.drop();
  };

  /**
   * Forgets assets durably, after the current reading.
   * @returns the number of assets
   * @throws Error if the journal is not open, or the state cannot be read or written
   */
  async forget(isForgotten: IsForgotten, signal: AbortSignal): Promise<number> {
    if (!this.#isOpen) throw new Error('this service keeps no state of assets; stop it first');
    await this.whenCurrent(signal);
    const { current } = this;
    if (current === undefined) throw new Error('the state of the assets is being read');
    const count = current.states.forget(isForgotten);
    this.#isChanged ||= count > 0;
    await this.#save();
    if (this.#isChanged) throw new Error('the state of the assets could not be written');
    return count;
  }

  /**
   * Reads the state, after the current reading.
   * @param kept a state in memory from which to continue
   * @param untilSeq the last event to read if the journal is not open
   */
  #begin(kept: Kept | undefined, untilSeq = Number.POSITIVE_INFINITY): void {
    if (this.#reading.kind === 'behind') this.#reading.ending.abort();
    else if (kept === undefined) this.drop();
    const ending = new AbortController();
    const reading: Reading = { kind: 'behind', kept, isContinued: kept !== undefined, untilSeq, ending };
    this.#reading = reading;
    void this.#readings.run(async () => {
      const problem = await this.#readOn(reading).catch((error: Error) => error);
      if (this.#reading === reading && problem !== undefined && !ending.signal.aborted) {
        this.#options.notices.warn('the state of the assets could not be read', { problem: problem.message });
        this.#reading = { kind: 'none', problem };
      }
      if (this.#kept !== reading.kept) reading.kept?.states.drop();
      this.#advanced.wake();
    });
  }

  /** @returns the last durable seq of the journal; infinite while it is not open, since all of it is then durable */
  #durableSeq(): number {
    const nextSeq = this.#isOpen ? this.#options.nextSeq() : undefined;
    return nextSeq === undefined ? Number.POSITIVE_INFINITY : nextSeq - 1;
  }

  async #readOn(reading: Extract<Reading, { kind: 'behind' }>): Promise<void> {
    const { disk, newStates, notices, limits } = this.#options;
    const loading = { disk, newStates, notices, limits };
    if (!(await this.#isStillSaved(reading.kept))) {
      reading.kept?.states.drop();
      const { kept, saved } = await loadKept(loading);
      reading.kept = kept;
      this.#saved = saved;
      this.#isChanged = false;
      this.#grownBytes = 0;
    }
    const kept = reading.kept!;
    const beganSeq = kept.seq;
    const { signal } = reading.ending;
    for (let isCurrent = false; !isCurrent; isCurrent = this.#catchUp(kept)) {
      const [fromSeq, untilSeq] = [kept.seq, Math.min(reading.untilSeq, this.#durableSeq())];
      await this.#readLines(kept, untilSeq, signal);
      if (signal.aborted) return;
      noteUnseen(loading, kept, await contentsIn(disk));
      if (this.#isOpen && kept.seq === fromSeq && fromSeq < untilSeq)
        passUnseen(kept, { first: fromSeq + 1, last: untilSeq });
    }
    this.#reading = { kind: 'current', kept };
    if (kept.seq > beganSeq)
      notices.debug('the state of the assets was read', { from_seq: beganSeq + 1, last_seq: kept.seq });
    if (this.#isOpen && this.#grownBytes >= limits.assetsSaveBytes) void this.#save();
  }

  /** Adds the lines up to `untilSeq`. @throws the error of a system call */
  async #readLines(kept: Kept, untilSeq: number, signal: AbortSignal): Promise<void> {
    const { journal, limits } = this.#options;
    const mayReadNow = (bytes: number): boolean => {
      if (this.#isUrgent) return true;
      if (this.#creditBytes <= 0) return false;
      this.#creditBytes -= bytes;
      return true;
    };
    const folding = {
      disk: journal.diskFor({ signal, mayReadNow }),
      progress: journal.progress(),
      limits,
      untilSeq,
      signal,
      onRemark: journal.remarks(),
      onLines: (lines: readonly Line[]) => {
        this.#grownBytes += sizeOf(lines);
        this.#advanced.wake();
      },
    };
    await foldLines(kept, folding).catch((error: Error) => {
      if (!signal.aborted) throw error;
    });
  }

  /** Whether a state in memory still matches the journal and the file. */
  async #isStillSaved(kept: Kept | undefined): Promise<boolean> {
    const { disk, limits } = this.#options;
    if (kept === undefined) return false;
    const isFileSame = await isSaved(disk, this.#saved).catch(() => false);
    return isFileSame && (await isOfJournal({ disk, limits }, kept.end, await contentsIn(disk)));
  }

  /** Writes the file if something has changed. Never rejects: after a failure it tries again while the journal is open. */
  async #save(): Promise<void> {
    await this.#saves.run(async () => {
      const kept = this.#kept;
      if (!this.#isLocked || kept === undefined || (!this.#isChanged && kept.seq <= (this.#saved?.seq ?? 0))) return;
      const grownBytes = this.#grownBytes;
      const isChanged = this.#isChanged;
      clearTimeout(this.#retry);
      this.#isSaving = true;
      this.#isChanged = false;
      try {
        this.#saved = await writeState(this.#options.disk, kept, () => this.#pause());
        this.#grownBytes -= grownBytes;
        this.#noteSaved(undefined);
      } catch (error) {
        this.#isChanged ||= isChanged;
        this.#noteSaved(describe(error as Error));
        this.#retry = setTimeout(() => void this.#save(), this.#options.limits.assetsSaveMs).unref();
      }
      this.#isSaving = false;
    });
  }

  /** Waits for a turn between two parts of the file. */
  async #pause(): Promise<void> {
    if (this.#isClosing) return;
    const waited = new AbortController();
    await Promise.race([this.#options.turn(), this.#hurried.wait(waited.signal)]);
    waited.abort();
  }

  #noteSaved(problem: string | undefined): void {
    const wasUnsaved = this.isUnsaved;
    this.isUnsaved = problem !== undefined;
    if (this.isUnsaved === wasUnsaved) return;
    const { notices } = this.#options;
    if (problem === undefined) notices.info('the state of the assets can be written again');
    else
      notices.warn(
        'the state of the assets could not be written; the write is tried again, and no event waits for it',
        {
          problem,
        },
      );
  }
}

/** Adds the events of a batch that the state does not have yet. */
function take(kept: Kept, { lines, time, before, after }: Committed): void {
  const timeMs = time.getTime();
  const firstSeq = before.chain.seq;
  for (let index = Math.max(0, kept.seq + 1 - firstSeq); index < lines.length; index += 1)
    kept.states.take(firstSeq + index, timeMs, readReported(lines[index]!));
  const seq = after.chain.seq - 1;
  if (seq <= kept.seq) return;
  kept.seq = seq;
  kept.end = { seq, id: after.lastId!, crc: hex(after.chain.crc) };
}

/** Bytes that are read without a turn for each byte recorded while the state is behind. */
const CREDIT_FACTOR = 2;
