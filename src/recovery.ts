/**
 * What a start finds in the journal's folder, and what it does about it. Only the last file is read: those before it were
 * complete when they were closed.
 *
 * | where in the last file          | newline | crc, seq | decision                                                     |
 * |---------------------------------|---------|----------|--------------------------------------------------------------|
 * | anywhere                        | yes     | good     | keep                                                         |
 * | its end                         | no      | –        | torn: keep the bytes aside, cut, say so, start               |
 * | its end                         | yes     | bad      | a torn write that reached a newline: the same                |
 * | a bad line with lines after it  | –       | bad      | refuse to start: somebody changed what was once acknowledged |
 * | the file is empty               | –       | –        | a rotation died after it made the file: use it               |
 */

import { limits } from './config.ts';
import type { Disk, DiskFile } from './disk.ts';
import { checkLine, isLine, type Place, segmentFirstSeq, segmentName } from './event.ts';
import type { Notices } from './notice.ts';

/** The journal holds something that no crash explains. The message says file, line, byte and what to do. */
export class DamagedError extends Error {}

/** The segment that the next batch is appended to. */
export interface Segment {
  readonly file: DiskFile;
  readonly bytes: number;
  readonly place: Place;
}

/** What is good in a file, and what follows it. */
export interface Scan {
  /** Bytes and lines up to the first bad one. */
  readonly bytes: number;
  readonly lines: number;
  readonly place: Place;
  readonly rest: { readonly kind: 'nothing' } | { readonly kind: 'torn' | 'damaged'; readonly problem: string };
}

/**
 * Finds where to go on, makes it safe to do so, and opens the file for it. The folder is locked.
 * @throws DamagedError, or the error of a system call
 */
export async function recover(disk: Disk, notices: Notices): Promise<Segment> {
  const names = await disk.list();
  const stoppedCleanly = names.includes(CLEAN_STOP);
  const firstSeqs = names.map(segmentFirstSeq).filter((seq) => seq !== undefined);
  const lastSeq = firstSeqs.length === 0 ? undefined : Math.max(...firstSeqs);
  if (lastSeq === undefined) {
    if (stoppedCleanly) await forgetCleanStop(disk);
    const file = await disk.create(segmentName(1));
    await disk.syncFolder();
    return { file, bytes: 0, place: { seq: 1, crc: 0 } };
  }

  const name = segmentName(lastSeq);
  const scan = await scanSegment(disk.read(name), { seq: lastSeq, crc: 0 });
  if (scan.rest.kind === 'damaged') throw new DamagedError(damage(disk.folder, name, scan, scan.rest.problem));
  if (scan.rest.kind === 'torn') {
    const aside = await keepAside(disk, names, name, scan.bytes);
    notices.warn('a torn end was cut off the journal; it was never acknowledged', {
      file: name,
      line: scan.lines + 1,
      byte: scan.bytes,
      problem: scan.rest.problem,
      kept: aside,
    });
  }
  // After any other stop the page cache may hold what the disk does not: a sync may have failed before the end.
  if (scan.rest.kind === 'torn' || !stoppedCleanly) await rewrite(disk, name, scan.bytes);
  if (stoppedCleanly) await forgetCleanStop(disk);
  return { file: await disk.open(name), bytes: scan.bytes, place: scan.place };
}

/** Tells the next start that everything in the folder was synced. Last thing before the lock is released. */
export async function rememberCleanStop(disk: Disk): Promise<void> {
  const file = await disk.create(CLEAN_STOP);
  await file.close();
  await disk.syncFolder();
}

/** Checks every line of one file. @param place what its first line must have */
export async function scanSegment(chunks: AsyncIterable<Buffer>, place: Place): Promise<Scan> {
  let good = { bytes: 0, lines: 0, place };
  let problem: string | undefined;
  let carried: Buffer[] = []; // the beginning of a line whose end is in a later chunk
  let carriedBytes = 0;
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, from)) {
      const tail = chunk.subarray(from, end);
      const line = carried.length === 0 ? tail : Buffer.concat([...carried, tail]);
      carried = [];
      carriedBytes = 0;
      from = end + 1;
      if (problem !== undefined) {
        if (isLine(line)) return { ...good, rest: { kind: 'damaged', problem } };
        continue;
      }
      const next = checkLine(line, good.place);
      if (typeof next === 'string') problem = next;
      else good = { bytes: good.bytes + line.length + 1, lines: good.lines + 1, place: next };
    }
    if (from < chunk.length) carried.push(chunk.subarray(from));
    carriedBytes += chunk.length - from;
    if (carriedBytes > limits.lineBytesMax) {
      // No line of ours: its beginning need not be kept until its end shows up.
      problem ??= `it is longer than ${limits.lineBytesMax} bytes`;
      carried = [];
      carriedBytes = 0;
    }
  }
  if (carried.length > 0) problem ??= 'it ends without a newline';
  return { ...good, rest: problem === undefined ? { kind: 'nothing' } : { kind: 'torn', problem } };
}

const LINE_FEED = 0x0a;
const CLEAN_STOP = '.stopped-cleanly';

async function forgetCleanStop(disk: Disk): Promise<void> {
  await disk.remove(CLEAN_STOP);
  await disk.syncFolder();
}

/** Copies what is about to be cut off to a file beside the journal, durably. @returns the file's name */
async function keepAside(disk: Disk, names: readonly string[], name: string, start: number): Promise<string> {
  let aside = `${name}.torn`;
  for (let number = 2; names.includes(aside); number += 1) aside = `${name}.torn-${number}`;
  await copy(disk, name, aside, start, Number.POSITIVE_INFINITY);
  await disk.syncFolder();
  return aside;
}

/** Replaces a file by a copy of its first bytes that is known to be on the disk. */
async function rewrite(disk: Disk, name: string, bytes: number): Promise<void> {
  const fresh = `${name}.rewrite`;
  await disk.remove(fresh).catch(unlessAbsent); // a rewrite that was interrupted
  await copy(disk, name, fresh, 0, bytes);
  await disk.rename(fresh, name);
  await disk.syncFolder();
}

async function copy(disk: Disk, from: string, to: string, start: number, end: number): Promise<void> {
  const file = await disk.create(to);
  try {
    let position = 0;
    for await (const chunk of disk.read(from, start, end)) {
      await writeWhole(file, chunk, position);
      position += chunk.length;
    }
    await file.sync();
  } finally {
    await file.close();
  }
}

async function writeWhole(file: DiskFile, bytes: Buffer, position: number): Promise<void> {
  const written = await file.write(bytes, position);
  if (written < bytes.length)
    throw new Error(`only ${written} of ${bytes.length} bytes could be written to ${file.name}`);
}

function unlessAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}

function damage(folder: string, name: string, scan: Scan, problem: string): string {
  return (
    `the journal is damaged: ${folder}/${name}, line ${scan.lines + 1}, byte ${scan.bytes}: ${problem}, and lines follow it; ` +
    'nothing was changed. Restore the file from a copy, or move it out of the folder to begin after the file before it'
  );
}
