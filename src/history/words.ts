/** The sentences about an asset over time: for a screen reader, at the pointer, and on a terminal. */

import { shownStart } from '../event/shown.ts';
import { visible } from '../event/visible.ts';
import type { CheckSeries, Day, NumberSeries, Point } from './history.ts';
import type { PastEvent } from './past-event.ts';

/** @returns a time with its seconds: `2026-11-20 15:19:45` */
export function momentText(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 19).replace('T', ' ');
}

/** @returns text of a client as it is shown: short, and with escapes for what is invisible */
export function shownText(text: string): string {
  return visible(shownStart(text));
}

/** @returns the sentence about a number: `rows: 3 values from … to … UTC, lowest 1, highest 5, last 3` */
export function numberSentence({ name, points, lowest, highest, last }: NumberSeries): string {
  const others = points.filter(({ text }) => text === undefined).length;
  const extent = `lowest ${shownStart(lowest)}, highest ${shownStart(highest)}, last ${shownStart(last)}`;
  const events = points.map(({ event }) => event);
  return `${shownText(name)}: ${counted(points.length, 'value')} ${spanOf(events)}, ${extent}${others === 0 ? '' : `; ${others} not a number`}`;
}

/** @param shown the results that are drawn @returns `no_nulls: 3 results from … to … UTC: 2 passed, 1 failed; the last result …` */
export function checkSentence(check: CheckSeries, shown: readonly PastEvent[], hasAll: boolean): string {
  const counts = (['passed', 'warning', 'failed'] as const).flatMap((outcome) => {
    const count = shown.filter((event) => event.outcome === outcome).length;
    return count === 0 ? [] : [`${count} ${outcome}`];
  });
  return `${shownText(check.name)}: ${counted(shown.length, 'result')} ${spanOf(shown)}: ${counts.join(', ')}; ${holdsText(check, hasAll)}`;
}

/** @returns `the last 3 results failed, since 2026-11-20 15:19:45 UTC`. @param hasAll see `sinceText` */
export function holdsText(check: CheckSeries, hasAll: boolean): string {
  const { results, inARow } = check;
  const same = inARow === 1 ? 'the last result' : `the last ${inARow} results`;
  return `${same} ${results.at(-1)?.outcome === 'passed' ? 'passed' : 'failed'}, since ${sinceText(check, hasAll)}`;
}

/**
 * @param hasAll whether all events of the asset were read
 * @returns since when the last result is the same: `2026-11-20 15:19:45 UTC`, `2026-11-20 15:19:45 UTC or earlier`
 */
export function sinceText({ results, inARow }: CheckSeries, hasAll: boolean): string {
  const since = momentText(results[results.length - inARow]?.atMs ?? 0);
  return `${since} UTC${hasAll || inARow < results.length ? '' : ' or earlier'}`;
}

/** @returns `Materializations by day: 33 from 2026-10-17 to 2026-11-20; none on 2026-11-03 and 1 more day` */
export function daysSentence(days: readonly Day[]): string {
  const known = days.filter(({ count, isKnown }) => isKnown || count > 0);
  const total = known.reduce((sum, { count }) => sum + count, 0);
  const [none, ...more] = known.filter(({ count }) => count === 0);
  const holes =
    none === undefined
      ? ''
      : `; none on ${none.date}${more.length === 0 ? '' : ` and ${counted(more.length, 'more day')}`}`;
  const unread = days.length - known.length;
  const rest = unread === 0 ? '' : `; ${counted(unread, 'day')} before that not read`;
  return `Materializations by day: ${total} from ${known[0]?.date ?? 'today'} to ${days.at(-1)?.date}${holes}${rest}`;
}

/** @returns `12 · 2026-11-20 15:19:45 UTC · partition p` */
export function pointText({ event, text }: Point): string {
  return [text === undefined ? 'not a number' : shownStart(text), ...whereText(event)].join(' · ');
}

/** @returns `failed · 2026-11-20 15:19:45 UTC · partition p · nulls 3` */
export function resultText(event: PastEvent): string {
  const numbers = [...event.members].flatMap(([name, text]) =>
    text === undefined ? [] : [`${shownText(name)} ${shownStart(text)}`],
  );
  return [event.outcome, ...whereText(event), ...numbers.slice(0, NUMBERS_MAX)].join(' · ');
}

/** @returns `2026-11-20: 3 materializations` */
export function dayText({ date, count, isKnown }: Day): string {
  const least = isKnown ? '' : 'at least ';
  return `${date}: ${isKnown || count > 0 ? least + counted(count, 'materialization') : 'not read'}`;
}

function whereText({ atMs, partition }: PastEvent): string[] {
  return [`${momentText(atMs)} UTC`, ...(partition === undefined ? [] : [`partition ${shownText(partition)}`])];
}

function spanOf(events: readonly PastEvent[]): string {
  const [from, to] = [momentText(events[0]?.atMs ?? 0), momentText(events.at(-1)?.atMs ?? 0)];
  return from === to ? `at ${to} UTC` : `from ${from} to ${to} UTC`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** Numbers of a result that are shown with it. */
const NUMBERS_MAX = 8;
