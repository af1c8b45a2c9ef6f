/** Small files that an operator wrote, and streams that a command reads. */

import { constants } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';

/** @throws Error for a file that is larger, or the error of a system call */
export async function readText(path: string, bytesMax: number): Promise<string> {
  // Not by the path: what `readFile` then waits for, Node 26 does not list among its resources, see `endWith`.
  const handle = await open(path, constants.O_RDONLY);
  try {
    const { size } = await handle.stat();
    if (size > bytesMax) throw new Error(`${path} has ${size} bytes; at most ${bytesMax} are read`);
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}

/**
 * @returns the text of a file, and whether everybody on the machine may read it
 * @throws as `readText`
 */
export async function readSecret(path: string, bytesMax: number): Promise<{ text: string; exposed: boolean }> {
  const text = await readText(path, bytesMax);
  // Windows has other rules, and tells the same mode for every file.
  return { text, exposed: process.platform !== 'win32' && ((await stat(path)).mode & READ_BY_OTHERS) !== 0 };
}

/**
 * Who may write to a file or a folder besides its owner and root, by its mode. Windows has other rules.
 * @param ownGroup the group of this process, which may write
 * @throws the error of a system call
 */
export async function otherWriters(path: string, ownGroup = process.getgid?.()): Promise<OtherWriters | undefined> {
  if (process.platform === 'win32') return undefined;
  const { mode, gid } = await stat(path);
  if ((mode & WRITTEN_BY_OTHERS) !== 0) return { everybody: true };
  const byGroup = (mode & WRITTEN_BY_GROUP) !== 0 && gid !== ROOT && gid !== ownGroup;
  return byGroup ? { everybody: false, gid } : undefined;
}

export type OtherWriters = { readonly everybody: true } | { readonly everybody: false; readonly gid: number };

/**
 * A file from its beginning to its end, or a pipe.
 * @returns its size as well, undefined for what is no file
 * @throws the error of a system call
 */
export async function openStream(path: string): Promise<{ stream: Readable; bytes: number | undefined }> {
  const handle = await open(path, constants.O_RDONLY);
  try {
    const status = await handle.stat();
    return { stream: handle.createReadStream(), bytes: status.isFile() ? status.size : undefined };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

const READ_BY_OTHERS = 0o004;
const WRITTEN_BY_OTHERS = 0o002;
const WRITTEN_BY_GROUP = 0o020;
const ROOT = 0;
