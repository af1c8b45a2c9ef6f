/** The data folder of a service: its lock, which is retried while the disk is full, and warnings about unsafe folders. */

import { setTimeout as sleep } from 'node:timers/promises';
import { exitCodeOf, exitCodes } from '../config/exit-codes.ts';
import { journalFolder } from '../config/names.ts';
import { type Disk, describe, isFull } from '../journal/disk.ts';
import { InUseError, type Lock, UnlockableError } from '../journal/lock/lock.ts';
import { hazardOf } from '../journal/open/mount.ts';
import type { Notices } from '../telemetry/log.ts';
import type { Setup } from './setup.ts';
import { StartError } from './start-error.ts';

type LockState =
  /** Not locked yet: the disk has no space for the folder or for its lock file. */
  | { readonly kind: 'disk full' }
  | { readonly kind: 'locked'; readonly lock: Lock }
  /** The start ended before the folder was locked. */
  | { readonly kind: 'given up' };

/** Name of the file that marks a data folder of hosted mode. */
export const HOSTED = '.hosted';

const NO_SPACE = 'the disk is full; the service waits for space to lock its data folder';

type LockSetup = Pick<Setup, 'config' | 'openDisk' | 'lockFolder' | 'limits' | 'notices' | 'shutdown'>;

/** A data folder and its lock. No file in the folder is read or written before it is locked. */
export class DataFolder {
  readonly disk: Disk;
  readonly #setup: LockSetup;
  #state: LockState = { kind: 'disk full' };
  /** Resolves after the last write to the folder; undefined if no write is pending at the release. */
  #lastWrite: Promise<void> | undefined;

  private constructor(setup: LockSetup) {
    this.disk = setup.openDisk(setup.config.data);
    this.#setup = setup;
  }

  /**
   * Creates and locks the folder. If the disk is too full, the folder is returned unlocked and `whenLocked` tries
   * again.
   * @throws StartError, or the error of a system call; the folder is unlocked again then
   */
  static async lock(setup: LockSetup): Promise<DataFolder> {
    const folder = new DataFolder(setup);
    setup.shutdown.add(() => folder.release());
    await folder.#tryLock((error) => setup.notices.error(NO_SPACE, { problem: describe(error) }));
    return folder;
  }

  /** @returns the file system access of a journal's folder, by its deployment */
  diskOf(deployment: string | undefined): Disk {
    return this.#setup.openDisk(journalFolder(this.disk.folder, deployment));
  }

  /** Why the folder is not locked; undefined if it is locked. */
  get trouble(): string | undefined {
    return this.#state.kind === 'locked' ? undefined : NO_SPACE;
  }

  /**
   * Resolves when the folder is locked. Tries every `limits.probeMs`, since an attempt creates only a folder and a
   * socket.
   * @throws the errors of `lock`, and Error after `release`
   */
  async whenLocked(): Promise<void> {
    while (this.#state.kind === 'disk full') {
      await sleep(this.#setup.limits.probeMs);
      await this.#tryLock(() => {}); // the first attempt was logged
    }
    if (this.#state.kind === 'given up') throw new Error('the start has ended');
  }

  /** Undefined while the folder is not locked. */
  get lock(): Lock | undefined {
    return this.#state.kind === 'locked' ? this.#state.lock : undefined;
  }

  /** Keeps the folder locked until `lastWrite` resolves, or the process ends. `release` returns without waiting for that. */
  keepUntil(lastWrite: Promise<void>): void {
    this.#lastWrite = lastWrite;
  }

  /**
   * Unlocks the folder, or ends the attempts to lock it. After `keepUntil` it returns before the folder is unlocked.
   */
  async release(): Promise<void> {
    const { lock } = this;
    if (lock === undefined) this.#state = { kind: 'given up' };
    else if (this.#lastWrite === undefined) await lock.release();
    else void this.#lastWrite.then(() => lock.release());
  }

  /** @param onFull called if the disk is too full; another attempt can succeed later */
  async #tryLock(onFull: (error: Error) => void): Promise<void> {
    const { lockFolder, limits, notices } = this.#setup;
    let lock: Lock;
    try {
      await this.disk.prepare();
      lock = await lockFolder(this.disk.folder, limits);
    } catch (error) {
      if (!isFull(error as NodeJS.ErrnoException)) throw lockFailed(this.disk.folder, error as Error);
      return onFull(error as Error);
    }
    if (this.#state.kind === 'given up') return lock.release();
    this.#state = { kind: 'locked', lock };
    await warnOfHazards(this.disk, lock, notices);
  }
}

function lockFailed(folder: string, error: Error): StartError {
  if (error instanceof InUseError) return new StartError(exitCodes.inUse, error.message);
  const advice = error instanceof UnlockableError ? 'move it' : 'make it writable';
  return folderFailed(`the data folder ${folder} cannot be used`, error, advice);
}

/** @param advice for a mistake of the operator, such as `make it writable` */
export function folderFailed(what: string, error: Error, advice: string): StartError {
  const exitCode = exitCodeOf(error);
  const isReadOnly = (error as NodeJS.ErrnoException).code === 'EROFS';
  const hint = isReadOnly || exitCode === exitCodes.configuration ? `; ${advice} or choose another with --data` : '';
  return new StartError(exitCode, `${what}: ${error.message}${hint}`);
}

async function warnOfHazards(disk: Disk, lock: Lock, notices: Notices): Promise<void> {
  const mount = await disk.mount();
  const hazard = mount && hazardOf(mount);
  for (const sentence of [hazard, lock.hazard]) if (sentence !== undefined) notices.warn(sentence);
  const { folder } = disk;
  if ((await disk.otherWriters())?.kind !== 'every user') return;
  const problem =
    'every user of this machine may write to the data folder, and so change or remove events; chmod o-w it';
  notices.warn(problem, { folder });
}
