import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { saveMemory } from '../../src/config/memory.ts';
import { endingAfter } from '../../src/waiting/ending-after.ts';
import { eventually } from '../support/tools.ts';

test('a signal with a timeout ends although garbage was collected, and together with the other signal', async () => {
  const collectGarbage = saveMemory();
  const ending = new AbortController();
  let ended = 0;
  const count = (signal: AbortSignal) => signal.addEventListener('abort', () => (ended += 1));
  for (let at = 0; at < 10; at += 1) count(endingAfter(50, ending.signal));
  await turn();
  collectGarbage();
  await eventually('all have ended', () => ended === 10);
  count(endingAfter(60_000, ending.signal));
  ending.abort();
  assert.equal(ended, 11);
});
