/**
 * Follows a journal. All followers that keep up share the newest lines: see `Tail`. A follower that needs older lines reads the file by
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

/** Lines that match, and the seqs between them that the journal does not have any more. */
export interface FollowedLines {
  readonly kind: 'lines';
  /** A line that is longer than a chunk is dropped: see `Piece`. */
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
    seq = Math.max(seq, found.lines.at(-1)?.seq ?? 0); // also of lines after `last`
  }
  return seq;
}

/** Waits for newer lines of the tail, and yields those that match. @returns the seq from which the follower continues */
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
 * Yields the lines that are recorded now, after a seq, and match; nothing of a piece without any. Ends early if the signal aborts.
 * @param isSearch as for a `Reading`
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

/** The last events of a journal that match. */
export interface Newest {
  /** Their lines; undefined if a reading may not keep so many bytes. */
  readonly kept: readonly Line[] | undefined;
  /** Before the first line that is not kept: the events after it are read as they are sent. */
  readonly afterSeq: number;
}

/**
 * Finds the last events of a journal, without reading what is before them.
 * @param signal ends it early
 * @returns the last `count` events after `afterSeq` that match
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

/** What is recorded now, after a seq. */
function readingOf(journal: ReadableJournal, afterSeq: number, filter: Filter, limits: Limits): Reading {
  const once = AbortSignal.abort(); // reads once, and takes a missing folder for an empty journal
  return { filter: { ...filter, afterSeq }, seek: true, follow: once, progress: journal.progress(), limits };
}

function dropLong(lines: readonly Line[], limits: Limits): void {
  for (const line of lines) if (isLong(line, limits)) line.drop();
}
