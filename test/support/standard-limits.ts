/** Functions that read and open a journal, with the standard limits. */

import { limits } from '../../src/config/limits.ts';
import type { Disk, ReadableDisk } from '../../src/journal/disk.ts';
import * as sidecar from '../../src/journal/keys/sidecar.ts';
import * as lock from '../../src/journal/lock.ts';
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

export const lockFolder = (folder: string) => lock.lockFolder(folder, limits);

export const askHolder = (folder: string) => lock.askHolder(folder, limits);

export const holderOf = (folder: string) => lock.holderOf(folder, limits);

export const pollProgress = (folder: string) => progress.pollProgress(folder, limits);
