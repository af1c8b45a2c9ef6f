/**
 * Forgets a source because an operator asked for it beside a service: `assetlog sources forget` writes the id into the file
 * `forward-sources.forget`; the service forgets the source, and removes the file.
 */

import { type Disk, describe, type ReadableDisk, unlessAbsent } from '../../journal/disk.ts';
import { readSmall } from '../../journal/file-io.ts';
import type { Notices } from '../../telemetry/log.ts';

const NAME = 'forward-sources.forget';

/** @returns the id in the file, or another text; undefined if there is no file. @throws the error of a system call */
export async function readForget(disk: ReadableDisk): Promise<string | undefined> {
  return (await readSmall(disk, NAME, ID_BYTES))?.toString();
}

/** Replaces the file. @throws the error of a system call */
export function writeForget(disk: Disk, source: string): Promise<void> {
  return disk.replace(NAME, Buffer.from(source));
}

/** @throws the error of a system call */
export function removeForget(disk: Disk): Promise<void> {
  return disk.remove(NAME).catch(unlessAbsent(undefined));
}

/**
 * For the service, at an interval for each open journal. One call at a time; never rejects.
 * @param forget forgets a source durably. @returns whether it was known
 */
export async function takeForget(
  disk: Disk,
  forget: (source: string) => Promise<boolean>,
  notices: Notices,
): Promise<void> {
  try {
    const source = await readForget(disk);
    if (source === undefined) return;
    const isForgotten = await forget(source).finally(() => removeForget(disk));
    if (isForgotten) notices.info('a source was forgotten', { folder: disk.folder, source });
  } catch (error) {
    notices.warn('a source could not be forgotten', { folder: disk.folder, problem: describe(error as Error) });
  }
}

const ID_BYTES = 36;
