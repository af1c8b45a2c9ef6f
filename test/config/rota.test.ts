/** Looks that are taken in turn. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Rota } from '../../src/config/rota.ts';
import { eventually } from '../support/tools.ts';
import { gate } from '../world/gate.ts';

const NEVER_MS = 3_600_000;

test('each turn looks at the keys whose last look was longest ago, one at a time, and at no more than its limit', async () => {
  const looks: string[] = [];
  let atWork = 0;
  const look = async (key: string) => {
    atWork += 1;
    assert.equal(atWork, 1);
    await Promise.resolve();
    looks.push(key);
    atWork -= 1;
  };
  const rota = new Rota<string>({ turnMs: NEVER_MS, turnMax: 2, look });
  for (const key of ['a', 'b', 'c', 'd', 'e']) rota.add(key);
  rota.delete('d');
  await rota.turn();
  assert.deepEqual(looks, ['a', 'b']);
  await Promise.all([rota.turn(), rota.turn()]);
  assert.deepEqual(looks, ['a', 'b', 'c', 'e']);
  await rota.turn();
  assert.deepEqual(looks, ['a', 'b', 'c', 'e', 'a', 'b']);
  await rota.close();
});

test('there is a timer only while there is a key', async (t) => {
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
  let looks = 0;
  const look = async () => {
    looks += 1;
  };
  const rota = new Rota<string>({ turnMs: 1, turnMax: 1, look });
  assert.equal(running.size, 0);
  rota.add('a');
  rota.add('b');
  assert.equal(running.size, 1);
  await eventually('turns', () => looks > 2);
  rota.delete('a');
  assert.equal(running.size, 1);
  rota.delete('b');
  assert.equal(running.size, 0);
  rota.add('c');
  await rota.close();
  assert.equal(running.size, 0);
});

test('a key is looked at soon, after each pause, and again if a request for it came during the look', async () => {
  const looks: string[] = [];
  const first = gate();
  const look = async (key: string) => {
    looks.push(key);
    if (looks.length === 1) await first.opened;
  };
  const rota = new Rota<string>({ turnMs: NEVER_MS, turnMax: 1, look, soonMs: [1, 1] });
  rota.soon('a');
  await eventually('the first look', () => looks.length === 1);
  rota.soon('a');
  rota.soon('a');
  first.open();
  await eventually('two looks, and two more', () => looks.length === 4);
  rota.soon('b');
  await eventually('looks at another key', () => looks.length === 6);
  assert.equal(looks.join(''), 'aaaabb');
  await rota.close();
});

test('a close waits for the look that is being taken, and no look follows', async () => {
  const looking = gate();
  const looks: string[] = [];
  const look = async (key: string) => {
    looks.push(key);
    await looking.opened;
  };
  const rota = new Rota<string>({ turnMs: NEVER_MS, turnMax: 9, look, soonMs: [1] });
  for (const key of ['a', 'b']) rota.add(key);
  void rota.turn();
  rota.soon('c');
  await eventually('a look', () => looks.length === 1);
  let isClosed = false;
  const closed = rota.close().then(() => {
    isClosed = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(isClosed, false);
  looking.open();
  await closed;
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(looks, ['a']);
  rota.add('d');
});
