/** Watches the free space of the disk, so that low space is reported, and files are removed, before the disk is full. */

import type { Config } from '../config/config.ts';
import type { Limits } from '../config/limits.ts';
import type { Notices } from '../telemetry/log.ts';
import type { Disk } from './disk.ts';
import type { Space } from './space.ts';

/** The result of the last check of the free space. */
export interface SpaceWatch {
  /** Why the service should not get more reports, as a clause; undefined if there is enough space. */
  readonly trouble: string | undefined;
  /** Free space at the last check; undefined if it is unknown. */
  readonly freeBytes: number | undefined;
  /** Size of the file system at the last check; undefined if it is unknown. */
  readonly totalBytes: number | undefined;
  /** Whether the file system reports no free space. That is no trouble. */
  readonly isUnreported: boolean;
  /** Ends the checks. */
  stop(): void;
}

/**
 * The free bytes below which a service is not ready, and the free bytes below which old journal files are removed; see
 * `limits.minFreeBytes` for the default.
 */
export type Thresholds = { readonly [Name in 'minFreeBytes' | 'keepFree']?: Config[Name] };

/**
 * Checks at once and then every `limits.spaceCheckMs`. A failed check is no error, but `trouble`.
 * @param onLow called at each check, but the first, that finds less than `keepFree`
 */
export async function watchSpace(
  disk: Disk,
  thresholds: Thresholds,
  limits: Limits,
  notices: Notices,
  onLow: () => void = () => {},
): Promise<SpaceWatch> {
  const watch: { -readonly [Name in keyof SpaceWatch]: SpaceWatch[Name] } = {
    trouble: undefined,
    freeBytes: undefined,
    totalBytes: undefined,
    isUnreported: false,
    stop: () => clearInterval(timer),
  };
  let checking = false; // at most one check at a time, since a disk may have stalled

  async function check(): Promise<void> {
    if (checking) return;
    checking = true;
    const problem = await disk.space().then(
      (space) => {
        watch.freeBytes = space?.freeBytes;
        watch.totalBytes = space?.totalBytes;
        if (space !== undefined) return shortage(space, thresholds, limits);
        if (!watch.isUnreported) notices.warn(UNREPORTED);
        watch.isUnreported = true;
        return undefined;
      },
      (error: Error) => {
        watch.freeBytes = watch.totalBytes = undefined;
        return `the free space of the disk is not known: ${error.message}`;
      },
    );
    checking = false;
    if (problem !== undefined && watch.trouble === undefined) notices.warn('the service is not ready', { problem });
    if (problem === undefined && watch.trouble !== undefined) notices.info('there is enough free space again');
    watch.trouble = problem;
  }

  await check();
  const timer = setInterval(() => {
    void check().then(() => {
      if (watch.freeBytes !== undefined && watch.freeBytes < (thresholds.keepFree ?? 0)) onLow();
    });
  }, limits.spaceCheckMs).unref();
  return watch;
}

const UNREPORTED =
  'the file system reports no free space: the service stays ready until a write fails, and reports then get 503';

function shortage(
  { freeBytes, totalBytes }: Space,
  { minFreeBytes, keepFree = Number.POSITIVE_INFINITY }: Thresholds,
  limits: Limits,
): string | undefined {
  const standard = Math.min(limits.minFreeBytes, Math.floor((totalBytes * limits.minFreePercent) / 100));
  // With keepFree the free space stays near it, so the service is to be ready a good deal below.
  const needed = minFreeBytes ?? Math.min(standard, Math.floor(keepFree / 2));
  if (freeBytes >= needed) return undefined;
  return `the disk is nearly full: ${freeBytes} bytes are free, --min-free-bytes asks for ${needed}`;
}
