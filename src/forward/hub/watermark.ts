/**
 * What a hub has of another journal, and what it does with lines of it. A hub that answers a request twice in the same way is what
 * makes forwarding exactly once: a request can be repeated, cut or overtaken, and each event is recorded one time.
 */

import { type Position, START } from '../position.ts';
import type { ForwardedEvent, Received } from './received.ts';

/**
 * The last event of a source up to which the hub has all; seq 0 if the first event is missing. After a repair of the hub, events
 * before others might be missing: `{ seq: 7, id: '…', ahead: [{ first: 10, last: 12, id: '…' }] }` lacks 8 and 9.
 */
export interface Watermark extends Position {
  /** What is here of later events, in order, with missing ones before each part. */
  readonly ahead?: readonly Part[];
}

/** Consecutive events. */
interface Part {
  readonly first: number;
  readonly last: number;
  /** Of the last one. */
  readonly id: string;
}

/** Of an event in the journal of its source. */
interface EventPosition extends Position {
  readonly id: string;
}

/** What a hub does with a request. */
export type RequestDecision =
  /** `fresh`: the events that are not here yet; empty if all are. */
  | { readonly kind: 'record'; readonly fresh: readonly ForwardedEvent[] }
  /** The journal, or its copy, has recorded something else since. */
  | { readonly kind: 'fork' }
  /** Events are missing between what the hub has and the first line. */
  | { readonly kind: 'gap' };

/**
 * @param known what the hub has of the source, undefined if nothing
 * @returns for lines from 6 to 9 and the watermark 7 the events 8 and 9, if the line 7 has the id of the watermark
 */
export function decide(known: Watermark | undefined, { firstSeq, lost, after, events }: Received): RequestDecision {
  const { seq, id, ahead = [] } = known ?? NOTHING;
  if (firstSeq > seq + 1) {
    const isKnownToBeLost = lost !== undefined && lost.first <= seq + 1 && lost.last === firstSeq - 1;
    if (!isKnownToBeLost) return { kind: 'gap' };
  }
  for (const mark of [{ seq, id }, ...ahead.map(({ last, id }) => ({ seq: last, id }))]) {
    if (mark.seq === 0) continue; // no event is before the first one, whatever the request says
    // Undefined if the mark is before or after the lines.
    const id = mark.seq === firstSeq - 1 ? after : events[mark.seq - firstSeq]?.origin.id;
    if (id !== undefined && id !== mark.id) return { kind: 'fork' };
  }
  const from = Math.max(0, Math.min(seq - firstSeq + 1, events.length));
  const later = from === 0 ? events : events.slice(from);
  return { kind: 'record', fresh: later.filter(({ origin }) => !ahead.some((part) => isIn(part, origin.seq))) };
}

/**
 * @param last the last event that is taken; all before it are here, or the source does not have them any more
 * @returns the watermark then: with what is here ahead of it, as far as nothing is missing between
 */
export function advanced({ ahead = [] }: Watermark = NOTHING, { seq, id }: EventPosition): Watermark {
  const [next, ...more] = ahead.filter((part) => part.last > seq);
  if (next === undefined) return { seq, id };
  if (next.first > seq + 1) return { seq, id, ahead: [next, ...more] };
  return { seq: next.last, id: next.id, ...(more.length > 0 && { ahead: more }) };
}

/**
 * @param line of a source in the journal of the hub, in the order of that journal
 * @param isAfterLoss whether a repair of the hub has lost lines between the line and the one of the same source before it: then
 *   what is missing might be one of those, and otherwise the source had said that it is lost
 * @param partsMax of `Watermark.ahead`: events that are missing later are not asked for again
 * @returns the watermark after the line
 */
export function continued(
  known: Watermark | undefined,
  { seq, id }: EventPosition,
  isAfterLoss: boolean,
  partsMax: number,
): Watermark {
  const { ahead = [], ...mark } = known ?? NOTHING;
  if (seq <= mark.seq || ahead.some((part) => isIn(part, seq))) return known!;
  const isMissing = isAfterLoss && ahead.length < partsMax;
  const before = ahead.findLastIndex(({ last }) => last < seq);
  if (before === -1 && (seq === mark.seq + 1 || !isMissing)) return advanced(known, { seq, id });
  const parts = [...ahead];
  const previous = parts[before];
  if (previous !== undefined && (seq === previous.last + 1 || !isMissing)) {
    parts[before] = { first: previous.first, last: seq, id };
    const next = parts[before + 1];
    if (next?.first === seq + 1) parts.splice(before, 2, { ...next, first: previous.first });
  } else parts.splice(before + 1, 0, { first: seq, last: seq, id });
  return { ...mark, ahead: parts };
}

function isIn({ first, last }: Part, seq: number): boolean {
  return first <= seq && seq <= last;
}

const NOTHING: Watermark = START;
