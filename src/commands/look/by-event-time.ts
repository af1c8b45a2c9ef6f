/** Sorts events by the time at which they happened: `event_time`, or the time of recording for an event without it. */

import { MIB } from '../../config/limits.ts';
import { happenedAt, sortKeyOf } from '../../event/event-time.ts';
import { Line } from '../../journal/look/reading.ts';
import { rangeTest, type TimeRange } from './options.ts';

/** Which events are wanted. The bounds apply to the time at which they happened. */
export interface EventTimeRange extends TimeRange {
  /** Only the newest events, at most this many; undefined for all. */
  readonly last: number | undefined;
  /** Approximate memory of the events that are sorted. */
  readonly bytesMax: number;
}

/** The events do not fit into `bytesMax`. The message includes what to do. */
export class TooManyToSort extends Error {}

/**
 * Reads all pages before it yields the first event in order, since the last event of a journal might be the first one
 * that happened.
 * @param pages in the order of recording, which is kept for events with the same time
 * @returns arrays of at most 1,000 events. They are copies: an original line keeps its chunk of the file in memory.
 * @throws TooManyToSort if the events in the range, or the last of them, do not fit into `bytesMax`
 */
export async function* sortedByEventTime(
  pages: AsyncIterable<readonly Line[]>,
  range: EventTimeRange,
): AsyncGenerator<readonly Line[]> {
  const isInRange = rangeTest(range);
  const buffer = new SortBuffer(range);
  const add = ({ deployment, event, bytes, start, end, seq }: Line) => {
    const key = sortKeyOf(happenedAt(event));
    if (isInRange(key)) buffer.add({ key, deployment, seq, text: bytes.toString('latin1', start, end) });
  };
  for await (const page of pages) page.forEach(add);
  const entries = buffer.inOrder();
  for (let at = 0; at < entries.length; at += PAGE_EVENTS) {
    yield entries.slice(at, at + PAGE_EVENTS).map(lineOf);
  }
}

function lineOf({ deployment, seq, text }: SortEntry): Line {
  const bytes = Buffer.from(text, 'latin1');
  const line = new Line(bytes, 0, bytes.length, seq);
  line.deployment = deployment;
  return line;
}

interface SortEntry {
  /** Sorts by the time at which the event happened: `2026-11-20T14:19:45.25`. */
  readonly key: string;
  readonly deployment: string;
  readonly seq: number;
  /** The line without its newline, with one character for each byte. */
  readonly text: string;
}

/** The events in memory: all of them, or at most twice as many as the requested number of last events. */
class SortBuffer {
  readonly #last: number;
  readonly #bytesMax: number;
  #entries: SortEntry[] = [];
  #bytes = 0;

  constructor({ last, bytesMax }: EventTimeRange) {
    this.#last = last ?? Number.POSITIVE_INFINITY;
    this.#bytesMax = bytesMax;
  }

  add(entry: SortEntry): void {
    this.#entries.push(entry);
    this.#bytes += memoryOf(entry);
    if (this.#entries.length > 2 * this.#last) this.#prune();
    if (this.#bytes <= this.#bytesMax) return;
    this.#prune();
    // With little free memory left, each of the next events would sort all others again.
    if (this.#bytes > this.#bytesMax / 2) throw new TooManyToSort(tooMany(this.#bytesMax));
  }

  inOrder(): readonly SortEntry[] {
    this.#prune();
    return this.#entries;
  }

  #prune(): void {
    this.#entries.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    if (this.#entries.length <= this.#last) return;
    this.#entries = this.#entries.slice(-this.#last);
    this.#bytes = this.#entries.reduce((sum, entry) => sum + memoryOf(entry), 0);
  }
}

function memoryOf({ text }: SortEntry): number {
  return text.length + ENTRY_BYTES;
}

function tooMany(bytesMax: number): string {
  const memory = `${bytesMax / MIB} MiB`;
  return `to sort by event_time, the events have to fit into ${memory} of memory, and these do not; ask for fewer with --since, --until, --last, --key or another filter`;
}

/** Approximate memory of an event in addition to the characters of its line. */
const ENTRY_BYTES = 400;
/** Number of events that are formatted and printed at a time. */
const PAGE_EVENTS = 1_000;
