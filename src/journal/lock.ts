/**
 * One writer for a folder. The lock is a listening socket file: the kernel forgets it with its process, whatever ends that
 * process, and unlike an abstract socket or a port it is seen from every network namespace that shares the folder.
 *
 * Publish, look, yield. Each starter listens on a name of its own (`.lock-<id>`) and only then looks for others:
 *
 * 1. one that nobody listens on is left over from a process that died: it is removed;
 * 2. one that answers `held` has the folder: give up;
 * 3. one that answers `starting`: the lower id stays, the higher one gives up;
 * 4. nobody else there: held. Until then look again.
 *
 * Of two starters the later to publish sees the earlier, so two never both reach 4; the lowest id never gives up to a
 * rival, so of any number that start at once exactly one gets there.
 *
 * A file system without socket files (FAT, exFAT) leaves the abstract socket that is named after the folder's inode. Binding
 * it is the lock; but it is seen only in its own network namespace.
 */

import { randomUUID } from 'node:crypto';
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { stat } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Limits, limits as standardLimits } from '../config/limits.ts';
import { giveSocketToOwner } from './owner.ts';

type AskLimits = Pick<Limits, 'lockAnswerMs' | 'lockAnswerBytesMax'>;
export type LockLimits = AskLimits & Pick<Limits, 'lockMs'>;

/** Another process writes to the folder. */
export class InUseError extends Error {}

/** Another program removed the lock file, so a second process may have taken the folder. */
export class LockLostError extends Error {}

export interface Lock {
  /** Whom it does not keep out, as a sentence for the operator. */
  readonly hazard?: string;
  /**
   * Looks whether the lock file is still there. Bytes that were synced before this look are in the copy that a second process
   * makes of the journal: it begins only after it found no lock file. Not asynchronous: the system keeps the entry of a bound
   * socket in memory, so it needs no disk.
   * @throws LockLostError, or the error of a system call
   */
  checkHeld(): void;
  /**
   * Looks every so often, for a time in which nothing is written.
   * @param onLost called at each look from then on, with what `checkHeld` would throw
   */
  watch(checkMs: number, onLost: (error: Error) => void): void;
  /** Makes the lock say how far the journal is durable, to those who ask: see `askHolder`. The getter is called when one asks. */
  shareDurable(nextSeq: () => number | undefined): void;
  release(): Promise<void>;
}

/**
 * @param folder must exist
 * @throws InUseError within a second; another error where the folder takes no socket files
 */
export async function lockFolder(folder: string, limits: LockLimits = standardLimits): Promise<Lock> {
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
    asker.on('error', () => asker.destroy()); // an asker that went away has no further question
    // Closed as soon as the system has the answer, however the asker behaves: a frozen one would keep `close` from ending, and
    // any number of them would use up the descriptors. So there is hardly ever more than one connection.
    asker.end(`${answer} ${nextSeq() ?? ''}`.trimEnd(), () => asker.destroy());
  });
  server.on('error', () => {}); // no descriptor was left to accept an asker with: it sees its connection end, and asks again
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
        // A folder that takes no further file, as on a full disk, may have a holder all the same.
        const holder = (await lookAround(folder, directory, published, limits)).find(
          ({ state }) => state === 'held' || state === DENIED,
        );
        throw holder === undefined ? error : inUse(folder, holder);
      }
      removeSocket(join(folder, unpublished)); // some leave a plain file
      await listenAbstract(server, folder, directory);
      answer = `held ${process.pid}`;
      server.unref();
      return { hazard: ABSTRACT_HAZARD, checkHeld: () => {}, watch: () => {}, shareDurable, release }; // it has no file
    }
    giveSocketToOwner(folder, directory, unpublished);
    // Only now may others see it: a socket between bind and listen looks like one whose process died.
    publish(folder, unpublished, published);
    own = statSync(path, { bigint: true });
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
    checkHeld: () => checkSame(path, own, statSync(path, { bigint: true, throwIfNoEntry: false })),
    watch: (checkMs, onLost) => {
      watching = watchFile(path, own, checkMs, onLost);
    },
    shareDurable,
    release,
  };
}

/**
 * What the process that writes a journal says of it: the seq of the first line that is not durable yet · `unsaid`, since there is
 * no such process, it has not opened the journal, or it is of an older version · `unanswered`, since it is stopped or overloaded.
 */
export type Durable =
  | { readonly kind: 'before'; readonly seq: number }
  | { readonly kind: 'unsaid' }
  | { readonly kind: 'unanswered' };

/**
 * Asks the holder of a folder's lock, in a bounded time. Changes nothing in the folder.
 * @throws the error of a system call, but not for a folder that is not there
 */
export async function askHolder(folder: string, limits: AskLimits = standardLimits): Promise<Durable> {
  let directory: number;
  try {
    directory = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { kind: 'unsaid' };
    throw error;
  }
  try {
    const names = readdirSync(folder).filter((name) => name.startsWith(LOCK));
    const paths = names.map((name) => socketPath(folder, directory, name));
    if (process.platform === 'linux') paths.push(abstractPath(directory));
    const answers = await Promise.all(paths.map((path) => ask(path, limits).catch(() => undefined))); // it may not be ours to ask
    const held = answers.find((answer) => answer?.startsWith('held '));
    if (held === undefined) return { kind: answers.some((answer) => UNANSWERED.has(answer)) ? 'unanswered' : 'unsaid' };
    const seq = Number(held.split(' ')[2]);
    return Number.isSafeInteger(seq) && seq > 0 ? { kind: 'before', seq } : { kind: 'unsaid' };
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

/** Of a lock that this user may not connect to: nothing tells whether its process is alive, which may be in another namespace. */
const DENIED = 'denied';
/** What file systems without socket files say. */
const NO_SOCKET_FILES: ReadonlySet<string> = new Set(['EPERM', 'EOPNOTSUPP', 'ENOTSUP', 'ENOSYS', 'EINVAL', 'EIO']);
const ABSTRACT_HAZARD =
  'the file system of the data folder takes no socket files: the lock keeps out other processes of this network namespace only';
/** What `ask` makes of a holder that says nothing. */
const UNANSWERED: ReadonlySet<string | undefined> = new Set(['held', 'unclear']);
const LOCK = '.lock-';
const UNPUBLISHED = '.unlocked-';
/** `sun_path` holds 108 bytes on Linux and 104 elsewhere, with a closing zero. */
const SOCKET_PATH_BYTES_MAX = 103;

/** @returns the others that are alive; what the dead left is removed */
async function lookAround(folder: string, directory: number, own: string, limits: AskLimits): Promise<Rival[]> {
  const names = readdirSync(folder).filter((name) => name.startsWith(LOCK) && name !== own);
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

/** @param there what has the name of the lock file now @throws LockLostError unless it is the lock file */
function checkSame(path: string, own: BigIntStats, there: BigIntStats | undefined): void {
  if (there?.ino === own.ino && there.dev === own.dev) return;
  throw new LockLostError(
    `the lock file ${path} was removed or replaced by another program, so a second process may write to the folder`,
  );
}

/** Asynchronous: on a network file system that hangs a look may take for ever, and the event loop must not wait for it. */
function watchFile(path: string, own: BigIntStats, checkMs: number, onLost: (error: Error) => void): NodeJS.Timeout {
  let looking = false;
  const look = async () => {
    if (looking) return;
    looking = true;
    try {
      checkSame(path, own, await stat(path, { bigint: true }).catch(undefinedIfAbsent));
    } catch (error) {
      onLost(error as Error);
    } finally {
      looking = false;
    }
  };
  return setInterval(() => void look(), checkMs).unref();
}

function undefinedIfAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error;
}

/** What starters left that died before they published. One that is alive finds it gone, and gives up to us. */
async function removeUnpublished(folder: string, directory: number, limits: AskLimits): Promise<void> {
  for (const name of readdirSync(folder).filter((name) => name.startsWith(UNPUBLISHED))) {
    if ((await ask(socketPath(folder, directory, name), limits)) === undefined) removeSocket(join(folder, name));
  }
}

/** A socket that nobody listens on is no lock: it does not matter whether it can be removed. */
function removeSocket(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // the disk went read-only, say; the next start tries again
  }
}

/** @returns what the lock's owner says, `held` where it is alive but too busy to say, undefined where there is none */
function ask(path: string, { lockAnswerMs, lockAnswerBytesMax }: AskLimits): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(path);
    const settle = (state: string) => {
      socket.destroy();
      resolve(state);
    };
    // Of the whole answer: an idle timeout would begin anew with each byte.
    const late = setTimeout(() => settle('held'), lockAnswerMs);
    socket.on('close', () => clearTimeout(late));
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
      if (answer.length > lockAnswerBytesMax) settle('held');
    });
    socket.on('end', () => settle(answer));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED' || error.code === 'ENOENT') resolve(undefined);
      // An owner that is just going away resets; one that is asked by very many at once can not be reached. Look again.
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

/** A long path is reached through the open folder, where the system shows open files as paths (Linux). */
function socketPath(folder: string, directory: number, name: string): string {
  const path = join(folder, name);
  return Buffer.byteLength(path) <= SOCKET_PATH_BYTES_MAX ? path : `/proc/self/fd/${directory}/${name}`;
}
