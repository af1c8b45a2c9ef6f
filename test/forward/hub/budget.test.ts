/** How many requests of a hub are at work at a time. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Budget } from '../../../src/forward/hub/budget.ts';

test('requests run in the order of their arrival while their bytes fit the budget, and at least one runs [budget-1]', async () => {
  const budget = new Budget(100);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (name: string, bytes: number) =>
    budget.run(bytes, () => {
      begun.push(name);
      return new Promise<void>((end) => ends.set(name, end));
    });
  const end = async (name: string) => {
    ends.get(name)?.();
    await turn();
    await turn();
  };
  const all = [run('a', 60), run('b', 40), run('c', 300), run('d', 1), run('e', 99), run('f', 1)];
  await end('');
  assert.deepEqual(begun, ['a', 'b']);
  await end('a');
  assert.deepEqual(begun, ['a', 'b'], 'c is too large, and is not overtaken');
  await end('b');
  assert.deepEqual(begun, ['a', 'b', 'c']);
  await end('c');
  assert.deepEqual(begun, ['a', 'b', 'c', 'd', 'e']);
  await end('e');
  assert.deepEqual(begun, ['a', 'b', 'c', 'd', 'e', 'f']);
  await end('d');
  await end('f');
  await Promise.all(all);
});

test('a failed request returns its bytes to the budget', async () => {
  const budget = new Budget(1);
  await assert.rejects(
    budget.run(1, () => Promise.reject(new Error('refused'))),
    /refused/,
  );
  assert.equal(await budget.run(1, async () => 'begun'), 'begun');
});
