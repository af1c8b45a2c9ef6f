/** The state of assets as events come: one by one, after a state that was read, and in bounded memory. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assetJson, savedJson } from '../../src/assets/asset-json.ts';
import { AssetStates } from '../../src/assets/asset-state.ts';
import { Watch } from '../../src/assets/watch.ts';
import { readReported } from '../../src/journal/line/reported.ts';
import { encodeMembers, type PlainEvent } from '../support/plain-event.ts';
import { randomFrom } from '../support/random.ts';

const START_MS = Date.parse('2026-11-20T15:00:00.000Z');
const timeMs = (seq: number) => START_MS + 1_000 * seq;

const check = (key: string, name: string, passed: boolean): PlainEvent => ({
  type: 'AssetCheckEvaluation',
  assetKey: [key],
  checkName: name,
  passed,
  severity: 'ERROR',
});
const materialized = (key: string, partition?: string): PlainEvent => ({
  type: 'AssetMaterialization',
  assetKey: [key],
  partition,
});

function take(states: AssetStates, events: readonly PlainEvent[], firstSeq = 1): void {
  for (const [index, event] of events.entries()) {
    const seq = firstSeq + index;
    states.take(seq, timeMs(seq), readReported(encodeMembers(event)));
  }
}

function statesOf(events: readonly PlainEvent[], firstSeq = 1): AssetStates {
  const states = new AssetStates({ by: 'time' });
  take(states, events, firstSeq);
  return states;
}

const shown = (states: AssetStates): unknown =>
  JSON.parse(JSON.stringify([...states.inOrder()].map((asset) => assetJson(asset, 'event_time'))));
/** In the form of the file: also the results before the last ones. */
const saved = (states: AssetStates): unknown => JSON.parse(JSON.stringify([...states.inOrder()].map(savedJson)));

test('of a check the state has since when its result is the same, and how many there are in a row', () => {
  const states = statesOf([true, false, false, true, false, false, false].map((passed) => check('a', 'c', passed)));
  const [{ checks }] = shown(states) as [{ checks: readonly object[] }];
  const time = '2026-11-20T15:00:07.000Z';
  const since = { since_seq: 5, since: '2026-11-20T15:00:05.000Z', in_a_row: 3 };
  const [saved] = [...states.inOrder()].map(savedJson);
  assert.deepEqual(saved?.checks[0]?.before, { since_seq: 4, since: '2026-11-20T15:00:04.000Z', in_a_row: 1 });
  assert.deepEqual(checks, [{ check_name: 'c', passed: false, severity: 'ERROR', count: 7, seq: 7, time, ...since }]);
});

test('an event that was taken before changes nothing [asset-state-2]', () => {
  const events = [check('a', 'c', false), materialized('a', 'p1'), check('a', 'c', false), materialized('b', 'p2')];
  const states = statesOf(events);
  const before = shown(states);
  take(states, events);
  assert.deepEqual(shown(states), before);
  take(states, events.slice(2), 3);
  assert.deepEqual(shown(states), before);
});

test('a state with the state of later events added is the state of all of them', () => {
  const random = randomFrom(7);
  const below = (end: number) => Math.floor(random() * end);
  for (let round = 0; round < 300; round += 1) {
    const events = Array.from({ length: 30 }, (_, n): PlainEvent => {
      const key = `k${below(3)}`;
      return below(3) === 0 ? materialized(key, `p${n}`) : check(key, `c${below(2)}`, below(3) > 0);
    });
    const cut = below(31);
    const states = statesOf(events.slice(0, cut));
    const later = statesOf(events.slice(cut), cut + 1);
    const all = statesOf(events);
    states.absorb(later);
    assert.deepEqual(saved(states), saved(all), `round ${round}, cut at ${cut}`);
    assert.deepEqual([states.bytes, later.bytes], [all.bytes, 0]);
  }
});

test('the asset that is silent longest under a watched key is known at each event', () => {
  const watch = new Watch([['w'], [], ['w', 'a']]);
  const states = new AssetStates({ by: 'time', watch });
  const oldest = () => watch.prefixes.map(({ oldestMs }) => oldestMs && (oldestMs - START_MS) / 1_000);
  assert.deepEqual(oldest(), [undefined, undefined, undefined]);
  const observed = (...assetKey: string[]): PlainEvent => ({ type: 'AssetObservation', assetKey });
  take(states, [observed('w', 'a'), observed('w2'), observed('w', 'b')]);
  assert.deepEqual(oldest(), [1, 1, 1]);
  take(states, [observed('w', 'a')], 4);
  assert.deepEqual(oldest(), [3, 2, 4]);
  const later = new AssetStates({ by: 'time', watch: new Watch([['w'], [], ['w', 'a']]) });
  take(later, [observed('w', 'b'), observed('w2')], 5);
  states.absorb(later);
  assert.deepEqual(oldest(), [4, 4, 4]);
  assert.equal(
    states.forget(({ name }) => name === 'w\0a'),
    1,
  );
  assert.deepEqual(oldest(), [5, 5, undefined]);
  const read = new AssetStates({ by: 'time', watch: new Watch([['w']]) });
  for (const asset of states.inOrder()) read.put(asset);
  read.beginWatch();
  assert.equal(read.watch?.prefixes[0]?.oldestMs, timeMs(5));
});

test('without memory a new asset and a new check are not taken and counted, unless they are watched [asset-state-5]', () => {
  const memory = { bytes: 0, refused: 0 };
  let hasSpace = true;
  const watch = new Watch([['w']]);
  const states = new AssetStates({ by: 'time', memory, hasSpace: () => hasSpace, watch });
  take(states, [check('a', 'c', true), materialized('a')]);
  hasSpace = false;
  take(
    states,
    [check('a', 'c', false), materialized('b'), check('a', 'd', true), materialized('w'), materialized('a')],
    3,
  );
  assert.deepEqual([states.refused, memory.refused, memory.bytes], [2, 2, states.bytes]);
  const found = [...states.inOrder()];
  assert.deepEqual(
    found.map(({ name, checks, materialization }) => [name, [...(checks?.keys() ?? [])], materialization?.seq]),
    [
      ['a', ['c'], 7],
      ['w', [], 6],
    ],
  );
  assert.equal(found[0]?.checks?.get('c')?.passed, false);
  take(states, [materialized('a', 'x'.repeat(100_000))], 8);
  assert.ok(memory.bytes < 5_000, 'a long text is left out');
});

test('what is forgotten frees its memory, and begins anew with its next event', () => {
  const memory = { bytes: 0, refused: 0 };
  const states = new AssetStates({ by: 'time', memory });
  take(states, [materialized('a', 'p'), check('b', 'c', false), materialized('c')]);
  assert.equal(
    states.forget(({ name }) => name < 'c'),
    2,
  );
  assert.deepEqual([states.size, memory.bytes], [1, statesOf([materialized('c')]).bytes]);
  take(states, [materialized('a')], 4);
  assert.deepEqual(
    [...states.inOrder()].map(({ name, materialization }) => [name, materialization?.count]),
    [
      ['a', 1],
      ['c', 1],
    ],
  );
  states.drop();
  assert.equal(memory.bytes, 0);
});
