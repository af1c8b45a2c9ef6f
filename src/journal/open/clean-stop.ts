/**
 * The marker of a clean stop: everything in the folder was synced, and the marker records the end of the journal. A start and
 * `verify` compare the journal with it: nothing else shows that the last file was truncated at a line end, or deleted.
 *
 * An empty marker is a clean stop with an unknown end of the journal: version 0.1.0 wrote empty markers, a full disk has no block
 * for the content, and a power cut can occur between the directory entry and the content. It is still correct, since all lines
 * were synced before. A marker with incomplete or other content is ignored.
 */

import { type Disk, isFull, type ReadableDisk } from '../disk.ts';
import { clearName, readSmall } from '../file-io.ts';
import { type ChainPosition, hex } from '../line/record.ts';
import { sealed } from '../sealed.ts';
import { segmentFirstSeq } from '../segments.ts';

export const CLEAN_STOP = '.stopped-cleanly';

/** The end of the journal at the stop. */
export interface StopEnd {
  /** The last file and its length. */
  readonly file: string;
  readonly bytes: number;
  /** The seq of the next line, and the crc of the last line of the file, or 0 if the file has no lines. */
  readonly chain: ChainPosition;
}

/**
 * Marks the stop as clean, as the last step before the lock is released: everything in the folder must be synced. If the disk is
 * full, the marker stays empty.
 * @throws the error of a system call, such as EEXIST if there is a marker
 */
export async function markCleanStop(disk: Disk, end: StopEnd): Promise<void> {
  const marker = await disk.create(CLEAN_STOP);
  try {
    await marker.write(Buffer.from(encode(end)), 0); // after a short write the marker is ignored
    await marker.sync();
  } catch (error) {
    if (isFull(error as NodeJS.ErrnoException)) return; // leaves an empty marker: the next start needs no space for a copy
    await disk.remove(CLEAN_STOP);
    throw error;
  } finally {
    await marker.close();
  }
}

/**
 * Removes the marker, durably. Called after the recovery of a start, since the journal is about to change.
 * @throws the error of a system call, such as ENOENT if there is no marker
 */
export async function removeCleanStop(disk: Disk): Promise<void> {
  await clearName(disk, CLEAN_STOP);
  await disk.syncFolder();
}

/** The last clean stop; undefined if the last stop was not clean; `end` is undefined if the marker is empty. */
export type LastStop = { readonly end: StopEnd | undefined } | undefined;

/**
 * Reads the marker, if the folder has one.
 * @param names the names of all entries of the folder
 * @throws the error of a system call, unless the marker was removed in the meantime
 */
export async function readLastStop(disk: ReadableDisk, names: readonly string[]): Promise<LastStop> {
  if (!names.includes(CLEAN_STOP)) return undefined;
  const text = (await readSmall(disk, CLEAN_STOP, MARKER_BYTES_MAX + 1))?.toString('latin1');
  if (text === undefined) return undefined; // a service started after the folder was listed
  if (text === '') return { end: undefined };
  const end = decode(text);
  return end && { end };
}

/** A valid marker is smaller than this. */
const MARKER_BYTES_MAX = 512;
const MARKER =
  /^\{"file":"(events-\d{20}\.jsonl)","bytes":(\d{1,16}),"next_seq":(\d{1,16}),"last_crc":"([0-9a-f]{8})","crc":"[0-9a-f]{8}"\}\n$/;

function encode({ file, bytes, chain }: StopEnd): string {
  const text = `{"file":"${file}","bytes":${bytes},"next_seq":${chain.seq},"last_crc":"${hex(chain.crc)}"`;
  return `${sealed(text)}\n`;
}

/** @returns undefined if the text is not a complete marker */
function decode(text: string): StopEnd | undefined {
  const [, file = '', bytes, seq, crc = ''] = MARKER.exec(text) ?? [];
  if (segmentFirstSeq(file) === undefined) return undefined;
  const end = { file, bytes: Number(bytes), chain: { seq: Number(seq), crc: Number.parseInt(crc, 16) } };
  return encode(end) === text ? end : undefined;
}
