/** What bounds the memory of readings. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Semaphore } from '../../src/reading/semaphore.ts';

const hops = async (): Promise<void> => {
  for (let at = 0; at < 10; at += 1) await Promise.resolve();
};

test('a semaphore is passed on in order, and a reading that gives up waiting gets none', async () => {
  const buffers = new Semaphore(2);
  const release = [await buffers.acquire(), await buffers.acquire()];
  assert.equal(buffers.isExhausted, true);
  const begun: string[] = [];
  const ending = new AbortController();
  const take = (name: string, signal?: AbortSignal) =>
    buffers.acquire(signal).then((released) => {
      begun.push(name);
      release.push(released);
    });
  void take('a');
  const aborted = take('b', ending.signal);
  void take('c');
  await hops();
  assert.deepEqual(begun, []);
  ending.abort(new Error('its client has gone'));
  await assert.rejects(aborted, /its client has gone/);
  release[0]!();
  await hops();
  assert.deepEqual(begun, ['a']);
  release[1]!();
  await hops();
  assert.deepEqual(begun, ['a', 'c']);
  await assert.rejects(buffers.acquire(ending.signal), /its client has gone/);
  release[2]!();
  release[3]!();
  assert.equal(buffers.isExhausted, false);
});
