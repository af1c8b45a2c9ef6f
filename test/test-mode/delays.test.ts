import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Delays } from '../../src/test-mode/delays.ts';

const never = new AbortController().signal;

test('a reply waits for its time, and is sent once', async (t) => {
  const alive = setInterval(() => {}, 1_000); // a reply that is held back keeps no process alive
  t.after(() => clearInterval(alive));
  const delays = new Delays(10);
  const startedMs = performance.now();
  await new Promise<void>((resolve) => assert.equal(delays.wait(50, never, resolve), true));
  assert.ok(performance.now() - startedMs >= 49);
  let sent = 0;
  const ending = new AbortController();
  delays.wait(60_000, ending.signal, () => {
    sent += 1;
  });
  ending.abort();
  delays.end();
  await sleep(1);
  assert.equal(sent, 1);
  delays.wait(60_000, ending.signal, () => {
    sent += 1;
  });
  assert.equal(sent, 2, 'its client has gone already');
});

test('replies beyond the cap are not held back, and all that wait can be sent', () => {
  const delays = new Delays(2);
  const sent: number[] = [];
  const held = [1, 2, 3].map((n) => delays.wait(60_000, never, () => sent.push(n)));
  assert.deepEqual([held, sent], [[true, true, false], [3]]);
  delays.end();
  assert.deepEqual(sent, [3, 1, 2]);
  assert.equal(
    delays.wait(60_000, never, () => sent.push(4)),
    true,
  );
  delays.end();
});
