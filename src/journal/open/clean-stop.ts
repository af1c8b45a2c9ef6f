/**
 * The marker of a clean stop: everything in the folder was synced, and the journal ended as the marker says. A start and
 * `verify` compare the journal with it: nothing else shows that the last file was truncated at a line end, or deleted.
 *
 * An empty marker is a clean stop with an unknown end of the journal: version 0.1.0 wrote empty markers, a full disk has no block
 * for the content, and a power cut may occur between the directory entry and the content. It is still correct, since all lines
 * were synced before. A marker with incomplete or other content counts as no clean stop.
 */

import { crc32 } from 'node:zlib';
import { type Disk, isFull, type ReadableDisk } from '../disk.ts';
import { readSmall } from '../file-io.ts';
import { type ChainPosition, hex } from '../line/record.ts';
import { segmentFirstSeq } from '../segments.ts';

/** Name of the marker file. */
export const CLEAN_STOP = '.stopped-cleanly';

/** How the journal ended at the stop. */
export interface StopEnd {
  /** The last file and its length. */
  readonly file: string;
  readonly bytes: number;
  /** The seq of the next line, and the crc of the last line of that file: 0 if it has none. */
  readonly chain: ChainPosition;
}

/**
 * Marks the stop as clean: everything in the folder is synced. The last step before the lock is released. If the disk is full,
 * the marker stays empty.
 * @throws the error of a system call, such as EEXIST if there is a marker
 */
export async function rememberCleanStop(disk: Disk, end: StopEnd): Promise<void> {
  const marker = await disk.create(CLEAN_STOP);
  try {
    await marker.write(Buffer.from(encode(end)), 0); // a short write leaves a marker that counts as no clean stop
    await marker.sync();
  } catch (error) {
    if (isFull(error as NodeJS.ErrnoException)) return; // an empty marker: the next start needs no space for a copy
    await disk.remove(CLEAN_STOP);
    throw error;
  } finally {
    await marker.close();
  }
}

/**
 * Removes the marker, durably. A start does so after recovery, since the journal is about to change.
 * @throws the error of a system call, such as ENOENT if there is no marker
 */
export async function forgetCleanStop(disk: Disk): Promise<void> {
  await disk.remove(CLEAN_STOP);
  await disk.syncFolder();
}

/** The last stop: undefined if it was not clean; `end` is undefined if it was clean but the end of the journal is unknown. */
export type LastStop = { readonly end: StopEnd | undefined } | undefined;

/**
 * Reads the marker, if the folder has one.
 * @param names of all entries of the folder
 * @throws the error of a system call; a marker that is gone meanwhile is no error
 */
export async function readLastStop(disk: ReadableDisk, names: readonly string[]): Promise<LastStop> {
  if (!names.includes(CLEAN_STOP)) return undefined;
  const text = (await readSmall(disk, CLEAN_STOP, MARKER_BYTES_MAX + 1))?.toString('latin1');
  if (text === undefined) return undefined; // a service has started since the folder was listed
  if (text === '') return { end: undefined };
  const end = decode(text);
  return end && { end };
}

/** More bytes than any valid marker has. */
const MARKER_BYTES_MAX = 512;
const MARKER =
  /^\{"file":"(events-\d{20}\.jsonl)","bytes":(\d{1,16}),"next_seq":(\d{1,16}),"last_crc":"([0-9a-f]{8})","crc":"[0-9a-f]{8}"\}\n$/;

function encode({ file, bytes, chain }: StopEnd): string {
  const text = `{"file":"${file}","bytes":${bytes},"next_seq":${chain.seq},"last_crc":"${hex(chain.crc)}"`;
  return `${text},"crc":"${hex(crc32(text))}"}\n`;
}

/** @returns undefined if the text is not a complete marker */
function decode(text: string): StopEnd | undefined {
  const [, file = '', bytes, seq, crc = ''] = MARKER.exec(text) ?? [];
  if (segmentFirstSeq(file) === undefined) return undefined;
  const end = { file, bytes: Number(bytes), chain: { seq: Number(seq), crc: Number.parseInt(crc, 16) } };
  return encode(end) === text ? end : undefined;
}
