/** The data folder of a service: its lock, which a full disk delays, and the warnings about it. */

import { setTimeout as sleep } from 'node:timers/promises';
import { exitCodes } from '../config/exit-codes.ts';
import { otherWriters } from '../config/files.ts';
import type { Limits } from '../config/limits.ts';
import { type Disk, describe, isFull } from '../journal/disk.ts';
import { InUseError, type Lock, lockFolder } from '../journal/lock.ts';
import { hazardOf } from '../journal/mount.ts';
import type { Notices } from '../telemetry/log.ts';
import { StartError } from './start-error.ts';

type State =
  /** For the folder, or for the file of its lock. */
  | { readonly kind: 'disk full' }
  | { readonly kind: 'locked'; readonly lock: Lock }
  /** The start ended before the lock could be taken. */
  | { readonly kind: 'given up' };

const NO_SPACE = 'the disk is full; the service waits for space to lock its data folder';

/** Nothing in the folder is touched before it is locked. */
export class DataFolder {
  readonly disk: Disk;
  readonly #limits: Limits;
  readonly #notices: Notices;
  #state: State = { kind: 'disk full' };
  /** What may still write to the folder when it is released. */
  #lastWrite: Promise<void> | undefined;

  private constructor(disk: Disk, limits: Limits, notices: Notices) {
    this.disk = disk;
    this.#limits = limits;
    this.#notices = notices;
  }

  /**
   * Makes and locks the folder. On a disk that is too full for that, `whenLocked` does it later.
   * @throws StartError, or the error of a system call, after which the folder is free again
   */
  static async lock(disk: Disk, limits: Limits, notices: Notices): Promise<DataFolder> {
    const folder = new DataFolder(disk, limits, notices);
    try {
      await folder.#tryLock((error) => notices.error(NO_SPACE, { problem: describe(error) }));
    } catch (error) {
      await folder.release();
      throw error;
    }
    return folder;
  }

  /** Why the folder is not locked, or undefined. */
  get trouble(): string | undefined {
    return this.#state.kind === 'locked' ? undefined : NO_SPACE;
  }

  /** An attempt makes no more than a folder and a socket, so it is made often. @throws as `lock` */
  async whenLocked(): Promise<void> {
    while (this.#state.kind === 'disk full') {
      await sleep(this.#limits.probeMs);
      await this.#tryLock(() => {}); // the first attempt was logged
    }
    if (this.#state.kind === 'given up') throw new Error('the start has ended');
  }

  /** As `Lock.checkHeld`. */
  checkHeld(): void {
    this.#lock?.checkHeld();
  }

  /** As `Lock.watch`. */
  watch(onLost: (error: Error) => void): void {
    this.#lock?.watch(this.#limits.lockCheckMs, onLost);
  }

  /** As `Lock.shareDurable`. */
  shareDurable(nextSeq: () => number | undefined): void {
    this.#lock?.shareDurable(nextSeq);
  }

  /** Keeps the folder locked until `lastWrite` resolves: `release` does not wait for that, and the lock ends with the process. */
  keepUntil(lastWrite: Promise<void>): void {
    this.#lastWrite = lastWrite;
  }

  async release(): Promise<void> {
    const lock = this.#lock;
    if (lock === undefined) this.#state = { kind: 'given up' };
    else if (this.#lastWrite === undefined) await lock.release();
    else void this.#lastWrite.then(() => lock.release());
  }

  get #lock(): Lock | undefined {
    return this.#state.kind === 'locked' ? this.#state.lock : undefined;
  }

  /** @param onFull called on a disk that is too full, after which it may be tried again */
  async #tryLock(onFull: (error: Error) => void): Promise<void> {
    let lock: Lock;
    try {
      await this.disk.prepare();
      lock = await lockFolder(this.disk.folder, this.#limits);
    } catch (error) {
      if (!isFull(error as NodeJS.ErrnoException)) throw lockFailed(this.disk.folder, error as Error);
      return onFull(error as Error);
    }
    if (this.#state.kind === 'given up') return lock.release();
    this.#state = { kind: 'locked', lock };
    await warnOfHazards(this.disk, lock, this.#notices);
  }
}

function lockFailed(folder: string, error: Error): StartError {
  if (error instanceof InUseError) return new StartError(exitCodes.inUse, error.message);
  return new StartError(
    exitCodes.configuration,
    `the data folder ${folder} can not be used: ${error.message}; make it writable or choose another with --data`,
  );
}

async function warnOfHazards(disk: Disk, lock: Lock, notices: Notices): Promise<void> {
  const mount = await disk.mount();
  const hazard = mount && hazardOf(mount);
  for (const sentence of [hazard, lock.hazard]) if (sentence !== undefined) notices.warn(sentence);
  const { folder } = disk;
  if ((await otherWriters(folder))?.everybody !== true) return;
  const problem =
    'everybody on this machine may write to the data folder, and so change or remove events; chmod o-w it';
  notices.warn(problem, { folder });
}
