/** The disk space that a journal uses, and the time of its last event. */

import type { Limits } from '../config/limits.ts';
import type { Disk } from './disk.ts';
import { readTime } from './line/members.ts';
import { lastLine } from './open/scan.ts';
import { contentsOf } from './segments.ts';

export interface Measured {
  /** Size of all segments except the newest. */
  readonly closedBytes: number;
  readonly bytes: number;
  /** In ms since 1970; undefined if there is no event, or while one is being written. */
  readonly lastMs: number | undefined;
}

/** @throws the error of a system call */
export async function measure(disk: Disk, limits: Limits): Promise<Measured> {
  let [closedBytes, bytes] = [0, 0];
  let last: { readonly name: string; readonly size: number } | undefined;
  for (const { name } of contentsOf(await disk.list()).segments) {
    const size = await disk.size(name);
    closedBytes = bytes;
    bytes += size;
    if (size > 0) last = { name, size };
  }
  const end = last && (await lastLine(disk, last.name, last.size, limits));
  const lastMs = Date.parse((end && readTime(end.line)) ?? '');
  return { closedBytes, bytes, lastMs: Number.isNaN(lastMs) ? undefined : lastMs };
}
