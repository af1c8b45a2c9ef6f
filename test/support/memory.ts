/** The memory of a process, from /proc (Linux), and V8's young generation in this process. */

import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import { getHeapSpaceStatistics } from 'node:v8';

const SAMPLE_MS = 10;

/** Resident memory in MiB: its peak (`VmHWM`), or now (`VmRSS`). @returns 0 for a process that has ended */
export function memoryMib(pid: number | undefined, name: 'VmRSS' | 'VmHWM' = 'VmHWM'): number {
  try {
    const kib = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return Math.round(Number(kib ?? 0) / 1024);
  } catch {
    return 0;
  }
}

/** @returns how a process ended, and its peak memory: sampled, since /proc has no memory of an ended process */
export async function endWithPeak(child: ChildProcess): Promise<{ code: number | null; peakMib: number }> {
  let peakMib = 0;
  const sampling = setInterval(() => {
    peakMib = Math.max(peakMib, memoryMib(child.pid));
  }, SAMPLE_MS);
  const [code] = await once(child, 'close');
  clearInterval(sampling);
  return { code, peakMib };
}

/** @returns the size of each half of the young generation, after work that lets it grow if it can */
export async function youngHalfMibAfterWork(): Promise<number> {
  let kept: object[] = [];
  for (let round = 0; round < 200; round += 1) {
    if (round % 20 === 0) kept = [];
    for (let at = 0; at < 5_000; at += 1) kept.push({ at, text: `x${at}` });
    await turn(); // lets observers of collections run
  }
  const space = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')!;
  return Math.round((space.space_used_size + space.space_available_size) / 1024 / 1024);
}
