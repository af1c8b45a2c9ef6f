/** Sorts events by the time at which they happened: `event_time`, or for an event without one the time of its recording. */

import { happenedAt, sortKeyOf } from '../event/event-time.ts';
import { Line } from '../journal/reader.ts';
import { rangeTest, type TimeRange } from './times.ts';

/**
 * Which events are wanted, and how many bytes of them may be in memory. The range is of the time at which they happened. For
 * example `{ since: undefined, until: undefined, last: 20, bytesMax: 268_435_456 }`.
 */
export interface EventTimeRange extends TimeRange {
  /** Only the newest so many; undefined for all. */
  readonly last: number | undefined;
  /** Approximate memory of the events that are kept, in bytes, such as 268,435,456. */
  readonly bytesMax: number;
}

/**
 * How what is sorted is taken apart, and put together again from a copy: the original line keeps its chunk of the file in memory.
 * For lines alone: `{ lineOf: (line) => line, deploymentOf: () => '', make: (_, line) => line }`.
 */
export interface LineParts<Thing> {
  /** @returns the line, which is sorted by its event */
  readonly lineOf: (thing: Thing) => Line;
  /** Such as `prod`; empty for a journal that belongs to no deployment. */
  readonly deploymentOf: (thing: Thing) => string;
  /** Makes a thing of a copied line. */
  readonly make: (deployment: string, line: Line) => Thing;
}

/**
 * Too many events for the memory. The message says what to do:
 * `to sort by event_time, the events have to fit into 256 MiB of memory, …`.
 */
export class TooManyToSort extends Error {}

/**
 * Reads all pages before it yields the first event in order, since the last one of a journal may have happened first. For example
 * an event of 2026-11-19 that is recorded after one of 2026-11-20 is yielded before it.
 * @param pages in the order of recording, which is kept for events of the same time
 * @returns arrays of at most 1,000 events
 * @throws TooManyToSort if the events in the range, or the last ones of them, do not fit into `bytesMax`
 */
export async function* sortedByEventTime<Thing>(
  pages: AsyncIterable<readonly Thing[]>,
  parts: LineParts<Thing>,
  range: EventTimeRange,
): AsyncGenerator<readonly Thing[]> {
  const isInRange = rangeTest(range);
  const kept = new Kept(range);
  for await (const things of pages) {
    for (const thing of things) {
      const { event, bytes, start, end, seq } = parts.lineOf(thing);
      const key = sortKeyOf(happenedAt(event));
      if (!isInRange(key)) continue;
      kept.add({ key, deployment: parts.deploymentOf(thing), seq, text: bytes.toString('latin1', start, end) });
    }
  }
  const entries = kept.inOrder();
  for (let at = 0; at < entries.length; at += PAGE_EVENTS) {
    yield entries.slice(at, at + PAGE_EVENTS).map(({ deployment, seq, text }) => {
      const bytes = Buffer.from(text, 'latin1');
      return parts.make(deployment, new Line(bytes, 0, bytes.length, seq));
    });
  }
}

interface Entry {
  /** Sorts as the time at which the event happened: `2026-11-20T14:19:45.25`. */
  readonly key: string;
  readonly deployment: string;
  readonly seq: number;
  /** The line without its newline, a character for each byte. */
  readonly text: string;
}

/** The events that are in memory: all of them, or if only the last ones are wanted at most twice as many as those. */
class Kept {
  readonly #last: number;
  readonly #bytesMax: number;
  #entries: Entry[] = [];
  #bytes = 0;

  constructor({ last, bytesMax }: Pick<EventTimeRange, 'last' | 'bytesMax'>) {
    this.#last = last ?? Number.POSITIVE_INFINITY;
    this.#bytesMax = bytesMax;
  }

  add(entry: Entry): void {
    this.#entries.push(entry);
    this.#bytes += bytesOf(entry);
    if (this.#entries.length > 2 * this.#last) this.#prune();
    if (this.#bytes <= this.#bytesMax) return;
    this.#prune();
    // If little were left free, the next events would each sort all others again.
    if (this.#bytes > this.#bytesMax / 2) throw new TooManyToSort(tooMany(this.#bytesMax));
  }

  inOrder(): readonly Entry[] {
    this.#prune();
    return this.#entries;
  }

  #prune(): void {
    this.#entries.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    if (this.#entries.length <= this.#last) return;
    this.#entries = this.#entries.slice(-this.#last);
    this.#bytes = this.#entries.reduce((sum, entry) => sum + bytesOf(entry), 0);
  }
}

function bytesOf({ text }: Entry): number {
  return text.length + ENTRY_BYTES;
}

function tooMany(bytesMax: number): string {
  const memory = `${bytesMax / 1024 / 1024} MiB`;
  return `to sort by event_time, the events have to fit into ${memory} of memory, and these do not; ask for fewer with --since, --until, --last, --key or another filter`;
}

/** Approximate memory of an event besides the characters of its line. */
const ENTRY_BYTES = 400;
/** The number of events that are formatted and printed at a time. */
const PAGE_EVENTS = 1_000;
