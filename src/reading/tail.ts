/**
 * Follows a journal. All followers that keep up share the newest lines: see `Tail`. A follower that needs older lines reads the file
 * itself, from its own position. Nothing is queued for a follower.
 */

import type { Limits } from '../config/limits.ts';
import { type Filter, isMatch } from '../event/search.ts';
import { readJournal, readNewest } from '../journal/look/reader.ts';
import type { GoneLines, Line, Reading } from '../journal/look/reading.ts';
import type { ReadableJournal } from './journals.ts';
import { inGroups, isLong, type SharedPage, Tail } from './newest.ts';

/** What a follower gets next, each event once and in order. */
export type Followed = FollowedLines | { readonly kind: 'another journal' };

/** Matching lines, and the seqs between them that the journal no longer has. */
export interface FollowedLines {
  readonly kind: 'lines';
  /** A line that is longer than a chunk is dropped: see `Piece`. */
  readonly lines: readonly Line[];
  readonly gone: readonly GoneLines[];
  /** Set if these are all lines of a page, so that followers can share its form. */
  readonly page?: SharedPage;
}

export interface Following {
  readonly afterSeq: number;
  /** The filter without `afterSeq`. */
  readonly filter: Filter;
  readonly signal: AbortSignal;
  /** After this long without an event, an empty array of lines is yielded. */
  readonly idleMs: number;
  readonly limits: Limits;
}

/**
 * Yields the matching events after a seq, and then new ones, until the signal aborts. Each piece is yielded in a turn (see
 * `Turns`), which lasts until the caller waits for something.
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
  const { signal } = following;
  let seq = following.afterSeq;
  let tail: Tail | undefined;
  try {
    while (!signal.aborted) {
      if (journal.tail?.hasFailed === true) journal.tail = undefined;
      tail ??= journal.tail?.joined();
      if (tail === undefined || seq < tail.oldestSeq) {
        const { last } = await journal.range();
        if (seq < last) seq = yield* catchUp(journal, seq, last, following);
        else journal.tail ??= tailOf(journal, seq, following.limits);
      } else {
        seq = yield* fromTail(tail, journal, seq, following);
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    if (tail?.left() === true && journal.tail === tail) journal.tail = undefined;
  }
}

/** Reads the files of the journal up to its last event. @returns the seq from which the follower continues */
async function* catchUp(
  journal: ReadableJournal,
  afterSeq: number,
  last: number,
  following: Following,
): AsyncGenerator<FollowedLines, number> {
  let seq = last;
  for await (const found of readExisting(journal, afterSeq, following)) {
    yield found;
    seq = Math.max(seq, found.lines.at(-1)?.seq ?? 0); // includes lines after `last`
  }
  return seq;
}

/**
 * Waits for newer lines of the tail, and yields the matching ones. @returns the seq from which the follower continues
 */
async function* fromTail(
  tail: Tail,
  journal: ReadableJournal,
  afterSeq: number,
  { filter, signal, idleMs }: Following,
): AsyncGenerator<FollowedLines, number> {
  const page = await tail.after(afterSeq, signal, idleMs);
  if (signal.aborted) return afterSeq;
  if (page === undefined) {
    if (afterSeq >= tail.oldestSeq) yield { kind: 'lines', lines: [], gone: [] };
    return afterSeq;
  }
  const { buffers, turns } = journal.shared;
  const release = await buffers.acquire(signal);
  try {
    await turns.take(signal, true);
    yield linesAfter(page, afterSeq, filter);
  } finally {
    release();
  }
  return page.lastSeq;
}

function linesAfter(page: SharedPage, afterSeq: number, filter: Filter): FollowedLines {
  const isPlain = Object.values(filter).every((value) => value === undefined);
  if (isPlain && page.afterSeq === afterSeq) return { kind: 'lines', lines: page.lines, gone: page.gone, page };
  const lines = page.lines.filter((line) => line.seq > afterSeq && (isPlain || isMatch(line, filter)));
  return { kind: 'lines', lines, gone: page.gone.filter(({ last }) => last > afterSeq) };
}

/** @param afterSeq the last seq that is durable now */
function tailOf(journal: ReadableJournal, afterSeq: number, limits: Limits): Tail {
  const { shared, replaced } = journal;
  return new Tail(shared, afterSeq, limits, (end, onGone) => {
    const progress = inGroups(journal.progress(), limits.streamWakeMs);
    const follow = AbortSignal.any([end, replaced]);
    const reading = { filter: { afterSeq }, seek: true, follow, progress, limits };
    return readJournal(journal.diskFor({ signal: end, isFollower: true }), reading, journal.remarks(onGone));
  });
}

/**
 * Yields the matching lines after a seq that are recorded now; nothing for a piece without a match. Ends early if the signal
 * aborts.
 * @param isSearch see `Reading`
 * @throws the error of a system call
 */
export async function* readExisting(
  journal: ReadableJournal,
  afterSeq: number,
  { filter, signal, limits }: Pick<Following, 'filter' | 'signal' | 'limits'>,
  isSearch = false,
): AsyncGenerator<FollowedLines> {
  const gone: GoneLines[] = [];
  const reading = { ...readingOf(journal, afterSeq, filter, limits), isSearch };
  const disk = journal.diskFor({ signal, isCounted: true });
  const remarks = journal.remarks((range) => gone.push(range));
  try {
    for await (const lines of readJournal(disk, reading, remarks)) {
      if (signal.aborted) return;
      dropLong(lines, limits);
      yield { kind: 'lines', lines, gone: gone.splice(0) };
    }
    if (gone.length > 0 && !signal.aborted) yield { kind: 'lines', lines: [], gone };
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** The last matching events of a journal. */
export interface Newest {
  /** Their lines; undefined if they have more bytes than a reading may keep. */
  readonly kept: readonly Line[] | undefined;
  /** The seq before the first line that is not kept. The events after it are read while they are sent. */
  readonly afterSeq: number;
}

/**
 * Finds the last events of a journal, without reading the events before them.
 * @param signal ends it early
 * @returns the last `count` matching events after `afterSeq`
 * @throws the error of a system call
 */
export async function newestOf(
  journal: ReadableJournal,
  count: number,
  afterSeq: number,
  { filter, signal, limits }: Pick<Following, 'filter' | 'signal' | 'limits'>,
): Promise<Newest> {
  const { last } = await journal.range();
  const reading = readingOf(journal, afterSeq, filter, limits);
  const disk = journal.diskFor({ signal, isCounted: true });
  const bytesMax = 2 * limits.readTurnBytes;
  const lines = await readNewest(disk, reading, journal.remarks(), count, bytesMax).catch((error: Error) => {
    if (!signal.aborted) throw error;
    return [];
  });
  if (lines.some(({ isDropped }) => isDropped)) return { kept: undefined, afterSeq: lines[0]!.seq - 1 };
  return { kept: lines, afterSeq: Math.max(last, lines.at(-1)?.seq ?? 0) };
}

/** A reading of the lines after a seq that are recorded now. */
function readingOf(journal: ReadableJournal, afterSeq: number, filter: Filter, limits: Limits): Reading {
  const once = AbortSignal.abort(); // reads once, and treats a missing folder as an empty journal
  return { filter: { ...filter, afterSeq }, seek: true, follow: once, progress: journal.progress(), limits };
}

function dropLong(lines: readonly Line[], limits: Limits): void {
  for (const line of lines) if (isLong(line, limits)) line.drop();
}
