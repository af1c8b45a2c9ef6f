/** Sorts events by the time at which they happened: `event_time`, or for an event without one the time of its recording. */

import { sortKeyOf } from '../event/event-time.ts';
import { Line } from '../journal/reader.ts';

/** Which events are wanted, and how many bytes of lines may be in memory. */
export interface EventTimeRange {
  /** In UTC, such as `2026-11-20T15:00:00.000Z`: only events that happened then or later. */
  readonly since: string | undefined;
  /** Only events that happened before it. */
  readonly until: string | undefined;
  /** Only the newest so many. */
  readonly last: number | undefined;
  /** Such as 268,435,456. */
  readonly bytesMax: number;
}

/** Too many events for the memory. The message says what to do. */
export class TooManyToSort extends Error {}

/**
 * Collects all events, since the last one of a journal may have happened first.
 * @param pages in the order of recording, which is kept for events of the same time
 * @param lineOf the line of an event, and the same event with a copy of it: the original keeps its chunk of the file in memory
 * @returns one array with all events in order
 * @throws TooManyToSort
 */
export async function* sortedByEventTime<Thing>(
  pages: AsyncIterable<readonly Thing[]>,
  lineOf: { readonly get: (thing: Thing) => Line; readonly with: (thing: Thing, line: Line) => Thing },
  { since, until, last, bytesMax }: EventTimeRange,
): AsyncGenerator<readonly Thing[]> {
  const from = since === undefined ? '' : sortKeyOf(since);
  const before = until === undefined ? undefined : sortKeyOf(until);
  const found: { readonly key: string; readonly thing: Thing }[] = [];
  let bytes = 0;
  for await (const things of pages) {
    for (const thing of things) {
      const line = lineOf.get(thing);
      const key = sortKeyOf(line.event.event_time ?? line.event.time);
      if (key < from || (before !== undefined && key >= before)) continue;
      const copy = Buffer.from(line.bytes.subarray(line.start, line.end));
      bytes += copy.length + ENTRY_BYTES;
      if (bytes > bytesMax) {
        throw new TooManyToSort(
          `to sort by event_time, all events are in memory, and these are over ${bytesMax / 1024 / 1024} MiB; ask for fewer, as with --since or --key`,
        );
      }
      found.push({ key, thing: lineOf.with(thing, new Line(copy, 0, copy.length, line.seq)) });
    }
  }
  found.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  yield found.slice(last === undefined ? 0 : -last).map(({ thing }) => thing);
}

/** Approximate memory of an event besides the bytes of its line. */
const ENTRY_BYTES = 400;
