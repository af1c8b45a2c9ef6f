/** Opens the journal of a folder. On a full disk, retention makes space, or the start waits for space. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../../config/limits.ts';
import type { Notices } from '../../telemetry/log.ts';
import { type Disk, isFull } from '../disk.ts';
import type { JournalKeys } from '../keys/keys.ts';
import type { Retention } from '../retention.ts';
import { NoSpaceError, type Recovered, recover } from './recovery.ts';

export interface OpenParts {
  readonly disk: Disk;
  readonly notices: Notices;
  readonly limits: Limits;
  readonly checkHeld: () => void;
  readonly keys: JournalKeys | undefined;
  readonly retention: Retention;
  /** If true, the wait for space ends. */
  readonly isClosed: () => boolean;
  /** Returns the error of a failed sync of retention. */
  readonly failedSync: () => Error | undefined;
  /** Called after each attempt that failed because the disk is full. */
  readonly onFull: (error: Error) => void;
}

/**
 * @returns the recovered journal; undefined if the journal was closed while the disk was full
 * @throws DamagedError, the error of a failed sync of retention, or the error of a system call
 */
export async function openWithSpace(opening: OpenParts): Promise<Recovered | undefined> {
  const { limits, retention, isClosed, failedSync } = opening;
  for (let pauseMs = limits.openRetryMs; ; pauseMs = Math.min(2 * pauseMs, limits.openRetryMsMax)) {
    let neededBytes: number | undefined;
    try {
      return await openOnce(opening);
    } catch (error) {
      if (error instanceof NoSpaceError) neededBytes = error.neededBytes;
      else if (!isFull(error as NodeJS.ErrnoException)) throw error;
      if (isClosed()) return undefined;
      opening.onFull(error as Error);
    }
    const hasMadeSpace = await retention.makeSpaceToOpen();
    const failure = failedSync();
    if (failure !== undefined) throw failure;
    if (!hasMadeSpace) await pause(opening, pauseMs, neededBytes);
    if (isClosed()) return undefined;
  }
}

async function openOnce({ disk, notices, limits, checkHeld, keys, retention }: OpenParts): Promise<Recovered> {
  const recovered = await recover(disk, notices, limits, checkHeld, keys?.startScan());
  await keys?.load().catch(async (error: Error) => {
    await recovered.file.close();
    throw error;
  });
  await retention.checkAtOpen();
  return recovered;
}

/** Waits before the next attempt; a close or enough free space ends the wait early. */
async function pause(
  { disk, limits, isClosed }: OpenParts,
  pauseMs: number,
  neededBytes = Number.POSITIVE_INFINITY,
): Promise<void> {
  for (const endMs = performance.now() + pauseMs; performance.now() < endMs; ) {
    await sleep(limits.probeMs);
    const { usableBytes = 0 } = (await disk.space()) ?? {};
    if (isClosed() || usableBytes >= neededBytes) return;
  }
}
