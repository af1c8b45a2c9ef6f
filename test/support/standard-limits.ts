/** Functions that read and open a journal, with the standard limits. */

import { limits } from '../../src/config/limits.ts';
import type { Platform } from '../../src/config/platform.ts';
import type { Disk, ReadableDisk } from '../../src/journal/disk.ts';
import * as sidecar from '../../src/journal/keys/sidecar.ts';
import * as lock from '../../src/journal/lock/lock.ts';
import * as protocol from '../../src/journal/lock/protocol.ts';
import * as repair from '../../src/journal/look/repair.ts';
import * as verification from '../../src/journal/look/verify.ts';
import * as recovery from '../../src/journal/open/recovery.ts';
import * as scan from '../../src/journal/open/scan.ts';
import * as progress from '../../src/journal/progress.ts';
import type { Notices } from '../../src/telemetry/log.ts';

export const verify = (disk: Disk) => verification.verify(disk, limits);

export const recover = (disk: Disk, notices: Notices, given = limits, checkHeld?: () => void) =>
  recovery.recover(disk, notices, given, checkHeld);

export const carryOut = (disk: Disk, plan: repair.Plan, side: string, report: string) =>
  repair.carryOut(disk, plan, side, report, limits);

export const scanSegment = (chunks: AsyncIterable<Buffer>, firstSeq: number) =>
  scan.scanSegment(chunks, firstSeq, limits);

export const lastLine = (disk: ReadableDisk, name: string, end: number) => scan.lastLine(disk, name, end, limits);

export const readSidecar = (disk: Disk, firstSeq: number) => sidecar.readSidecar(disk, firstSeq, limits);

export const lockFolder = (folder: string, system?: Platform) => lock.lockFolder(folder, limits, system);

export const askHolder = (folder: string) => protocol.askHolder(folder, limits);

/** @returns the pid that the locks of a folder say, undefined if none says it; undefined in place of all if no process has the folder */
export async function holderOf(folder: string): Promise<{ readonly pid: number | undefined } | undefined> {
  const states = (await protocol.askAll(folder, limits)).flatMap(({ state }) => state ?? []);
  const pid = states.map((state) => Number(state.split(' ')[1])).find((one) => one > 0);
  return states.length === 0 ? undefined : { pid };
}

export const pollProgress = (folder: string) => progress.pollProgress(folder, limits);
