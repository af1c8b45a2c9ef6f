/** The newest events of an asset, and the data of its plots: numbers over time, the results of checks, and materializations by day. */

import { historyLimits } from '../config/limits.ts';
import { compareNumbers } from './exact-number.ts';
import { type PastEvent, readPastEvent } from './past-event.ts';

/** The newest events of one asset, at most `historyLimits.events`. */
export class History {
  #bySeq: readonly PastEvent[] = [];
  #inOrder: readonly PastEvent[] | undefined;

  /** In the order in which they happened. */
  get events(): readonly PastEvent[] {
    this.#inOrder ??= this.#bySeq.toSorted((a, b) => a.atMs - b.atMs || a.seq - b.seq);
    return this.#inOrder;
  }

  /** The seqs of the first and the last event; undefined if there are no events. */
  get firstSeq(): number | undefined {
    return this.#bySeq[0]?.seq;
  }

  get lastSeq(): number | undefined {
    return this.#bySeq.at(-1)?.seq;
  }

  get isFull(): boolean {
    return this.#bySeq.length === historyLimits.events;
  }

  /**
   * When the event with the lowest seq happened, if there can be events before it. All later events are included.
   * @param hasAll whether all events of the asset were read
   */
  knownFromMs(hasAll: boolean): number {
    return hasAll ? Number.NEGATIVE_INFINITY : (this.#bySeq[0]?.atMs ?? Number.POSITIVE_INFINITY);
  }

  /**
   * Adds lines of the asset, in the order of their seqs. They must be older or newer than all lines added before. @throws SyntaxError for a
   * text that is not a line
   */
  add(lines: readonly string[]): void {
    const added = lines.map(readPastEvent);
    const isOlder = (added[0]?.seq ?? 0) < (this.firstSeq ?? 0);
    const all = isOlder ? [...added, ...this.#bySeq] : [...this.#bySeq, ...added];
    let members = 0;
    const kept = all.slice(-historyLimits.events).toReversed();
    this.#bySeq = kept
      .map((event) => {
        members += event.members.size;
        return members > historyLimits.members ? { ...event, members: NONE } : event;
      })
      .reverse();
    this.#inOrder = undefined;
  }
}

const NONE: PastEvent['members'] = new Map();

/** A value of a number at an event. */
export interface Point {
  readonly event: PastEvent;
  /** The number as reported; undefined for a value that is not a number. */
  readonly text: string | undefined;
  /** Undefined also for a number that is too large for a double, such as 1e400. */
  readonly value: number | undefined;
}

/** A number of an asset over time. */
export interface NumberSeries {
  readonly name: string;
  /** How often it was reported, including values that are not numbers. */
  readonly count: number;
  /** The newest values, at most `historyLimits.points`, in the order in which they happened. */
  readonly points: readonly Point[];
  /** The lowest of the points; the first of equal ones. */
  readonly lowest: string;
  readonly highest: string;
  /** The newest value. */
  readonly last: string;
}

/**
 * @returns the members of metadata that are numbers, the most frequently reported first. The metadata of checks belongs
 * to their results
 */
export function numbersOf(events: readonly PastEvent[]): NumberSeries[] {
  const all = events.filter(({ outcome }) => outcome === undefined);
  const byName = groupBy(
    all.flatMap((event) => [...event.members].map(([name, text]) => ({ name, event, text }))),
    ({ name }) => name,
  );
  const found = [...byName].flatMap(([name, values]) => {
    const points = values.slice(-historyLimits.points).map(pointOf);
    const texts = points.flatMap(({ text = [] }) => text);
    const [first, ...others] = texts;
    if (first === undefined) return [];
    const least = (a: string, b: string) => (compareNumbers(b, a) < 0 ? b : a);
    const most = (a: string, b: string) => (compareNumbers(b, a) > 0 ? b : a);
    const [lowest, highest] = [others.reduce(least, first), others.reduce(most, first)];
    return [{ name, count: values.length, points, lowest, highest, last: texts.at(-1) ?? first }];
  });
  return found.sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1));
}

function pointOf({ event, text }: Pick<Point, 'event' | 'text'>): Point {
  const value = Number(text);
  return { event, text, value: Number.isFinite(value) ? value : undefined };
}

/** The results of a check over time. */
export interface CheckSeries {
  readonly name: string;
  /** In the order in which they happened; at least one. */
  readonly results: readonly PastEvent[];
  /** Number of consecutive results at the end that all passed, or all did not. */
  readonly inARow: number;
}

/** @returns the checks with results, by name */
export function checkSeriesOf(events: readonly PastEvent[]): CheckSeries[] {
  const byName = groupBy(
    events.filter(({ outcome }) => outcome !== undefined),
    ({ checkName = '' }) => checkName,
  );
  const found = [...byName].map(([name, results]) => {
    const passed = (event: PastEvent | undefined) => event?.outcome === 'passed';
    const change = results.findLastIndex((event) => passed(event) !== passed(results.at(-1)));
    return { name, results, inARow: results.length - 1 - change };
  });
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The materializations of a day. */
export interface Day {
  /** In UTC: `2026-11-20`. */
  readonly date: string;
  readonly count: number;
  /** The last materialization; undefined if there is none. */
  readonly last: PastEvent | undefined;
  /** Whether all materializations of the day were read. */
  readonly isKnown: boolean;
}

/** @param knownFromMs see `History.knownFromMs` @returns the last five weeks, up to today */
export function daysOf(events: readonly PastEvent[], nowMs: number, knownFromMs: number): Day[] {
  const today = Math.floor(nowMs / DAY_MS);
  const made = events.filter(({ type }) => type === 'AssetMaterialization');
  const byDay = groupBy(made, ({ atMs }) => dateOf(atMs));
  return Array.from({ length: historyLimits.days }, (_, index) => {
    const startMs = (today - historyLimits.days + 1 + index) * DAY_MS;
    const date = dateOf(startMs);
    const all = byDay.get(date) ?? [];
    return { date, count: all.length, last: all.at(-1), isKnown: startMs >= knownFromMs };
  });
}

function dateOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function groupBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

const DAY_MS = 86_400_000;
