/**
 * One writer for a folder. The lock is a listening Unix socket file: the kernel stops the listening when the process ends, for
 * any reason. Unlike an abstract socket or a port it is visible from every network namespace that shares the folder.
 *
 * Each starting process listens on a socket file of its own (`.lock-<id>`) and only then connects to the others in the folder:
 *
 * 1. a socket file that refuses the connection is left over from a process that died: it is removed;
 * 2. a process that answers `held` has the folder: give up;
 * 3. of two processes that answer `starting`, the process with the lower id continues, the other gives up;
 * 4. no other socket file in the folder: the lock is held. Until then the process lists the folder again.
 *
 * Of two processes the later to publish finds the socket file of the earlier, so at most one reaches 4. The lowest id never
 * gives up to another starting process, so of any number that start at the same moment exactly one reaches 4.
 *
 * On a file system without socket files (FAT, exFAT) the lock is an abstract socket named after the folder's inode. Binding it
 * takes the lock; it is visible only in its own network namespace.
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
import { namesNothing } from './disk.ts';
import { giveSocketToOwner } from './open/owner.ts';

/** The longest wait for an answer in milliseconds, and its bytes. */
export type AskLimits = Pick<Limits, 'lockAnswerMs' | 'lockAnswerBytesMax'>;
/** As `AskLimits`, and how long a start waits for others that start, in milliseconds. */
export type LockLimits = AskLimits & Pick<Limits, 'lockMs'>;

/** Another process writes to the folder. */
export class InUseError extends Error {}

/** Another program removed the lock file, so a second process may have taken the folder. */
export class LockLostError extends Error {}

/** The lock of a folder, held until `release` or the end of the process. */
export interface Lock {
  /** Which processes the lock does not exclude, as a sentence for the operator. */
  readonly hazard?: string;
  /**
   * Checks that the lock file still exists. Bytes that were synced before this check are in the copy that a second process makes
   * of the journal, since that process begins only after it found no lock file. Synchronous: the system keeps the entry of a
   * bound socket in memory, so no disk access is necessary.
   * @throws LockLostError, or the error of a system call
   */
  checkHeld(): void;
  /**
   * Checks the lock file every `checkMs` milliseconds, which covers times in which nothing is written.
   * @param onLost called at each check after the lock is lost, with what `checkHeld` would throw
   */
  watch(checkMs: number, onLost: (error: Error) => void): void;
  /** Makes the lock answer how far the journal is durable: see `askHolder`. The getter is called for each connection. */
  shareDurable(nextSeq: () => number | undefined): void;
  /** Removes the lock file, if there is one. Resolves when another process can take the folder. May be called more than once. */
  release(): Promise<void>;
}

/** As `lockFolder`. */
export type LockFolder = (folder: string, limits: LockLimits) => Promise<Lock>;

/**
 * Takes the lock of a folder: creates the socket file `.lock-<id>` in it, or returns a lock with a `hazard`.
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
    // The connection is destroyed as soon as the kernel has the answer. A stalled client would otherwise delay `close`, and many
    // of them would use up the file descriptors. So more than one connection at a time is rare.
    asker.end(`${answer} ${nextSeq() ?? ''}`.trimEnd(), () => asker.destroy());
  });
  server.on('error', () => {}); // no file descriptor to accept a client with: its connection ends, and it asks again
  const directory = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  let watching: NodeJS.Timeout | undefined;
  let released = false;
  const release = async () => {
    if (released) return;
    released = true;
    clearInterval(watching);
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
        // The folder may be locked although no file can be created in it, as on a full disk.
        const holder = (await lookAround(folder, directory, published, limits)).find(
          ({ state }) => state === 'held' || state === DENIED,
        );
        throw holder === undefined ? error : inUse(folder, holder);
      }
      removeSocket(join(folder, unpublished)); // some file systems leave a regular file
      await listenAbstract(server, folder, directory);
      answer = `held ${process.pid}`;
      server.unref();
      return { hazard: ABSTRACT_HAZARD, checkHeld: () => {}, watch: () => {}, shareDurable, release }; // no file to check
    }
    giveSocketToOwner(folder, directory, unpublished);
    // Published only now: a socket between bind and listen refuses connections, like one whose process died.
    publish(folder, unpublished, published);
    own = lstatSync(path, { bigint: true });
    const deadline = Date.now() + limits.lockMs;
    for (;;) {
      const rivals = await lookAround(folder, directory, published, limits);
      if (rivals.length === 0) break;
      const holder = rivals.find(({ state, name }) => state === 'held' || (state === 'starting' && name < published));
      if (holder !== undefined || Date.now() > deadline) {
        throw inUse(folder, holder ?? rivals[0]);
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
    watch: (checkMs, onLost) => {
      watching = watchFile(path, own, checkMs, onLost);
    },
    shareDurable,
    release,
  };
}

/**
 * What the process that writes a journal reports: the seq of the first line that is not durable yet · `unsaid` if no process
 * writes it, the process has not opened the journal, or is of an older version · `unanswered` if it is suspended or overloaded.
 */
export type Durable =
  | { readonly kind: 'before'; readonly seq: number }
  | { readonly kind: 'unsaid' }
  | { readonly kind: 'unanswered' };

/**
 * Asks the holder of a folder's lock how far the journal is durable, with a timeout of `limits.lockAnswerMs`. Changes nothing in
 * the folder.
 * @throws the error of a system call; a missing folder is no error, but `unsaid`
 */
export async function askHolder(folder: string, limits: AskLimits): Promise<Durable> {
  const answers = await answersIn(folder, limits);
  const held = answers.find((answer) => answer?.startsWith('held '));
  if (held === undefined) return { kind: answers.some((answer) => UNANSWERED.has(answer)) ? 'unanswered' : 'unsaid' };
  const seq = Number(held.split(' ')[2]);
  return Number.isSafeInteger(seq) && seq > 0 ? { kind: 'before', seq } : { kind: 'unsaid' };
}

/** A process that has a folder; its `pid` is undefined if it does not answer. */
export interface Holder {
  readonly pid: number | undefined;
}

/**
 * Finds out which live process has the folder, or is about to take it. Changes nothing in the folder.
 * @throws the error of a system call; a missing folder has no holder
 */
export async function holderOf(folder: string, limits: AskLimits): Promise<Holder | undefined> {
  const answers = (await answersIn(folder, limits)).filter((answer) => answer !== undefined);
  const pid = answers.map((answer) => Number(answer.split(' ')[1])).find((pid) => pid > 0);
  return answers.length === 0 ? undefined : { pid };
}

/** @returns what each lock of the folder answers; undefined for one whose process has ended, or that can not be asked */
async function answersIn(folder: string, limits: AskLimits): Promise<(string | undefined)[]> {
  let directory: number;
  try {
    directory = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  try {
    const paths = socketsIn(folder, LOCK).map((name) => socketPath(folder, directory, name));
    if (process.platform === 'linux') paths.push(abstractPath(directory));
    return await Promise.all(paths.map((path) => ask(path, limits).catch(() => undefined))); // another user's lock may refuse
  } finally {
    closeSync(directory);
  }
}

interface Rival {
  readonly name: string;
  readonly state: string;
  readonly pid: string | undefined;
}

function inUse(folder: string, rival: Rival | undefined): InUseError {
  if (rival?.state === DENIED) {
    return new InUseError(
      `${folder} is in use by a process of another user, whose ${rival.name} can not be asked; stop it, or remove that file if it has ended`,
    );
  }
  return new InUseError(`${folder} is in use by process ${rival?.pid ?? 'unknown'}; stop it, or use another --data`);
}

/** State of a lock that this user may not connect to: it is unknown whether its process, maybe in another namespace, is alive. */
const DENIED = 'denied';
/** Error codes of file systems without socket files. */
const NO_SOCKET_FILES: ReadonlySet<string> = new Set(['EPERM', 'EOPNOTSUPP', 'ENOTSUP', 'ENOSYS', 'EINVAL', 'EIO']);
const ABSTRACT_HAZARD =
  'the file system of the data folder takes no socket files: the lock keeps out other processes of this network namespace only';
/** Results of `ask` for a holder that does not answer. */
const UNANSWERED: ReadonlySet<string | undefined> = new Set(['held', 'unclear']);
const LOCK = '.lock-';
const UNPUBLISHED = '.unlocked-';
/** `sun_path` holds 108 bytes on Linux and 104 elsewhere, with a closing zero. */
const SOCKET_PATH_BYTES_MAX = 103;

/** @returns the locks of other processes that are alive. Removes the lock files of processes that ended. */
async function lookAround(folder: string, directory: number, own: string, limits: AskLimits): Promise<Rival[]> {
  const names = socketsIn(folder, LOCK).filter((name) => name !== own);
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

/** @returns the names with this prefix. A link is no lock: it would make root connect to whatever it names. */
function socketsIn(folder: string, prefix: string): string[] {
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
    throw new InUseError(`${folder} was taken by another process at the same moment; stop it, or use another --data`);
  }
}

/** @param there the file that has the lock file's name now @throws LockLostError if it is not the lock file */
function checkSame(path: string, own: BigIntStats, there: BigIntStats | undefined): void {
  if (there?.ino === own.ino && there.dev === own.dev) return;
  throw new LockLostError(
    `the lock file ${path} was removed or replaced by another program, so a second process may write to the folder`,
  );
}

/** Asynchronous: on a network file system that hangs, `lstat` may never return, and must not block the event loop. */
function watchFile(path: string, own: BigIntStats, checkMs: number, onLost: (error: Error) => void): NodeJS.Timeout {
  let looking = false;
  const look = async () => {
    if (looking) return;
    looking = true;
    try {
      checkSame(path, own, await lstat(path, { bigint: true }).catch(undefinedIfNone));
    } catch (error) {
      onLost(error as Error);
    } finally {
      looking = false;
    }
  };
  return setInterval(() => void look(), checkMs).unref();
}

function undefinedIfNone(error: NodeJS.ErrnoException): undefined {
  if (!namesNothing(error)) throw error;
}

/**
 * Removes socket files of processes that died before they published them. A process that is alive fails to publish its removed
 * file, and gives up.
 */
async function removeUnpublished(folder: string, directory: number, limits: AskLimits): Promise<void> {
  for (const name of socketsIn(folder, UNPUBLISHED)) {
    if ((await ask(socketPath(folder, directory, name), limits)) === undefined) removeSocket(join(folder, name));
  }
}

/** Errors are ignored: a socket file without a listening process is no lock. */
function removeSocket(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // such as on a read-only file system; the next start tries again
  }
}

/** @returns the answer of the lock's owner, such as `held 4711 12`; `held` if it does not answer in time; undefined if it ended */
function ask(path: string, { lockAnswerMs, lockAnswerBytesMax }: AskLimits): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(path);
    const settle = (state: string) => {
      socket.destroy();
      resolve(state);
    };
    // A timeout for the whole answer: an idle timeout would restart with each byte.
    const late = setTimeout(() => settle('held'), lockAnswerMs);
    socket.on('close', () => clearTimeout(late));
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
      if (answer.length > lockAnswerBytesMax) settle('held');
    });
    socket.on('end', () => settle(answer));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED' || error.code === 'ENOENT') resolve(undefined);
      // An owner that is closing resets the connection; one with a full backlog refuses with EAGAIN. The caller asks again.
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

/** A path too long for a socket is replaced by one through the open folder in /proc/self/fd (Linux). */
function socketPath(folder: string, directory: number, name: string): string {
  const path = join(folder, name);
  return Buffer.byteLength(path) <= SOCKET_PATH_BYTES_MAX ? path : `/proc/self/fd/${directory}/${name}`;
}
