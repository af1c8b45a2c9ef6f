/** Programs of this folder as separate processes, so that they do not slow the process that measures. */

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root } from '../support/program.ts';

/** @param options the only argument, as JSON @returns the JSON that the program prints */
export async function runBeside<Result>(file: string, options: object, withinMs: number): Promise<Result> {
  const args = ['--import', import.meta.resolve('tsx'), join(root, 'test/faults', file), JSON.stringify(options)];
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    timeout: withinMs,
    maxBuffer: 64 * 1024 * 1024,
  });
  return JSON.parse(stdout);
}
