/** Says why a listing is empty: how much there is, and how much of it matches each filter alone. */

import type { Limits } from '../../config/limits.ts';
import { keyText } from '../../event/asset-key.ts';
import type { Recorded } from '../../event/event.ts';
import { happenedAt, sortKeyOf } from '../../event/event-time.ts';
import { endpoints, findEndpoint } from '../../event/parameters.ts';
import { type Filter, isMatch } from '../../event/search.ts';
import { rangeTest, type TimeRange } from './options.ts';
import { ServiceFailure } from './remote.ts';
import type { JournalSource } from './source.ts';

/**
 * Counts the events that match each filter alone, among the newest `countedEventsMax`.
 * @param happened bounds of the time at which the events happened, which are not in the filter
 * @returns `no events match (200 in the journal; keys that begin with a: 7, failed checks: 12)`
 */
export async function eventsMatchingAlone(
  sources: readonly JournalSource[],
  filter: Filter,
  happened: TimeRange,
  { countedEventsMax }: Pick<Limits, 'countedEventsMax'>,
): Promise<string> {
  const single = new Map([...singleFilters(filter), ...singleBounds(happened)]);
  const alone = new Map([...single.keys()].map((words) => [words, 0]));
  const ofEachMax = Math.max(1, Math.floor(countedEventsMax / sources.length));
  let total = 0;
  let counted = 0;
  for (const source of sources) {
    try {
      const { events, lastSeq } = await source.size();
      total += events;
      for await (const lines of source.readAgain({ afterSeq: Math.max(0, lastSeq - ofEachMax) })) {
        counted += lines.length;
        for (const { event } of lines) {
          for (const [words, matches] of single) if (matches(event)) alone.set(words, (alone.get(words) ?? 0) + 1);
        }
      }
    } catch (error) {
      if (error instanceof ServiceFailure) throw error;
      // Its error was reported by the first read; the other sources are still counted.
    }
  }
  return noMatch('events', total, alone, counted < total ? counted : undefined);
}

/**
 * The sentence for a listing without rows.
 * @param alone by filter, in words, how many match it alone: `key warehouse/orders` → 3
 * @param counted among how many of the newest that was counted, if not among all
 * @returns `no assets match (12 in the journal; key a: 1, with a failing check: 3)`
 */
export function noMatch(
  what: 'events' | 'assets',
  total: number,
  alone: ReadonlyMap<string, number>,
  counted?: number,
): string {
  if (total === 0) return `no ${what}: the journal is empty`;
  const fewest = [...alone].sort(([, a], [, b]) => a - b).slice(0, SHOWN_MAX);
  const counts = fewest.map(([words, count]) => `${words}: ${count}`).join(', ');
  const among = counted === undefined ? '' : `of the newest ${counted}, `;
  return `no ${what} match (${total} in the journal${counts === '' ? '' : `; ${among}${counts}`})`;
}

type Matches = (event: Recorded) => boolean;

/** @returns a test for each bound that was given, by its words */
function singleBounds({ since, until }: TimeRange): Map<string, Matches> {
  const bounds = new Map<string, Matches>();
  const add = (words: string, range: TimeRange) => {
    const isInRange = rangeTest(range);
    bounds.set(words, (event) => isInRange(sortKeyOf(happenedAt(event))));
  };
  if (since !== undefined) add(`event_time since ${since}`, { since, until: undefined });
  if (until !== undefined) add(`event_time until ${until}`, { since: undefined, until });
  return bounds;
}

/** @returns a test for each member of the filter that was given, by its words */
function singleFilters({
  type,
  assetKey,
  keyPrefix,
  partition,
  checkName,
  passed,
  ...bounds
}: Filter): Map<string, Matches> {
  const { afterSeq = 0, since, until } = bounds;
  const all: readonly (readonly [string, Filter] | undefined)[] = [
    type && [`type ${findEndpoint(endpoints, type)?.name ?? type}`, { type }],
    assetKey && [`key ${keyText(assetKey)}`, { assetKey }],
    keyPrefix && [`keys that begin with ${keyText(keyPrefix)}`, { keyPrefix }],
    partition === undefined ? undefined : [`partition ${JSON.stringify(partition)}`, { partition }],
    checkName === undefined ? undefined : [`check ${JSON.stringify(checkName)}`, { checkName }],
    passed === undefined ? undefined : [passed ? 'passed checks' : 'failed checks', { passed }],
    afterSeq === 0 ? undefined : [`after seq ${afterSeq}`, { afterSeq }],
    since === undefined ? undefined : [`since ${since}`, { since }],
    until === undefined ? undefined : [`until ${until}`, { until }],
  ];
  const given = all.filter((entry) => entry !== undefined);
  return new Map(given.map(([words, filter]) => [words, (event) => isMatch(event, filter)]));
}

/** Filters that are named, those that match the fewest first. */
const SHOWN_MAX = 3;
