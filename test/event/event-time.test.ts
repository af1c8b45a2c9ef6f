import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readEventTime, sortKeyOf } from '../../src/event/event-time.ts';
import { rounds } from '../support/long.ts';

function problemOf(text: string): string {
  const time = readEventTime(text);
  assert.ok(time.kind === 'wrong', `${text}: ${JSON.stringify(time)}`);
  return time.problem;
}

/** @returns the expected UTC by the calendar of `Date`, whose constructor has no years below 100 and no microseconds */
function byDate(year: number, rest: readonly number[], fraction: string, offsetMinutes: number): string | undefined {
  const [month = 0, day = 0, hour = 0, minute = 0, second = 0] = rest;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second, 0);
  const isReal = date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  date.setTime(date.getTime() - offsetMinutes * 60_000);
  const utcYear = date.getUTCFullYear();
  if (!isReal || utcYear < 1 || utcYear > 9999) return undefined;
  return date.toISOString().replace('.000Z', `${fraction}Z`);
}

test('a time in UTC agrees with Date, and keeps the digits that were sent', () => {
  const number = (min: number, max: number) => fc.integer({ min, max });
  const year = fc.oneof(number(0, 9999), fc.constantFrom(0, 1, 99, 100, 400, 1900, 2000, 2024, 2026, 9999));
  const day = fc.oneof(number(1, 31), fc.constantFrom(1, 28, 29, 30, 31));
  const month = fc.oneof(number(1, 12), fc.constantFrom(1, 2, 3, 12));
  const fraction = fc.oneof(fc.constant(''), fc.stringMatching(/^\.[0-9]{1,9}$/));
  const zone = fc.oneof(
    fc.constantFrom('Z', 'z', '+00:00', '-00:00', '+23:59', '-23:59'),
    fc
      .tuple(fc.constantFrom('+', '-'), number(0, 23), number(0, 59))
      .map(([sign, h, m]) => `${sign}${two(h)}:${two(m)}`),
  );
  const clock = fc.tuple(fc.oneof(number(0, 23), fc.constantFrom(0, 23)), number(0, 59), number(0, 59));
  const text = fc.tuple(year, month, day, clock, fraction, fc.constantFrom('T', 't', ' '), zone);
  fc.assert(
    fc.property(text, ([y, mo, d, [h, mi, s], f, t, z]) => {
      const sent = `${String(y).padStart(4, '0')}-${two(mo)}-${two(d)}${t}${two(h)}:${two(mi)}:${two(s)}${f}${z}`;
      const offset = z.length === 1 ? 0 : Number(`${z[0]}1`) * (60 * Number(z.slice(1, 3)) + Number(z.slice(4)));
      const expected = byDate(y, [mo, d, h, mi, s], f, offset);
      const found = readEventTime(sent);
      assert.deepEqual(found.kind === 'time' ? found.utc : undefined, expected, sent);
    }),
    { numRuns: rounds({ long: 20_000, short: 4_000 }) },
  );
});

function two(value: number): string {
  return String(value).padStart(2, '0');
}

test('any other text is refused with advice', () => {
  const ambiguous = /^a number could mean seconds or milliseconds; send an RFC 3339 time with a zone, such as /;
  const refused: readonly (readonly [text: string, problem: RegExp])[] = [
    ['1763650785', ambiguous],
    ['1763650785250', ambiguous],
    ['-1', ambiguous],
    ['1763650785.25', ambiguous],
    ['2026-11-20T15:19:45 01:00', /write \+ as %2B$/],
    ['2026-11-20 15:19:45.25 01:00', /^it has a space before its zone: .* write \+ as %2B$/],
    ['2026-11-20 15:19:45', /^it has no zone; add Z/],
    ['2026-11-20T15:19:45', /^it has no zone; add Z/],
    ['2026-11-20T15:19:60Z', /^its second is 60; send 59/],
    ['2026-11-20T15:19:45.1234567890Z', /more than nine digits/],
    ['2026-13-20T15:19:45Z', /^its month is 13/],
    ['2026-00-20T15:19:45Z', /^its month is 00/],
    ['2026-02-29T15:19:45Z', /^2026-02 has no day 29/],
    ['1900-02-29T15:19:45Z', /^1900-02 has no day 29/],
    ['2026-11-00T15:19:45Z', /^2026-11 has no day 00/],
    ['2026-11-20T24:00:00Z', /^24:00:00 is not a time of day/],
    ['2026-11-20T15:60:00Z', /not a time of day/],
    ['2026-11-20T15:19:61Z', /not a time of day/],
    ['2026-11-20T15:19:45+24:00', /^its zone \+24:00 does not exist/],
    ['2026-11-20T15:19:45+01:60', /does not exist/],
    ['0001-01-01T00:00:00+00:01', /^it is not in the years 0001 to 9999 of UTC$/],
    ['9999-12-31T23:59:59-00:01', /^it is not in the years/],
    ['0000-12-31T23:59:59Z', /^it is not in the years/],
  ];
  for (const [text, problem] of refused) assert.match(problemOf(text), problem, text);
  for (const text of [
    ...[
      '',
      'now',
      '2026-11-20',
      '2026-11-20  15:19:45Z',
      '2026-11-20T 15:19:45Z',
      '2026-11-20 15:19:45 Z',
      '2026-11-20T15:19Z',
      '2026-11-20T15:19:45.Z',
    ],
    ...['2026-11-20T15:19:45,5Z', '2026-11-20T15:19:45+0100', '2026-11-20T15:19:45+1:00', '20261120T151945Z'],
    ...['+12026-11-20T15:19:45Z', '2026-11-20T15:19:45Z ', '2026-11-20T15:19:45Z\n'],
    ...['\u0662026-11-20T15:19:45Z', '2026-11-20T15:19:45\u221201:00'],
  ]) {
    assert.match(problemOf(text), /^send an RFC 3339 time with a zone/, text);
  }
});

test('the keys of times sort like their nanoseconds', () => {
  const nanoseconds = (utc: string) => {
    const [whole = '', fraction = ''] = utc.slice(0, -1).split('.');
    return BigInt(Date.parse(`${whole}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0'));
  };
  const fraction = fc.oneof(fc.constantFrom('', '.0', '.10', '.1', '.100000000'), fc.stringMatching(/^\.[0-9]{1,9}$/));
  const utc = fc.tuple(fc.integer({ min: 0, max: 3 }), fraction).map(([s, f]) => `2026-11-20T15:19:0${s}${f}Z`);
  fc.assert(
    fc.property(utc, utc, (a, b) => {
      const [keyA, keyB] = [sortKeyOf(a), sortKeyOf(b)];
      const order = nanoseconds(a) < nanoseconds(b) ? -1 : nanoseconds(a) > nanoseconds(b) ? 1 : 0;
      assert.equal(keyA < keyB ? -1 : keyA > keyB ? 1 : 0, order, `${a} ${b}`);
    }),
    { numRuns: rounds({ long: 5_000, short: 1_000 }) },
  );
  assert.equal(sortKeyOf('2026-11-20T14:19:45.250Z'), '2026-11-20T14:19:45.25');
  assert.equal(sortKeyOf('2026-11-20T14:19:40Z'), '2026-11-20T14:19:40');
});
