/** Programs of this folder as processes of their own, so that they take no time from the process that measures. */

import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import { root } from '../support/program.ts';

const argsOf = (file: string) => ['--import', import.meta.resolve('tsx'), join(root, 'test/faults', file)];

/** @param options the one argument, as JSON @returns the JSON that the program prints */
export async function runBeside<Result>(file: string, options: object, withinMs: number): Promise<Result> {
  const { stdout } = await promisify(execFile)(process.execPath, [...argsOf(file), JSON.stringify(options)], {
    timeout: withinMs,
    maxBuffer: 64 * 1024 * 1024,
  });
  return JSON.parse(stdout);
}

/** Runs a program of `long-run.ts` to its end, which has to be 0. @returns a figure of the table that it prints */
export function figuresOf(
  t: TestContext,
  file: string,
  seconds: number,
  withinMs: number,
): (name: string) => string | undefined {
  const args = [...argsOf(file), '--seconds', String(seconds)];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: withinMs });
  for (const line of stdout.trimEnd().split('\n')) t.diagnostic(line);
  assert.equal(status, 0, stdout + stderr);
  return (name) => new RegExp(`^${name} +(.+)$`, 'm').exec(stdout)?.[1];
}
