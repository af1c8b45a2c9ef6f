/** Many that ask at the same time cost two rounds, and none is answered by a round that began before it asked. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Rounds } from '../../src/forward/rounds.ts';

test('those that ask during a round share the next one, and another name has its own', async () => {
  const rounds = new Rounds();
  const ends: (() => void)[] = [];
  const begun: string[] = [];
  const done: string[] = [];
  const ask = (name: string, who: string) => {
    const work = () => {
      begun.push(who);
      return new Promise<void>((resolve) => ends.push(resolve));
    };
    void rounds.ask(name, work).then(() => done.push(who));
  };
  const end = async () => {
    ends.shift()?.();
    await turn();
  };
  for (const who of ['1', '2', '3']) ask('prod', who);
  ask('test', '4');
  assert.deepEqual(begun, ['1', '4']);
  await end();
  assert.deepEqual([done, begun], [['1'], ['1', '4', '2']]);
  ask('prod', '5');
  await end();
  await end();
  assert.deepEqual(
    [done, begun],
    [
      ['1', '4', '2', '3'],
      ['1', '4', '2', '5'],
    ],
  );
  await end();
  ask('prod', '6');
  assert.deepEqual(begun.at(-1), '6');
  await end();
  assert.deepEqual(done, ['1', '4', '2', '3', '5', '6']);
});
