/** `GET /events`: the recorded events of a journal, in the order of their seqs, as lines, as JSON or as a stream. */

import type { Limits } from '../config/limits.ts';
import type { Filter } from '../event/search.ts';
import { type Handler, Refusal, type Reply } from '../http/message.ts';
import { bytesOf, type Line } from '../journal/look/reading.ts';
import { endingAfter } from '../waiting/ending-after.ts';
import { linesType } from './accept.ts';
import { type EventsQuestion, questionReader } from './events-query.ts';
import { Streams } from './events-stream.ts';
import type { ReadableJournal, ReadingParts } from './journals.ts';
import { piecesOf } from './pieces.ts';
import { type FollowedLines, follow, type Newest, newestOf, readExisting } from './tail.ts';

/** @returns the handler of `GET /events`; it throws Refusal 400 for a wrong query */
export function readEvents({ journals, sourceFilter, limits, metrics }: ReadingParts): Handler {
  const streams = new Streams(limits, metrics);
  const readQuestion = questionReader(limits);
  return (request) => {
    const question = readQuestion(request);
    const reply = async (ending: AbortSignal): Promise<Reply> => {
      journals.shared.checkMemory();
      const asked = question.filter(Date.now());
      const source = asked.source && (await sourceFilter(request.deployment, asked.source.text));
      const filter = source === undefined ? asked : { ...asked, source };
      const journal = await journals.whenReadable(request.deployment, ending);
      metrics.read(question.form);
      if (question.form === 'stream') return streams.reply(journal, question, filter, ending);
      const page: EventsPage = {
        journal,
        question,
        filter,
        start: await startOf(journal, question, filter, ending, limits),
        limits,
        onSent: (count) => {
          metrics.sentEvents += count;
        },
      };
      return {
        kind: 'stream',
        status: 200,
        contentType: question.form === 'json' ? 'application/json' : linesType,
        pieces: (signal, onWait) => bytesOfPage(page, signal, onWait),
      };
    };
    return { kind: 'later', reply };
  };
}

/** A part of a journal that is about to be sent. */
interface EventsPage {
  readonly journal: ReadableJournal;
  readonly question: EventsQuestion;
  readonly filter: Filter;
  readonly start: Newest;
  readonly limits: Limits;
  readonly onSent: (count: number) => void;
}

/** @throws Refusal 410 if the events after `after_seq` were removed */
async function startOf(
  journal: ReadableJournal,
  { afterSeq = 0, last }: EventsQuestion,
  filter: Filter,
  signal: AbortSignal,
  limits: Limits,
): Promise<Newest> {
  const { first } = await journal.range();
  if (afterSeq > 0 && afterSeq + 1 < first) throw removedUpTo(first - 1);
  if (last === undefined) return { kept: undefined, afterSeq };
  return newestOf(journal, last, afterSeq, { filter, signal, limits });
}

function removedUpTo(seq: number): Refusal {
  const next = seq + 1;
  return new Refusal(
    410,
    `the events up to seq ${seq} were removed; the first available one is ${next}: continue with after_seq=${seq}`,
    { firstSeq: next },
  );
}

/**
 * Yields the lines of a page while they are read, each once. The page ends before events that retention removes at the same
 * time, so that the next request gets 410.
 * @param looked gets the last seq that was examined
 * @throws Refusal 410 before the first line, if the next events after `after_seq` have been removed in the meantime
 */
async function* linesOf(
  page: EventsPage,
  ending: AbortSignal,
  onWait: () => void,
  looked: { seq: number },
): AsyncGenerator<readonly Line[]> {
  const { journal, question, filter } = page;
  const { kept, afterSeq } = page.start;
  if (kept !== undefined) return yield* keptLines(page, kept, ending, looked);
  const { last } = await journal.range();
  looked.seq = Math.min(afterSeq, last);
  const isEmpty = yield* recordedLines(page, last, AbortSignal.any([ending, journal.replaced]), looked);
  const isOver = looked.seq >= (filter.untilSeq ?? Number.POSITIVE_INFINITY); // no later event can match
  if (!isEmpty || question.waitMs === 0 || afterSeq > last || isOver) return;
  onWait();
  yield* awaitedLines(page, endingAfter(question.waitMs, ending), looked);
}

/** Yields lines that were found before the reply started. */
async function* keptLines(
  { journal, question, start, onSent }: EventsPage,
  kept: readonly Line[],
  ending: AbortSignal,
  looked: { seq: number },
): AsyncGenerator<readonly Line[]> {
  looked.seq = kept.length === question.limit ? kept.at(-1)!.seq : start.afterSeq;
  if (kept.length === 0) return;
  const { buffers, turns } = journal.shared;
  const release = await buffers.acquire(ending);
  try {
    await turns.take(ending);
    onSent(kept.length);
    yield kept;
  } finally {
    release();
  }
}

/**
 * Yields the lines up to the last one of the journal.
 * @returns whether there were none, so that the page may wait for the next line
 */
async function* recordedLines(
  page: EventsPage,
  last: number,
  signal: AbortSignal,
  looked: { seq: number },
): AsyncGenerator<readonly Line[], boolean> {
  const { journal, question, filter, limits } = page;
  const { afterSeq } = page.start;
  let left = question.limit;
  const isBehind = afterSeq < last;
  for await (const found of isBehind ? readExisting(journal, afterSeq, { filter, signal, limits }, true) : []) {
    const { chosen, endSeq } = await partOf(page, found, left);
    left -= chosen.length;
    page.onSent(chosen.length);
    if (chosen.length > 0) yield chosen;
    looked.seq = endSeq ?? Math.max(looked.seq, chosen.at(-1)?.seq ?? 0);
    if (endSeq !== undefined) return false;
  }
  if (signal.aborted) return false;
  looked.seq = Math.max(looked.seq, last);
  return left === question.limit;
}

/** Waits for the next lines, and yields them. */
async function* awaitedLines(
  page: EventsPage,
  signal: AbortSignal,
  looked: { seq: number },
): AsyncGenerator<readonly Line[]> {
  const { journal, question, filter, limits } = page;
  const following = { afterSeq: looked.seq, filter, signal, idleMs: question.waitMs, limits };
  for await (const found of follow(journal, following)) {
    if (found.kind === 'another journal') return;
    const { chosen } = await partOf(page, found, question.limit);
    if (chosen.length === 0) continue;
    looked.seq = chosen.at(-1)!.seq;
    page.onSent(chosen.length);
    yield chosen;
    return;
  }
}

/**
 * @param left how many more lines the page can get
 * @returns the lines that belong to the page, and its last seq if the page ends with them
 * @throws Refusal 410
 */
async function partOf(
  { journal, question }: EventsPage,
  { lines, gone }: FollowedLines,
  left: number,
): Promise<{ chosen: readonly Line[]; endSeq: number | undefined }> {
  const isBegun = left < question.limit;
  const hole = gone.find(({ why }) => why === 'removed');
  if (hole === undefined || (!isBegun && !question.afterSeq)) {
    const chosen = lines.slice(0, left);
    return { chosen, endSeq: chosen.length === left ? chosen.at(-1)!.seq : undefined };
  }
  if (!isBegun) throw removedUpTo(Math.max(hole.last, (await journal.range()).first - 1));
  return { chosen: [], endSeq: hole.first - 1 };
}

/**
 * Yields the lines unchanged, or in a document, in which the newline after a long line is white space between tokens.
 */
async function* bytesOfPage(page: EventsPage, ending: AbortSignal, onWait: () => void): AsyncGenerator<Buffer> {
  const isDocument = page.question.form === 'json';
  const looked = { seq: 0 };
  let before = isDocument ? Buffer.from('{"events":[') : NOTHING;
  const headOf = () => {
    const head = before;
    before = isDocument ? COMMA : NOTHING;
    return head;
  };
  const withHead = ({ bytes, start, end }: Line) => [headOf(), bytes.subarray(start, end)];
  const textOf = (lines: readonly Line[]) => (isDocument ? Buffer.concat(lines.flatMap(withHead)) : bytesOf(lines));
  for await (const chosen of linesOf(page, ending, onWait, looked)) {
    yield* page.journal.bytesOf(piecesOf(chosen, { textOf, headOf, end: NOTHING }), ending);
  }
  if (isDocument) yield Buffer.from(`${before === COMMA ? '' : before}],"next_after_seq":${looked.seq}}`);
}

const COMMA = Buffer.from(',');
const NOTHING = Buffer.alloc(0);
