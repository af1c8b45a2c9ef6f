/**
 * One writer for a folder. The lock is a listening Unix socket file: the kernel closes the socket when the process ends, for any
 * reason. Unlike an abstract socket or a port it is visible from every network namespace that shares the folder.
 *
 * Each starting process listens on its own socket file (`.lock-<id>`) and only then connects to the others in the folder:
 *
 * 1. If a socket file refuses the connection, it is left over from a dead process and is removed.
 * 2. If another process answers `held`, the process gives up.
 * 3. If another process with a lower id answers `starting`, the process gives up.
 * 4. If the folder has no other socket file, the lock is held. Until then the process lists the folder again.
 *
 * If two processes publish, the later one finds the socket file of the earlier one, so at most one reaches 4. The lowest id never
 * gives up to another starting process, so exactly one of several simultaneous starts reaches 4.
 *
 * On Windows, and on a file system of Linux without socket files (FAT, exFAT), the process listens at the name of the folder, which
 * the kernel gives to one process. A pipe is visible on its machine, an abstract socket in its network namespace.
 */

import { randomUUID } from 'node:crypto';
import { type BigIntStats, lstatSync, renameSync, rmSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../../config/limits.ts';
import { type Platform, platform } from '../../config/platform.ts';
import { Rota } from '../../waiting/rota.ts';
import { isMissingPath } from '../disk.ts';
import { isSameFile } from '../entry.ts';
import { giveSocketToOwner } from '../open/owner.ts';
import { closePlace, listSockets, nameOfFolder, openPlace, type Place } from './address.ts';
import { ask, DENIED, type Door, LOCK, LockServer } from './protocol.ts';

/** Another process writes to the folder. */
export class InUseError extends Error {}

/** Neither the file system of the folder nor the system supports a lock. */
export class UnlockableError extends Error {}

/** Another program removed the lock file, so a second process might have locked the folder. */
export class LockLostError extends Error {}

/** The lock of a folder, held until `release` or the end of the process. */
export interface Lock {
  /** A sentence for the operator, if the lock might not exclude all processes. */
  readonly hazard?: string;
  /**
   * Checks that the lock file still exists. A second process copies the journal only after it has found no lock file, so the
   * copy contains all bytes that were synced before this check. Synchronous, since the system keeps the entry of a bound socket
   * in memory.
   * @throws LockLostError, or the error of a system call
   */
  checkHeld(): void;
  /**
   * Checks the lock file regularly until `release`, for periods without writes.
   * @param onLost called with the error of `checkHeld`, at each check after the lock is lost
   */
  watch(locks: LockRota, onLost: (error: Error) => void): void;
  /** Lets other processes ask how far the journal is durable, and request work that only its writer can do. */
  open(door: Door): void;
  /**
   * Ends the requests of other processes, and removes the lock file, if it exists. Resolves when another process can lock the folder.
   * Can be called more than once.
   */
  release(): Promise<void>;
}

/** The regular checks of all locks that a process holds. */
export type LockRota = Rota;

/** @returns the checks of locks; there are none at first */
export function createLockRota(limits: Limits): LockRota {
  return new Rota({ turnMs: limits.lockCheckMs, turnMax: limits.lockChecksMax });
}

/** The type of `lockFolder`. */
export type LockFolder = (folder: string, limits: Limits) => Promise<Lock>;

/**
 * Locks a folder: creates the socket file `.lock-<id>` in it, or listens at the name of the folder.
 * @param folder must exist
 * @throws InUseError within a second; UnlockableError; the error of a system call if no lock can be created
 */
export async function lockFolder(folder: string, limits: Limits, system: Platform = platform): Promise<Lock> {
  const place = openPlace(folder, system);
  const server = new LockServer(limits);
  const id = randomUUID();
  const published = `${LOCK}${id}`;
  const path = join(folder, published);
  let unwatch = () => {};
  let isReleased = false;
  const release = async () => {
    if (isReleased) return;
    isReleased = true;
    unwatch();
    await server.endRequests(); // they write to the folder
    if (!system.isWindows) removeSocket(path);
    await server.close();
    closePlace(place);
  };
  const shared = { open: (door: Door) => server.open(door), release };
  /** A lock at the name of the folder needs no check, since it has no file. */
  const holdName = async (hazard?: string): Promise<Lock> => {
    await listenAtName(server, place, limits);
    server.hold();
    return { ...(hazard !== undefined && { hazard }), checkHeld: () => {}, watch: () => {}, ...shared };
  };

  try {
    if (system.isWindows) return await holdName();
    const unpublished = `${UNPUBLISHED}${id}`;
    try {
      await server.listen(place, unpublished);
    } catch (error) {
      if (NO_SOCKET_FILES.has((error as NodeJS.ErrnoException).code ?? '')) {
        removeSocket(join(folder, unpublished)); // some file systems leave a regular file behind
        return await holdName(ABSTRACT_HAZARD);
      }
      // The folder might be locked although no file can be created in it, for example on a full disk.
      const rivals = await findRivals(place, published, limits);
      const holder = rivals.find(({ state }) => state === 'held' || state === DENIED);
      throw holder === undefined ? error : inUseError(folder, holder);
    }
    giveSocketToOwner(folder, place.directory, unpublished);
    // Published only now: a socket between bind and listen refuses connections, like the socket of a dead process.
    publish(folder, unpublished, published);
    const own = lstatSync(path, { bigint: true });
    await waitForRivals(place, published, limits);
    server.hold();
    await removeUnpublished(place, limits);
    return {
      checkHeld: () => checkSame(path, own, lstatSync(path, { bigint: true, throwIfNoEntry: false }), system),
      watch: (locks, onLost) => {
        const check = () => checkFile(path, own, onLost, system);
        locks.add(check);
        unwatch = () => locks.delete(check);
      },
      ...shared,
    };
  } catch (error) {
    await release();
    throw error;
  }
}

interface Rival {
  readonly name: string;
  readonly state: string;
  readonly pid: string | undefined;
}

function inUseError(folder: string, rival: Rival | undefined): InUseError {
  if (rival?.state === DENIED && rival.name.startsWith(LOCK)) {
    return new InUseError(
      `${folder} is in use by a process of another user, whose ${rival.name} cannot be asked; stop the process, or remove the file if the process has ended`,
    );
  }
  return new InUseError(`${folder} is in use by process ${rival?.pid ?? 'unknown'}; stop it, or use another --data`);
}

/** Error codes of file systems without socket files. */
const NO_SOCKET_FILES: ReadonlySet<string> = new Set(['EPERM', 'EOPNOTSUPP', 'ENOTSUP', 'ENOSYS', 'EINVAL', 'EIO']);
const ABSTRACT_HAZARD =
  'the file system of the data folder supports no socket files: the lock keeps out only processes in this network namespace';
const UNPUBLISHED = '.unlocked-';

/** @throws InUseError, UnlockableError, or the error of a system call */
async function listenAtName(server: LockServer, place: Place, limits: Limits): Promise<void> {
  const { folder } = place;
  const name = nameOfFolder(place);
  if (name === undefined) {
    throw new UnlockableError(
      'its file system, such as exFAT or SMB, has no socket files, which the lock needs on this system',
    );
  }
  const rival = await askRival(place, name, limits); // before it listens: Wine lets two processes listen at one pipe
  if (rival !== undefined) throw inUseError(folder, rival);
  await server.listen(place, name).catch(async (error: NodeJS.ErrnoException) => {
    throw error.code === 'EADDRINUSE' ? inUseError(folder, await askRival(place, name, limits)) : error;
  });
}

/** Resolves when the folder has no other lock. @throws InUseError, or the error of a system call */
async function waitForRivals(place: Place, published: string, limits: Limits): Promise<void> {
  const deadlineMs = performance.now() + limits.lockMs;
  for (;;) {
    const rivals = await findRivals(place, published, limits);
    if (rivals.length === 0) return;
    const holder = rivals.find(({ state, name }) => state === 'held' || (state === 'starting' && name < published));
    if (holder !== undefined || performance.now() > deadlineMs) throw inUseError(place.folder, holder ?? rivals[0]);
    await sleep(10);
  }
}

/** @returns the locks of other live processes. Removes the lock files of processes that ended. */
async function findRivals(place: Place, own: string, limits: Limits): Promise<Rival[]> {
  const names = listSockets(place.folder, LOCK).filter((name) => name !== own);
  const rivals = await Promise.all(
    names.map(async (name) => {
      const rival = await askRival(place, name, limits);
      if (rival === undefined) removeSocket(join(place.folder, name));
      return rival;
    }),
  );
  return rivals.filter((rival) => rival !== undefined);
}

/** @returns undefined if the process has ended */
async function askRival(place: Place, name: string, limits: Limits): Promise<Rival | undefined> {
  const [state, pid] = (await ask(place, name, limits))?.split(' ') ?? [];
  return state === undefined ? undefined : { name, state, pid };
}

function publish(folder: string, unpublished: string, published: string): void {
  try {
    renameSync(join(folder, unpublished), join(folder, published));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new InUseError(`${folder} was locked by another process at the same moment; stop it, or use another --data`);
  }
}

/** @param current the file that now has the lock file's name @throws LockLostError if it is not the lock file */
function checkSame(path: string, own: BigIntStats, current: BigIntStats | undefined, system: Platform): void {
  if (current !== undefined && isSameFile(current, own, system)) return;
  throw new LockLostError(
    `the lock file ${path} was removed or replaced by another program, so a second process might write to the folder`,
  );
}

/** Asynchronous: `lstat` might never return on a network file system that hangs, and must not block the event loop. */
async function checkFile(
  path: string,
  own: BigIntStats,
  onLost: (error: Error) => void,
  system: Platform,
): Promise<void> {
  try {
    checkSame(path, own, await lstat(path, { bigint: true }).catch(undefinedIfAbsent), system);
  } catch (error) {
    onLost(error as Error);
  }
}

function undefinedIfAbsent(error: NodeJS.ErrnoException): undefined {
  if (!isMissingPath(error)) throw error;
}

/**
 * Removes socket files of processes that died before they published them. A live process fails to publish a removed file, and
 * gives up.
 */
async function removeUnpublished(place: Place, limits: Limits): Promise<void> {
  for (const name of listSockets(place.folder, UNPUBLISHED)) {
    if ((await ask(place, name, limits)) === undefined) removeSocket(join(place.folder, name));
  }
}

/** Errors are ignored: a socket file without a listening process is not a lock. */
function removeSocket(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // for example on a read-only file system; the next start tries again
  }
}
