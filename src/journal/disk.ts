/**
 * The only use of `node:fs` on the write path. Tests implement the same interface to inject faults. A `Disk` is one folder, and
 * names are relative to it. Every method rejects with the error of the system call, which has a `code`; with IrregularFileError,
 * since reading a FIFO or a device might never end; or with LinkError, since root would otherwise read or write the target of
 * any link that an attacker puts into the folder of another user.
 */

import { constants, fdatasync, lstatSync, write } from 'node:fs';
import { access, type FileHandle, mkdir, readdir, statfs } from 'node:fs/promises';
import { constants as osConstants } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { type OtherWriters, otherWriters } from '../config/files.ts';
import { type Platform, platform } from '../config/platform.ts';
import { copyBytes } from './copy.ts';
import {
  basePath,
  closeOnFailure,
  fileSizeOf,
  isSameFile,
  listWithoutLinks,
  makeFile,
  openFolder,
  openRegular,
  removeFile,
  removeGone,
  renameFile,
  syncEntries,
} from './entry.ts';
import { findMount, type Mount } from './open/mount.ts';
import { entryPath, giveToOwner, heirIn, unlessImpossible } from './open/owner.ts';
import { type Space, spaceOf, unlessUnsupported } from './space.ts';

/** The file system of one folder: `openDisk` opens the real one, and tests pass simulated ones. */
export interface Disk {
  /** The absolute path. */
  readonly folder: string;
  /** Creates the folder and its missing parents, durably. */
  prepare(): Promise<void>;
  /**
   * Names of all entries of the folder, in no particular order.
   * @param refusesLinks rejects with LinkError if any file of a journal is a link, even if the caller does not open it
   */
  list(refusesLinks?: boolean): Promise<string[]>;
  /** Size of a file in bytes. Rejects with ENOENT if the file is missing. */
  size(name: string): Promise<number>;
  /**
   * The bytes from `start` (0) up to but not including `end` (the end of the file), in chunks. All chunks share the same memory:
   * a chunk is valid until the next is requested. V8 would otherwise collect 30 MiB of chunks.
   */
  read(name: string, start?: number, end?: number, options?: ReadOptions): AsyncIterable<Buffer>;
  /**
   * Creates a file, whose directory entry is durable when this resolves. Rejects with EEXIST if the file exists, and with
   * SyncError if the file was created but might be lost in a power cut.
   */
  create(name: string): Promise<NewFile>;
  /** Like `create`, for a file that is appended to. */
  createLog(name: string): Promise<LogFile>;
  /** Opens a file to append to it. Rejects with ENOENT if the file is missing. */
  openLog(name: string): Promise<LogFile>;
  /**
   * Opens a file that is written in place, and creates it if it is missing. Its directory entry and its content are durable when
   * this resolves, unless an earlier sync has failed.
   */
  openSlots(name: string): Promise<SlotFile>;
  /**
   * Copies a file of another folder into a new file, which shares its blocks if the file system can do that. The copy is not
   * durable and not a snapshot: it can contain any part of concurrent writes. Rejects with EEXIST if the new file exists.
   */
  copyFrom(source: Pick<Disk, 'folder' | 'read'>, name: string, to: string): Promise<void>;
  /**
   * Replaces a small file atomically for readers: they see the old file or the new one. There is no sync, so the new
   * file is not durable.
   */
  replace(name: string, bytes: Buffer): Promise<void>;
  /** Creates a subfolder, durably. Names of its entries contain a slash. */
  createFolder(name: string): Promise<void>;
  /** Replaces an existing file atomically. Durable only after `syncFolder`. */
  rename(from: string, to: string): Promise<void>;
  /** Durable only after `syncFolder`. Rejects with ENOENT if there is no such file. */
  remove(name: string): Promise<void>;
  /** Makes renames and removals durable, with an fsync of the folder. */
  syncFolder(): Promise<void>;
  /** Asks the file system at each call. Undefined if it reports no size. */
  space(): Promise<Space | undefined>;
  /** The file system that the folder is on; undefined if the operating system does not report it. */
  mount(): Promise<Mount | undefined>;
  /** The users besides the owner and root who may write to the folder; undefined if there are none. */
  otherWriters(): Promise<OtherWriters | undefined>;
}

export interface ReadOptions {
  readonly chunkBytes?: number;
  /** Closes the file at once; reading the next chunk then throws. */
  readonly signal?: AbortSignal | undefined;
}

/** The part of a `Disk` that readers use. */
export type ReadableDisk = Pick<Disk, 'folder' | 'list' | 'size' | 'read'>;

/** Whether the disk is full (ENOSPC) or the quota is exhausted (EDQUOT), so that a retry succeeds once space is free. */
export function isFull(error: NodeJS.ErrnoException): boolean {
  return error.code === 'ENOSPC' || isQuota(error);
}

/**
 * Whether closing files would make a retry succeed: the limit of the process (EMFILE) or of the system (ENFILE) is reached. The failed
 * call changed nothing.
 */
export function lacksDescriptors({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EMFILE' || code === 'ENFILE';
}

/** Whether the path of the failed system call does not exist. The error is ENOTDIR if a part of the path is a file. */
export function isMissingPath({ code }: NodeJS.ErrnoException): boolean {
  return code === 'ENOENT' || code === 'ENOTDIR';
}

/**
 * For a file that another process might have removed: `await disk.size(name).catch(unlessAbsent(0))`.
 * @returns an error handler that returns the value if the file does not exist (ENOENT), and throws any other error
 */
export function unlessAbsent<Value>(value: Value): (error: NodeJS.ErrnoException) => Value {
  return (error) => {
    if (error.code !== 'ENOENT') throw error;
    return value;
  };
}

/** @returns the error's own message for operators, or a message for EDQUOT, for which Node has none */
export function describe(error: NodeJS.ErrnoException): string {
  return isQuota(error) ? `EDQUOT: the disk quota is used up, ${error.syscall}` : error.message;
}

/** Node has no error code for EDQUOT. */
function isQuota({ errno }: NodeJS.ErrnoException): boolean {
  return errno === -osConstants.errno.EDQUOT;
}

/**
 * A sync failed: the data might be lost in a power cut. Never retry: a later sync can succeed without the data. `message` is from
 * the system call.
 */
export class SyncError extends Error {
  constructor(cause: Error) {
    super(cause.message, { cause });
  }
}

/** A file that is written once, from start to end. */
export interface NewFile {
  /** Relative to the folder of the disk. */
  readonly name: string;
  /**
   * @param position in bytes from the start of the file
   * @returns the number of written bytes, which can be fewer than given
   */
  write(bytes: Buffer, position: number): Promise<number>;
  /** Bytes and length are on stable storage when this resolves. After a rejection this is unknown: never retry. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** A file that is appended to. */
export interface LogFile {
  /** Relative to the folder of the disk. */
  readonly name: string;
  /**
   * Writes at the file's end; bytes and length are on stable storage when this resolves. Rejects with SyncError if the bytes were
   * written but not synced, and with another error if nothing was written.
   * @param end length of the file in bytes
   * @returns the number of written bytes. After a short write they might not be on stable storage
   */
  append(bytes: Buffer, end: number): Promise<number>;
  /** Truncates the file to a length in bytes, durably: after this resolves a power cut cannot bring the removed bytes back. */
  truncate(bytes: number): Promise<void>;
  /**
   * Looks up the file by its name. Synchronous, since it does not access the disk and is cheaper than a call in the thread pool.
   * @returns its size in bytes, or undefined if the name no longer refers to this file
   */
  sizeInFolder(): number | undefined;
  close(): Promise<void>;
}

/** A small file whose parts are overwritten in place, so that it needs no more space. */
export interface SlotFile {
  /**
   * Durable when this resolves. After a rejection the content of these bytes is unknown, and all other bytes are unchanged.
   * Writing them again is safe, since nothing relies on a failed sync.
   * @param position in bytes from the start of the file
   */
  write(bytes: Buffer, position: number): Promise<void>;
  /** Like `write`, without a sync: other processes find the bytes at once, and a power cut leaves any part of them. */
  writeUnsynced(bytes: Buffer, position: number): Promise<void>;
  close(): Promise<void>;
}

const FOLDER_MODE = 0o700;
/** Size of the chunks of `Disk.read`. */
export const READ_CHUNK_BYTES = 256 * 1024;

/**
 * Opens nothing yet.
 * @param path the folder, which can be missing: see `prepare`
 * @param system on Linux an append is one `O_DSYNC` write instead of a write and `fdatasync`, which saves one call in the thread
 *   pool. On other systems `O_DSYNC` is missing, or does not reach stable storage
 * @param readBytes size of the chunks of `read`: smaller for a program that reads many journals at a time
 */
export function openDisk(path: string, system: Platform = platform, readBytes: number = READ_CHUNK_BYTES): Disk {
  const folder = resolve(path);
  const logFlags = system.isLinux ? constants.O_WRONLY | constants.O_DSYNC : constants.O_WRONLY;

  return {
    folder,
    prepare: async () => {
      await makeFolder(folder, system);
      if (system.isWindows) await removeGone(folder);
    },
    list: (refusesLinks = false) => (refusesLinks ? listWithoutLinks(folder) : readdir(folder)),
    size: (name) => fileSizeOf(join(folder, name)),
    read: (name, start = 0, end = Number.POSITIVE_INFINITY, options = {}) =>
      readChunks(join(folder, name), start, end, { chunkBytes: readBytes, ...options }),
    create: async (name) => newFile(await createFile(folder, name, constants.O_WRONLY, system), name),
    createLog: async (name) => logFile(await createFile(folder, name, logFlags, system), folder, name, system),
    openLog: async (name) => logFile(await openRegular(join(folder, name), logFlags), folder, name, system),
    openSlots: async (name) => slotFile(await openOrCreate(folder, name, system), name),
    copyFrom: (source, name, to) => copyInto(folder, to, join(source.folder, name), system),
    replace: (name, bytes) => replaceFile(folder, name, bytes, system),
    createFolder: (name) => makeFolder(join(folder, name), system),
    rename: (from, to) => renameFile(join(folder, from), join(folder, to), system),
    remove: (name) => removeFile(join(folder, name), system),
    syncFolder: () => syncFolder(folder, system),
    space: () => statfs(folder).then(spaceOf, unlessUnsupported),
    mount: () => findMount(folder, system),
    otherWriters: () => otherWriters(folder),
  };
}

/** Writes all bytes. After a short write it writes the rest, so that the system reports why the write was short. */
export async function writeWhole(file: NewFile, bytes: Buffer, position: number): Promise<number> {
  let written = 0;
  while (written < bytes.length) {
    const more = await file.write(bytes.subarray(written), position + written);
    if (more === 0) throw new Error(`the disk accepts no more bytes of ${file.name}`);
    written += more;
  }
  return written;
}

async function createFile(folder: string, name: string, flags: number, system: Platform): Promise<FileHandle> {
  const path = join(folder, name);
  // Opened before the file is created, so that EMFILE changes nothing.
  const entries = await openFolder(dirname(path), name.includes('/') ? constants.O_NOFOLLOW : 0);
  try {
    const handle = await makeFile(join(await basePath(dirname(path), entries), basename(path)), flags, path);
    await closeOnFailure(handle, () => giveToOwner(handle, entries)).catch(throwSyncError);
    await closeOnFailure(handle, () => syncEntries(entries, system)).catch(throwSyncError);
    return handle;
  } finally {
    await entries.close();
  }
}

async function replaceFile(folder: string, name: string, bytes: Buffer, system: Platform): Promise<void> {
  const entries = await openFolder(folder);
  try {
    const path = join(await basePath(folder, entries), name);
    await removeFile(`${path}.new`, system).catch(unlessAbsent(undefined)); // left by a crash, or created by another user
    const handle = await makeFile(`${path}.new`, constants.O_WRONLY, join(folder, `${name}.new`));
    try {
      await giveToOwner(handle, entries);
      await handle.writeFile(bytes);
    } finally {
      await handle.close();
    }
    await renameFile(`${path}.new`, path, system);
  } finally {
    await entries.close();
  }
}

async function copyInto(folder: string, name: string, from: string, system: Platform): Promise<void> {
  const source = await openRegular(from, constants.O_RDONLY);
  try {
    const copy = await createFile(folder, name, constants.O_WRONLY, system);
    try {
      await copyBytes(source, from, copy, join(folder, name), system);
    } catch (error) {
      await removeFile(join(folder, name), system).catch(() => {}); // the first error is reported
      throw error;
    } finally {
      await copy.close();
    }
  } finally {
    await source.close();
  }
}

function throwSyncError(error: Error): never {
  throw new SyncError(error);
}

async function openOrCreate(folder: string, name: string, system: Platform): Promise<FileHandle> {
  try {
    const handle = await openRegular(join(folder, name), constants.O_WRONLY);
    // The process that created the file, or wrote to it, might have died before its sync.
    await closeOnFailure(handle, async () => {
      await syncFolder(folder, system);
      await syncData(handle);
    });
    return handle;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return createFile(folder, name, constants.O_WRONLY, system);
  }
}

function slotFile(handle: FileHandle, name: string): SlotFile {
  const file = newFile(handle, name);
  const writeUnsynced = async (bytes: Buffer, position: number) => {
    await writeWhole(file, bytes, position);
  };
  return {
    write: async (bytes, position) => {
      await writeUnsynced(bytes, position);
      await file.sync();
    },
    writeUnsynced,
    close: file.close,
  };
}

function newFile(handle: FileHandle, name: string): NewFile {
  return {
    name,
    write: (bytes, position) => writeAt(handle, bytes, position),
    sync: () => syncData(handle),
    close: () => handle.close(),
  };
}

async function logFile(handle: FileHandle, folder: string, name: string, system: Platform): Promise<LogFile> {
  const path = join(folder, name);
  const own = await closeOnFailure(handle, () => handle.stat({ bigint: true }));
  return {
    name,
    append: system.isLinux
      ? (bytes, end) => writeAt(handle, bytes, end).catch((error) => throwClassified(handle, end, error))
      : (bytes, end) => writeThenSync(handle, bytes, end),
    truncate: async (bytes) => {
      await handle.truncate(bytes);
      await syncData(handle);
    },
    sizeInFolder: () => {
      const current = lstatSync(path, { bigint: true, throwIfNoEntry: false });
      return current !== undefined && isSameFile(current, own, system) ? Number(current.size) : undefined;
    },
    close: () => handle.close(),
  };
}

function writeAt({ fd }: FileHandle, bytes: Buffer, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, 0, bytes.length, position, (error, written) => (error ? reject(error) : resolve(written)));
  });
}

function syncData({ fd }: FileHandle): Promise<void> {
  return new Promise((resolve, reject) => {
    fdatasync(fd, (error) => (error ? reject(error) : resolve()));
  });
}

async function writeThenSync(handle: FileHandle, bytes: Buffer, end: number): Promise<number> {
  const written = await writeAt(handle, bytes, end);
  await syncData(handle).catch(throwSyncError);
  return written;
}

/** Distinguishes a failed write from a failed sync after `O_DSYNC`: if the file grew, the sync failed. @throws `error`, or SyncError */
async function throwClassified(handle: FileHandle, end: number, error: Error): Promise<never> {
  const size = await handle.stat().then(
    (stats) => stats.size,
    () => Number.POSITIVE_INFINITY, // unknown, so treated as a failed sync
  );
  throw size === end ? error : new SyncError(error);
}

async function* readChunks(
  path: string,
  start: number,
  end: number,
  { chunkBytes, signal }: ReadOptions & { chunkBytes: number },
): AsyncIterable<Buffer> {
  if (start >= end) return;
  const handle = await openRegular(path, constants.O_RDONLY);
  const close = () => handle.close();
  signal?.addEventListener('abort', close);
  try {
    const memory = Buffer.allocUnsafeSlow(Math.min(chunkBytes, end - start));
    for (let at = start; at < end; ) {
      const { bytesRead } = await handle.read(memory.subarray(0, end - at), { position: at });
      if (bytesRead === 0) return;
      yield memory.subarray(0, bytesRead);
      at += bytesRead;
    }
  } finally {
    signal?.removeEventListener('abort', close);
    await close();
  }
}

/** Does not use mkdir's `recursive`, which never returns under /proc and does not report all parents that it created. */
async function makeFolder(folder: string, system: Platform): Promise<void> {
  const parent = dirname(folder);
  try {
    await mkdir(folder, FOLDER_MODE);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') {
      // The process that created it might have died before the entry was durable. An unreadable parent is ignored.
      await syncFolder(parent, system).catch(() => {});
      return;
    }
    if (code !== 'ENOENT' || (await exists(parent))) throw error;
    await makeFolder(parent, system);
    return makeFolder(folder, system);
  }
  await giveFolderToOwner(parent, folder);
  await syncFolder(parent, system); // the new folder is an entry of its parent
}

async function giveFolderToOwner(parent: string, folder: string): Promise<void> {
  const entries = await openFolder(parent);
  try {
    if ((await heirIn(entries)) === undefined) return;
    // O_NOFOLLOW: the parent's owner could replace the folder by a symbolic link to another folder.
    const made = await openFolder(join(entryPath(parent, entries.fd), basename(folder)), constants.O_NOFOLLOW);
    await giveToOwner(made, entries).finally(() => made.close());
  } catch (error) {
    unlessImpossible(error as NodeJS.ErrnoException);
  } finally {
    await entries.close();
  }
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function syncFolder(folder: string, system: Platform): Promise<void> {
  if (system.isWindows) return; // see `syncEntries`
  const handle = await openFolder(folder);
  await closeOnFailure(handle, () => handle.sync());
  await handle.close();
}
