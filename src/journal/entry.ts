/**
 * Opens the files of a folder, and is the only file that does. It follows no link: the folder may be that of a user who was broken
 * into, and root would read or write for that user whatever a link names. The path of the folder may contain links.
 */

import { constants, fstatSync } from 'node:fs';
import { type FileHandle, lstat, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { entryPath, heirIn } from './open/owner.ts';
import { isOwnName } from './segments.ts';

/** Under the name of a file is something else, such as a FIFO. */
export class IrregularFileError extends Error {
  constructor(path: string) {
    super(`${path} is not a regular file; move it away, or remove it`);
  }
}

/** Under the name of a file is a symbolic link. Nothing says that the file is damaged or lost: it may have been moved to a larger disk. */
export class LinkError extends Error {
  constructor(path: string) {
    super(`${path} is a link; move the file that it names back here`);
  }
}

export const FILE_MODE = 0o600;

/** Opens a file that is there. @throws IrregularFileError, LinkError, or the error of the system call */
export async function openRegular(path: string, flags: number): Promise<FileHandle> {
  const handle = await openFile(path, flags);
  // Synchronous: it costs less than a call through the thread pool.
  const isFile = await closingOnFailure(handle, async () => fstatSync(handle.fd).isFile());
  if (isFile) return handle;
  await handle.close();
  throw new IrregularFileError(path);
}

/** Makes a file that is not there, and opens it: with O_EXCL a link is there. @param shownPath as `openFile` */
export function makeFile(path: string, flags: number, shownPath: string): Promise<FileHandle> {
  return openFile(path, flags | constants.O_CREAT | constants.O_EXCL, shownPath);
}

/** @param shownPath in the message of an error */
function openFile(path: string, flags: number, shownPath = path): Promise<FileHandle> {
  return open(path, flags | constants.O_NONBLOCK | constants.O_NOFOLLOW, FILE_MODE).catch((error) => {
    throw explained(error, path, shownPath);
  });
}

/** Its path may contain links, unless O_NOFOLLOW is among the flags: the last part then is none. */
export function openFolder(path: string, flags = 0): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | constants.O_DIRECTORY | flags);
}

/** Without O_NONBLOCK, the open of a FIFO waits for its other side. With it, ENXIO is the error if nothing reads it, and of a socket. */
function explained(error: NodeJS.ErrnoException, path: string, shownPath: string): Error {
  if (error.code === 'ENXIO') return new IrregularFileError(shownPath);
  if (error.code === 'ELOOP' || error.code === 'EMLINK') return new LinkError(shownPath); // EMLINK on FreeBSD
  error.message = error.message.replace(path, () => shownPath);
  return error;
}

/**
 * @param entries the open folder
 * @returns its path, or if files are given away a path that reaches the same folder whatever has its name by then
 */
export async function basePath(folder: string, entries: FileHandle): Promise<string> {
  return (await heirIn(entries)) === undefined ? folder : entryPath(folder, entries.fd);
}

/** @returns the names of all entries of a folder @throws LinkError if a file of a journal is a link */
export async function listWithoutLinks(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  // The folder of a deployment may be a link. Its name has no dot, which all files have.
  const link = entries.find((entry) => entry.isSymbolicLink() && entry.name.includes('.') && isOwnName(entry.name));
  if (link !== undefined) throw new LinkError(join(folder, link.name));
  return entries.map(({ name }) => name);
}

/** @throws LinkError, or the error of the system call */
export async function sizeOf(path: string): Promise<number> {
  const found = await lstat(path);
  if (found.isSymbolicLink()) throw new LinkError(path);
  return found.size;
}

/** Closes a file unless `act` resolves. */
export async function closingOnFailure<Value>(handle: FileHandle, act: () => Promise<Value>): Promise<Value> {
  try {
    return await act();
  } catch (error) {
    await handle.close();
    throw error;
  }
}
