/**
 * The only `node:fs` on the write path, behind an interface that a faulty disk can implement. One `Disk` is one folder;
 * names are names in it. Every method rejects with the error of the system call, which carries its `code`.
 */

import { constants, createReadStream, fdatasync, statSync, write } from 'node:fs';
import { access, type FileHandle, mkdir, open, readdir, rename, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

export interface Disk {
  readonly folder: string;
  /** Creates the folder and its parents where they are missing, so that they survive a power cut. */
  prepare(): Promise<void>;
  list(): Promise<string[]>;
  /** The bytes from `start` up to but not including `end`, in chunks. */
  read(name: string, start?: number, end?: number): AsyncIterable<Buffer>;
  /** Makes a new file. Rejects with EEXIST where there is one. */
  create(name: string): Promise<DiskFile>;
  open(name: string): Promise<DiskFile>;
  rename(from: string, to: string): Promise<void>;
  remove(name: string): Promise<void>;
  /** Makes created, renamed and removed entries durable. */
  syncFolder(): Promise<void>;
}

export interface DiskFile {
  readonly name: string;
  /** @returns how many bytes were written, which may be fewer than given */
  write(bytes: Buffer, position: number): Promise<number>;
  truncate(bytes: number): Promise<void>;
  /** Bytes and length are on the disk when this resolves. After a rejection nobody can know: never ask again. */
  sync(): Promise<void>;
  /**
   * Looks at what the file's name stands for now. Not asynchronous: it needs no disk, and costs less than the way there.
   * @returns its size, or undefined where it is not this file any more
   */
  sizeInFolder(): number | undefined;
  close(): Promise<void>;
}

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
const READ_CHUNK_BYTES = 1024 * 1024;

/** @param path of the folder, which need not exist yet: see `prepare` */
export function openDisk(path: string): Disk {
  const folder = resolve(path);
  return {
    folder,
    prepare: () => makeFolder(folder),
    list: () => readdir(folder),
    read: (name, start = 0, end = Number.POSITIVE_INFINITY) => readChunks(join(folder, name), start, end),
    create: (name) => openFile(folder, name, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL),
    open: (name) => openFile(folder, name, constants.O_WRONLY),
    rename: (from, to) => rename(join(folder, from), join(folder, to)),
    remove: (name) => unlink(join(folder, name)),
    syncFolder: () => syncEntries(folder),
  };
}

async function openFile(folder: string, name: string, flags: number): Promise<DiskFile> {
  const path = join(folder, name);
  const handle = await open(path, flags, FILE_MODE);
  const own = await closingOnFailure(handle, () => handle.stat({ bigint: true }));
  return {
    name,
    write: (bytes, position) =>
      new Promise((resolve, reject) => {
        write(handle.fd, bytes, 0, bytes.length, position, (error, written) =>
          error ? reject(error) : resolve(written),
        );
      }),
    truncate: (bytes) => handle.truncate(bytes),
    sync: () =>
      new Promise((resolve, reject) => {
        fdatasync(handle.fd, (error) => (error ? reject(error) : resolve()));
      }),
    sizeInFolder: () => {
      const there = statSync(path, { bigint: true, throwIfNoEntry: false });
      return there?.ino === own.ino && there.dev === own.dev ? Number(there.size) : undefined;
    },
    close: () => handle.close(),
  };
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
    if (code === 'EEXIST') return;
    if (code !== 'ENOENT' || (await exists(parent))) throw error;
    await makeFolder(parent);
    return makeFolder(folder);
  }
  await syncEntries(parent); // the new folder is an entry of its parent
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
