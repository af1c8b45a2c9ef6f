/** Watches the free space of the disk, so that low space is reported before the disk is full. */

import type { Limits } from '../config/limits.ts';
import type { Notices } from '../telemetry/log.ts';
import type { Disk, Space } from './disk.ts';

/** The result of the last check of the free space. */
export interface SpaceWatch {
  /** Why the service should not get more reports; undefined if there is enough space. */
  readonly trouble: string | undefined;
  /** Free space at the last check; undefined if the system did not report it. */
  readonly freeBytes: number | undefined;
  stop(): void;
}

/**
 * Checks at once and then every `limits.spaceCheckMs`.
 * @param minFreeBytes undefined for the default
 */
export async function watchSpace(
  disk: Disk,
  minFreeBytes: number | undefined,
  limits: Limits,
  notices: Notices,
): Promise<SpaceWatch> {
  let trouble: string | undefined;
  let freeBytes: number | undefined;
  let checking = false; // at most one check at a time, since a disk may have stalled

  async function check(): Promise<void> {
    if (checking) return;
    checking = true;
    const problem = await disk.space().then(
      (space) => {
        freeBytes = space.freeBytes;
        return shortage(space, minFreeBytes, limits);
      },
      (error: Error) => {
        freeBytes = undefined;
        return `the free space of the disk is not known: ${error.message}`;
      },
    );
    checking = false;
    if (problem !== undefined && trouble === undefined) notices.warn('the service is not ready', { problem });
    if (problem === undefined && trouble !== undefined) notices.info('there is enough free space again');
    trouble = problem;
  }

  await check();
  const timer = setInterval(() => void check(), limits.spaceCheckMs).unref();
  return {
    get trouble() {
      return trouble;
    },
    get freeBytes() {
      return freeBytes;
    },
    stop: () => clearInterval(timer),
  };
}

function shortage(
  { freeBytes, totalBytes }: Space,
  minFreeBytes: number | undefined,
  limits: Limits,
): string | undefined {
  const needed = minFreeBytes ?? Math.min(limits.minFreeBytes, Math.floor((totalBytes * limits.minFreePercent) / 100));
  if (freeBytes >= needed) return undefined;
  return `the disk is nearly full: ${freeBytes} bytes are free, --min-free-bytes asks for ${needed}`;
}
