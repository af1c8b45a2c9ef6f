import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sortedByEventTime, TooManyToSort } from '../../../src/commands/look/by-event-time.ts';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { Line } from '../../../src/journal/look/reading.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { START, splitLines } from '../../support/segments.ts';

const everything = { since: undefined, until: undefined };

/** @param days on which the events happened, in the order of their recording */
function pageOf(days: readonly number[]): readonly Line[] {
  const events = days.map(
    (day): PlainEvent => ({
      type: 'AssetObservation',
      assetKey: ['ä'],
      metadata: JSON.stringify({ text: 'x'.repeat(1_000) }),
      eventTime: `${String(day).padStart(4, '0')}-01-01T00:00:00Z`,
    }),
  );
  const { bytes } = encodeBatch(events.map(encodeMembers), START, new Date());
  return splitLines(bytes).map((line, index) => new Line(line, 0, line.length - 1, index + 1));
}

async function sortPages(
  pages: Iterable<readonly Line[]>,
  range: { bytesMax: number; last?: number; since?: string },
): Promise<Line[]> {
  async function* all() {
    yield* pages;
  }
  const found: Line[] = [];
  for await (const page of sortedByEventTime(all(), { last: undefined, ...everything, ...range })) {
    assert.ok(page.length <= 1_000);
    found.push(...page);
  }
  return found;
}

/** Days of 4,000 events, neither ascending nor descending. */
const mixed = Array.from({ length: 4_000 }, (_, index) => 1 + ((index * 1_237) % 4_000));

test('events that exceed the memory are refused with advice, and those outside the range take none [by-event-time-1]', async () => {
  const page = pageOf(mixed);
  const bytesMax = 1024 * 1024;
  await assert.rejects(
    sortPages([page], { bytesMax }),
    (error) =>
      error instanceof TooManyToSort &&
      /have to fit into 1 MiB .* ask for fewer with --since, --until, --last, --key/.test(error.message),
  );
  const since = '3800-01-01T00:00:00.000Z';
  const few = await sortPages([page], { bytesMax, since });
  assert.deepEqual([few.length, few[0]?.event.event_time], [201, '3800-01-01T00:00:00Z']);
});

test('the last events are sorted in memory that all of them would exceed, byte for byte', async () => {
  const page = pageOf(mixed);
  const last = await sortPages([page.slice(0, 1_000), page.slice(1_000)], { bytesMax: 1024 * 1024, last: 200 });
  const wanted = page.toSorted((a, b) => (a.event.event_time! < b.event.event_time! ? -1 : 1)).slice(-200);
  assert.deepEqual(
    last.map(({ text, seq }) => [seq, text]),
    wanted.map(({ text, seq }) => [seq, text]),
  );
  await assert.rejects(sortPages([page], { bytesMax: 1024 * 1024, last: 1_000 }), TooManyToSort);
});

test('events are sorted by event time, and those of the same time in the order of recording', async () => {
  const page = pageOf([...mixed, ...mixed]);
  const found = await sortPages([page], { bytesMax: 64 * 1024 * 1024 });
  const days = found.map(({ event, seq }) => `${event.event_time} ${String(seq).padStart(5, '0')}`);
  assert.equal(days.length, 8_000);
  assert.deepEqual(days, days.toSorted());
});
