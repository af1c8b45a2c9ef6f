/**
 * Whose the entries of a folder are. What root makes, by a repair or a start by hand, belongs to the owner of the folder that it
 * is made in: else the service, which runs as that user, could not open it. In a folder of root nothing changes.
 */

import { chownSync, closeSync, constants, fstatSync, lchownSync, openSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** @returns to whom an entry that this process makes in a folder has to be given, undefined when it is right as it is made */
export function heirOf({ uid, gid }: Owner): Owner | undefined {
  return isRoot() && uid !== ROOT ? { uid, gid } : undefined;
}

/**
 * Gives a new file or folder to the owner of the folder that it is in.
 * @param entries the folder that it is in
 */
export async function giveToOwner(made: FileHandle, entries: FileHandle): Promise<void> {
  if (!isRoot()) return;
  const heir = heirOf(await entries.stat());
  if (heir !== undefined) await made.chown(heir.uid, heir.gid).catch(unlessImpossible);
}

/**
 * The same for a socket file, which can not be opened.
 * @param directory a descriptor of the folder
 */
export function giveSocketToOwner(folder: string, directory: number, name: string): void {
  const heir = heirOf(isRoot() ? fstatSync(directory) : { uid: ROOT, gid: ROOT });
  if (heir === undefined) return;
  try {
    if (process.platform !== 'linux') {
      lchownSync(join(folder, name), heir.uid, heir.gid);
      return;
    }
    // Not by its path: the folder's owner, who may put a link to any file in its place, would get that one.
    const socket = openSync(entryPath(folder, directory, name), O_PATH | constants.O_NOFOLLOW);
    try {
      if (fstatSync(socket).isSocket()) chownSync(`/proc/self/fd/${socket}`, heir.uid, heir.gid);
    } finally {
      closeSync(socket);
    }
  } catch (error) {
    unlessImpossible(error as NodeJS.ErrnoException);
  }
}

/** @returns a path to an entry that leads through the open folder, whatever its path leads to by now (Linux) */
export function entryPath(folder: string, directory: number, name: string): string {
  return process.platform === 'linux' ? `/proc/self/fd/${directory}/${name}` : join(folder, name);
}

const ROOT = 0;
/** Of Linux: opens anything, for its identity alone. Node has no name for it. */
const O_PATH = 0o10000000;

function isRoot(): boolean {
  return process.geteuid?.() === ROOT;
}

/**
 * Root without CAP_CHOWN, without /proc, or on a file system that has no owners or none for root, can not give anything away. It
 * stays root's.
 */
export function unlessImpossible(error: NodeJS.ErrnoException): void {
  if (!IMPOSSIBLE.has(error.code ?? '')) throw error;
}

const IMPOSSIBLE: ReadonlySet<string> = new Set(['EPERM', 'EACCES', 'EINVAL', 'ENOENT', 'ENOSYS', 'ENOTSUP', 'EROFS']);
