/** Reads small files that an operator wrote, opens streams that a command reads, and compares folders. */

import { constants } from 'node:fs';
import { open, realpath, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve, sep } from 'node:path';
import type { Readable } from 'node:stream';
import { isUtf16 } from '../event/json-mistakes.ts';

/**
 * Finds out whether two paths name the same folder, or the second one a folder inside the first, also through symbolic links.
 * @param path of a folder that need not exist yet
 * @throws the error of a system call, but not of a missing folder
 */
export async function isWithin(folder: string, path: string): Promise<boolean> {
  const [outer, inner] = await Promise.all([realFolder(resolve(folder)), realFolder(resolve(path))]);
  return inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep);
}

/** @returns the path without symbolic links; of a missing folder, that of its nearest existing parent and the rest */
async function realFolder(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if ((code !== 'ENOENT' && code !== 'ENOTDIR') || dirname(path) === path) throw error;
    return join(await realFolder(dirname(path)), basename(path));
  }
}

/**
 * Reads a small file as UTF-8, without the byte order mark that editors on Windows write.
 * @throws Error if it is a folder, is UTF-16 or has more than `bytesMax` bytes, or the error of a system call
 */
export async function readText(path: string, bytesMax: number): Promise<string> {
  // Not `readFile` with the path: Node 26 does not list what that waits for among its active resources, see `endWith`.
  const handle = await open(path, constants.O_RDONLY);
  try {
    const found = await handle.stat();
    const { size } = found;
    if (found.isDirectory()) throw new Error(`${path} is a folder`); // the error of reading it has no path
    if (size > bytesMax) throw new Error(`${path} has ${size} bytes; at most ${bytesMax} are read`);
    const bytes = await handle.readFile();
    if (isUtf16(bytes)) throw new Error(`${path} is UTF-16; save it as UTF-8`);
    return bytes.toString().replace(/^\ufeff/, '');
  } finally {
    await handle.close();
  }
}

/** @returns the text of a file, and whether every user of the machine may read it (mode bit `o+r`). @throws as `readText` */
export async function readSecret(path: string, bytesMax: number): Promise<{ text: string; exposed: boolean }> {
  const text = await readText(path, bytesMax);
  // On Windows the mode says nothing about access: it is the same for every file.
  return { text, exposed: process.platform !== 'win32' && ((await stat(path)).mode & READ_BY_OTHERS) !== 0 };
}

/**
 * Reads a file with a token or a password, as `readSecret`, without white space around it.
 * @throws Error if the file does not hold one text of visible ASCII on one line; the message does not contain the text
 */
export async function readToken(
  path: string,
  bytesMax: number,
  what: 'token' | 'password' = 'token',
): Promise<{ token: string; exposed: boolean }> {
  const { text, exposed } = await readSecret(path, bytesMax);
  const token = text.trim();
  if (/^[\x21-\x7e][\x20-\x7e]*$/.test(token)) return { token, exposed };
  throw new Error(`${path} does not contain one ${what}; write the ${what} alone, on one line of ASCII`);
}

/**
 * Writes a new file that only its owner may read, and syncs it.
 * @throws the error of a system call, `EEXIST` if there is anything of this name; then nothing is left of it
 */
export async function writeSecret(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx', OWN);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
}

/** @returns a text that is another one after the file was changed; empty if there is no file */
export async function fileVersion(path: string): Promise<string> {
  try {
    const { ino, size, mtime } = await stat(path);
    return `${ino}-${size}-${mtime.getTime()}`;
  } catch {
    return ''; // what reads the file reports the error
  }
}

/**
 * Finds which users besides the owner and root may write to a file or a folder, by its mode. On Windows the mode does not say.
 * @param ownGroup the group of this process, which may write
 * @returns undefined if no other user may write, or on Windows
 * @throws the error of a system call
 */
export async function otherWriters(path: string, ownGroup = process.getgid?.()): Promise<OtherWriters | undefined> {
  if (process.platform === 'win32') return undefined;
  const { mode, gid } = await stat(path);
  if ((mode & WRITTEN_BY_OTHERS) !== 0) return { kind: 'every user' };
  const byGroup = (mode & WRITTEN_BY_GROUP) !== 0 && gid !== ROOT && gid !== ownGroup;
  return byGroup ? { kind: 'group', gid } : undefined;
}

export type OtherWriters = { readonly kind: 'every user' } | { readonly kind: 'group'; readonly gid: number };

/**
 * Opens a file or a pipe for reading from its beginning to its end.
 * @returns a stream, and the size of a regular file, undefined for anything else
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

const OWN = 0o600;
const READ_BY_OTHERS = 0o004;
const WRITTEN_BY_OTHERS = 0o002;
const WRITTEN_BY_GROUP = 0o020;
const ROOT = 0;
