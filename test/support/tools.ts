/** Whether commands are installed, programs in Python, and waits. */

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Finished, launch, type RunOptions, root } from './program.ts';

/** @returns `reason`, why a test is skipped, if the command fails; otherwise false */
export function missing(reason: string, command: string, args: readonly string[]): string | false {
  return spawnSync(command, args, { stdio: 'ignore', timeout: 30_000 }).status !== 0 && reason;
}

/** @returns the text of a file of `test/python`, which a test runs */
export function pythonText(name: string): string {
  return readFileSync(join(root, 'test/python', name), 'utf8');
}

/** A limit for commands that hang: much longer than any needs on a busy machine. */
export const HANG_MS = 200_000;

/** Polls a condition, less often the longer it waits, since most conditions are a request. @throws if the time runs out */
export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  withinMs = 60_000,
): Promise<void> {
  const beganMs = performance.now();
  while (!(await isSo())) {
    const waitedMs = performance.now() - beganMs;
    if (waitedMs > withinMs) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(Math.min(Math.max(10, waitedMs / 10), 100));
  }
}

/** @throws if the promise is not settled within the time */
export async function within<Value>(what: string, withinMs: number, promise: Promise<Value>): Promise<Value> {
  const timer = new AbortController();
  const late = sleep(withinMs, undefined, { signal: timer.signal }).then(() => {
    throw new Error(`not within ${withinMs} ms: ${what}`);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    late.catch(() => {}); // aborted on the next line
    timer.abort();
  }
}

/** Runs the program to its end. @throws if the time runs out; the program is killed then */
export function runWithin(withinMs: number, args: readonly string[], options: RunOptions = {}): Promise<Finished> {
  const { child, finished } = launch(args, options);
  return within(`the end of ${args.join(' ')}`, withinMs, finished).finally(() => child.kill('SIGKILL'));
}

/** Does at most `atOnce` things at a time. */
export async function each<Value>(
  values: readonly Value[],
  atOnce: number,
  act: (value: Value) => Promise<void>,
): Promise<void> {
  const left = values.values();
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (const value of left) await act(value);
    }),
  );
}

/** @returns the seqs from `first` to `last` */
export function upTo(last: number, first = 1): number[] {
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}
