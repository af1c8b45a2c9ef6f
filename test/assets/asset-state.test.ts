/** The state of assets: it goes by when things happened, whatever arrives when, and in bounded memory. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assetJson } from '../../src/assets/asset-json.ts';
import { lineTexts } from '../../src/assets/asset-line.ts';
import { AssetStates, type AssetStatesOptions } from '../../src/assets/asset-state.ts';
import { type Check, failuresOf, isFailing } from '../../src/assets/check-state.ts';
import { limits } from '../../src/config/limits.ts';
import type { Reported } from '../../src/journal/line/reported.ts';
import { randomFrom } from '../support/random.ts';

const T = Date.UTC(2026, 10, 28, 12);
const JANUARY = Date.UTC(2026, 0, 1);
const IN_2098 = Date.UTC(2098, 0, 1);
const IN_1970 = 60_000;
const HOUR = 3_600_000;

/** An event; without a kind it is a result of the check `c` of the asset `a`. Times are in ms. */
interface Given {
  readonly key?: string;
  readonly type?: Reported['type'];
  readonly checkName?: string;
  readonly partition?: string;
  readonly passed?: boolean;
  readonly severity?: string;
  readonly dataVersion?: string;
  /** The `time` of its line. */
  readonly time?: number;
  readonly eventTime?: number;
  readonly recorded?: number;
  readonly source?: string;
  readonly sourceSeq?: number;
  readonly isErased?: boolean;
}

const pass: Given = { passed: true };
const fail: Given = { passed: false };
const materialized: Given = { type: 'AssetMaterialization' };
const textOf = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());
/** An event of a device, with its seq and its time there. */
const from = (sourceSeq: number, recorded: number, more: Given): Given => ({
  source: 'd',
  sourceSeq,
  recorded,
  ...more,
});

function reported(given: Given): Reported {
  const { key = 'a', type = 'AssetCheckEvaluation', partition, dataVersion, source, sourceSeq } = given;
  const isCheck = type === 'AssetCheckEvaluation';
  return {
    type,
    key,
    partition,
    checkName: isCheck ? (given.checkName ?? 'c') : undefined,
    passed: isCheck ? given.passed : undefined,
    severity: isCheck ? (given.severity ?? 'ERROR') : undefined,
    dataVersion,
    eventTime: textOf(given.eventTime),
    isErased: given.isErased ?? false,
    source,
    sourceSeq,
    recorded: textOf(given.recorded),
  };
}

function take(states: AssetStates, events: readonly Given[], firstSeq = 1): AssetStates {
  for (const [index, event] of events.entries()) {
    const seq = firstSeq + index;
    states.take(seq, event.time ?? T + seq * 1_000 - 1_000, reported(event));
  }
  return states;
}

const newStates = (options: Partial<AssetStatesOptions> = {}) => new AssetStates({ limits, ...options });
const statesOf = (...events: readonly Given[]) => take(newStates(), events);
const linesOf = (states: AssetStates) => [...states.inOrder()].map((asset) => [...lineTexts(asset)].join(''));
const checkOf = (states: AssetStates, name = 'c'): Check => states.get('a')!.checks!.get(name)!;

/** @returns what fails: `all` without a partition, and `!` after a warning */
function failures(states: AssetStates): string {
  const all = [...(states.get('a')?.checks?.values() ?? [])].flatMap((check) => [...failuresOf(check)]);
  return all.map(([partition = 'all', { severity }]) => `${partition}${severity === 'WARN' ? '!' : ''}`).join();
}

const many = (count: number, event: Given) =>
  Array.from({ length: count }, (_, n) => ({ ...event, partition: `${n}` }));

const erased = (given: Given): Given => ({ ...given, isErased: true });

test('an erased failure counts as that of a partition without a name, until a pass of any or of all', () => {
  const beyond = (...events: readonly Given[]) => checkOf(statesOf(...events)).beyond;
  assert.equal(beyond(erased(fail)), 1);
  assert.equal(beyond(erased(fail), { ...pass, partition: '26' }), 0);
  assert.equal(beyond(erased(fail), erased(pass)), 0);
  assert.equal(beyond(erased(fail), erased(fail), pass), 0);
  assert.equal(beyond(pass, erased({ ...fail, eventTime: JANUARY })), 0, 'it was ended before');
});

/** What is reported in this order, what fails then, and when the asset was alive. */
const CASES: readonly (readonly [promise: string, events: readonly Given[], failing: string, aliveMs?: number])[] = [
  ['a failure of January after a pass of today changes nothing', [pass, { ...fail, eventTime: JANUARY }], '', T],
  ['a first result of January fails', [{ ...fail, eventTime: JANUARY }], 'all', JANUARY],
  ['an erased pass ends no failure of a partition', [{ ...fail, partition: '26' }, erased(pass)], '26'],
  ['an erased pass ends the failure of a check without partitions', [fail, erased(pass)], ''],
  ['a warning becomes an error', [{ ...fail, severity: 'WARN' }, fail], 'all'],
  ['an error becomes a warning', [fail, { ...fail, severity: 'WARN' }], 'all!'],
  [
    'the clock was ahead, and is right again',
    [
      { ...fail, time: IN_2098 },
      { ...pass, time: T + 1_000 },
    ],
    '',
    T + 1_000,
  ],
  [
    'the clock was ahead, and a report has its time',
    [
      { ...fail, time: IN_2098 },
      { ...pass, eventTime: T },
    ],
    '',
    T,
  ],
  [
    'a sender was ahead, and is right again',
    [
      { ...fail, eventTime: IN_2098 },
      { ...pass, eventTime: T + 500 },
    ],
    '',
  ],
  ['a sender in 1970 is heard', [{ ...pass, eventTime: IN_1970 }], '', T],
  ['a sender in 1970 can fail', [pass, { ...fail, eventTime: IN_1970 }], 'all'],
  ['a sender in 2000 is heard', [{ ...pass, eventTime: Date.UTC(2000, 0, 1) }], '', T],
  ['a device in 1970 is heard', [from(1, IN_1970, pass)], '', T],
  ['a device was ahead and is right, in one backlog', [from(1, IN_2098, fail), from(2, T - HOUR, pass)], ''],
  ['a device that was ahead hides no other journal', [from(1, IN_2098, fail), { ...pass, eventTime: T - HOUR }], ''],
  ['the clock of a device is set back', [from(1, T - 10_000, fail), from(2, T - 20_000, pass)], ''],
  ['what a device sends again', [from(1, T - 20_000, fail), from(2, T - 10_000, pass), from(1, T - 20_000, fail)], ''],
  [
    'what a device of 1970 sends again',
    [from(1, IN_1970, fail), from(2, IN_1970 + 1, pass), from(1, IN_1970, fail)],
    '',
  ],
  [
    'the clock goes back by a second',
    [
      { ...fail, time: T },
      { ...pass, time: T - 1_000 },
    ],
    '',
  ],
  [
    'two devices whose events cross on their way',
    [from(1, T - 10_000, pass), { ...from(7, T - 20_000, fail), source: 'e' }],
    '',
  ],
  [
    'of one time the later one counts',
    [
      { ...pass, eventTime: T - HOUR },
      { ...fail, eventTime: T - HOUR },
    ],
    'all',
  ],
];

test('the state of an asset follows the times at which its events happened', () => {
  for (const [promise, events, failing, aliveMs] of CASES) {
    const states = statesOf(...events);
    assert.equal(failures(states), failing, promise);
    if (aliveMs !== undefined) assert.equal(states.get('a')?.aliveMs, aliveMs, promise);
    assert.deepEqual([...states.failing], failing === '' ? [] : ['a'], promise);
  }
});

test('in any order of arrival, the failing partitions are those whose latest result by event time failed', () => {
  const random = randomFrom(7);
  const below = (end: number) => Math.floor(random() * end);
  for (let round = 0; round < 500; round += 1) {
    const events = Array.from({ length: 25 }, (_, n): Given => {
      const partition = below(3) === 0 ? undefined : `p${below(5)}`;
      return { passed: below(2) === 0, eventTime: T - HOUR + n, ...(partition !== undefined && { partition }) };
    });
    const expected = new Set<string>();
    for (const { partition = 'all', passed } of events) {
      if (passed && partition === 'all') expected.clear();
      else if (passed) expected.delete(partition);
      else expected.add(partition);
    }
    const shuffled = events.map((event) => ({ event, at: random() })).sort((a, b) => a.at - b.at);
    const states = statesOf(...shuffled.map(({ event }) => event));
    assert.deepEqual(failures(states).split(',').filter(Boolean).sort(), [...expected].sort(), `round ${round}`);
    assert.equal(states.get('a')?.failing, expected.size > 0 ? 1 : 0);
  }
});

test('a check has the time since when it fails and its failures in a row, and a late result changes neither', () => {
  const states = statesOf(pass, fail, fail, pass, fail, fail, fail);
  const [json] = assetJson(states.get('a')!, 0).checks;
  const { failing, since, since_seq, in_a_row, seq, failing_severity } = json!;
  assert.deepEqual(
    { failing, since, since_seq, in_a_row, seq, failing_severity },
    { failing: true, since: '2026-11-28T12:00:04.000Z', since_seq: 5, in_a_row: 3, seq: 7, failing_severity: 'ERROR' },
  );
  const late = take(states, [{ ...pass, eventTime: JANUARY }], 8);
  assert.deepEqual([checkOf(late).seq, checkOf(late).count, checkOf(late).whole?.inARow], [7, 8, 3]);
});

test('a check lists its failing partitions, its worst severity, and since when it fails', () => {
  const states = statesOf(
    { ...fail, partition: '26', severity: 'WARN' },
    { ...fail, partition: '27' },
    { ...pass, partition: '28' },
  );
  const [json] = assetJson(states.get('a')!, 0).checks;
  const { passed, partition, failing, failing_severity, since_seq, failed_partitions } = json!;
  assert.deepEqual([passed, partition, failing, failing_severity, since_seq], [true, '28', true, 'ERROR', 1]);
  assert.deepEqual(
    failed_partitions?.map((one) => [one.partition, one.severity, one.since_seq]),
    [
      ['26', 'WARN', 1],
      ['27', 'ERROR', 2],
    ],
  );
});

test('an event that was already counted changes nothing', () => {
  const events = [
    fail,
    materialized,
    { ...fail, partition: 'p' },
    { ...materialized, key: 'b', partition: 'p2' },
    pass,
  ];
  const states = statesOf(...events);
  const before = linesOf(states);
  take(states, events);
  assert.deepEqual(linesOf(states), before);
  take(states, events.slice(2), 3);
  assert.deepEqual(linesOf(states), before);
});

test('a check fails until each failed partition has passed, also those beyond the limit of partitions', () => {
  const states = statesOf(...many(150, fail));
  const check = checkOf(states);
  assert.deepEqual([check.partitions?.size, check.failures, check.beyond], [100, 100, 50]);
  take(states, many(149, pass), 151);
  assert.equal(isFailing(check), true);
  take(states, [{ ...pass, partition: '149' }], 300);
  assert.deepEqual([isFailing(check), check.beyond], [false, 0]);
  take(states, many(150, fail), 301);
  take(states, [pass], 451);
  assert.deepEqual([isFailing(check), check.partitions?.size, states.get('a')?.partitions], [false, 0, 0]);
});

test('the last eight partitions that passed are kept', () => {
  const states = statesOf(...many(20, pass));
  assert.deepEqual([...checkOf(states).partitions!.keys()], ['12', '13', '14', '15', '16', '17', '18', '19']);
});

test('the checks and partitions of an asset are bounded, and those beyond the limit are counted', () => {
  const few = { ...limits, assetChecksMax: 3, assetPartitionsMax: 4 };
  const states = newStates({ limits: few });
  take(
    states,
    Array.from({ length: 5 }, (_, n) => ({ ...fail, checkName: `c${n}` })),
  );
  const asset = states.get('a')!;
  assert.deepEqual([asset.checks?.size, asset.checksBeyond, states.refused, asset.seen], [3, 2, 2, 5]);
  take(states, many(6, { ...fail, checkName: 'c0' }), 6);
  take(states, many(2, { ...fail, checkName: 'c1' }), 12);
  assert.deepEqual([asset.partitions, checkOf(states, 'c0').beyond, checkOf(states, 'c1').beyond], [4, 2, 2]);
});

test('a long name is cut and ends with a hash, so that it differs from other long names', () => {
  const long = (end: string) => `${'x'.repeat(300)}${end}`;
  const states = statesOf(
    { ...fail, checkName: long('a') },
    { ...fail, checkName: long('b'), partition: long('p') },
    { ...materialized, dataVersion: `${'x'.repeat(199)}😀${'y'.repeat(100)}` },
  );
  const asset = states.get('a')!;
  const names = [...asset.checks!.keys()];
  assert.deepEqual(
    names.map(({ length }) => length),
    [217, 217],
  );
  assert.match(names[0]!, /^x{200}…[0-9a-f]{16}$/);
  assert.match(asset.materialization!.dataVersion!, /^x{199}…[0-9a-f]{16}$/);
  take(states, [{ ...pass, checkName: long('a') }], 4);
  assert.deepEqual([asset.checks?.size, asset.failing], [2, 1]);
});

test('without memory new assets and checks are refused and counted, and known ones are still updated [asset-state-5]', () => {
  const memory = { bytes: 0, refused: 0 };
  let hasSpace = true;
  const states = newStates({ memory, hasSpace: () => hasSpace, watched: [['w'], ['v']] });
  take(states, [pass, materialized, { ...materialized, key: 'w\0x' }]);
  hasSpace = false;
  const refused = [
    { ...materialized, key: 'b' },
    { ...pass, checkName: 'd' },
    { ...materialized, key: 'w' },
  ];
  take(states, [fail, ...refused, { ...materialized, key: 'w\0x' }], 4);
  assert.deepEqual([states.refused, memory.refused, memory.bytes], [3, 3, states.bytes]);
  assert.deepEqual([...states.leftOut], ['w']);
  assert.deepEqual([failures(states), states.size], ['all', 2]);
  states.forget(({ name }) => name === 'a');
  assert.deepEqual([...states.leftOut, ...states.failing], []);
});

test('the counted memory is that of the assets that are kept', () => {
  const random = randomFrom(11);
  const below = (end: number) => Math.floor(random() * end);
  const memory = { bytes: 0, refused: 0 };
  const states = newStates({ memory });
  for (let seq = 1; seq <= 3_000; seq += 1) {
    const partition = below(2) === 0 ? undefined : `p${below(130)}${'x'.repeat(below(9))}`;
    const event = { key: `k${below(4)}`, passed: below(3) > 0, checkName: `c${below(3)}`, dataVersion: `${below(99)}` };
    take(states, [{ ...event, ...(partition !== undefined && { partition }) }], seq);
  }
  const copy = newStates();
  for (const asset of states.inOrder()) copy.put(asset);
  assert.deepEqual([states.bytes, memory.bytes], [copy.bytes, copy.bytes]);
  states.forget(() => true);
  assert.equal(memory.bytes, 0);
});
