/**
 * Watches the free space of the disk. Reports low space, and requests the removal of files, before the disk is full.
 */

import type { Limits } from '../config/limits.ts';
import type { Config } from '../config/options-of-service.ts';
import type { Notices } from '../telemetry/log.ts';
import { Checks } from '../waiting/checks.ts';
import type { Disk } from './disk.ts';
import type { Space } from './space.ts';

/** The result of the last check of the free space. */
export interface SpaceWatch {
  /** Why the service should get no more reports, as a clause; undefined if there is enough space. */
  readonly trouble: string | undefined;
  /** Free space at the last check; undefined if it is unknown. */
  readonly freeBytes: number | undefined;
  /** Size of the file system at the last check; undefined if it is unknown. */
  readonly totalBytes: number | undefined;
  /** Whether the file system does not report its free space; `trouble` stays undefined then. */
  readonly isUnreported: boolean;
  /** Called when a write to a journal succeeded or failed, so that the next check is soon. */
  written(): void;
  stop(): void;
}

/**
 * `minFreeBytes`: below it the service is not ready; see `limits.minFreeBytes` for the default. `keepFree`: below it old journal
 * files are removed.
 */
export type Thresholds = { readonly [Name in 'minFreeBytes' | 'keepFree']?: Config[Name] };

/**
 * Checks at once, then every `limits.spaceCheckMs` while journals are written to or space is short, and otherwise every
 * `limits.spaceIdleCheckMs`. Never rejects: a failed check sets `trouble`.
 * @param onLow called at each check, except the first, that finds less than `keepFree`
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
    written: () => checks.soon(),
    stop: () => checks.stop(),
  };
  let isFirst = true;

  async function look(): Promise<void> {
    const problem = await disk.space().then(
      (space) => {
        watch.freeBytes = space?.freeBytes;
        watch.totalBytes = space?.totalBytes;
        if (space !== undefined) return findShortage(space, thresholds, limits);
        if (!watch.isUnreported) notices.warn(UNREPORTED);
        watch.isUnreported = true;
        return undefined;
      },
      (error: Error) => {
        watch.freeBytes = watch.totalBytes = undefined;
        return `the free space of the disk is unknown: ${error.message}`;
      },
    );
    if (problem !== undefined && watch.trouble === undefined) notices.warn('the service is not ready', { problem });
    if (problem === undefined && watch.trouble !== undefined) notices.info('there is enough free space again');
    watch.trouble = problem;
  }

  async function check(): Promise<boolean> {
    await look();
    const isLow = watch.freeBytes !== undefined && watch.freeBytes < (thresholds.keepFree ?? 0);
    if (isLow && !isFirst) onLow();
    isFirst = false;
    return isLow || watch.trouble !== undefined;
  }

  const checks = new Checks({ soonMs: limits.spaceCheckMs, idleMs: limits.spaceIdleCheckMs, check });
  await checks.begin();
  return watch;
}

const UNREPORTED =
  'the file system reports no free space: the service stays ready until a write fails, and reports then get 503';

function findShortage(
  { freeBytes, totalBytes }: Space,
  { minFreeBytes, keepFree = Number.POSITIVE_INFINITY }: Thresholds,
  limits: Limits,
): string | undefined {
  const standard = Math.min(limits.minFreeBytes, Math.floor((totalBytes * limits.minFreePercent) / 100));
  // With `keepFree` the free space stays near that value, so the service is ready down to half of it.
  const needed = minFreeBytes ?? Math.min(standard, Math.floor(keepFree / 2));
  if (freeBytes >= needed) return undefined;
  return `the disk is nearly full: ${freeBytes} bytes are free, --min-free-bytes asks for ${needed}`;
}
