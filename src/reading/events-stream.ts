/**
 * `GET /events` as a stream of events (HTML standard, section 9.2: server-sent events), which can be resumed where it ended.
 */

import type { Limits } from '../config/limits.ts';
import { LINE_FEED } from '../event/json-bytes.ts';
import type { Filter } from '../event/search.ts';
import { type Reply, unavailable } from '../http/message.ts';
import { type Line, linesBefore } from '../journal/look/reading.ts';
import type { GoneRange } from '../journal/segments.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { EventsQuestion } from './events-query.ts';
import type { ReadableJournal } from './journals.ts';
import { type Piece, type PieceForm, piecesOf } from './pieces.ts';
import { type Followed, follow, type Newest, newestOf } from './tail.ts';

/** The open streams of all journals together. */
export class Streams {
  readonly #limits: Limits;
  readonly #metrics: Metrics;

  constructor(limits: Limits, metrics: Metrics) {
    this.#limits = limits;
    this.#metrics = metrics;
  }

  /**
   * Resolves to a stream of the events that match, or to a 503 if `limits.streamsMax` streams are open.
   * @param question `afterSeq` or `last` determines its start; otherwise it starts with the events recorded from now on
   * @param filter without `afterSeq`
   * @throws the error of a system call
   */
  async reply(
    journal: ReadableJournal,
    { afterSeq, last }: EventsQuestion,
    filter: Filter,
    ending: AbortSignal,
  ): Promise<Reply> {
    const limits = this.#limits;
    if (this.#metrics.openStreams >= limits.streamsMax) {
      return unavailable(`${limits.streamsMax} streams are open, which is the limit; close one or use wait`);
    }
    const range = await journal.range();
    const start = last === undefined ? (afterSeq ?? range.last) : (afterSeq ?? 0);
    const isAnother = start > range.last;
    const newest =
      last === undefined
        ? { kept: undefined, afterSeq: start }
        : await newestOf(journal, last, start, { filter, signal: ending, limits });
    return {
      kind: 'stream',
      status: 200,
      contentType: 'text/event-stream',
      headers: ['X-Accel-Buffering', 'no'], // otherwise nginx would hold the events back
      isBesideCap: true,
      pieces: (signal) => this.#pieces(journal, isAnother ? undefined : newest, filter, signal),
    };
  }

  /** @param newest undefined if the client has seen another journal, with larger seqs */
  async *#pieces(
    journal: ReadableJournal,
    newest: Newest | undefined,
    filter: Filter,
    signal: AbortSignal,
  ): AsyncGenerator<Buffer> {
    const limits = this.#limits;
    const { streamRetryMs, streamRetryMsMax, streamCommentMs } = limits;
    if (this.#metrics.openStreams >= limits.streamsMax) return; // others started after the reply was decided; the client will reconnect
    this.#metrics.openStreams += 1;
    try {
      yield Buffer.from(`retry: ${Math.floor(streamRetryMs + Math.random() * (streamRetryMsMax - streamRetryMs))}\n\n`);
      if (newest === undefined) yield ANOTHER_JOURNAL;
      if (newest?.kept !== undefined) {
        yield* journal.bytesOf(this.#piecesOf({ kind: 'lines', lines: newest.kept, gone: [] }), signal);
      }
      let sentMs = performance.now();
      const following = { afterSeq: newest?.afterSeq ?? 0, filter, signal, idleMs: streamCommentMs, limits };
      for await (const found of follow(journal, following)) {
        const pieces = this.#piecesOf(found);
        if (pieces.length === 0 && performance.now() - sentMs < streamCommentMs) continue;
        yield* journal.bytesOf(pieces.length === 0 ? [COMMENT] : pieces, signal);
        sentMs = performance.now();
      }
    } finally {
      this.#metrics.openStreams -= 1;
    }
  }

  #piecesOf(found: Followed): readonly Piece[] {
    if (found.kind === 'another journal') return [ANOTHER_JOURNAL];
    const { lines, gone, page } = found;
    this.#metrics.sentEvents += lines.length;
    if (page === undefined) return piecesWith(gone, lines);
    page.pieces ??= piecesWith(gone, lines);
    return page.pieces;
  }
}

const COMMENT = Buffer.from(':\n\n');
/** Because of the id, a client that reconnects starts with the first event of the other journal. */
const ANOTHER_JOURNAL = Buffer.from('id: 0\nevent: reset\ndata: {}\n\n');

/** @returns the events of the lines, and for each missing range an event before the line after it */
function piecesWith(gone: readonly GoneRange[], lines: readonly Line[]): readonly Piece[] {
  const pieces: Piece[] = [];
  let left = lines;
  for (const { first, last } of gone) {
    const before = linesBefore(left, ({ seq }) => seq > last);
    pieces.push(...piecesOf(before, form), Buffer.from(`event: gap\ndata: {"first":${first},"last":${last}}\n\n`));
    left = left.slice(before.length);
  }
  return [...pieces, ...piecesOf(left, form)];
}

/** The newline of a line ends its data, and another one its event. */
const form: PieceForm = { textOf, headOf: (line) => Buffer.from(headOf(line)), end: Buffer.from('\n') };

function headOf({ seq, type }: Line): string {
  return `id: ${seq}\nevent: ${type}\ndata: `;
}

function textOf(lines: readonly Line[]): Buffer {
  const heads = lines.map(headOf);
  let size = 0;
  for (const [index, { start, end }] of lines.entries()) size += heads[index]!.length + end - start + 2;
  const text = Buffer.allocUnsafe(size);
  let at = 0;
  for (const [index, { bytes, start, end }] of lines.entries()) {
    at += text.write(heads[index]!, at, 'latin1');
    at += bytes.copy(text, at, start, end);
    text[at] = LINE_FEED;
    text[at + 1] = LINE_FEED;
    at += 2;
  }
  return text;
}
