/**
 * The only `node:fs` on the write path, behind an interface that a faulty disk can implement. One `Disk` is one folder;
 * names are names in it. Every method rejects with the error of the system call, which carries its `code`.
 */

import { constants, createReadStream, fdatasync, statSync, write } from 'node:fs';
import {
  access,
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  stat,
  statfs,
  unlink,
} from 'node:fs/promises';
import { constants as osConstants } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { type Mount, mountOf } from './mount.ts';
import { entryPath, giveToOwner, heirOf, unlessImpossible } from './owner.ts';

export interface Disk {
  readonly folder: string;
  /** Creates the folder and its parents where they are missing, so that they survive a power cut. */
  prepare(): Promise<void>;
  /** Names of everything in the folder, in no order. */
  list(): Promise<string[]>;
  /** In bytes. */
  size(name: string): Promise<number>;
  /** The bytes from `start` up to but not including `end`, in chunks. */
  read(name: string, start?: number, end?: number): AsyncIterable<Buffer>;
  /**
   * Makes a new file, whose entry in the folder is durable when this resolves. Rejects with EEXIST where there is one, with
   * SyncError when the file was made and nobody knows whether it will be there after a power cut.
   */
  create(name: string): Promise<NewFile>;
  /** As `create`, for a file that will grow. */
  createLog(name: string): Promise<LogFile>;
  openLog(name: string): Promise<LogFile>;
  /** Makes a folder in the folder, durably. What is in it has names with a slash. */
  createFolder(name: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  remove(name: string): Promise<void>;
  /** Makes renamed and removed entries durable. */
  syncFolder(): Promise<void>;
  space(): Promise<Space>;
  /** The file system that the folder is on, where the system tells. */
  mount(): Promise<Mount | undefined>;
}

/** Of the file system. */
export interface Space {
  /** For a user who is not root. */
  readonly freeBytes: number;
  /** What this process can still write: root may use what a file system holds back for it. */
  readonly usableBytes: number;
  readonly totalBytes: number;
}

/** Whether space would help. */
export function isFull(error: NodeJS.ErrnoException): boolean {
  return error.code === 'ENOSPC' || isQuota(error);
}

/** @returns what a person is told of a failed system call */
export function describe(error: NodeJS.ErrnoException): string {
  return isQuota(error) ? `EDQUOT: the disk quota is used up, ${error.syscall}` : error.message;
}

/** Node has no name for it. */
function isQuota({ errno }: NodeJS.ErrnoException): boolean {
  return errno === -osConstants.errno.EDQUOT;
}

/** What was asked may have been done, and nobody knows whether it will be there after a power cut: never ask again. */
export class SyncError extends Error {}

/** A file that is written once, from its beginning to its end. */
export interface NewFile {
  readonly name: string;
  /** @returns how many bytes were written, which may be fewer than given */
  write(bytes: Buffer, position: number): Promise<number>;
  /** Bytes and length are on the disk when this resolves. After a rejection nobody can know: never ask again. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** A file that grows at its end, piece by piece. */
export interface LogFile {
  readonly name: string;
  /**
   * Writes at the file's end; bytes and length are on the disk when this resolves. Rejects with SyncError where the bytes were
   * written and not synced, with another error where nothing was written.
   * @param end how long the file is
   * @returns how many bytes were written, which may be fewer than given: those need not be on the disk
   */
  append(bytes: Buffer, end: number): Promise<number>;
  /** Cuts the file; what was cut off stays away when this resolves, even after a power cut. */
  truncate(bytes: number): Promise<void>;
  /**
   * Looks at what the file's name stands for now. Not asynchronous: it needs no disk, and costs less than the way there.
   * @returns its size, or undefined where it is not this file any more
   */
  sizeInFolder(): number | undefined;
  close(): Promise<void>;
}

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
const READ_CHUNK_BYTES = 256 * 1024;
/** For lines that follow each other in reverse. */
const READ_BACK_BYTES = 64 * 1024;

/**
 * @param path of the folder, which need not exist yet: see `prepare`
 * @param syncingWrites whether an append is one call, a write that returns when it is on the disk (`O_DSYNC`), instead of a
 *   write and `fdatasync`: a way through the thread pool less. Other systems than Linux have no such write, or one that stops short of the disk.
 */
export function openDisk(path: string, syncingWrites = process.platform === 'linux'): Disk {
  const folder = resolve(path);
  const logFlags = syncingWrites ? constants.O_WRONLY | constants.O_DSYNC : constants.O_WRONLY;

  return {
    folder,
    prepare: () => makeFolder(folder),
    list: () => readdir(folder),
    size: async (name) => (await stat(join(folder, name))).size,
    read: (name, start = 0, end = Number.POSITIVE_INFINITY) => readChunks(join(folder, name), start, end),
    create: async (name) => newFile(await createFile(folder, name, constants.O_WRONLY), name),
    createLog: async (name) => logFile(await createFile(folder, name, logFlags), folder, name, syncingWrites),
    openLog: async (name) => logFile(await open(join(folder, name), logFlags), folder, name, syncingWrites),
    createFolder: (name) => makeFolder(join(folder, name)),
    rename: (from, to) => rename(join(folder, from), join(folder, to)),
    remove: (name) => unlink(join(folder, name)),
    syncFolder: () => syncEntries(folder),
    space: async () => {
      const { bavail, bfree, blocks, bsize } = await statfs(folder);
      const usable = process.geteuid?.() === 0 ? bfree : bavail;
      return { freeBytes: bavail * bsize, usableBytes: usable * bsize, totalBytes: blocks * bsize };
    },
    mount: () => findMount(folder),
  };
}

/**
 * Copies the bytes of a file from `start` up to `end` into a new one, durably. What a failure leaves of it is removed.
 * @throws the error of a system call
 */
export async function copyFile(
  disk: Disk,
  from: string,
  to: string,
  start = 0,
  end = Number.POSITIVE_INFINITY,
): Promise<void> {
  await writeFile(disk, to, disk.read(from, start, end));
}

/** Reads parts of a file, mostly one after the other: it holds the last part it read, and reads ahead. */
export class FileWindow {
  readonly #disk: Disk;
  readonly #name: string;
  #start = 0;
  #bytes: Buffer = Buffer.alloc(0);

  constructor(disk: Disk, name: string) {
    this.#disk = disk;
    this.#name = name;
  }

  /** @returns the bytes from `start` up to `end`, fewer at the end of the file; they are not written over later */
  async read(start: number, end: number): Promise<Buffer> {
    if (start < this.#start || end > this.#start + this.#bytes.length) {
      this.#start = Math.max(0, start - READ_BACK_BYTES);
      const chunks: Buffer[] = [];
      const windowEnd = Math.max(end, this.#start + READ_CHUNK_BYTES);
      for await (const chunk of this.#disk.read(this.#name, this.#start, windowEnd)) chunks.push(chunk);
      this.#bytes = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
    }
    return this.#bytes.subarray(start - this.#start, end - this.#start);
  }

  /** The same in chunks. */
  async *chunks(start: number, end: number): AsyncGenerator<Buffer> {
    for (let at = start; at < end; at += READ_CHUNK_BYTES) yield this.read(at, Math.min(end, at + READ_CHUNK_BYTES));
  }
}

/** Writes a new file, durably. What a failure leaves of it is removed. @throws the error of a system call */
export async function writeFile(
  disk: Disk,
  name: string,
  chunks: AsyncIterable<Buffer> | Iterable<Buffer>,
): Promise<void> {
  const file = await disk.create(name);
  try {
    let position = 0;
    for await (const chunk of chunks) position += await writeWhole(file, chunk, position);
    await file.sync();
  } catch (error) {
    await disk.remove(name).catch(() => {}); // it failed already
    throw error;
  } finally {
    await file.close();
  }
}

/** A short write is asked again, which tells why it was short. */
async function writeWhole(file: NewFile, bytes: Buffer, position: number): Promise<number> {
  let written = 0;
  while (written < bytes.length) {
    const more = await file.write(bytes.subarray(written), position + written);
    if (more === 0) throw new Error(`the disk takes nothing more of ${file.name}`);
    written += more;
  }
  return written;
}

async function createFile(folder: string, name: string, flags: number): Promise<FileHandle> {
  const path = join(folder, name);
  // Before the file is made, so that too many open files are noticed while nothing is changed.
  const entries = await open(dirname(path), constants.O_RDONLY);
  try {
    const handle = await open(path, flags | constants.O_CREAT | constants.O_EXCL, FILE_MODE);
    await closingOnFailure(handle, () => giveToOwner(handle, entries)).catch(throwSyncError);
    await closingOnFailure(handle, () => entries.sync()).catch(throwSyncError);
    return handle;
  } finally {
    await entries.close();
  }
}

/** The file is there, and nobody knows whether it stays. */
function throwSyncError(error: Error): never {
  throw new SyncError(error.message, { cause: error });
}

function newFile(handle: FileHandle, name: string): NewFile {
  return {
    name,
    write: (bytes, position) => writeAt(handle, bytes, position),
    sync: () => syncData(handle),
    close: () => handle.close(),
  };
}

async function logFile(handle: FileHandle, folder: string, name: string, syncingWrites: boolean): Promise<LogFile> {
  const path = join(folder, name);
  const own = await closingOnFailure(handle, () => handle.stat({ bigint: true }));
  return {
    name,
    append: syncingWrites
      ? (bytes, end) => writeAt(handle, bytes, end).catch((error) => explain(handle, end, error))
      : (bytes, end) => writeThenSync(handle, bytes, end),
    truncate: async (bytes) => {
      await handle.truncate(bytes);
      await syncData(handle);
    },
    sizeInFolder: () => {
      const there = statSync(path, { bigint: true, throwIfNoEntry: false });
      return there?.ino === own.ino && there.dev === own.dev ? Number(there.size) : undefined;
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
  await syncData(handle).catch((error: Error) => {
    throw new SyncError(error.message, { cause: error });
  });
  return written;
}

/** Of a write that syncs, what failed: where the file grew, the bytes were written, and it was the sync. @throws which it was */
async function explain(handle: FileHandle, end: number, error: Error): Promise<never> {
  const size = await handle.stat().then(
    (stats) => stats.size,
    () => Number.POSITIVE_INFINITY, // nobody knows
  );
  throw size === end ? error : new SyncError(error.message, { cause: error });
}

async function* readChunks(path: string, start: number, end: number): AsyncIterable<Buffer> {
  if (start >= end) return;
  yield* createReadStream(path, { start, end: end - 1, highWaterMark: READ_CHUNK_BYTES });
}

/** Not mkdir's own `recursive`: under /proc that never returns, and it does not tell which parents it made. */
async function makeFolder(folder: string): Promise<void> {
  const parent = dirname(folder);
  try {
    await mkdir(folder, FOLDER_MODE);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') {
      // Whoever made it may have died before it was durable. That we may not open its parent is no reason not to start.
      await syncEntries(parent).catch(() => {});
      return;
    }
    if (code !== 'ENOENT' || (await exists(parent))) throw error;
    await makeFolder(parent);
    return makeFolder(folder);
  }
  await giveFolderToOwner(parent, folder);
  await syncEntries(parent); // the new folder is an entry of its parent
}

async function giveFolderToOwner(parent: string, folder: string): Promise<void> {
  const entries = await open(parent, constants.O_RDONLY);
  try {
    if (heirOf(await entries.stat()) === undefined) return;
    // A link that the parent's owner put in its place would lead elsewhere.
    const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
    const made = await open(entryPath(parent, entries.fd, basename(folder)), flags);
    await giveToOwner(made, entries).finally(() => made.close());
  } catch (error) {
    unlessImpossible(error as NodeJS.ErrnoException);
  } finally {
    await entries.close();
  }
}

async function findMount(folder: string): Promise<Mount | undefined> {
  if (process.platform !== 'linux') return undefined;
  try {
    return mountOf(await readFile('/proc/self/mountinfo', 'utf8'), await realpath(folder));
  } catch {
    return undefined; // a container may hide /proc; it is for a warning only
  }
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function syncEntries(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY);
  await closingOnFailure(handle, () => handle.sync());
  await handle.close();
}

async function closingOnFailure<Value>(handle: FileHandle, act: () => Promise<Value>): Promise<Value> {
  try {
    return await act();
  } catch (error) {
    await handle.close();
    throw error;
  }
}
