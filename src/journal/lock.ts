/**
 * One writer for a folder. The lock is a listening Unix socket file: the kernel closes the socket when the process ends, for any
 * reason. Unlike an abstract socket or a port it is visible from every network namespace that shares the folder.
 *
 * Each starting process listens on its own socket file (`.lock-<id>`) and only then connects to the others in the folder:
 *
 * 1. a socket file that refuses the connection is left over from a dead process: it is removed;
 * 2. another process answers `held`: give up;
 * 3. another process with a lower id answers `starting`: give up;
 * 4. the folder has no other socket file: the lock is held. Until then the process lists the folder again.
 *
 * If two processes publish, the later one finds the socket file of the earlier one, so at most one reaches 4. The lowest id never
 * gives up to another starting process, so exactly one of several simultaneous starts reaches 4.
 *
 * On a file system without socket files (FAT, exFAT) the lock is an abstract socket named after the folder's inode, which is
 * visible only in its own network namespace.
 */

import { randomUUID } from 'node:crypto';
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { lstat } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import { Rota } from '../config/rota.ts';
import { isMissingPath } from './disk.ts';
import { giveSocketToOwner } from './open/owner.ts';

export type AskLimits = Pick<Limits, 'lockAnswerMs' | 'lockAnswerBytesMax'>;
export type LockLimits = AskLimits & Pick<Limits, 'lockMs'>;

/** Another process writes to the folder. */
export class InUseError extends Error {}

/** Another program removed the lock file, so a second process might have locked the folder. */
export class LockLostError extends Error {}

/** The lock of a folder, held until `release` or the end of the process. */
export interface Lock {
  /** A sentence for the operator, if the lock does not exclude all processes. */
  readonly hazard?: string;
  /**
   * Checks that the lock file still exists. A second process starts to copy the journal only after it found no lock file, so the
   * copy has all bytes that were synced before this check. Synchronous, since the system keeps the entry of a bound socket in
   * memory.
   * @throws LockLostError, or the error of a system call
   */
  checkHeld(): void;
  /**
   * Checks the lock file in turn, for periods without writes, until `release`.
   * @param onLost called at each check after the lock is lost, with the error of `checkHeld`
   */
  watch(locks: LockRota, onLost: (error: Error) => void): void;
  /** Lets other processes ask how far the journal is durable: see `askHolder`. The getter is called for each connection. */
  shareDurable(nextSeq: () => number | undefined): void;
  /** Removes the lock file, if it exists. Resolves when another process can lock the folder. Can be called more than once. */
  release(): Promise<void>;
}

/** The checks of the locks that a process holds. */
export type LockRota = Rota<() => Promise<void>>;

/** @returns the checks of locks, none at first */
export function createLockRota(limits: Pick<Limits, 'lockCheckMs' | 'lockChecksMax'>): LockRota {
  return new Rota({ turnMs: limits.lockCheckMs, turnMax: limits.lockChecksMax, look: (check) => check() });
}

/** The type of `lockFolder`. */
export type LockFolder = (folder: string, limits: LockLimits) => Promise<Lock>;

/**
 * Locks a folder: creates the socket file `.lock-<id>` in it, or returns a lock with a `hazard`.
 * @param folder must exist
 * @throws InUseError within a second; the error of a system call if no lock can be created
 */
export async function lockFolder(folder: string, limits: LockLimits): Promise<Lock> {
  const id = randomUUID();
  const published = `${LOCK}${id}`;
  const path = join(folder, published);
  let own: BigIntStats;
  let answer = `starting ${process.pid}`;
  let nextSeq: () => number | undefined = () => undefined;
  const shareDurable = (getter: () => number | undefined) => {
    nextSeq = getter;
  };
  const server = createServer((asker) => {
    asker.on('error', () => asker.destroy()); // a client that disconnected needs no answer
    // Destroyed as soon as the kernel has the answer: otherwise a stalled client would delay `close`, and many stalled clients
    // would use up the file descriptors.
    asker.end(`${answer} ${nextSeq() ?? ''}`.trimEnd(), () => asker.destroy());
  });
  server.on('error', () => {}); // no file descriptor is left to accept a client: it is disconnected, and asks again
  const directory = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  let unwatch = () => {};
  let isReleased = false;
  const release = async () => {
    if (isReleased) return;
    isReleased = true;
    unwatch();
    removeSocket(path);
    await new Promise((resolve) => server.close(resolve));
    closeSync(directory);
  };

  try {
    const unpublished = `${UNPUBLISHED}${id}`;
    try {
      await listen(server, socketPath(folder, directory, unpublished));
    } catch (error) {
      if (!NO_SOCKET_FILES.has((error as NodeJS.ErrnoException).code ?? '')) {
        // The folder might be locked although no file can be created in it, for example on a full disk.
        const holder = (await findRivals(folder, directory, published, limits)).find(
          ({ state }) => state === 'held' || state === DENIED,
        );
        throw holder === undefined ? error : inUseError(folder, holder);
      }
      removeSocket(join(folder, unpublished)); // some file systems leave a regular file behind
      await listenAbstract(server, folder, directory);
      answer = `held ${process.pid}`;
      server.unref();
      return { hazard: ABSTRACT_HAZARD, checkHeld: () => {}, watch: () => {}, shareDurable, release }; // no file to check
    }
    giveSocketToOwner(folder, directory, unpublished);
    // Published only now: a socket between bind and listen refuses connections, like the socket of a dead process.
    publish(folder, unpublished, published);
    own = lstatSync(path, { bigint: true });
    const deadline = Date.now() + limits.lockMs;
    for (;;) {
      const rivals = await findRivals(folder, directory, published, limits);
      if (rivals.length === 0) break;
      const holder = rivals.find(({ state, name }) => state === 'held' || (state === 'starting' && name < published));
      if (holder !== undefined || Date.now() > deadline) {
        throw inUseError(folder, holder ?? rivals[0]);
      }
      await sleep(10);
    }
  } catch (error) {
    await release();
    throw error;
  }
  answer = `held ${process.pid}`;
  server.unref();
  await removeUnpublished(folder, directory, limits);
  return {
    checkHeld: () => checkSame(path, own, lstatSync(path, { bigint: true, throwIfNoEntry: false })),
    watch: (locks, onLost) => {
      const check = () => checkFile(path, own, onLost);
      locks.add(check);
      unwatch = () => locks.delete(check);
    },
    shareDurable,
    release,
  };
}

/**
 * The answer of the process that writes a journal: the seq of the first line that is not durable yet · `unsaid` if there is no
 * such process, it has not opened the journal, or is of an older version · `unanswered` if it is suspended or overloaded.
 */
export type Durable =
  | { readonly kind: 'before'; readonly seq: number }
  | { readonly kind: 'unsaid' }
  | { readonly kind: 'unanswered' };

/**
 * Asks the holder of a folder's lock how far the journal is durable, with a timeout of `limits.lockAnswerMs`. Changes nothing in
 * the folder. The answer for a missing folder is `unsaid`.
 * @throws the error of a system call
 */
export async function askHolder(folder: string, limits: AskLimits): Promise<Durable> {
  const answers = await askAll(folder, limits);
  const held = answers.find((answer) => answer?.startsWith('held '));
  if (held === undefined) return { kind: answers.some((answer) => UNANSWERED.has(answer)) ? 'unanswered' : 'unsaid' };
  const seq = Number(held.split(' ')[2]);
  return Number.isSafeInteger(seq) && seq > 0 ? { kind: 'before', seq } : { kind: 'unsaid' };
}

/** A process that holds the lock of a folder; `pid` is undefined if the process does not answer. */
export interface Holder {
  readonly pid: number | undefined;
}

/**
 * Finds the live process that holds or is about to hold the lock of the folder. Changes nothing in the folder. A missing folder
 * has no holder.
 * @throws the error of a system call
 */
export async function holderOf(folder: string, limits: AskLimits): Promise<Holder | undefined> {
  const answers = (await askAll(folder, limits)).filter((answer) => answer !== undefined);
  const pid = answers.map((answer) => Number(answer.split(' ')[1])).find((pid) => pid > 0);
  return answers.length === 0 ? undefined : { pid };
}

/** @returns the answer of each lock in the folder; undefined if its process has ended or cannot be asked */
async function askAll(folder: string, limits: AskLimits): Promise<(string | undefined)[]> {
  let directory: number;
  try {
    directory = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  try {
    const paths = listSockets(folder, LOCK).map((name) => socketPath(folder, directory, name));
    if (process.platform === 'linux') paths.push(abstractPath(directory));
    return await Promise.all(paths.map((path) => ask(path, limits).catch(() => undefined))); // the lock of another user might refuse
  } finally {
    closeSync(directory);
  }
}

interface Rival {
  readonly name: string;
  readonly state: string;
  readonly pid: string | undefined;
}

function inUseError(folder: string, rival: Rival | undefined): InUseError {
  if (rival?.state === DENIED) {
    return new InUseError(
      `${folder} is in use by a process of another user, whose ${rival.name} cannot be asked; stop the process, or remove the file if the process has ended`,
    );
  }
  return new InUseError(`${folder} is in use by process ${rival?.pid ?? 'unknown'}; stop it, or use another --data`);
}

/** State of a lock that this user may not connect to. Its process might be alive, perhaps in another namespace. */
const DENIED = 'denied';
/** Error codes of file systems without socket files. */
const NO_SOCKET_FILES: ReadonlySet<string> = new Set(['EPERM', 'EOPNOTSUPP', 'ENOTSUP', 'ENOSYS', 'EINVAL', 'EIO']);
const ABSTRACT_HAZARD =
  'the file system of the data folder supports no socket files: the lock keeps out only processes in this network namespace';
/** Results of `ask` for a holder that does not answer. */
const UNANSWERED: ReadonlySet<string | undefined> = new Set(['held', 'unclear']);
const LOCK = '.lock-';
const UNPUBLISHED = '.unlocked-';
/** `sun_path` holds 108 bytes on Linux and 104 elsewhere, with a closing zero. */
const SOCKET_PATH_BYTES_MAX = 103;

/** @returns the locks of other live processes. Removes the lock files of processes that ended. */
async function findRivals(folder: string, directory: number, own: string, limits: AskLimits): Promise<Rival[]> {
  const names = listSockets(folder, LOCK).filter((name) => name !== own);
  const rivals = await Promise.all(
    names.map(async (name): Promise<Rival | undefined> => {
      const answer = await ask(socketPath(folder, directory, name), limits);
      if (answer === undefined) {
        removeSocket(join(folder, name));
        return undefined;
      }
      const [state = '', pid] = answer.split(' ');
      return { name, state, pid };
    }),
  );
  return rivals.filter((rival) => rival !== undefined);
}

/** @returns the names with this prefix. Links are excluded, since root would connect to their target. */
function listSockets(folder: string, prefix: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.name.startsWith(prefix) && !entry.isSymbolicLink()).map(({ name }) => name);
}

async function listenAbstract(server: Server, folder: string, directory: number): Promise<void> {
  try {
    await listen(server, abstractPath(directory));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    throw new InUseError(`${folder} is in use by another process; stop it, or use another --data`);
  }
}

function abstractPath(directory: number): string {
  const { dev, ino } = fstatSync(directory, { bigint: true });
  return `\0assetlog-${dev}-${ino}`;
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
function checkSame(path: string, own: BigIntStats, current: BigIntStats | undefined): void {
  if (current?.ino === own.ino && current.dev === own.dev) return;
  throw new LockLostError(
    `the lock file ${path} was removed or replaced by another program, so a second process might write to the folder`,
  );
}

/** Asynchronous: `lstat` might never return on a network file system that hangs, and must not block the event loop. */
async function checkFile(path: string, own: BigIntStats, onLost: (error: Error) => void): Promise<void> {
  try {
    checkSame(path, own, await lstat(path, { bigint: true }).catch(undefinedIfAbsent));
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
async function removeUnpublished(folder: string, directory: number, limits: AskLimits): Promise<void> {
  for (const name of listSockets(folder, UNPUBLISHED)) {
    if ((await ask(socketPath(folder, directory, name), limits)) === undefined) removeSocket(join(folder, name));
  }
}

/** Errors are ignored: a socket file without a listening process is no lock. */
function removeSocket(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // for example on a read-only file system; the next start tries again
  }
}

/** @returns the answer of the process, such as `held 4711 12`; `held` after the timeout; undefined if the process has ended */
function ask(path: string, { lockAnswerMs, lockAnswerBytesMax }: AskLimits): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(path);
    const settle = (state: string) => {
      socket.destroy();
      resolve(state);
    };
    // A timeout for the whole answer: an idle timeout would restart with each byte.
    const timer = setTimeout(() => settle('held'), lockAnswerMs);
    socket.on('close', () => clearTimeout(timer));
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
      if (answer.length > lockAnswerBytesMax) settle('held');
    });
    socket.on('end', () => settle(answer));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED' || error.code === 'ENOENT') resolve(undefined);
      // A closing process resets the connection; a full backlog refuses with EAGAIN. The caller asks again.
      else if (error.code === 'ECONNRESET' || error.code === 'EAGAIN') resolve('unclear');
      else if (error.code === 'EACCES' || error.code === 'EPERM') resolve(DENIED);
      else reject(error);
    });
  });
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** On Linux, a path too long for a socket is replaced by a path through the open folder in /proc/self/fd. */
function socketPath(folder: string, directory: number, name: string): string {
  const path = join(folder, name);
  return Buffer.byteLength(path) <= SOCKET_PATH_BYTES_MAX ? path : `/proc/self/fd/${directory}/${name}`;
}
