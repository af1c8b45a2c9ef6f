/**
 * The limit of the process's file descriptors, the number of open journals that the limit allows, and the content of an
 * open descriptor.
 */

import { fstatSync, readFileSync } from 'node:fs';
import type { Limits } from './limits.ts';
import { platform } from './platform.ts';

/** @returns the limit of the process, which Node raises to the hard limit at its start; undefined on systems other than Linux */
export function readDescriptorsMax(): number | undefined {
  if (!platform.isLinux) return undefined;
  try {
    const max = Number(/^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]);
    return Number.isNaN(max) ? undefined : max;
  } catch {
    return undefined; // a container can hide /proc; a journal that finds no descriptor closes another one
  }
}

/**
 * @returns the content of the file to which a descriptor appends; empty for a terminal and a pipe, and on systems other than
 * Linux
 */
export function readAppendedFile(descriptor: number): string {
  if (!platform.isLinux) return ''; // any user of Windows can create the folder C:\proc
  try {
    return fstatSync(descriptor).isFile() ? readFileSync(`/proc/self/fd/${descriptor}`, 'utf8') : '';
  } catch {
    return '';
  }
}

/** @returns the number of journals of deployments that may be open at a time, at least one */
export function openJournalsFor(descriptors: number = Number.POSITIVE_INFINITY, limits: Limits): number {
  const { openJournalsMax, journalDescriptorsMax, journalDescriptorsPercent } = limits;
  const affordable = Math.floor((descriptors * journalDescriptorsPercent) / 100 / journalDescriptorsMax);
  return Math.max(1, Math.min(openJournalsMax, affordable));
}
