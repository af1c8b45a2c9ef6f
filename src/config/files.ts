/** Reads small files that an operator wrote, opens streams that a command reads, and compares folders. */

import { constants, openSync } from 'node:fs';
import { open, realpath, rm, stat } from 'node:fs/promises';
import { Socket } from 'node:net';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { isUtf16 } from '../event/json-mistakes.ts';
import { fileQueue } from './file-queue.ts';
import type { Limits } from './limits.ts';
import { platform } from './platform.ts';

/**
 * Finds out whether two paths name the same folder, or the second path names a folder inside the first, even through symbolic
 * links.
 * @param path a folder that can be missing
 * @throws the error of a system call, except for a missing folder
 */
export async function isWithin(folder: string, path: string): Promise<boolean> {
  const [outer, inner] = await Promise.all([realFolder(resolve(folder)), realFolder(resolve(path))]);
  return inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep);
}

/** @returns the path without symbolic links; for a missing folder, the path of its nearest existing parent and the rest */
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
 * Reads a small file as UTF-8, without the byte order mark that editors on Windows write. Links are followed.
 * @param ms how long to wait: see `FileQueue.run`
 * @param signal ends the wait
 * @throws Error if it is not a file or the pipe of a descriptor (`/dev/fd/3`), is UTF-16 or has more than `bytesMax` bytes;
 *   LateFileError, or the error of a system call
 */
export async function readText(path: string, bytesMax: number, ms: number, signal?: AbortSignal): Promise<string> {
  return (await read(path, bytesMax, ms, signal)).text;
}

async function read(
  path: string,
  bytesMax: number,
  ms: number,
  signal: AbortSignal | undefined,
): Promise<{ text: string; mode: number }> {
  const { bytes, mode } = await fileQueue.run(path, ms, (ending) => readAtOnce(path, bytesMax, ending), signal);
  if (isUtf16(bytes)) throw new Error(`${path} is UTF-16; save it as UTF-8`);
  return { text: bytes.toString().replace(/^\ufeff/, ''), mode };
}

/** Texts of pipes. A pipe delivers its text only once, but a service reads its files again. */
const pipes = new Map<string, { readonly ino: number; readonly bytes: Buffer }>();
/** The path that a shell passes for `<(command)`, and for the left side of a pipe. */
const DESCRIPTOR = /^\/(dev\/stdin|(dev|proc\/\w+)\/fd\/\d+)$/;

async function readAtOnce(
  path: string,
  bytesMax: number,
  ending: AbortSignal,
): Promise<{ bytes: Buffer; mode: number }> {
  // `readFile` is not called with the path, since Node 26 does not list its pending request among its active resources:
  // see `endWith`.
  const handle = await open(path, READ);
  try {
    const status = await handle.stat();
    const { ino, mode } = status;
    if (status.isFile()) {
      const stream = handle.createReadStream({ end: bytesMax, autoClose: false });
      return { bytes: await collect(path, stream, bytesMax), mode };
    }
    if (!status.isFIFO() || !DESCRIPTOR.test(path)) {
      const kind = status.isDirectory() ? 'folder' : status.isFIFO() ? 'FIFO' : 'device';
      throw new Error(`${path} is a ${kind}; give a file`);
    }
    const known = pipes.get(path);
    if (known?.ino === ino) return { bytes: known.bytes, mode };
    // A read of a pipe would hold a thread until its writer writes. A socket closes its descriptor itself, so it gets a separate one.
    const socket = new Socket({ fd: openSync(path, READ), readable: true });
    const bytes = await collect(path, addAbortSignal(ending, socket), bytesMax);
    pipes.set(path, { ino, bytes });
    return { bytes, mode };
  } finally {
    await handle.close();
  }
}

async function collect(path: string, stream: Readable, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > bytesMax) throw new Error(`${path} has more than ${bytesMax} bytes, and no more are read`);
  }
  return Buffer.concat(chunks);
}

/**
 * Reads a file with a token, a password or the value of a header, without white space around it.
 * @param what the content of the file
 * @returns the content, and whether every user of the machine may read the file (mode bit `o+r`)
 * @throws the errors of `readText`, and Error if the file is not a single line of visible ASCII; the message does not contain the
 * text
 */
export async function readToken(
  path: string,
  { tokenBytesMax, fileReadMs }: Limits,
  what: 'token' | 'password' | 'value' = 'token',
  signal?: AbortSignal,
): Promise<{ token: string; exposed: boolean }> {
  const { text, mode } = await read(path, tokenBytesMax, fileReadMs, signal);
  const token = text.trim();
  if (!/^[\x21-\x7e][\x20-\x7e]*$/.test(token)) {
    throw new Error(`${path} does not contain one ${what}; write the ${what} alone, on one line of ASCII`);
  }
  // On Windows the mode says nothing about access: it is the same for every file.
  return { token, exposed: !platform.isWindows && (mode & READ_BY_OTHERS) !== 0 };
}

/**
 * Writes a new file that only its owner may read, and syncs it.
 * @throws the error of a system call, or `EEXIST` if the path exists; after a failure the new file is removed
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

/**
 * @returns a text that changes with the file; empty if there is no file
 * @throws LateFileError
 */
export function fileVersion(path: string, ms: number, signal?: AbortSignal): Promise<string> {
  const version = async () => {
    try {
      const { ino, size, mtime } = await stat(path);
      return `${ino}-${size}-${mtime.getTime()}`;
    } catch {
      return ''; // the reader of the file reports the error
    }
  };
  return fileQueue.run(path, ms, version, signal);
}

/**
 * Finds which users besides the owner and root may write to a file or a folder, by its mode. On Windows the mode does not show
 * this.
 * @param ownGroup the group of this process, which may write
 * @returns undefined if no other user may write, or on Windows
 * @throws the error of a system call
 */
export async function otherWriters(path: string, ownGroup = process.getgid?.()): Promise<OtherWriters | undefined> {
  if (platform.isWindows) return undefined;
  const { mode, gid } = await stat(path);
  if ((mode & WRITTEN_BY_OTHERS) !== 0) return { kind: 'every user' };
  const byGroup = (mode & WRITTEN_BY_GROUP) !== 0 && gid !== ROOT && gid !== ownGroup;
  return byGroup ? { kind: 'group', gid } : undefined;
}

export type OtherWriters = { readonly kind: 'every user' } | { readonly kind: 'group'; readonly gid: number };

/**
 * Opens a file or a pipe that is read completely.
 * @returns a stream, and the size of a regular file, or undefined for anything else
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

/** Without O_NONBLOCK, opening a FIFO waits for its writer. */
const READ = constants.O_RDONLY | constants.O_NONBLOCK;
const OWN = 0o600;
const READ_BY_OTHERS = 0o004;
const WRITTEN_BY_OTHERS = 0o002;
const WRITTEN_BY_GROUP = 0o020;
const ROOT = 0;
