/**
 * The states of the assets of a journal, kept in memory. They are built when they are first asked for, by reading the journal from
 * its files, and each later answer first reads the lines that were recorded since. So an answer is exact as of its request, a
 * report costs nothing more, and a start after a crash has nothing to repair.
 *
 * Retention removes the oldest files. Only their counts have to go: as long as there is an event of a kind, the latest one is
 * still there. So the events of the oldest file are counted while it is there. If several files were removed since the last
 * answer, the states are built again, and so they are if another journal has replaced this one.
 */

import type { Limits } from '../config/limits.ts';
import { Waiters } from '../config/waiters.ts';
import { unlessAbsent } from '../journal/disk.ts';
import { AssetStates } from '../journal/look/asset-state.ts';
import { readJournal } from '../journal/look/reader.ts';
import type { Line } from '../journal/look/reading.ts';
import { contentsOf, type SegmentName } from '../journal/segments.ts';
import type { ReadableJournal } from './journals.ts';

export interface LiveAssetsOptions {
  readonly journal: ReadableJournal;
  /** Called when the states may have grown. It may call `drop`. */
  readonly onGrowth: () => void;
  readonly limits: Pick<Limits, 'followMs' | 'lineBytesMax'>;
}

/** The states of the assets of one journal. */
export class LiveAssets {
  readonly #options: LiveAssetsOptions;
  #building: Building | undefined;

  constructor(options: LiveAssetsOptions) {
    this.#options = options;
  }

  /** Approximate memory in bytes: see `AssetStates.bytes`. */
  get bytes(): number {
    return this.#building?.states.bytes ?? 0;
  }

  /** The seq of the last line that was read. */
  get lastSeq(): number {
    return this.#building?.lastSeq ?? 0;
  }

  /**
   * Resolves when the states have all lines that were durable when it was called. They change when it is called again.
   * @throws the reason of `drop`, or the error of a system call; the next call begins anew
   */
  async upToDate(): Promise<AssetStates> {
    for (;;) {
      this.#building ??= new Building(this.#options);
      const building = this.#building;
      try {
        await building.caughtUp();
        return building.states;
      } catch (error) {
        if (this.#building === building) this.#building = undefined;
        if (!(error instanceof Outdated)) throw error;
      }
    }
  }

  /** Another journal has replaced this one. Calls of `upToDate` that wait get its states. */
  startOver(): void {
    this.drop(new Outdated());
  }

  /** Frees the memory. Calls of `upToDate` that wait throw the reason. */
  drop(reason: Error): void {
    this.#building?.end(reason);
    this.#building = undefined;
  }
}

/** The states do not belong to the journal as it is now. */
class Outdated extends Error {}

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** The oldest file of the journal. */
interface OldestFile {
  readonly firstSeq: number;
  /** The first seq of the next file; undefined if this is the only file, which is never removed. */
  readonly endSeq: number | undefined;
  /** Whether its events, as far as they were taken, were counted with `AssetStates.countOldest`. */
  readonly isCounted: boolean;
}

/** Builds the states from the first line on, and follows the journal until it is ended. */
class Building {
  readonly states = new AssetStates('time');
  lastSeq = 0;
  readonly #options: LiveAssetsOptions;
  readonly #end = new AbortController();
  #oldest: OldestFile | undefined;
  /** Before this seq, events are counted as those of the oldest file when they are taken. */
  #countedEndSeq = 0;
  #checkedSeq = 0;
  /** The callers that wait for the end of the cycle that is under way, and of the next one. */
  #now: Waiting[] = [];
  #next: Waiting[] = [];
  /** The reader, between two cycles. */
  readonly #idle = new Waiters();
  #ended: Error | undefined;

  constructor(options: LiveAssetsOptions) {
    this.#options = options;
    void this.#run().catch((error) => this.end(error));
  }

  /** Resolves at the end of the first cycle that begins after the call. @throws the reason why it has ended */
  caughtUp(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) return reject(this.#ended);
      this.#next.push({ resolve, reject });
      this.#idle.wake();
    });
  }

  end(reason: Error): void {
    this.#ended ??= reason;
    this.#end.abort();
    for (const { reject } of [...this.#now.splice(0), ...this.#next.splice(0)]) reject(this.#ended);
  }

  async #run(): Promise<void> {
    const { journal, limits } = this.#options;
    await this.#forgetRemoved();
    this.#countedEndSeq = this.#oldest?.endSeq ?? 0;
    if (this.#countedEndSeq > 0) this.#oldest = { ...this.#oldest!, isCounted: true };
    this.#now = this.#next.splice(0);
    const progress = { durable: journal.progress().durable, more: (signal: AbortSignal) => this.#cycled(signal) };
    const reading = { follow: this.#end.signal, progress, limits };
    const disk = journal.diskFor({ signal: this.#end.signal });
    for await (const lines of readJournal(disk, reading, journal.remarks())) {
      if (this.#ended !== undefined) return;
      this.#take(lines);
      if (this.lastSeq < this.#checkedSeq + CHECKED_LINES) continue;
      await this.#forgetRemoved(); // a first reading may take longer than the oldest files are kept
      await this.#countOldest();
    }
  }

  #take(lines: readonly Line[]): void {
    for (const { event } of lines) {
      if (event.seq <= this.lastSeq) throw new Outdated(); // another journal begins
      this.lastSeq = event.seq;
      this.states.take(event, undefined);
      if (event.seq < this.#countedEndSeq) this.states.countOldest(event);
    }
    this.#options.onGrowth();
  }

  /** Called by the reader when it has read all that was durable. Resolves when the next cycle is to begin. */
  async #cycled(signal: AbortSignal): Promise<void> {
    await this.#forgetRemoved();
    for (const { resolve } of this.#now.splice(0)) resolve();
    await this.#countOldest();
    if (this.#next.length === 0) await this.#idle.wait(signal);
    this.#now = this.#next.splice(0);
  }

  /** @throws Outdated if more was removed than was counted */
  async #forgetRemoved(): Promise<void> {
    this.#checkedSeq = this.lastSeq;
    const [first, second] = await this.#segments();
    const oldest = this.#oldest;
    if (first !== undefined && first.firstSeq === oldest?.firstSeq) {
      this.#oldest = { ...oldest, endSeq: second?.firstSeq };
      return;
    }
    if (oldest !== undefined) {
      const isKnown = oldest.isCounted && first?.firstSeq === oldest.endSeq && this.lastSeq + 1 >= (oldest.endSeq ?? 0);
      if (!isKnown) throw new Outdated();
      this.states.forgetOldest();
    }
    this.#countedEndSeq = 0;
    this.#oldest = first && { firstSeq: first.firstSeq, endSeq: second?.firstSeq, isCounted: false };
  }

  /** Counts the events of the oldest file, by reading it once more, when it is complete and all of it was taken. */
  async #countOldest(): Promise<void> {
    const { journal, limits } = this.#options;
    const { firstSeq, endSeq, isCounted } = this.#oldest ?? { isCounted: true };
    if (isCounted || endSeq === undefined || this.lastSeq + 1 < endSeq) return;
    const once = AbortSignal.abort(); // reads once
    const filter = { afterSeq: firstSeq - 1, untilSeq: endSeq - 1 };
    const reading = { filter, follow: once, progress: journal.progress(), limits };
    const disk = journal.diskFor({ signal: this.#end.signal });
    for await (const lines of readJournal(disk, reading, () => {})) {
      if (this.#ended !== undefined) return;
      for (const { event } of lines) this.states.countOldest(event);
    }
    this.#oldest = { firstSeq, endSeq, isCounted: true };
    const [first] = await this.#segments();
    if (first?.firstSeq !== firstSeq) throw new Outdated(); // it may not have been read to its end
  }

  async #segments(): Promise<readonly SegmentName[]> {
    const disk = this.#options.journal.diskFor({});
    return contentsOf(await disk.list().catch(unlessAbsent<string[]>([]))).segments;
  }
}

/** Number of lines of a reading after which it is checked whether files were removed. */
const CHECKED_LINES = 100_000;
