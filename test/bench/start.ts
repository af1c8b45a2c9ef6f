/** How long a start takes, beside a Node that does nothing. */

import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { medianOf } from './figures.ts';
import type { Scratch } from './scratch.ts';
import { startAssetlog } from './subjects.ts';

export interface Start {
  readonly ms: number;
  /** To `node -e 0`. */
  readonly ratio: number;
}

/** @param data a journal to start with; an empty folder for each start where absent */
export async function measureStart(scratch: Scratch, node: string, pairs: number, data?: string): Promise<Start> {
  const times: number[] = [];
  const ratios: number[] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    const nothing = timeOf(node, ['-e', '0']);
    const folder = data ?? scratch.newFolder('start');
    const before = performance.now();
    const server = await startAssetlog({ scratch, node, data: folder });
    const ms = performance.now() - before;
    await server.stop();
    if (data === undefined) rmSync(folder, { recursive: true });
    times.push(ms);
    ratios.push(ms / nothing);
  }
  return { ms: medianOf(times), ratio: medianOf(ratios) };
}

/** @returns milliseconds from the start of a process to its end */
export function timeOf(node: string, args: readonly string[]): number {
  const before = performance.now();
  const { status, stderr } = spawnSync(node, args, { stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' });
  if (status !== 0) throw new Error(`node ${args.join(' ')} ended with ${status}: ${stderr.trim()}`);
  return performance.now() - before;
}
