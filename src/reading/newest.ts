/** The newest lines of a journal: one reader takes them from the file, checks them and keeps the last few for all followers. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import type { GoneLines, Line } from '../journal/look/reading.ts';
import type { Progress } from '../journal/progress.ts';
import { Waiters } from '../waiting/waiters.ts';
import type { Piece } from './pieces.ts';

/** Newest lines: all lines after `afterSeq` up to `lastSeq`. */
export interface SharedPage {
  readonly afterSeq: number;
  readonly lastSeq: number;
  readonly lines: readonly Line[];
  readonly gone: readonly GoneLines[];
  readonly bytes: number;
  /** The whole page in the form of a stream, created by the first stream that sends it. */
  pieces?: readonly Piece[];
}

/** The newest lines of a journal, for all its followers. Lines are read when a follower requests them. */
export class Tail {
  /** Number of followed journals, counted for all journals together. */
  readonly #shared: { followed: number };
  readonly #limits: Limits;
  readonly #end = new AbortController();
  readonly #lines: AsyncGenerator<readonly Line[]>;
  readonly #gone: GoneLines[] = [];
  readonly #waiting = new Waiters();
  #pages: SharedPage[] = [];
  #lastSeq: number;
  #followers = 0;
  #isReading = false;
  #failed: Error | undefined;

  /**
   * @param afterSeq the last seq that is durable now
   * @param read returns the lines after it, until the signal aborts; `onGone` is called with lines that the journal no
   * longer has
   */
  constructor(
    shared: { followed: number },
    afterSeq: number,
    limits: Limits,
    read: (end: AbortSignal, onGone: (gone: GoneLines) => void) => AsyncGenerator<readonly Line[]>,
  ) {
    this.#shared = shared;
    this.#limits = limits;
    this.#lastSeq = afterSeq;
    shared.followed += 1;
    this.#lines = read(this.#end.signal, (gone) => this.#gone.push(gone));
  }

  /** A follower that is at an older seq has to read the file: 7 if the oldest page has the lines after 7. */
  get oldestSeq(): number {
    return this.#pages[0]?.afterSeq ?? this.#lastSeq;
  }

  /** Adds a follower. @returns itself */
  joined(): this {
    this.#followers += 1;
    return this;
  }

  /** Removes a follower. @returns whether none is left, so that the reader ends */
  left(): boolean {
    this.#followers -= 1;
    if (this.#followers > 0) return false;
    this.#shared.followed -= 1;
    this.#end.abort();
    void this.#lines.return(undefined).catch(() => {}); // closes the file; its pending wait was aborted
    return true;
  }

  /** Whether the reader has failed. The next follower then starts another one. */
  get hasFailed(): boolean {
    return this.#failed !== undefined;
  }

  /**
   * Resolves to the page with the line after a seq, as soon as there is one; to undefined if the signal aborts, after `idleMs`, or
   * if `oldestSeq` has passed the seq in the meantime.
   * @param seq at least `oldestSeq`
   * @param idleMs in milliseconds
   * @throws the error of a system call
   */
  async after(seq: number, signal: AbortSignal, idleMs: number): Promise<SharedPage | undefined> {
    const lateMs = performance.now() + idleMs;
    for (;;) {
      const page = this.#pages.find(({ lastSeq }) => lastSeq > seq);
      if (page !== undefined) return page;
      if (seq < this.oldestSeq) return undefined;
      if (this.#failed !== undefined) throw this.#failed;
      const leftMs = lateMs - performance.now();
      if (signal.aborted || leftMs <= 0) return undefined;
      if (!this.#isReading) void this.#readOn();
      await this.#waiting.wait(signal, leftMs);
    }
  }

  /** Reads until there is another page. Never rejects. */
  async #readOn(): Promise<void> {
    this.#isReading = true;
    try {
      for (;;) {
        const { value: lines = [], done } = await this.#lines.next();
        if (done === true) break;
        if (lines.length + this.#gone.length === 0) continue;
        this.#add(lines);
        break;
      }
    } catch (error) {
      this.#failed = error as Error;
    }
    this.#isReading = false;
    this.#waiting.wake();
  }

  #add(lines: readonly Line[]): void {
    const gone = this.#gone.splice(0);
    const afterSeq = this.#lastSeq;
    this.#lastSeq = Math.max(lines.at(-1)?.seq ?? 0, gone.at(-1)?.last ?? 0);
    if (lines.some((line) => isLong(line, this.#limits))) {
      this.#pages = []; // followers read these lines from the file, each at the pace of its client
      return;
    }
    const bytes = lines.reduce((sum, { start, end }) => sum + end - start, 0);
    this.#pages.push({ afterSeq, lastSeq: this.#lastSeq, lines, gone, bytes });
    const bytesMax = this.#limits.sharedLinesBytesMax / this.#shared.followed;
    let kept = this.#pages.reduce((sum, page) => sum + page.bytes, 0);
    while (kept > bytesMax && this.#pages.length > 1) kept -= this.#pages.shift()!.bytes;
  }
}

/** Whether a line is longer than a chunk. */
export function isLong({ start, end }: Line, { readTurnBytes }: Limits): boolean {
  return end - start > readTurnBytes;
}

/** @returns the progress, whose `more` resolves at once after a pause, and at most every `intervalMs` while lines arrive */
export function inGroups(progress: Progress, intervalMs: number): Progress {
  let wokenMs = Number.NEGATIVE_INFINITY;
  return {
    ...progress,
    more: async (signal) => {
      await progress.more(signal);
      const waitMs = wokenMs + intervalMs - performance.now();
      if (waitMs > 0) await sleep(waitMs, undefined, { signal, ref: false }).catch(() => {}); // rejects only when it is aborted
      wokenMs = performance.now();
    },
  };
}
