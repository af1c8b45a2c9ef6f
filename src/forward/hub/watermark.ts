/**
 * The lines of other journals that a hub has, and which lines of a request it records. The name of an event is the line in which it was
 * first recorded, over any path. The decision follows from the names alone, so that each event is recorded once: a request can be repeated, cut
 * or overtaken by another one, and a journal can send its events by two ways, or in a circle.
 */

import type { LineName } from '../../event/line-name.ts';
import { type Position, type SeqRange, START } from '../position.ts';
import type { Era } from '../source.ts';
import type { ForwardedEvent, ForwardRequest } from './received.ts';

/**
 * Which lines of a journal are here: all up to `seq` that are not among the lost ones, and some after it. `id` is that of the last line
 * up to `seq`; null if it is not known.
 */
export interface Watermark extends Position {
  /** Up to `seq` and not here: their journal does not have them any more, and another one might still bring them. */
  readonly lost: readonly SeqRange[];
  /** After lines that are still wanted: of a journal whose later events came first, or after a repair of the hub. */
  readonly ahead: readonly Part[];
}

/** Consecutive lines of a journal. */
export interface Part extends SeqRange {
  /** Of the last line; null if it is not known. */
  readonly id: string | null;
}

export const NOTHING: Watermark = { ...START, lost: [], ahead: [] };

export function isHere(mark: Watermark | undefined, seq: number): boolean {
  if (mark === undefined) return false;
  return seq <= mark.seq ? !isIn(mark.lost, seq) : isIn(mark.ahead, seq);
}

/** One more line is here, which another journal brought: that says nothing of the lines before it. */
export function note(mark: Watermark, seq: number, id: string): Watermark {
  if (isHere(mark, seq)) return mark;
  const line = { first: seq, last: seq, id };
  if (seq <= mark.seq) return { ...mark, lost: outside(mark.lost, [line]) };
  const before = mark.ahead.filter(({ last }) => last < seq);
  return joined({ ...mark, ahead: [...before, line, ...mark.ahead.slice(before.length)] });
}

/** A journal has sent its own line: the lines before it that are not here are lost. */
export function settleTo(mark: Watermark, seq: number, id: string): Watermark {
  if (seq <= mark.seq) return note(mark, seq, id);
  if (seq === mark.seq + 1 && mark.ahead.length === 0) return { ...mark, seq, id };
  const lost = [...mark.lost, ...outside([{ first: mark.seq + 1, last: seq - 1 }], mark.ahead)];
  return joined({ seq, id, lost, ahead: mark.ahead });
}

/** Called with lines that count as lost, or as here although they are not, since there are too many ranges. */
export type OnDropped = (range: SeqRange, counts: 'lost' | 'here') => void;

/** @param partsMax of `lost` and of `ahead` */
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

/** @returns the number of lines that are wanted, or lost */
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

/** @returns what of the ranges is in none of the others */
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

/** @returns what was here when a journal had no line after `seq` */
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
  /** Its ids, the present one last. */
  readonly eras: readonly Era[];
  /** Its last durable line. */
  readonly lastSeq: number;
  /** Its lines that a repair has lost. */
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
 * @param eras the ids of a journal, also those that it had before: the hub might know it by one of these
 * @returns what is here of it; undefined if nothing is known
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

/** @returns the name of an event: that of the line which was reported */
export function nameOf({ origin: { first, source, seq } }: ForwardedEvent): LineName {
  return first ?? [source, seq];
}

export type Taken = Extract<Decision, { readonly kind: 'taken' }>;

/** What a hub knows when it decides. */
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
      /** The watermarks that are others once these are durable. */
      readonly marks: ReadonlyMap<string, Watermark>;
      /** The lines before the first one that the sender does not have any more. */
      readonly lost: readonly SeqRange[];
      /** An event that is here with another id, which the journal of its name thus has twice. */
      readonly other: { readonly name: LineName; readonly sent: string; readonly here: string } | undefined;
      /** See `OnDropped`. */
      readonly dropped: readonly { readonly journal: string; readonly range: SeqRange; readonly counts: string }[];
    }
  /** The sender is this journal; events are missing that might not be lost. */
  | { readonly kind: 'self' | 'gap'; readonly at: Watermark }
  /** An event is here with another id. */
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
  // A sender of 0.3 says only where its id begins: the lines before it are not lost.
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

/** @param at what is here of the sender @param begins its lines before this one are not lost, but of an earlier id */
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

/** @returns the id that a line at the end of a part has here, and another one that was sent for it; undefined without one */
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
 * @param isAfterLoss whether a repair of the hub has lost lines before it that were not added: the lines that its sender left out might
 *   be among them, so they are wanted again. Otherwise the sender had reported them as lost, or they were here by another way
 * @param isFirst whether lines were removed that were not added: those of each journal before its first one count as here
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
