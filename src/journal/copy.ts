/** Copies the bytes of an open file into another one. */

import { constants } from 'node:fs';
import { copyFile, type FileHandle } from 'node:fs/promises';
import type { Platform } from '../config/platform.ts';
import { FILE_MODE } from './entry.ts';
import { entryPath } from './open/owner.ts';

const CHUNK_BYTES = 256 * 1024;

/**
 * Copies a file into a new, empty one. The copy shares the blocks of the file if the file system can do that.
 * @param from the path of `source`
 * @param to the path of `copy`
 * @throws the error of a system call; the copy can then contain any part of the bytes
 */
export async function copyBytes(
  source: FileHandle,
  from: string,
  copy: FileHandle,
  to: string,
  { isWindows }: Platform,
): Promise<void> {
  if (isWindows) return copyByReading(source, copy); // CopyFileW might fail for a file that is open
  await copyFile(entryPath(from, source.fd), entryPath(to, copy.fd), constants.COPYFILE_FICLONE);
  await copy.chmod(FILE_MODE); // `copyFile` copied the mode of the source
}

async function copyByReading(source: FileHandle, copy: FileHandle): Promise<void> {
  const memory = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  for (;;) {
    const { bytesRead } = await source.read(memory, 0, CHUNK_BYTES);
    if (bytesRead === 0) return;
    await copy.writeFile(memory.subarray(0, bytesRead)); // at the current position
  }
}
