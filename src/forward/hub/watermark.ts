/**
 * The lines of other journals that a hub has, and which lines of a request it records. The name of an event is the line in which it was first
 * recorded, over any path. The decision depends only on the names. So each event is recorded once even if a request is repeated, cut short or
 * overtaken by another one, or if a journal sends its events along two paths or in a circle.
 */

import type { LineName } from '../../event/line-name.ts';
import { type Position, type SeqRange, START } from '../position.ts';
import type { Era } from '../source.ts';
import type { ForwardedEvent, ForwardRequest } from './received.ts';

/**
 * Which lines of a journal the hub has: all lines up to `seq` except the lost ones, and some after it. `id` is the id of the last line
 * up to `seq`; null if unknown.
 */
export interface Watermark extends Position {
  /**
   * Lines up to `seq` that the hub does not have: their journal no longer has them, but another journal might still
   * deliver them.
   */
  readonly lost: readonly SeqRange[];
  /**
   * Lines that the hub has after lines that it still wants: from a journal whose later events arrived first, or after a
   * repair of the hub.
   */
  readonly ahead: readonly Part[];
}

/** Consecutive lines of a journal. */
export interface Part extends SeqRange {
  /** The id of the last line; null if unknown. */
  readonly id: string | null;
}

export const NOTHING: Watermark = { ...START, lost: [], ahead: [] };

export function isHere(mark: Watermark | undefined, seq: number): boolean {
  if (mark === undefined) return false;
  return seq <= mark.seq ? !isIn(mark.lost, seq) : isIn(mark.ahead, seq);
}

/** Adds a line that another journal delivered, which says nothing about the lines before it. */
export function note(mark: Watermark, seq: number, id: string): Watermark {
  if (isHere(mark, seq)) return mark;
  const line = { first: seq, last: seq, id };
  if (seq <= mark.seq) return { ...mark, lost: outside(mark.lost, [line]) };
  const before = mark.ahead.filter(({ last }) => last < seq);
  return joined({ ...mark, ahead: [...before, line, ...mark.ahead.slice(before.length)] });
}

/** Adds a line that a journal has sent of its own: the lines before it that the hub does not have are lost. */
export function settleTo(mark: Watermark, seq: number, id: string): Watermark {
  if (seq <= mark.seq) return note(mark, seq, id);
  if (seq === mark.seq + 1 && mark.ahead.length === 0) return { ...mark, seq, id };
  const lost = [...mark.lost, ...outside([{ first: mark.seq + 1, last: seq - 1 }], mark.ahead)];
  return joined({ seq, id, lost, ahead: mark.ahead });
}

/** Called with lines that, because there are too many ranges, count as lost, or as present although they are not. */
export type OnDropped = (range: SeqRange, counts: 'lost' | 'here') => void;

/** @param partsMax the most parts of `lost` and of `ahead` */
export function bounded(mark: Watermark, partsMax: number, onDropped: OnDropped): Watermark {
  let bound = mark;
  while (bound.ahead.length > partsMax) {
    const { seq, lost, ahead } = bound;
    const hole = { first: seq + 1, last: ahead[0]!.first - 1 };
    onDropped(hole, 'lost');
    bound = joined({ ...bound, seq: hole.last, lost: [...lost, hole] });
  }
  const dropped = bound.lost.slice(0, Math.max(0, bound.lost.length - partsMax));
  for (const range of dropped) onDropped(range, 'here');
  return dropped.length === 0 ? bound : { ...bound, lost: bound.lost.slice(dropped.length) };
}

/** @returns the number of lines that are wanted or lost */
export function countMissing({ seq, lost, ahead }: Watermark): number {
  const end = ahead.at(-1)?.last ?? seq;
  return countIn(lost) + countIn(outside([{ first: seq + 1, last: end }], ahead));
}

function countIn(ranges: readonly SeqRange[]): number {
  return ranges.reduce((sum, { first, last }) => sum + last + 1 - first, 0);
}

function isIn(ranges: readonly SeqRange[], seq: number): boolean {
  return ranges.some(({ first, last }) => first <= seq && seq <= last);
}

/** @returns the parts of the ranges that are in none of the others */
function outside(ranges: readonly SeqRange[], others: readonly SeqRange[]): readonly SeqRange[] {
  const without = (range: SeqRange, { first, last }: SeqRange) => [
    { first: range.first, last: Math.min(range.last, first - 1) },
    { first: Math.max(range.first, last + 1), last: range.last },
  ];
  const cut = others.reduce((left, other) => left.flatMap((range) => without(range, other)).filter(hasSome), ranges);
  return cut.filter(hasSome);
}

function hasSome({ first, last }: SeqRange): boolean {
  return first <= last;
}

/** Joins parts without a line between them. */
function joined({ seq, id, lost, ahead }: Watermark): Watermark {
  if (ahead.length === 0) return { seq, id, lost, ahead };
  const [{ last, id: lastId }, ...parts] = ahead.reduce(
    (before: [Part, ...Part[]], part): [Part, ...Part[]] => {
      const one = before.at(-1)!;
      if (part.last <= one.last) return before;
      if (part.first <= one.last + 1) before[before.length - 1] = { ...part, first: one.first };
      else before.push(part);
      return before;
    },
    [{ first: 1, last: seq, id }],
  );
  return { seq: last, id: lastId, lost, ahead: parts };
}

/** @returns the watermark as of the time when a journal had no line after `seq` */
function cutAt(mark: Watermark, seq: number): Watermark {
  const cut = <Range extends SeqRange>(ranges: readonly Range[], more: object): Range[] =>
    ranges
      .filter(({ first }) => first <= seq)
      .map((range) => (range.last <= seq ? range : { ...range, last: seq, ...more }));
  const ahead = cut(mark.ahead, { id: null });
  const lost = cut(mark.lost, {});
  return mark.seq <= seq ? { ...mark, lost, ahead } : { seq, id: null, lost, ahead };
}

/** The journal of the hub itself. */
export interface Own {
  /** All its ids, the current one last. */
  readonly eras: readonly Era[];
  /** The last durable line. */
  readonly lastSeq: number;
  /** The lines that a repair reported as lost. */
  readonly losses: readonly SeqRange[];
}

/** @returns the last line that this journal has under an id; undefined if it never had that id */
function lastUnder({ eras, lastSeq }: Own, id: string): number | undefined {
  const at = eras.findIndex(([, one]) => one === id);
  if (at === -1) return undefined;
  const next = eras[at + 1];
  return next === undefined ? lastSeq : next[0] - 1;
}

/**
 * @param eras the ids of a journal, including its earlier ones, since the hub might know it by one of these
 * @returns the watermark of the journal; undefined if the journal is unknown
 */
export function watermarkOf(
  marks: ReadonlyMap<string, Watermark>,
  own: Own,
  eras: readonly Era[],
): Watermark | undefined {
  for (let at = eras.length - 1; at >= 0; at -= 1) {
    const [, id] = eras[at]!;
    let mark = marks.get(id);
    const last = lastUnder(own, id) ?? 0; // a copy of this hub
    if (last > (mark?.seq ?? 0)) {
      const { ahead, lost, seq } = mark ?? NOTHING;
      const here = [...outside([{ first: 1, last: seq }], lost), ...ahead];
      const losses = outside(
        own.losses.map(({ first, last: end }) => ({ first, last: Math.min(end, last) })),
        here,
      );
      mark = joined({ seq: last, id: null, lost: losses, ahead });
    }
    const next = eras[at + 1];
    if (mark !== undefined) return next === undefined ? mark : cutAt(mark, next[0] - 1);
  }
  return undefined;
}

/** @returns the name of an event, which is the name of the line that was reported */
export function nameOf({ origin: { first, source, seq } }: ForwardedEvent): LineName {
  return first ?? [source, seq];
}

export type Taken = Extract<Decision, { readonly kind: 'taken' }>;

/** What a hub knows when it makes a decision. */
export interface Known {
  readonly marks: ReadonlyMap<string, Watermark>;
  readonly own: Own;
  readonly partsMax: number;
}

export type Decision =
  | {
      readonly kind: 'taken';
      /** The events to record, in order. */
      readonly fresh: readonly ForwardedEvent[];
      /** The watermarks that change once these events are durable. */
      readonly marks: ReadonlyMap<string, Watermark>;
      /** The lines before the first one that the sender no longer has. */
      readonly lost: readonly SeqRange[];
      /** An event that the hub has with another id. The journal of its name thus recorded it twice. */
      readonly other: { readonly name: LineName; readonly sent: string; readonly here: string } | undefined;
      /** See `OnDropped`. */
      readonly dropped: readonly { readonly journal: string; readonly range: SeqRange; readonly counts: string }[];
    }
  /** The sender is this journal itself, or events are missing that might not be lost. */
  | { readonly kind: 'self' | 'gap'; readonly at: Watermark }
  /** The hub has an event with another id. */
  | { readonly kind: 'fork'; readonly at: Watermark; readonly here: string; readonly sent: string }
  /** An event has the name of a line that this journal does not have. */
  | { readonly kind: 'restored'; readonly name: LineName };

/** @param events at least one, with consecutive seqs */
export function decide(
  known: Known,
  { eras, firstSeq, lost, after, begins = 1 }: Pick<ForwardRequest, 'eras' | 'firstSeq' | 'lost' | 'after' | 'begins'>,
  events: readonly ForwardedEvent[],
): Decision {
  const { marks, own } = known;
  const mark = watermarkOf(marks, own, eras) ?? NOTHING;
  // A sender of version 0.3 reports only where its id begins; the lines before that are not lost.
  const begun = eras.length > 1 ? 0 : Math.min(begins, firstSeq) - 1;
  const at = begun > mark.seq ? joined({ ...mark, seq: begun, id: null }) : mark;
  if (presentId(eras) === presentId(own.eras)) return { kind: 'self', at };
  const isLost = lost !== undefined && lost.first <= at.seq + 1 && lost.last === firstSeq - 1;
  if (firstSeq > at.seq + 1 && !isLost) return { kind: 'gap', at };
  const sentId = (seq: number) => (seq === firstSeq - 1 ? after : events[seq - firstSeq]?.origin.id);
  const other = findOther(at, sentId);
  if (other !== undefined) return { kind: 'fork', at, ...other };
  return takeAll(known, at, events, begins);
}

/**
 * @param at the watermark of the sender @param begins the lines before this one are not lost, but have an earlier id
 */
function takeAll(
  { marks, own, partsMax }: Known,
  at: Watermark,
  events: readonly ForwardedEvent[],
  begins: number,
): Decision {
  const { source, seq: firstSeq } = events[0]!.origin;
  const changed = new Map([[source, at]]);
  const get = (journal: string) => changed.get(journal) ?? marks.get(journal) ?? NOTHING;
  const dropped: { journal: string; range: SeqRange; counts: string }[] = [];
  const change = (how: typeof note, [journal, seq]: LineName, id: string) => {
    const drop: OnDropped = (range, counts) => dropped.push({ journal, range, counts });
    changed.set(journal, bounded(how(get(journal), seq, id), partsMax, drop));
  };
  const fresh: ForwardedEvent[] = [];
  let other: Taken['other'];
  for (const event of events) {
    const { seq, id } = event.origin;
    const name = nameOf(event);
    const [journal, n] = name;
    const isRepeated = isHere(get(source), seq);
    const last = lastUnder(own, journal) ?? 0;
    if (!isRepeated && journal === presentId(own.eras) && n > last) return { kind: 'restored', name };
    const isOwn = n <= last && !isIn(own.losses, n);
    const isKnown = isOwn || isHere(get(journal), n);
    const found = isKnown ? findOther(get(journal), (one) => (one === n ? id : undefined)) : undefined;
    if (found !== undefined) other ??= { name, ...found };
    change(settleTo, [source, seq], id);
    if (isRepeated || isKnown) continue;
    fresh.push(event);
    if (journal !== source || n !== seq) change(note, name, id);
  }
  const lost = outside([{ first: Math.max(at.seq + 1, begins), last: firstSeq - 1 }], at.ahead);
  return { kind: 'taken', fresh, marks: changed, lost, other, dropped };
}

function presentId(eras: readonly Era[]): string {
  return eras.at(-1)![1];
}

/**
 * @returns the id that the hub has for a line at the end of a part, and another id that was sent for it; undefined if there
 * is none
 */
function findOther({ seq, id, ahead }: Watermark, sentId: (seq: number) => string | undefined) {
  for (const { last, id: here } of [{ last: seq, id }, ...ahead]) {
    const sent = here === null ? undefined : sentId(last);
    if (sent !== undefined && sent !== here) return { here: here!, sent };
  }
  return undefined;
}

/**
 * Adds a line of the hub's own journal.
 * @param from the line in the journal that sent it, with its id
 * @param isAfterLoss whether a repair of the hub lost earlier lines that were not added. The lines that the sender left out might
 *   be among them, so they are wanted again. Otherwise the sender had reported them as lost, or they had arrived on another path
 * @param isFirst whether lines were removed that were not added. The lines of each journal before its first one then count as present
 */
export function addLine(
  marks: Map<string, Watermark>,
  { from, origin, id }: { readonly from: LineName; readonly origin: LineName; readonly id: string },
  { isAfterLoss, isFirst, bound }: { isAfterLoss: boolean; isFirst: boolean; bound: (mark: Watermark) => Watermark },
): void {
  const add = ([journal, seq]: LineName, change: typeof note) => {
    const mark = marks.get(journal);
    marks.set(
      journal,
      mark === undefined && isFirst ? { ...NOTHING, seq, id } : bound(change(mark ?? NOTHING, seq, id)),
    );
  };
  add(from, isAfterLoss ? note : settleTo);
  if (origin !== from) add(origin, note);
}
