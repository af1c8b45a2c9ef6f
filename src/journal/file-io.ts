/** Writes, copies and reads files of a journal, whole or in parts, by the calls of a `Disk`. */

import {
  type Disk,
  IrregularFileError,
  READ_CHUNK_BYTES,
  type ReadableDisk,
  unlessAbsent,
  writeWhole,
} from './disk.ts';

/**
 * Copies the bytes of a file from `start` up to `end` into a new one, durably. After a failure the partial copy is removed.
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

/** Reads parts of a file, mostly in sequence: it caches the last part that it read, and reads ahead. */
export class FileWindow {
  readonly #disk: Disk;
  readonly #name: string;
  #start = 0;
  #bytes: Buffer = Buffer.alloc(0);

  constructor(disk: Disk, name: string) {
    this.#disk = disk;
    this.#name = name;
  }

  /**
   * @returns the bytes from `start` up to `end`, fewer at the end of the file. Later reads do not overwrite them
   * @throws the error of a system call
   */
  async read(start: number, end: number): Promise<Buffer> {
    if (start < this.#start || end > this.#start + this.#bytes.length) {
      this.#start = Math.max(0, start - READ_BACK_BYTES);
      const windowEnd = Math.max(end, this.#start + READ_CHUNK_BYTES);
      this.#bytes = await readBytes(this.#disk, this.#name, this.#start, windowEnd);
    }
    return this.#bytes.subarray(start - this.#start, end - this.#start);
  }

  /** Like `read`, in chunks of at most 256 KiB. */
  async *chunks(start: number, end: number): AsyncGenerator<Buffer> {
    for (let at = start; at < end; at += READ_CHUNK_BYTES) yield this.read(at, Math.min(end, at + READ_CHUNK_BYTES));
  }
}

/** Writes a new file, durably. After a failure the partial file is removed. @throws the error of a system call, such as EEXIST */
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
    await disk.remove(name).catch(() => {}); // the first error is reported
    throw error;
  } finally {
    await file.close();
  }
}

/**
 * Replaces a file, durably.
 * @throws the error of a system call, after which the old file is there, or the new one
 */
export async function replaceDurably(
  disk: Disk,
  name: string,
  chunks: AsyncIterable<Buffer> | Iterable<Buffer>,
): Promise<void> {
  const next = `${name}.new`;
  await disk.remove(next).catch(unlessAbsent(undefined)); // of a write that was interrupted
  await writeFile(disk, next, chunks);
  await disk.rename(next, name);
  await disk.syncFolder();
}

/** Reads the bytes of a file from `start` up to `end`, fewer at the end of the file. @throws the error of a system call */
export async function readBytes(disk: ReadableDisk, name: string, start: number, end: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of disk.read(name, start, end)) chunks.push(Buffer.from(chunk));
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
}

/**
 * Reads a small file.
 * @param bytesMax how much of it is read at most
 * @returns undefined if there is no such file; a byte that is in no valid file if it is not a regular file
 * @throws the error of a system call
 */
export async function readSmall(disk: ReadableDisk, name: string, bytesMax: number): Promise<Buffer | undefined> {
  try {
    return await readBytes(disk, name, 0, bytesMax);
  } catch (error) {
    if (error instanceof IrregularFileError) return Buffer.alloc(1);
    return unlessAbsent(undefined)(error as NodeJS.ErrnoException);
  }
}

/** @param onRead called with the number of bytes so far, after each chunk */
export async function* counted(chunks: AsyncIterable<Buffer>, onRead: (bytes: number) => void): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of chunks) {
    yield chunk;
    bytes += chunk.length;
    onRead(bytes);
  }
}

/** How much a `FileWindow` reads before the requested start, for a caller that reads lines in reverse order. */
const READ_BACK_BYTES = 64 * 1024;
