/** The warning about a file that the service trusts and that others can write to. */

import { fileQueue } from '../config/file-queue.ts';
import { otherWriters } from '../config/files.ts';
import type { Setup } from './setup.ts';

/**
 * Warns if users other than the user of the service can write to a file that the service trusts.
 * @param what the file and what it determines: `the deployments file, and so decide which clients may report`
 * @throws LateFileError, or the error of a system call
 */
export async function warnOfWriters(
  file: string,
  what: string,
  { limits, notices }: Pick<Setup, 'limits' | 'notices'>,
): Promise<void> {
  const writers = await fileQueue.run(file, limits.fileReadMs, () => otherWriters(file));
  if (writers === undefined) return;
  const [users, mode] =
    writers.kind === 'every user' ? ['every user of this machine', 'go-w'] : [`the group ${writers.gid}`, 'g-w'];
  notices.warn(`${users} may write to ${what}; chmod ${mode} it`, { file });
}
