/** How much memory a process takes, as /proc says it (Linux). */

import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';

const SAMPLE_MS = 10;

/** Resident memory of a process in MiB: the most that it has had (`VmHWM`) or has now (`VmRSS`). @returns 0 for one that has ended */
export function memoryMib(pid: number | undefined, name: 'VmRSS' | 'VmHWM' = 'VmHWM'): number {
  try {
    const kib = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return Math.round(Number(kib ?? 0) / 1024);
  } catch {
    return 0;
  }
}

/** @returns how a process ended, and the most memory that it had: sampled, since an ended process says nothing of its memory */
export async function endWithPeak(child: ChildProcess): Promise<{ code: number | null; peakMib: number }> {
  let peakMib = 0;
  const sampling = setInterval(() => {
    peakMib = Math.max(peakMib, memoryMib(child.pid));
  }, SAMPLE_MS);
  const [code] = await once(child, 'close');
  clearInterval(sampling);
  return { code, peakMib };
}
