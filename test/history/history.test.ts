/** An asset over time, without a browser: which numbers, results and days are shown of its events. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { historyLimits } from '../../src/config/limits.ts';
import { compareNumbers } from '../../src/history/exact-number.ts';
import { checkSeriesOf, daysOf, History, numbersOf } from '../../src/history/history.ts';
import { readPastEvent } from '../../src/history/past-event.ts';
import { placeOn, scaleOf } from '../../src/history/scale.ts';
import {
  checkSentence,
  daysSentence,
  dayText,
  holdsText,
  numberSentence,
  pointText,
  resultText,
} from '../../src/history/words.ts';

const NOW_MS = Date.parse('2026-11-20T12:00:00Z');

/** A line of a journal that was recorded `minute` minutes after noon of 2026-11-20. */
function line(seq: number, members: string, minute = seq): string {
  const time = new Date(NOW_MS + 60_000 * minute).toISOString();
  return `{"seq":${seq},"id":"x","time":"${time}",${members},"crc":"00000000"}`;
}

const made = (seq: number, metadata: string, more = '') =>
  line(seq, `"type":"AssetMaterialization","asset_key":["a"],${more}"metadata":${metadata}`);
const checked = (seq: number, passed: boolean, more = '') =>
  line(
    seq,
    `"type":"AssetCheckEvaluation","asset_key":["a"],"check_name":"fresh","passed":${passed},"severity":"ERROR"${more}`,
  );

function historyOf(lines: readonly string[]): History {
  const history = new History();
  history.add(lines);
  return history;
}

test('numbers are compared by all their digits', () => {
  const scaled = fc.record({ digits: fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }), zeros: fc.nat(40) });
  const textOf = ({ digits, zeros }: { digits: bigint; zeros: number }, form: number) => {
    const text = String(digits);
    if (form === 0) return `${text}${digits === 0n ? '' : '0'.repeat(zeros)}`;
    return form === 1 ? `${text}e${zeros}` : `${text}.0E+${zeros}`;
  };
  const form = fc.nat(2);
  fc.assert(
    fc.property(scaled, scaled, form, form, (a, b, formOfA, formOfB) => {
      const [x, y] = [a.digits * 10n ** BigInt(a.zeros), b.digits * 10n ** BigInt(b.zeros)];
      const expected = x < y ? -1 : x > y ? 1 : 0;
      assert.equal(Math.sign(compareNumbers(textOf(a, formOfA), textOf(b, formOfB))), expected);
    }),
  );
  for (const [less, more] of [
    ['9007199254740992', '9007199254740993'],
    ['1e400', '2e400'],
    ['-1e400', '1e400'],
    ['-2e400', '-1e400'],
    ['0.10000000000000000001', '0.10000000000000000002'],
    ['1e-400', '2e-400'],
    ['-1e-400', '0'],
    ['0.0', '1e-999999999'],
  ] as const) {
    assert.ok(compareNumbers(less, more) < 0, `${less} < ${more}`);
    assert.ok(compareNumbers(more, less) > 0, `${more} > ${less}`);
  }
  for (const [one, other] of [
    ['1.0', '1e0'],
    ['-0', '0.00'],
    ['0e5', '0'],
    ['12e399', '1.2e400'],
  ] as const)
    assert.equal(Math.abs(compareNumbers(one, other)), 0, `${one} = ${other}`);
});

test('a scale has steps of 1, 2 or 5, covers all values, and is no wider than it must be', () => {
  const value = fc.double({ noNaN: true, noDefaultInfinity: true });
  fc.assert(
    fc.property(fc.array(fc.oneof(value, fc.integer()), { minLength: 1, maxLength: 20 }), (values) => {
      const scale = scaleOf(values);
      const { low, high, ticks } = scale;
      const [least, most] = [Math.min(...values), Math.max(...values)];
      assert.ok(ticks.length >= 1 && ticks.length <= 5, `${ticks.length} ticks`);
      for (const one of values) assert.ok(placeOn(scale, one) >= 0 && placeOn(scale, one) <= 1);
      assert.ok(placeOn(scale, least) <= placeOn(scale, most));
      if (ticks.length === 1 || (low === least && high === most)) return;
      const step = high / (ticks.length - 1) - low / (ticks.length - 1); // the difference of two doubles can be infinite
      const slack = Math.max(Math.abs(low), Math.abs(high)) * 1e-12;
      assert.ok(low <= least + slack && high >= most - slack, `${low} to ${high}`);
      assert.ok(least - low < step + slack && high - most < step + slack, 'no step is unused');
      if (step > 1e-300) assert.match(step.toExponential(0), /^[125]e/);
      assert.equal(new Set(ticks.map(({ text }) => text)).size, ticks.length, 'each tick has its own text');
    }),
  );
  const texts = (...values: readonly number[]) => scaleOf(values).ticks.map(({ text }) => text);
  assert.deepEqual(texts(120, 950), ['0', '500', '1,000']);
  assert.deepEqual(texts(1, 3), ['1', '2', '3']);
  assert.deepEqual(texts(0.1, 0.7), ['0', '0.2', '0.4', '0.6', '0.8']);
  assert.deepEqual(texts(9_800, 10_200), ['9.8K', '9.9K', '10K', '10.1K', '10.2K']);
  assert.deepEqual(texts(-1_234_567, 7_654_321), ['-5M', '0', '5M', '10M']);
  assert.deepEqual(texts(1_000_000, 1_000_010), ['1M', '1.000005M', '1.00001M']);
  assert.deepEqual(texts(1.2e19, 2e19).at(-1), '2E19');
  assert.deepEqual(texts(7, 7), ['7']);
  assert.equal(placeOn(scaleOf([7, 7]), 7), 0.5);
  assert.equal(texts(-1.7e308, 1.7e308).length, 2, 'their difference is no double');
});

test('each member that is a number is a series, with its digits', () => {
  const { events } = historyOf([
    made(1, '{"rows":9007199254740993,"size":{"type":"int","raw_value":12},"note":"x","rate":1.50}'),
    made(2, '{"rows":9007199254740992,"size":{"type":"float","raw_value":0.10},"note":"y"}', '"partition":"p",'),
    made(3, '{"rows":"unknown","rows":"twice","list":[1],"deep":{"raw_value":"1"}}'),
    made(4, '{"rows":1e400}'),
    checked(5, true, ',"metadata":{"nulls":3}'),
  ]);
  const found = numbersOf(events);
  assert.deepEqual(
    found.map(({ name, count, lowest, highest, last }) => [name, count, lowest, highest, last]),
    [
      ['rows', 4, '9007199254740992', '1e400', '1e400'],
      ['size', 2, '0.10', '12', '0.10'],
      ['rate', 1, '1.50', '1.50', '1.50'],
    ],
  );
  const [rows] = found;
  assert.ok(rows);
  assert.deepEqual(
    rows.points.map(({ value }) => value),
    [2 ** 53, 2 ** 53, undefined, undefined],
  );
  assert.equal(
    numberSentence(rows),
    'rows: 4 values from 2026-11-20 12:01:00 to 2026-11-20 12:04:00 UTC, lowest 9007199254740992, highest 1e400, last 1e400; 1 not a number',
  );
  assert.deepEqual(rows.points.map(pointText), [
    '9007199254740993 · 2026-11-20 12:01:00 UTC',
    '9007199254740992 · 2026-11-20 12:02:00 UTC · partition p',
    'not a number · 2026-11-20 12:03:00 UTC',
    '1e400 · 2026-11-20 12:04:00 UTC',
  ]);
  assert.match(
    numberSentence(numbersOf(historyOf([made(1, '{"<b>\\u202e":1}')]).events)[0]!),
    /^<b>\\u202e: 1 value at /,
  );
});

test('the newest 1,000 events and 200 points count, the most reported numbers come first, and members are bounded', () => {
  const lines = Array.from({ length: 1_200 }, (_, index) =>
    made(index + 1, `{"often":${index},${index % 2 === 0 ? '"b":1' : '"a":1'}${index === 1_100 ? ',"z":1' : ''}}`),
  );
  const history = new History();
  history.add(lines.slice(600, 900));
  history.add(lines.slice(100, 600)); // older ones, as they are found
  for (const one of lines.slice(900)) history.add([one]); // live ones
  assert.deepEqual([history.firstSeq, history.lastSeq, history.isFull], [201, 1_200, true]);
  const found = numbersOf(history.events);
  assert.deepEqual(
    found.map(({ name, count, points }) => [name, count, points.length]),
    [
      ['often', 1_000, 200],
      ['a', 500, 200],
      ['b', 500, 200],
      ['z', 1, 1],
    ],
  );
  assert.deepEqual([found[0]?.points[0]?.text, found[0]?.lowest, found[0]?.last], ['1000', '1000', '1199']);
  const wide = `{${Array.from({ length: historyLimits.eventMembers + 1 }, (_, index) => `"m${index}":1`).join()}}`;
  const many = historyOf(Array.from({ length: 50 }, (_, index) => made(index + 1, wide)));
  const kept = many.events.map(({ members }) => members.size);
  assert.equal(
    kept.filter((size) => size === historyLimits.eventMembers).length,
    historyLimits.members / historyLimits.eventMembers,
  );
  assert.equal(kept[0], 0, 'the oldest are left out');
});

test('a check holds since the first of the last results that are the same', () => {
  const { events } = historyOf([
    checked(1, true),
    checked(2, false, ',"partition":"p","metadata":{"nulls":3,"note":"x"}'),
    checked(3, false).replace('ERROR', 'WARN'),
    made(4, '{"nulls":1}'),
    checked(5, true).replace('fresh', 'a'),
  ]);
  const found = checkSeriesOf(events);
  assert.deepEqual(
    found.map(({ name, results, inARow }) => [name, results.map(({ outcome }) => outcome), inARow]),
    [
      ['a', ['passed'], 1],
      ['fresh', ['passed', 'failed', 'warning'], 2],
    ],
  );
  const [first, fresh] = found;
  assert.ok(first && fresh);
  assert.equal(holdsText(first, false), 'the last result passed, since 2026-11-20 12:05:00 UTC or earlier');
  assert.equal(holdsText(first, true), 'the last result passed, since 2026-11-20 12:05:00 UTC');
  assert.equal(
    checkSentence(fresh, fresh.results, false),
    'fresh: 3 results from 2026-11-20 12:01:00 to 2026-11-20 12:03:00 UTC: 1 passed, 1 warning, 1 failed; the last 2 results failed, since 2026-11-20 12:02:00 UTC',
  );
  assert.equal(resultText(fresh.results[1]!), 'failed · 2026-11-20 12:02:00 UTC · partition p · nulls 3');
});

test('days go by when things happened, a hole is seen, and what was not read is no hole', () => {
  const on = (date: string) => `"event_time":"${date}T23:59:59Z",`;
  const history = historyOf([
    made(1, '{}', on('2026-11-17')),
    made(2, '{}', on('2026-11-17')),
    made(3, '{}', on('2026-11-19')),
    made(4, '{}', '"event_time":"1970-01-01T00:00:00Z",'),
    checked(5, true),
  ]);
  const days = daysOf(history.events, NOW_MS, history.knownFromMs(true));
  assert.equal(days.length, 35);
  assert.deepEqual(
    days.slice(-4).map(({ date, count, last }) => [date, count, last?.seq]),
    [
      ['2026-11-17', 2, 2],
      ['2026-11-18', 0, undefined],
      ['2026-11-19', 1, 3],
      ['2026-11-20', 1, 4],
    ],
  );
  assert.ok(days.every(({ isKnown }) => isKnown));
  assert.equal(
    daysSentence(days),
    'Materializations by day: 4 from 2026-10-17 to 2026-11-20; none on 2026-10-17 and 31 more days',
  );
  const partly = daysOf(history.events, NOW_MS, history.knownFromMs(false));
  assert.deepEqual(partly.slice(-4).map(dayText), [
    '2026-11-17: at least 2 materializations',
    '2026-11-18: 0 materializations',
    '2026-11-19: 1 materialization',
    '2026-11-20: 1 materialization',
  ]);
  assert.equal(dayText(partly[0]!), '2026-10-17: not read');
  assert.equal(
    daysSentence(partly),
    'Materializations by day: 4 from 2026-11-17 to 2026-11-20; none on 2026-11-18; 31 days before that not read',
  );
  assert.equal(new History().knownFromMs(false), Number.POSITIVE_INFINITY);
});

test('a line says when its event happened like the state of its asset', () => {
  const at = (more: string) => {
    const { atMs } = readPastEvent(line(1, `"type":"AssetObservation",${more}"asset_key":["a"]`, 0));
    return new Date(atMs).toISOString();
  };
  assert.equal(at(''), '2026-11-20T12:00:00.000Z');
  assert.equal(at('"event_time":"2026-11-01T00:00:00Z",'), '2026-11-01T00:00:00.000Z');
  assert.equal(at('"recorded":"2026-11-02T00:00:00.000Z",'), '2026-11-02T00:00:00.000Z');
  assert.equal(at('"event_time":"2026-12-01T00:00:00Z",'), '2026-11-20T12:00:00.000Z');
});
