/**
 * Forgets a source because an operator asked for it beside a service: `assetlog sources forget` writes the id into the file
 * `forward-sources.forget`; the service forgets the source, and removes the file.
 */

import { type Disk, describe } from '../../journal/disk.ts';
import { RequestFile } from '../../journal/request-file.ts';
import type { Notices } from '../../telemetry/log.ts';

const ID_BYTES = 36;

/** With the id of the source. */
export const forgetFile = new RequestFile('forward-sources.forget', ID_BYTES);

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
    const source = await forgetFile.take(disk, async (id) => ((await forget(id)) ? id : undefined));
    if (source !== undefined) notices.info('a source was forgotten', { folder: disk.folder, source });
  } catch (error) {
    notices.warn('a source could not be forgotten', { folder: disk.folder, problem: describe(error as Error) });
  }
}
