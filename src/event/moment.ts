/** A moment that a person writes in a search: a date, a time, or a duration before now. Also time spans for a person to read. */

/** `at` is a time in ms since 1970, `ago` a duration in ms before now. */
export interface Moment {
  readonly kind: 'at' | 'ago';
  readonly ms: number;
}

/**
 * @param word such as `2026-11-20`, `2026-11-20T15:00`, `2026-11-20T15:04:05+01:00` or `2h`; UTC if there is no zone
 * @throws Error for any other text, with a message that completes "WORD …": `is not a time such as …`
 */
export function readMoment(word: string): Moment {
  const agoMs = durationMs(word);
  if (agoMs !== undefined) return { kind: 'ago', ms: agoMs };
  const ms = calendarMs(word);
  if (!(ms >= 0 && ms < YEAR_10000_MS)) throw new Error(NO_MOMENT);
  return { kind: 'at', ms };
}

/**
 * @param nowMs the clock, in ms since 1970
 * @returns the moment in the form of a journal line's time: `2026-11-20T15:00:00.000Z`
 * @throws Error for a duration that leads to a time before 1970
 */
export function timeAt({ kind, ms }: Moment, nowMs: number): string {
  const at = kind === 'at' ? ms : nowMs - ms;
  if (at < 0) throw new Error(NO_MOMENT);
  return new Date(at).toISOString();
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

function calendarMs(word: string): number {
  const [, date, clock = 'T00:00', zone = 'Z'] =
    /^(\d{4}-\d\d-\d\d)([T ]\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)?(Z|[+-]\d\d:\d\d)?$/.exec(word) ?? [];
  // Date.parse turns February 30 into March 2.
  const real = date !== undefined && new Date(`${date}T00:00Z`).getUTCDate() === Number(date.slice(8));
  return real ? Date.parse(`${date}${clock.replace(' ', 'T')}${zone}`) : Number.NaN;
}

const NO_MOMENT = 'is not a time such as 2026-11-20, 2026-11-20T15:04:05Z, or 2h for two hours ago';
const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const LARGE_UNITS: readonly (readonly [string, number])[] = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
];
const YEAR_10000_MS = 253_402_300_800_000;
