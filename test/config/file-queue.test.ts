import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { FileQueue, LateFileError } from '../../src/config/file-queue.ts';
import { within } from '../support/tools.ts';
import { gate } from '../world/gate.ts';

const LONG_MS = 60_000;
const isLate = (late: string) => (error: Error) => error instanceof LateFileError && error.late === late;

test('tasks run one at a time in the order of their arrival, and a failed task stops no other one [file-queue-1]', async () => {
  const queue = new FileQueue();
  let running = 0;
  const order: number[] = [];
  const tasks = [1, 2, 3, 4].map((number) =>
    queue.run(`/f${number}`, LONG_MS, async () => {
      running += 1;
      assert.equal(running, 1);
      await turn();
      order.push(number);
      running -= 1;
      if (number === 2) throw new Error('no such file');
      return number;
    }),
  );
  const values = (await Promise.allSettled(tasks)).map((one) => ('value' in one ? one.value : one.reason.message));
  assert.deepEqual(
    [values, order],
    [
      [1, 'no such file', 3, 4],
      [1, 2, 3, 4],
    ],
  );
});

test('a caller waits for a task that hangs only until its timeout, and later callers do not wait at all', async () => {
  const queue = new FileQueue();
  const hanging = gate();
  const begun: string[] = [];
  const read = (path: string, ms: number) =>
    queue.run(path, ms, async () => {
      begun.push(path);
      if (path === '/dead') await hanging.opened;
    });
  const first = read('/dead', 20);
  const behind = read('/other', 20);
  assert.equal(queue.late, undefined);
  await within('the first caller', 10_000, assert.rejects(first, isLate('/dead')));
  await within('the second caller', 10_000, assert.rejects(behind, isLate('/dead')));
  assert.equal(queue.late, '/dead');
  await assert.rejects(read('/other', LONG_MS), {
    message:
      '/other waits for another file: /dead was not read to its end in time; check its file system, or the program that writes to the pipe',
  });
  await assert.rejects(read('/dead', LONG_MS), /^Error: \/dead was not read/);
  assert.deepEqual(begun, ['/dead']);
  hanging.open();
  await turn();
  assert.equal(queue.late, undefined);
  await read('/other', LONG_MS);
  assert.deepEqual(begun, ['/dead', '/other'], 'what nobody waits for is not read');
});

test('an abort ends the wait of a caller, cancels the task, and creates no file afterwards', async () => {
  const queue = new FileQueue();
  const stop = new AbortController();
  let isEnding = false;
  const task = (ending: AbortSignal) =>
    new Promise<void>((resolve) => {
      ending.addEventListener('abort', () => {
        isEnding = true;
        resolve();
      });
    });
  const reading = queue.run('/a', LONG_MS, task, stop.signal);
  await turn();
  stop.abort();
  await assert.rejects(reading, isLate('/a'));
  assert.deepEqual([isEnding, queue.late], [true, undefined]);
  await assert.rejects(
    queue.run('/b', LONG_MS, async () => assert.fail(), stop.signal),
    isLate('/b'),
  );
  assert.equal(await queue.run('/c', LONG_MS, async () => 'read'), 'read');
});
