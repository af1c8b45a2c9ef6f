import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Waiters } from '../../src/waiting/waiters.ts';

test('a wait ends with its turn, its timeout or its signal, whichever is first', async (t) => {
  const alive = setInterval(() => {}, 1_000); // a wait does not keep the process alive
  t.after(() => clearInterval(alive));
  const waiters = new Waiters();
  const startedMs = performance.now();
  assert.equal(await waiters.wait(undefined, 50), false);
  assert.ok(performance.now() - startedMs >= 49);
  const ending = new AbortController();
  const ended: string[] = [];
  for (const [name, signal] of [['first'], ['aborted', ending.signal], ['second'], ['third']] as const) {
    void waiters.wait(signal, 60_000).then((isWoken) => ended.push(`${name} ${isWoken}`));
  }
  ending.abort();
  assert.equal(waiters.size, 3);
  assert.equal(waiters.wakeFirst(), true);
  await sleep(1);
  assert.deepEqual(ended, ['aborted false', 'first true']);
  waiters.wake();
  await sleep(1);
  assert.deepEqual(ended.slice(2), ['second true', 'third true']);
  assert.deepEqual([waiters.size, waiters.wakeFirst()], [0, false]);
  assert.equal(await waiters.wait(ending.signal), false, 'its client has disconnected already');
});
