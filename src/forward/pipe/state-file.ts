/**
 * What one sender is doing, for `assetlog forward status`: `forward-<name>.state` in the folder of its journal. It is a hint
 * and not synced: how far the destination is, and what was given up, are in the cursor and in the dead letters.
 */

import { readObject } from '../../config/json-file.ts';
import type { Limits } from '../../config/limits.ts';
import type { Disk, ReadableDisk } from '../../journal/disk.ts';
import { readSmall } from '../../journal/file-io.ts';
import type { SenderStatus } from './sender.ts';

/** The content of the file. */
export interface ForwardState
  extends Pick<
    SenderStatus,
    'state' | 'why' | 'reason' | 'since' | 'next_try' | 'kind' | 'to' | 'last_success' | 'last_error'
  > {
  /** Id of the process that wrote it: the state is out of date if that does not hold the lock of the folder. 0 if it has ended. */
  readonly pid: number;
}

/** @returns the name of the state file: `forward-hub.state` for `hub` */
export function stateName(name: string): string {
  return `forward-${name}.state`;
}

/** Writes the state of a destination. @throws the error of a system call */
export async function writeState(disk: Disk, name: string, state: ForwardState): Promise<void> {
  await disk.replace(stateName(name), Buffer.from(`${JSON.stringify(state)}\n`));
}

/**
 * Reads the state of a destination beside a running or a stopped service.
 * @returns undefined if there is none, or only what a power cut left of it
 * @throws the error of a system call
 */
export async function readState(
  disk: ReadableDisk,
  name: string,
  { replyBytesMax }: Pick<Limits, 'replyBytesMax'>,
): Promise<ForwardState | undefined> {
  const bytes = await readSmall(disk, stateName(name), replyBytesMax);
  return bytes === undefined ? undefined : (readObject(bytes.toString()) as ForwardState | undefined);
}
