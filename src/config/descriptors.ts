/** Finds how many file descriptors the process may have, and how many journals they allow. */

import { readFileSync } from 'node:fs';
import type { Limits } from './limits.ts';

/** @returns the limit of the process, which Node has raised as far as it may at its start; undefined on other systems than Linux */
export function readDescriptorsMax(): number | undefined {
  try {
    const max = Number(/^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]);
    return Number.isNaN(max) ? undefined : max;
  } catch {
    return undefined; // a container may hide /proc; a journal that finds no descriptor closes another one
  }
}

/** @returns how many journals of deployments may be open at a time, at least one */
export function openJournalsFor(
  descriptors: number = Number.POSITIVE_INFINITY,
  limits: Pick<Limits, 'openJournalsMax' | 'journalDescriptors' | 'journalDescriptorsPercent'>,
): number {
  const { openJournalsMax, journalDescriptors, journalDescriptorsPercent } = limits;
  const affordable = Math.floor((descriptors * journalDescriptorsPercent) / 100 / journalDescriptors);
  return Math.max(1, Math.min(openJournalsMax, affordable));
}
