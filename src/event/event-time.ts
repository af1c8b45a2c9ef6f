/**
 * The time at which an event happened, as a client sends it: RFC 3339 with a zone. It is recorded in UTC with the digits of its
 * fraction as they were sent. The arithmetic is on calendar fields, since `Date` has milliseconds only, and takes the years 0 to
 * 99 for those of the 20th century.
 */

/** The time in UTC, such as `2026-11-20T14:19:45.250Z`, or what is wrong and what to send. */
export type EventTime =
  | { readonly kind: 'time'; readonly utc: string }
  | { readonly kind: 'wrong'; readonly problem: string };

/** Completes `send …`. */
export const eventTimeForm =
  'an RFC 3339 time with a zone, such as 2026-11-20T15:19:45.25Z or 2026-11-20T16:19:45+01:00';

/**
 * Reads a time of RFC 3339 (section 5.6) between the years 0001 and 9999, with at most nine digits of fraction. `t` and `z` in
 * lower case are taken; second 60 is not.
 */
export function readEventTime(text: string): EventTime {
  const found = FORM.exec(text);
  if (found === null) return wrong(mistakeIn(text));
  const [, year, month, day, hour, minute, second, fraction = '', sign, zoneHour, zoneMinute] = found;
  const time = {
    year: Number(year),
    month: Number(month),
    day: Number(day),
    minutes: 60 * Number(hour) + Number(minute),
  };
  if (time.month < 1 || time.month > 12) return wrong(`its month is ${month}; send ${eventTimeForm}`);
  if (time.day < 1 || time.day > daysIn(time.year, time.month)) {
    return wrong(`${year}-${month} has no day ${day}; send ${eventTimeForm}`);
  }
  if (second === '60') return wrong('its second is 60; send 59, since leap seconds are not taken');
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) {
    return wrong(`${hour}:${minute}:${second} is no time of a day; send ${eventTimeForm}`);
  }
  const offset = 60 * Number(zoneHour ?? 0) + Number(zoneMinute ?? 0);
  if (Number(zoneHour ?? 0) > 23 || Number(zoneMinute ?? 0) > 59) {
    return wrong(`its zone ${sign}${zoneHour}:${zoneMinute} does not exist; send ${eventTimeForm}`);
  }
  const utc = shifted(time, sign === '-' ? offset : -offset);
  if (utc.year < 1 || utc.year > 9999) return wrong('it is not in the years 0001 to 9999 of UTC');
  const clock = `${digits(Math.floor(utc.minutes / 60), 2)}:${digits(utc.minutes % 60, 2)}:${second}${fraction}`;
  return { kind: 'time', utc: `${digits(utc.year, 4)}-${digits(utc.month, 2)}-${digits(utc.day, 2)}T${clock}Z` };
}

/** @returns a text that sorts as the time does: `2026-11-20T14:19:45.25` for `2026-11-20T14:19:45.250Z` */
export function sortKeyOf(utc: string): string {
  let end = utc.length - 1; // without the Z
  if (utc[19] === '.') while (utc[end - 1] === '0') end -= 1;
  return utc.slice(0, utc[end - 1] === '.' ? end - 1 : end);
}

/**
 * The form of RFC 3339 section 5.6 as a regular expression for a schema, without lookahead, which Go and Rust do not have. The
 * expression looks at each field alone, so it also matches `2026-02-31T16:19:45Z`, which `readEventTime` refuses.
 */
export const eventTimePattern =
  '^(000[1-9]|00[1-9]\\d|0[1-9]\\d\\d|[1-9]\\d{3})-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])' +
  '[Tt]([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?([Zz]|[+-]([01]\\d|2[0-3]):[0-5]\\d)$';

/** Which time of an event counts: when it was recorded (`time`), or when it happened (`event_time`). */
export type By = 'time' | 'event_time';

/** @param event as it is recorded @returns its `event_time`, or its `time` if it has none */
export function happenedAt(event: { readonly event_time?: string | undefined; readonly time: string }): string {
  return event.event_time ?? event.time;
}

const FORM = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d{1,9})?(?:[Zz]|([+-])(\d\d):(\d\d))$/;
const DATE_AND_TIME = '\\d{4}-\\d\\d-\\d\\d[Tt]\\d\\d:\\d\\d:\\d\\d';
const EPOCH = /^[+-]?\d+(\.\d*)?$/;
const WITHOUT_ZONE = new RegExp(`^${DATE_AND_TIME}(\\.\\d{1,9})?$`);
const LONG_FRACTION = new RegExp(`^${DATE_AND_TIME}\\.\\d{10,}`);
const SPACE_FOR_PLUS = new RegExp(`^${DATE_AND_TIME}(\\.\\d{1,9})? \\d\\d:\\d\\d$`);

/** The calendar fields of a time, and the minutes since its day began. */
interface CalendarFields {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly minutes: number;
}

function wrong(problem: string): EventTime {
  return { kind: 'wrong', problem };
}

function mistakeIn(text: string): string {
  if (EPOCH.test(text)) return `a number may mean seconds or milliseconds; send ${eventTimeForm}`;
  if (SPACE_FOR_PLUS.test(text)) return 'it has a space before its zone, as a + becomes in a query; write + as %2B';
  if (WITHOUT_ZONE.test(text)) return 'it has no zone; add Z for UTC, or one such as +01:00';
  if (LONG_FRACTION.test(text)) return 'its fraction has more than nine digits; send nanoseconds at most';
  return `send ${eventTimeForm}`;
}

/** @param minutes to add: fewer than those of a day, in either direction */
function shifted({ year, month, day, minutes: before }: CalendarFields, minutes: number): CalendarFields {
  const after = before + minutes;
  if (after < 0) return { ...dayBefore(year, month, day), minutes: after + DAY_MINUTES };
  if (after >= DAY_MINUTES) return { ...dayAfter(year, month, day), minutes: after - DAY_MINUTES };
  return { year, month, day, minutes: after };
}

function dayBefore(year: number, month: number, day: number): Omit<CalendarFields, 'minutes'> {
  if (day > 1) return { year, month, day: day - 1 };
  if (month > 1) return { year, month: month - 1, day: daysIn(year, month - 1) };
  return { year: year - 1, month: 12, day: 31 };
}

function dayAfter(year: number, month: number, day: number): Omit<CalendarFields, 'minutes'> {
  if (day < daysIn(year, month)) return { year, month, day: day + 1 };
  return month < 12 ? { year, month: month + 1, day: 1 } : { year: year + 1, month: 1, day: 1 };
}

/** @param month from 1 to 12 */
function daysIn(year: number, month: number): number {
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return month === 2 && isLeap ? 29 : (MONTH_DAYS[month - 1] as number);
}

function digits(value: number, count: number): string {
  return String(value).padStart(count, '0');
}

const DAY_MINUTES = 24 * 60;
const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
