/**
 * Ownership of the entries of a folder. A file that root creates, by a repair or a manual start, is given to the owner of its
 * folder: otherwise the service, which runs as that user, could not open it. In a folder that belongs to root nothing
 * changes.
 */

import { chownSync, closeSync, constants, existsSync, fstatSync, lchownSync, openSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { platform } from '../../config/platform.ts';

/** The ids of a user and a group. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * @param owner the owner of the folder
 * @returns the owner to whom new entries of the folder must be given; undefined if no change is necessary, because this process is
 *   not root or the folder belongs to root
 */
export function heirOf({ uid, gid }: Owner): Owner | undefined {
  return isRoot() && uid !== ROOT ? { uid, gid } : undefined;
}

/**
 * Gives a new file or folder to the owner of its parent folder.
 * @param entries an open handle of the parent folder
 * @throws the error of a system call, unless the owner cannot be changed: see `unlessImpossible`
 */
export async function giveToOwner(made: FileHandle, entries: FileHandle): Promise<void> {
  const heir = await heirIn(entries);
  if (heir !== undefined) await made.chown(heir.uid, heir.gid).catch(unlessImpossible);
}

/** Like `heirOf`, for an open folder. @throws the error of a system call */
export async function heirIn(entries: FileHandle): Promise<Owner | undefined> {
  return isRoot() ? heirOf(await entries.stat()) : undefined;
}

/**
 * Like `giveToOwner`, for a socket file, which cannot be opened for reading.
 * @param directory a file descriptor of the folder
 */
export function giveSocketToOwner(folder: string, directory: number, name: string): void {
  const heir = heirOf(isRoot() ? fstatSync(directory) : { uid: ROOT, gid: ROOT });
  if (heir === undefined) return;
  try {
    if (!platform.isLinux) {
      lchownSync(join(folder, name), heir.uid, heir.gid);
      return;
    }
    // Not changed by path: the folder's owner could replace the socket by a link to any file, and would become the owner of
    // that file.
    const socket = openSync(join(entryPath(folder, directory), name), O_PATH | constants.O_NOFOLLOW);
    try {
      if (fstatSync(socket).isSocket()) chownSync(`/proc/self/fd/${socket}`, heir.uid, heir.gid);
    } finally {
      closeSync(socket);
    }
  } catch (error) {
    unlessImpossible(error as NodeJS.ErrnoException);
  }
}

/**
 * @returns a path to an open file or folder through its descriptor, so that replacing the entry has no effect:
 *   `entryPath('/data', 21)` is `/proc/self/fd/21`, or `/data` on a system without /proc
 */
export function entryPath(path: string, descriptor: number): string {
  const open = `/proc/self/fd/${descriptor}`;
  return platform.isLinux && existsSync(open) ? open : path;
}

const ROOT = 0;
/** The flag O_PATH of Linux, for which Node has no constant: opens any file without access to its content. */
const O_PATH = 0o10000000;

function isRoot(): boolean {
  return process.geteuid?.() === ROOT;
}

/**
 * Ignores errors that mean that the owner cannot be changed, such as EPERM: root has no CAP_CHOWN, /proc is missing, or the file
 * system has no owners or ignores root. The entry keeps root as its owner.
 * @throws any other error, such as EIO
 */
export function unlessImpossible(error: NodeJS.ErrnoException): void {
  if (!IMPOSSIBLE.has(error.code ?? '')) throw error;
}

const IMPOSSIBLE: ReadonlySet<string> = new Set(['EPERM', 'EACCES', 'EINVAL', 'ENOENT', 'ENOSYS', 'ENOTSUP', 'EROFS']);
