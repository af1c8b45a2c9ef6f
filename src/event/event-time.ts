/**
 * The only reader of times: RFC 3339 with a zone, the form in which a client sends the time at which an event happened. The time
 * is recorded in UTC with all digits of its fraction, whereas `Date` has only three.
 */

/** The time in UTC, such as `2026-11-20T14:19:45.250Z`, or the problem and what to send. */
export type EventTime =
  | { readonly kind: 'time'; readonly utc: string }
  | { readonly kind: 'wrong'; readonly problem: string };

/** Completes `send …`. */
export const eventTimeForm =
  'an RFC 3339 time with a zone, such as 2026-11-20T15:19:45.25Z or 2026-11-20T16:19:45+01:00';

/**
 * Parses a time of RFC 3339 (section 5.6) between the years 0001 and 9999, with at most nine digits of fraction. `t` and `z` in
 * lower case are accepted, and so is a space in place of the `T`, as `date --rfc-3339` prints it. Second 60 is not accepted.
 */
export function readEventTime(text: string): EventTime {
  const found = FORM.exec(text);
  if (found === null) return wrong(mistakeIn(text));
  const [, year, month, day, hour, minute, second, fraction = '', sign, zoneHour, zoneMinute] = found;
  if (Number(month) < 1 || Number(month) > 12) return wrong(`its month is ${month}; send ${eventTimeForm}`);
  if (Number(day) < 1 || Number(day) > daysIn(Number(year), Number(month))) {
    return wrong(`${year}-${month} has no day ${day}; send ${eventTimeForm}`);
  }
  if (second === '60') return wrong('its second is 60; send 59, since leap seconds are not accepted');
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) {
    return wrong(`${hour}:${minute}:${second} is not a time of day; send ${eventTimeForm}`);
  }
  const local = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  if (Number(zoneHour) > 23 || Number(zoneMinute) > 59) {
    return wrong(`its zone ${sign}${zoneHour}:${zoneMinute} does not exist; send ${eventTimeForm}`);
  }
  const offset = 60 * Number(zoneHour ?? 0) + Number(zoneMinute ?? 0);
  const utc = offset === 0 ? local : shifted(local, sign === '-' ? offset : -offset);
  if (utc.length !== local.length || utc.startsWith('0000')) return wrong('it is not in the years 0001 to 9999 of UTC');
  return { kind: 'time', utc: `${utc}${fraction}Z` };
}

/** @returns a text that sorts like the time: `2026-11-20T14:19:45.25` for `2026-11-20T14:19:45.250Z` */
export function sortKeyOf(utc: string): string {
  let end = utc.length - 1; // without the Z
  if (utc[19] === '.') while (utc[end - 1] === '0') end -= 1;
  return utc.slice(0, utc[end - 1] === '.' ? end - 1 : end);
}

/**
 * The form of RFC 3339 section 5.6 as a regular expression for a schema, without lookahead, which Go and Rust do not have. It
 * checks each field alone, so it also matches `2026-02-31T16:19:45Z`, which `readEventTime` refuses. It does not allow a space
 * in place of the `T`, since validators of the format `date-time` refuse that.
 */
export const eventTimePattern =
  '^(000[1-9]|00[1-9]\\d|0[1-9]\\d\\d|[1-9]\\d{3})-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])' +
  '[Tt]([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?([Zz]|[+-]([01]\\d|2[0-3]):[0-5]\\d)$';

/** Which time of an event counts: when it was recorded (`time`), or when it happened (`event_time`). */
export type By = 'time' | 'event_time';

/** @returns the `event_time` of a recorded event, or its `time` if it has none */
export function happenedAt(event: { readonly event_time?: string | undefined; readonly time: string }): string {
  return event.event_time ?? event.time;
}

/** Clocks can differ by this much without being wrong. */
export const CLOCK_AHEAD_MS = 15 * 60_000;
/**
 * No journal is older than the program, so a clock with an earlier time has not been set. Many devices start in 1970.
 */
export const EARLIEST_MS = Date.UTC(2024, 0, 1);
/** The clocks of sensors that were never set start in 1970, 1980 or 2000, and no report is about such an old run. */
const EARLIEST_EVENT_MS = Date.UTC(2001, 0, 2);

/**
 * @param timeMs the `time` of its line
 * @returns the `event_time` of an event in ms since 1970; undefined if it has none, or if it cannot be right
 */
export function believedEventMs(eventTime: string | undefined, timeMs: number): number | undefined {
  return eventTime === undefined ? undefined : believedMs(eventTime, EARLIEST_EVENT_MS, timeMs);
}

/**
 * @returns when an event was first recorded, with the checks of `believedEventMs`. @param recorded undefined if this journal
 * recorded it first
 */
export function believedRecordingMs(recorded: string | undefined, timeMs: number): number | undefined {
  if (recorded === undefined) return timeMs >= EARLIEST_MS ? timeMs : undefined;
  return believedMs(recorded, EARLIEST_MS, timeMs);
}

function believedMs(claimed: string, earliestMs: number, timeMs: number): number | undefined {
  const at = Date.parse(claimed);
  if (!(at >= earliestMs)) return undefined;
  if (timeMs < EARLIEST_MS) return at;
  return at <= timeMs + CLOCK_AHEAD_MS ? Math.min(at, timeMs) : undefined;
}

const FORM = /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(\.\d{1,9})?(?:[Zz]|([+-])(\d\d):(\d\d))$/;
const DATE_AND_TIME = '\\d{4}-\\d\\d-\\d\\d[Tt ]\\d\\d:\\d\\d:\\d\\d';
const EPOCH = /^[+-]?\d+(\.\d*)?$/;
const WITHOUT_ZONE = new RegExp(`^${DATE_AND_TIME}(\\.\\d{1,9})?$`);
const LONG_FRACTION = new RegExp(`^${DATE_AND_TIME}\\.\\d{10,}`);
const SPACE_FOR_PLUS = new RegExp(`^${DATE_AND_TIME}(\\.\\d{1,9})? \\d\\d:\\d\\d$`);

function wrong(problem: string): EventTime {
  return { kind: 'wrong', problem };
}

function mistakeIn(text: string): string {
  if (EPOCH.test(text)) return `a number could mean seconds or milliseconds; send ${eventTimeForm}`;
  if (SPACE_FOR_PLUS.test(text)) return 'it has a space before its zone: a query turns + into a space; write + as %2B';
  if (WITHOUT_ZONE.test(text)) return 'it has no zone; add Z for UTC, or a zone such as +01:00';
  if (LONG_FRACTION.test(text)) return 'its fraction has more than nine digits; send nanoseconds at most';
  return `send ${eventTimeForm}`;
}

/** @param month from 1 to 12 */
function daysIn(year: number, month: number): number {
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return month === 2 && isLeap ? 29 : (MONTH_DAYS[month - 1] as number);
}

const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/**
 * @param utc such as `2026-11-20T15:19:45` @returns that time plus `minutes`; a year before 0 or after 9999 has more digits
 */
function shifted(utc: string, minutes: number): string {
  return new Date(Date.parse(`${utc}Z`) + 60_000 * minutes).toISOString().slice(0, -'.000Z'.length);
}
