/** Writes, copies and reads files of a journal, whole or in parts. */

import { type Disk, type ReadableDisk, unlessAbsent, writeWhole } from './disk.ts';
import { IrregularFileError } from './entry.ts';

/**
 * Copies the bytes of a file from `start` up to `end` into a new file, durably. After a failure the partial copy is removed.
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
 * Frees the name of a file that is about to be created again. A folder of that name, which no service created, is
 * renamed, since it cannot be removed like a file.
 * @throws the error of a system call, such as ENOENT
 */
export async function clearName(disk: Pick<Disk, 'remove' | 'rename'>, name: string): Promise<void> {
  await disk.remove(name).catch((error: NodeJS.ErrnoException) => {
    if (!FOLDER_CODES.test(error.code ?? '')) throw error;
    return disk.rename(name, `${name}.moved-${Date.now()}`);
  });
}

/** Errors of `unlink` for a folder: EPERM by POSIX, EISDIR on Linux. */
const FOLDER_CODES = /^(EISDIR|EPERM)$/;

/**
 * Gives a file the name of the file that it replaces, atomically unless a folder has that name.
 * @throws the error of a system call
 */
export async function renameOver(disk: Pick<Disk, 'remove' | 'rename'>, from: string, to: string): Promise<void> {
  await disk.rename(from, to).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EISDIR') throw error;
    await clearName(disk, to);
    await disk.rename(from, to);
  });
}

/**
 * Replaces a file, durably.
 * @throws the error of a system call; the folder then has either the old file or the new one
 */
export async function replaceDurably(
  disk: Disk,
  name: string,
  chunks: AsyncIterable<Buffer> | Iterable<Buffer>,
): Promise<void> {
  const next = `${name}.new`;
  await clearName(disk, next).catch(unlessAbsent(undefined)); // left by an interrupted write
  await writeFile(disk, next, chunks);
  await renameOver(disk, next, name);
  await disk.syncFolder();
}

/** Reads the bytes of a file from `start` up to `end`, or up to the end of the file. @throws the error of a system call */
export async function readBytes(disk: ReadableDisk, name: string, start: number, end: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of disk.read(name, start, end)) chunks.push(Buffer.from(chunk));
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
}

/**
 * Reads a small file.
 * @param bytesMax the most bytes to read
 * @returns undefined if there is no such file; a single zero byte, which no valid file contains, if the file is not
 * regular
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

/** @param onRead called after each chunk with the number of bytes so far */
export async function* counted(chunks: AsyncIterable<Buffer>, onRead: (bytes: number) => void): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of chunks) {
    yield chunk;
    bytes += chunk.length;
    onRead(bytes);
  }
}
