/** Processor time, which other processes do not influence. */

import { readFileSync } from 'node:fs';

/** /proc counts in hundredths of a second on every machine. */
const TICK_MS = 10;

/** @returns the processor time of this process so far, in milliseconds */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** The same for another process with all its threads (Linux). @returns undefined for a process that has ended */
export function processorMsOf(pid: number): number | undefined {
  try {
    const [user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ').slice(11, 13) ?? [];
    return TICK_MS * (Number(user) + Number(system));
  } catch {
    return undefined;
  }
}
