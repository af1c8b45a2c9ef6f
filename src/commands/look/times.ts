/** The options about time that `events` and `assets` share: which time of an event counts, and the range that is wanted. */

import { type Option, oneOf } from '../../config/options.ts';
import { type By, sortKeyOf } from '../../event/event-time.ts';
import { readMoment, timeAt } from '../../event/moment.ts';

/** Bounds of time in UTC, with the form of a line's `time`. */
export interface TimeRange {
  /** Only events of this time or later. */
  readonly since: string | undefined;
  /** Only events before this time. */
  readonly until: string | undefined;
}

export const byOption = (help: string): Option<By> => ({
  argument: 'TIME',
  help,
  choices: orders,
  initial: 'time',
  flagOnly: true,
  parse: (word) => oneOf(orders, word, 'is no time of an event; use time or event_time'),
});

export const rangeOptions = {
  since: timeOption('only events of this time or later: 2026-11-20, 2026-11-20T15:00, or 2h for the last two hours'),
  until: timeOption('only events before this time'),
};

/** The lines of the help about `--since` and `--until`. */
export const timeNotes: readonly string[] = [
  'Times without a zone are UTC, as in the journal; a duration (500ms, 30s, 15m, 2h, 7d) counts back from now.',
  'With --since and --until, a file that begins and ends outside of them is skipped, and not checked.',
  'With --by event_time an event without an event_time counts by its time, and no file is skipped.',
];

/** @returns whether a sort key from `sortKeyOf` is of a time in the range */
export function rangeTest({ since, until }: TimeRange): (sortKey: string) => boolean {
  const from = since === undefined ? '' : sortKeyOf(since);
  const before = until === undefined ? undefined : sortKeyOf(until);
  return (sortKey) => sortKey >= from && (before === undefined || sortKey < before);
}

const orders: readonly By[] = ['time', 'event_time'];

function timeOption(help: string): Option<string | undefined> {
  return {
    argument: 'TIME',
    help,
    initial: undefined,
    flagOnly: true,
    parse: (word) => timeAt(readMoment(word), Date.now()),
  };
}
