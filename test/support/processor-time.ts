/** How long something computes, whatever else has the processor meanwhile. */

import { readFileSync } from 'node:fs';

/** Of /proc: Linux counts there in hundredths of a second on every machine. */
const TICK_MS = 10;

/** @returns processor time of this process so far, in milliseconds: the difference of two is what was computed between them */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** The same of another process with all its threads (Linux). @returns undefined for one that has ended */
export function processorMsOf(pid: number): number | undefined {
  try {
    const [user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ').slice(11, 13) ?? [];
    return TICK_MS * (Number(user) + Number(system));
  } catch {
    return undefined;
  }
}
