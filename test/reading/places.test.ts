/** The places of readings, in order. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Places } from '../../src/reading/places.ts';

const hops = async (): Promise<void> => {
  for (let at = 0; at < 10; at += 1) await Promise.resolve();
};

test('places are handed over in order, and a reading that gives up waiting gets none', async () => {
  const places = new Places(2);
  const leave = [await places.take(), await places.take()];
  assert.equal(places.areTaken, true);
  const begun: string[] = [];
  const ending = new AbortController();
  const take = (name: string, signal?: AbortSignal) =>
    places.take(signal).then((left) => {
      begun.push(name);
      leave.push(left);
    });
  void take('a');
  const aborted = take('b', ending.signal);
  void take('c');
  await hops();
  assert.deepEqual(begun, []);
  ending.abort(new Error('its client has gone'));
  await assert.rejects(aborted, /its client has gone/);
  leave[0]!();
  await hops();
  assert.deepEqual(begun, ['a']);
  leave[1]!();
  await hops();
  assert.deepEqual(begun, ['a', 'c']);
  await assert.rejects(places.take(ending.signal), /its client has gone/);
  leave[2]!();
  leave[3]!();
  assert.equal(places.areTaken, false);
});
