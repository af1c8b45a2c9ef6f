/**
 * Follows a journal. All followers that keep up share the newest lines: one reader takes them from the file, checks them and keeps
 * the last few. A follower that needs older lines reads the file by itself, from its own position. Nothing is queued for a follower.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import { Waiters } from '../config/waiters.ts';
import { type Filter, isMatch } from '../event/search.ts';
import { readJournal } from '../journal/look/reader.ts';
import type { GoneLines, Line, Remark } from '../journal/look/reading.ts';
import type { Progress } from '../journal/progress.ts';
import type { NewestLines, ReadableJournal, SharedPage } from './journals.ts';

/** What a follower gets next, each event once and in order. */
export type Followed = FollowedLines | { readonly kind: 'another journal' };

/** Lines that match, and the seqs between them that the journal does not have any more. */
export interface FollowedLines {
  readonly kind: 'lines';
  /** A line that is longer than a chunk is alone, and dropped: `ReadableJournal.bytesOf` reads its bytes. */
  readonly lines: readonly Line[];
  readonly gone: readonly GoneLines[];
  /** If these are all lines of a page: its form can be shared by followers. */
  readonly page?: SharedPage;
}

export interface Following {
  readonly afterSeq: number;
  /** Without `afterSeq`. */
  readonly filter: Filter;
  readonly signal: AbortSignal;
  /** After this long without an event, lines without any are yielded. */
  readonly idleMs: number;
  readonly limits: Limits;
}

/**
 * Yields the events after a seq that match, and those that come, until the signal aborts. Each piece that it yields has its turn,
 * see `Turns`, until the caller waits for something.
 * @throws the error of a system call
 */
export async function* follow(journal: ReadableJournal, following: Following): AsyncGenerator<Followed> {
  const { signal } = following;
  let { afterSeq } = following;
  for (;;) {
    const { replaced } = journal;
    yield* followOne(journal, { ...following, afterSeq, signal: AbortSignal.any([signal, replaced]) });
    if (signal.aborted) return;
    await journal.whole();
    afterSeq = 0;
    yield { kind: 'another journal' };
  }
}

async function* followOne(journal: ReadableJournal, following: Following): AsyncGenerator<FollowedLines> {
  const { filter, signal } = following;
  const { buffers, turns } = journal.shared;
  const isPlain = Object.values(filter).every((value) => value === undefined);
  let seq = following.afterSeq;
  let tail: NewestLines | undefined;
  try {
    while (!signal.aborted) {
      tail ??= journal.tail?.joined();
      if (tail === undefined || seq < tail.oldestSeq) {
        const { last } = await journal.range();
        if (seq < last) {
          for await (const found of recorded(journal, seq, following)) {
            yield found;
            seq = Math.max(seq, found.lines.at(-1)?.seq ?? 0); // it may also have lines after `last`
          }
          seq = Math.max(seq, last);
        } else {
          journal.tail ??= new Tail(journal, seq, following.limits);
        }
        continue;
      }
      const page = await tail.after(seq, signal, following.idleMs);
      if (signal.aborted) return;
      if (page === undefined) {
        if (seq >= tail.oldestSeq) yield { kind: 'lines', lines: [], gone: [] };
        continue;
      }
      const release = await buffers.acquire(signal);
      try {
        await turns.take(signal);
        if (isPlain && page.afterSeq === seq) {
          yield { kind: 'lines', lines: page.lines, gone: page.gone, page };
        } else {
          const after = seq;
          const lines = page.lines.filter((line) => line.seq > after && (isPlain || isMatch(line.event, filter)));
          yield { kind: 'lines', lines, gone: page.gone.filter(({ last }) => last > after) };
        }
      } finally {
        release();
      }
      seq = page.lastSeq;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    tail?.left();
  }
}

/**
 * Yields the lines that are recorded now, after a seq, and match; nothing of a piece without any. Ends early if the signal aborts.
 * @throws the error of a system call
 */
export async function* recorded(
  journal: ReadableJournal,
  afterSeq: number,
  { filter, signal, limits }: Pick<Following, 'filter' | 'signal' | 'limits'>,
): AsyncGenerator<FollowedLines> {
  const gone: GoneLines[] = [];
  const log = journal.remarks();
  const onRemark = (remark: Remark) => {
    log(remark);
    if (remark.gone !== undefined) gone.push(remark.gone);
  };
  const once = AbortSignal.abort(); // reads once, and takes a missing folder for an empty journal
  const reading = { filter: { ...filter, afterSeq }, seek: true, follow: once, progress: journal.progress(), limits };
  const disk = journal.diskFor({ signal, isCounted: true });
  try {
    for await (const lines of readJournal(disk, reading, onRemark)) {
      if (signal.aborted) return;
      if (lines.some((line) => isLong(line, limits))) yield* apart(lines, gone.splice(0), limits);
      else yield { kind: 'lines', lines, gone: gone.splice(0) };
    }
    if (gone.length > 0 && !signal.aborted) yield { kind: 'lines', lines: [], gone };
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/**
 * Finds where the last events of a journal begin, without reading what is before them: looks at the newest lines, then at eight
 * times as many, until enough of them match.
 * @param signal ends it early
 * @returns the seq before the first of the last `count` events after `afterSeq` that match
 */
export async function startOfLast(
  journal: ReadableJournal,
  count: number,
  afterSeq: number,
  filter: Filter,
  signal: AbortSignal,
  limits: Limits,
): Promise<number> {
  const { first, last } = await journal.range();
  const least = Math.max(afterSeq, first - 1);
  for (let looked = count; ; looked *= 8) {
    const start = Math.max(least, last - looked);
    let seqs: number[] = [];
    for await (const { lines } of recorded(journal, start, { filter, signal, limits })) {
      for (const { seq } of lines) seqs.push(seq);
      if (seqs.length > 2 * count) seqs = seqs.slice(-count);
    }
    if (seqs.length >= count) return seqs.at(-count)! - 1;
    if (start === least || signal.aborted) return start;
  }
}

function isLong({ start, end }: Line, { readTurnBytes }: Limits): boolean {
  return end - start > readTurnBytes;
}

/** Yields each long line alone, after its memory was freed, and the lines between them together. */
function* apart(lines: readonly Line[], gone: readonly GoneLines[], limits: Limits): Generator<FollowedLines> {
  for (const line of lines) if (isLong(line, limits)) line.drop();
  let goneLeft = gone;
  for (let at = 0, end = 0; at < lines.length; at = end) {
    const nextLong = lines.findIndex((line, index) => index >= at && line.isDropped);
    if (nextLong === at) end = at + 1;
    else end = nextLong === -1 ? lines.length : nextLong;
    const part = lines.slice(at, end);
    const before = end === lines.length ? goneLeft : goneLeft.filter(({ last }) => last < part.at(-1)!.seq);
    goneLeft = goneLeft.slice(before.length);
    yield { kind: 'lines', lines: part, gone: before };
  }
}

/** The newest lines of a journal, for all its followers. Lines are read when a follower asks for them. */
class Tail implements NewestLines {
  readonly #journal: ReadableJournal;
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

  /** @param afterSeq the last seq that is durable now */
  constructor(journal: ReadableJournal, afterSeq: number, limits: Limits) {
    this.#journal = journal;
    this.#limits = limits;
    this.#lastSeq = afterSeq;
    journal.shared.followed += 1;
    const follow = AbortSignal.any([this.#end.signal, journal.replaced]);
    const progress = inGroups(journal.progress(), limits.streamWakeMs);
    const reading = { filter: { afterSeq }, seek: true, follow, progress, limits };
    const disk = journal.diskFor({ signal: this.#end.signal });
    const log = journal.remarks();
    this.#lines = readJournal(disk, reading, (remark) => {
      log(remark);
      if (remark.gone !== undefined) this.#gone.push(remark.gone);
    });
  }

  get oldestSeq(): number {
    return this.#pages[0]?.afterSeq ?? this.#lastSeq;
  }

  joined(): this {
    this.#followers += 1;
    return this;
  }

  left(): void {
    this.#followers -= 1;
    if (this.#followers > 0) return;
    this.#journal.shared.followed -= 1;
    this.#end.abort();
    void this.#lines.return(undefined).catch(() => {}); // closes the file; what it was waiting for was aborted
    if (this.#journal.tail === this) this.#journal.tail = undefined;
  }

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
      if (this.#journal.tail === this) this.#journal.tail = undefined;
    }
    this.#isReading = false;
    this.#waiting.wake();
  }

  #add(lines: readonly Line[]): void {
    const gone = this.#gone.splice(0);
    const afterSeq = this.#lastSeq;
    this.#lastSeq = Math.max(lines.at(-1)?.seq ?? 0, gone.at(-1)?.last ?? 0);
    if (lines.some((line) => isLong(line, this.#limits))) {
      this.#pages = []; // followers read it from the file, each at the pace of its client
      return;
    }
    const bytes = lines.reduce((sum, { start, end }) => sum + end - start, 0);
    this.#pages.push({ afterSeq, lastSeq: this.#lastSeq, lines, gone, bytes });
    const bytesMax = this.#limits.sharedLinesBytesMax / this.#journal.shared.followed;
    let kept = this.#pages.reduce((sum, page) => sum + page.bytes, 0);
    while (kept > bytesMax && this.#pages.length > 1) kept -= this.#pages.shift()!.bytes;
  }
}

/** @returns the progress, whose `more` resolves at once after a pause, and at most every `intervalMs` while lines arrive */
function inGroups(progress: Progress, intervalMs: number): Progress {
  let wokenMs = Number.NEGATIVE_INFINITY;
  return {
    ...progress,
    more: async (signal) => {
      await progress.more(signal);
      const waitMs = wokenMs + intervalMs - performance.now();
      if (waitMs > 0) await sleep(waitMs, undefined, { signal, ref: false }).catch(() => {}); // it rejects only when it is aborted
      wokenMs = performance.now();
    },
  };
}
