/**
 * What a hub has of another journal, and which lines of a request it records. The decision follows from these two alone, so that
 * forwarding is exactly once: a request can be repeated, cut or overtaken by another one, and each event is recorded one time.
 */

import { type Position, type SeqRange, START } from '../position.ts';
import type { ForwardedEvent, ForwardRequest } from './received.ts';

/**
 * The last event of a source up to which the hub has all events; seq 0 if the first one is missing. A repair of the hub can lose
 * events before later ones: `{ seq: 7, id: '…', ahead: [{ first: 10, last: 12, id: '…' }] }` lacks 8 and 9.
 */
export interface Watermark extends Position {
  /** The later events, in order, with missing events before each part. Absent without such events. */
  readonly ahead?: readonly Part[];
}

/** Consecutive events of a source. */
interface Part extends SeqRange {
  /** Of the last event; null if the part is empty. */
  readonly id: string | null;
}

/**
 * @param mark undefined if the hub has no event of the source
 * @param events at least one, with consecutive seqs
 * @returns the events that the hub does not have yet: for 6 to 9 and the watermark 7 the events 8 and 9. `fork` if an event of the
 *   hub has another id in the journal of the source, `gap` if events before the first line are missing that might not be lost
 */
export function decide(
  mark: Watermark | undefined,
  { firstSeq, lost, after }: Pick<ForwardRequest, 'firstSeq' | 'lost' | 'after'>,
  events: readonly ForwardedEvent[],
): readonly ForwardedEvent[] | 'fork' | 'gap' {
  const parts = partsOf(mark);
  const dueSeq = parts[0].last + 1;
  if (firstSeq > dueSeq) {
    const isKnownToBeLost = lost !== undefined && lost.first <= dueSeq && lost.last === firstSeq - 1;
    if (!isKnownToBeLost) return 'gap';
  }
  for (const { last, id } of parts) {
    if (id === null) continue;
    const sentId = last === firstSeq - 1 ? after : events[last - firstSeq]?.origin.id; // undefined for an event that is not sent
    if (sentId !== undefined && sentId !== id) return 'fork';
  }
  return events.filter(({ origin: { seq } }) => !parts.some(({ first, last }) => first <= seq && seq <= last));
}

/** @returns the watermark of a hub that has all events up to the position, except those that the source has lost */
export function advance(mark: Watermark | undefined, { seq, id }: Position): Watermark {
  const [{ last }, ...ahead] = partsOf(mark);
  if (seq <= last) return mark!;
  return watermarkOf([{ first: 1, last: seq, id }, ...ahead.filter((part) => part.last > seq)]);
}

/**
 * @param line of a source in the journal of the hub, in the order of that journal
 * @param isAfterLoss whether a repair of the hub has lost lines between the previous line of the source and this one: the events
 *   between the two might be among them. Otherwise the source had reported these events as lost
 * @param partsMax of `Watermark.ahead`: the events between further parts are not requested again
 * @returns the watermark after the line
 */
export function addLine(
  mark: Watermark | undefined,
  { seq, id }: Position,
  isAfterLoss: boolean,
  partsMax: number,
): Watermark {
  const parts = partsOf(mark);
  const at = parts.findLastIndex(({ first }) => first <= seq);
  const { first, last } = parts[at]!;
  if (seq <= last) return mark!;
  const isMissing = isAfterLoss && seq > last + 1 && parts.length <= partsMax;
  if (isMissing) parts.splice(at + 1, 0, { first: seq, last: seq, id });
  else parts[at] = { first, last: seq, id };
  return watermarkOf(parts);
}

/** @returns the events that the hub has, or knows to be lost: the first part starts at 1, and can be empty */
function partsOf({ seq, id, ahead = [] }: Watermark = START): [Part, ...Part[]] {
  return [{ first: 1, last: seq, id }, ...ahead];
}

/** @param later parts, in order; parts without a missing event between them become one */
function watermarkOf([start, ...later]: readonly [Part, ...Part[]]): Watermark {
  const joined: [Part, ...Part[]] = [start];
  for (const part of later) {
    const before = joined.at(-1)!;
    if (part.first > before.last + 1) joined.push(part);
    else joined[joined.length - 1] = { ...part, first: before.first };
  }
  const [{ last: seq, id }, ...ahead] = joined;
  return ahead.length === 0 ? { seq, id } : { seq, id, ahead };
}
