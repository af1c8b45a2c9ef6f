/** Looks that are taken in turn. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Rota } from '../../src/waiting/rota.ts';
import { eventually } from '../support/tools.ts';

const NEVER_MS = 3_600_000;

test('each turn takes the oldest looks first, one at a time, and no more than its limit', async () => {
  const taken: string[] = [];
  let atWork = 0;
  const lookAt = (name: string) => async () => {
    atWork += 1;
    assert.equal(atWork, 1);
    await Promise.resolve();
    taken.push(name);
    atWork -= 1;
  };
  const rota = new Rota({ turnMs: NEVER_MS, turnMax: 2 });
  const looks = ['a', 'b', 'c', 'd', 'e'].map(lookAt);
  for (const look of looks) rota.add(look);
  rota.delete(looks[3]!);
  await rota.turn();
  assert.deepEqual(taken, ['a', 'b']);
  await Promise.all([rota.turn(), rota.turn()]);
  assert.deepEqual(taken, ['a', 'b', 'c', 'e']);
  await rota.turn();
  assert.deepEqual(taken, ['a', 'b', 'c', 'e', 'a', 'b']);
  for (const look of looks) rota.delete(look);
});

test('there is a timer only while there is a look', async (t) => {
  const running = new Set<unknown>();
  const { setInterval: begin, clearInterval: end } = globalThis;
  t.mock.method(globalThis, 'setInterval', (...given: Parameters<typeof begin>) => {
    const timer = begin(...given);
    running.add(timer);
    return timer;
  });
  t.mock.method(globalThis, 'clearInterval', (timer: NodeJS.Timeout) => {
    running.delete(timer);
    end(timer);
  });
  let count = 0;
  const [first, second] = [1, 2].map(() => async () => {
    count += 1;
  });
  const rota = new Rota({ turnMs: 1, turnMax: 1 });
  assert.equal(running.size, 0);
  rota.add(first!);
  rota.add(second!);
  assert.equal(running.size, 1);
  await eventually('turns', () => count > 2);
  rota.delete(first!);
  assert.equal(running.size, 1);
  rota.delete(second!);
  assert.equal(running.size, 0);
});
