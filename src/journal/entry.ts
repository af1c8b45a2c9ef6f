/**
 * Opens, renames and removes the files of a folder. No other module opens them. Links are not followed: otherwise root would read
 * or write the target of any link that an attacker puts into the folder of another user. The path of the folder may contain links.
 */

import { randomUUID } from 'node:crypto';
import { type BigIntStats, closeSync, constants, fstatSync, openSync, readdirSync } from 'node:fs';
import { type FileHandle, lstat, open, readdir, rename, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Platform } from '../config/platform.ts';
import { entryPath, heirIn } from './open/owner.ts';
import { contentsOf, isOwnName } from './segments.ts';

/** A file of a journal is not a regular file, but for example a FIFO. */
export class IrregularFileError extends Error {
  constructor(path: string) {
    super(`${path} is not a regular file; move it away, or remove it`);
  }
}

/** A file of a journal is a symbolic link. It need not be damaged or lost: a user might have moved it to a larger disk. */
export class LinkError extends Error {
  constructor(path: string) {
    super(`${path} is a link; move the file that it names back here`);
  }
}

export const FILE_MODE = 0o600;

/** Opens an existing file. @throws IrregularFileError, LinkError, or the error of the system call */
export async function openRegular(path: string, flags: number): Promise<FileHandle> {
  const handle = await openFile(path, flags);
  // Synchronous: cheaper than a call in the thread pool.
  const isFile = await closeOnFailure(handle, async () => fstatSync(handle.fd).isFile());
  if (isFile) return handle;
  await handle.close();
  throw new IrregularFileError(path);
}

/** Creates a file and opens it. O_EXCL refuses a link under its name. @param shownPath see `openFile` */
export function makeFile(path: string, flags: number, shownPath: string): Promise<FileHandle> {
  return openFile(path, flags | constants.O_CREAT | constants.O_EXCL, shownPath);
}

/** @param shownPath replaces `path` in the messages of errors */
function openFile(path: string, flags: number, shownPath = path): Promise<FileHandle> {
  return open(path, flags | constants.O_NONBLOCK | constants.O_NOFOLLOW, FILE_MODE).catch((error) => {
    throw toOpenError(error, path, shownPath);
  });
}

/** @param path may contain links; with the flag O_NOFOLLOW its last part must not be a link */
export function openFolder(path: string, flags = 0): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | constants.O_DIRECTORY | flags);
}

/**
 * With O_NONBLOCK the error is ENXIO for a socket (EOPNOTSUPP on macOS), and for a FIFO without a reader; otherwise the open of a
 * FIFO would wait.
 */
function toOpenError(error: NodeJS.ErrnoException, path: string, shownPath: string): Error {
  if (error.code === 'ENXIO' || error.code === 'EOPNOTSUPP') return new IrregularFileError(shownPath);
  if (error.code === 'ELOOP' || error.code === 'EMLINK') return new LinkError(shownPath); // EMLINK on FreeBSD
  error.message = error.message.replace(path, () => shownPath);
  return error;
}

/**
 * @param entries the open folder
 * @returns the path of the folder. If new files are given to its owner: a path through the descriptor, so that replacing the
 *   folder has no effect
 */
export async function basePath(folder: string, entries: FileHandle): Promise<string> {
  return (await heirIn(entries)) === undefined ? folder : entryPath(folder, entries.fd);
}

/** @returns the names of all entries of a folder @throws LinkError if a file of a journal is a link */
export async function listWithoutLinks(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  // The folder of a deployment may be a link. Unlike the names of files, its name has no dot.
  const link = entries.find((entry) => entry.isSymbolicLink() && entry.name.includes('.') && isOwnName(entry.name));
  if (link !== undefined) throw new LinkError(join(folder, link.name));
  return entries.map(({ name }) => name);
}

/** @throws LinkError, or the error of the system call */
export async function fileSizeOf(path: string): Promise<number> {
  const found = await lstat(path);
  if (found.isSymbolicLink()) throw new LinkError(path);
  return found.size;
}

/**
 * Synchronous, for a command that polls: a call in the thread pool wakes three threads. Opens the newest file, since some network file
 * systems would otherwise report a cached size.
 * @returns a text that changes when a file of the folder is created, removed or replaced, or when the newest file grows; undefined if
 *   the folder cannot be read
 */
export function folderMark(folder: string): string | undefined {
  try {
    const names = readdirSync(folder);
    const newest = contentsOf(names).segments.at(-1);
    if (newest === undefined) return undefined;
    const file = openSync(join(folder, newest.name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const { ino, size, mtimeMs } = fstatSync(file);
      return [ino, size, mtimeMs, ...names].join('/');
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined; // a reader of the folder then gets the error
  }
}

/** Closes a file unless `act` resolves. */
export async function closeOnFailure<Value>(handle: FileHandle, act: () => Promise<Value>): Promise<Value> {
  try {
    return await act();
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Whether two states are of one file. Only the inode counts on Windows: Node 22.12 and 24.0 give a path another `dev`. */
export function isSameFile(a: BigIntStats, b: BigIntStats, { isWindows }: Platform): boolean {
  return a.ino === b.ino && (isWindows || a.dev === b.dev);
}

/**
 * Makes new, renamed and removed names of a folder durable. Windows cannot sync a folder: NTFS logs names in order, and the next
 * sync of any file writes this log.
 */
export async function syncEntries(entries: FileHandle, { isWindows }: Platform): Promise<void> {
  if (!isWindows) await entries.sync();
}

/** Replaces an existing file atomically. @throws the error of the system call */
export function renameFile(from: string, to: string, system: Platform): Promise<void> {
  return system.isWindows ? patiently(() => rename(from, to)) : rename(from, to);
}

/**
 * Removes a file. On Windows the name of a removed file stays in use while a process has the file open, so the file gets another
 * name first.
 * @throws the error of the system call
 */
export async function removeFile(path: string, system: Platform): Promise<void> {
  if (!system.isWindows) return unlink(path);
  const gone = join(dirname(path), `${GONE}${randomUUID()}`);
  await patiently(() => rename(path, gone));
  await patiently(() => unlink(gone)).catch(() => {}); // the next start removes it
}

/** Removes the files that a process has renamed to remove them, and could not remove before it ended. */
export async function removeGone(folder: string): Promise<void> {
  for (const name of await readdir(folder)) if (name.startsWith(GONE)) await unlink(join(folder, name)).catch(() => {}); // it is still open; the next start tries again
}

const GONE = '.gone-';
/** Time for a virus scanner or an indexer that has a file open, and the pause between two attempts. */
const PATIENCE_MS = 1_000;
const PATIENCE_PAUSE_MS = 20;
const HELD_OPEN: ReadonlySet<string | undefined> = new Set(['EPERM', 'EACCES', 'EBUSY']);

/** Repeats a change that fails on Windows while another process has the file open. */
async function patiently(change: () => Promise<void>): Promise<void> {
  const untilMs = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await change();
    } catch (error) {
      if (!HELD_OPEN.has((error as NodeJS.ErrnoException).code) || performance.now() > untilMs) throw error;
      await sleep(PATIENCE_PAUSE_MS);
    }
  }
}
