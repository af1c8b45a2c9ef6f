/** A moment that a person writes in a search: a date, a time, or a duration before now. Also time spans for a person to read. */

import { readEventTime, sortKeyOf } from './event-time.ts';

/** A time in UTC with all its digits, or a duration in ms before now. */
export type Moment = { readonly kind: 'at'; readonly utc: string } | { readonly kind: 'ago'; readonly ms: number };

/**
 * @param word such as `2026-11-20`, `2026-11-20T15:00`, `2h`, or any time that `readEventTime` accepts; UTC if there is no
 * zone
 * @throws Error for any other text, with a message that completes "WORD …": `is not a time such as …`
 */
export function readMoment(word: string): Moment {
  const agoMs = durationMs(word);
  if (agoMs !== undefined) return { kind: 'ago', ms: agoMs };
  const [, date, clock = 'T00:00', seconds = ':00', zone = 'Z'] = SHORT.exec(word) ?? [];
  const time = readEventTime(`${date}${clock}${seconds}${zone}`);
  if (time.kind === 'wrong') throw new Error(NO_MOMENT);
  return { kind: 'at', utc: time.utc };
}

/**
 * @param nowMs the clock, in ms since 1970
 * @returns the moment in UTC with all its digits: `2026-11-20T15:00:00.000Z`, `2026-11-20T15:00:00.25Z`
 * @throws Error for a duration that leads to a time before 1970
 */
export function timeAt(moment: Moment, nowMs: number): string {
  if (moment.kind === 'at') return moment.utc;
  if (moment.ms > nowMs) throw new Error(NO_MOMENT);
  return new Date(nowMs - moment.ms).toISOString();
}

/**
 * @returns the first time with milliseconds that is not before a time in UTC, since the time of a journal line has
 * milliseconds
 */
export function lineTimeFrom(utc: string): string {
  const ms = Date.parse(utc);
  const time = new Date(ms).toISOString();
  const next = new Date(ms + 1).toISOString();
  return sortKeyOf(time) < sortKeyOf(utc) && next.length === time.length ? next : time;
}

/** @param text a duration with a unit: `500ms`, `60s`, `5m`, `2h` or `1d` @returns undefined for any other text */
export function durationMs(text: string): number | undefined {
  const [, count, unit = ''] = /^([0-9]{1,9})(ms|s|m|h|d)$/.exec(text) ?? [];
  return count === undefined ? undefined : Number(count) * (UNITS_MS[unit] ?? Number.NaN);
}

/** @returns a time span in the largest unit that counts at least two: `119 min`, `2 h` */
export function inLargestUnit(seconds: number): string {
  const [unit = 's', divisor = 1] = LARGE_UNITS.find(([, divisor]) => seconds >= 2 * divisor) ?? [];
  return `${Math.floor(seconds / divisor)} ${unit}`;
}

/** @returns the age of a time in words: `119 min ago`; `in 3 h` for a future time */
export function ageOf(time: string, nowMs = Date.now()): string {
  const seconds = Math.floor((nowMs - Date.parse(time)) / 1_000);
  const span = inLargestUnit(Math.abs(seconds));
  return seconds < 0 ? `in ${span}` : `${span} ago`;
}

/** A time that can lack its seconds, its time of day or its zone. */
const SHORT = /^(\d{4}-\d\d-\d\d)(?:([Tt ]\d\d:\d\d)(:\d\d(?:\.\d+)?)?)?([Zz]|[+-]\d\d:\d\d)?$/;
const NO_MOMENT = 'is not a time such as 2026-11-20, 2026-11-20T15:04:05Z, or 2h for two hours ago';
const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const LARGE_UNITS: readonly (readonly [string, number])[] = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
];
