/**
 * The file `assets.state` beside the events of a journal. It has the state of the assets, so that a start does not have to read all
 * events, and so that removed events are still part of the state.
 *
 *     file = head asset… end                          (JSON lines)
 *     head = {"format":2,"seq":…,"since_seq":…,"unseen":[[4,6]],"refused":0,"left_out":[["a"]],"crc":"…"}
 *     asset = see `asset-line.ts`, in the order of the keys
 *     end  = {"assets":…,"seq":…,"id":"…","line_crc":"…","file_crc":"…","crc":"…"}
 *
 * The `crc` of each line is the CRC-32 of its bytes before that member, `file_crc` that of all lines before the end. A broken line
 * affects only its own asset. The file is written to another name, synced and renamed, so after a crash it is either complete or the
 * previous one.
 *
 * Events can be recorded while the assets are being written. The file has all events up to the `seq` of its head, and for some
 * assets later events too, but none after the line named at its end. A reader adds the lines after the head again. Each asset has
 * the seq of its last event, so no event counts twice.
 *
 * Format 1, of version 0.3, has a crc only at its end, over all bytes before it. It is read once.
 */

import { crc32 } from 'node:zlib';
import type { Limits } from '../config/limits.ts';
import { BETWEEN_PARTS } from '../event/asset-key.ts';
import type { Disk, ReadableDisk } from '../journal/disk.ts';
import { unlessAbsent } from '../journal/disk.ts';
import { readBytes, replaceDurably } from '../journal/file-io.ts';
import { forEachLine } from '../journal/line/lines.ts';
import { hex, type LineMark } from '../journal/line/record.ts';
import { isSealed, sealed } from '../journal/sealed.ts';
import { type GoneRange, STATE_FILE } from '../journal/segments.ts';
import { type AssetLine, assetOfLine, assetOfOldLine, lineTexts, type OldAssetLine } from './asset-line.ts';
import type { AssetStates } from './asset-state.ts';

/** The state of the assets of a journal. */
export interface Kept {
  readonly states: AssetStates;
  /** The states include the events up to this one. */
  seq: number;
  /**
   * The last line whose event they include. It is later than `seq` while the lines after a file are being added. Its id is empty if
   * there is no line.
   */
  end: LineMark;
  /** The states include all events from this one on, except `unseen`. */
  readonly sinceSeq: number;
  /**
   * Events that retention removed before they were read, because an older version of the service ran or the disk was
   * full.
   */
  unseen: readonly GoneRange[];
}

/** A state that is stored in a file. */
export interface Saved {
  /** The last event up to which the file has all assets. */
  readonly seq: number;
  readonly bytes: number;
  /** Distinguishes the file from others. */
  readonly crc: string;
}

/**
 * Replaces the file, durably.
 * @param kept can change during the write
 * @param pause called between two parts of the file
 * @throws the error of a system call
 */
export async function writeState(disk: Disk, kept: Kept, pause: () => Promise<void>): Promise<Saved> {
  const { seq } = kept;
  let bytes = 0;
  let crc = '';
  async function* counted(): AsyncGenerator<Buffer> {
    for await (const chunk of encoded(kept)) {
      bytes += chunk.length;
      crc = crcAtEnd(chunk);
      yield chunk;
      await pause();
    }
  }
  await replaceDurably(disk, STATE_FILE, counted());
  return { seq, bytes, crc };
}

function* encoded(kept: Kept): Generator<Buffer> {
  const { states, seq: headSeq, sinceSeq: since_seq } = kept;
  const unseen = kept.unseen.map(({ first, last }) => [first, last]);
  const left_out = [...states.leftOut].map((name) => name.split(BETWEEN_PARTS));
  const head = { format: FORMAT, seq: headSeq, since_seq, unseen, refused: states.refused, left_out };
  let text = `${sealed(JSON.stringify(head).slice(0, -1))}\n`;
  let fileCrc = 0;
  let assets = 0;
  const encode = (): Buffer => {
    const part = Buffer.from(text);
    fileCrc = crc32(part, fileCrc);
    text = '';
    return part;
  };
  for (const asset of states.inOrder()) {
    let lineCrc = 0;
    for (const part of lineTexts(asset)) {
      lineCrc = crc32(part, lineCrc);
      text += part;
      if (text.length >= PART_CHARACTERS) yield encode();
    }
    text += `${sealed('', lineCrc)}\n`;
    assets += 1;
  }
  yield encode();
  const { seq, id, crc: line_crc } = kept.end;
  const end = { assets, seq, id, line_crc, file_crc: hex(fileCrc) };
  yield Buffer.from(`${sealed(JSON.stringify(end).slice(0, -1))}\n`);
}

/**
 * Reads the file.
 * @param states gets the assets
 * @returns undefined if there is no such file, or it is incomplete; the states must not be used then. `broken` is the number of
 * assets
 *   with a broken line
 * @throws the error of a system call
 */
export async function readState(
  disk: ReadableDisk,
  states: AssetStates,
  { assetLineBytesMax }: Limits,
): Promise<{ readonly kept: Kept; readonly saved: Saved; readonly broken: number } | undefined> {
  const reader = new FileReader(states);
  try {
    await forEachLine(untilHole(disk.read(STATE_FILE)), assetLineBytesMax, (bytes, start, end) =>
      reader.take(bytes, start, end),
    );
  } catch (error) {
    if (!(error instanceof SyntaxError)) return unlessAbsent(undefined)(error as Error);
  }
  return reader.result();
}

/** Reads the lines of a file one by one. */
class FileReader {
  readonly #states: AssetStates;
  #head: Head | undefined;
  #end: End | undefined;
  #assets = 0;
  #broken = 0;
  /** The crc of the lines so far. */
  #crc = 0;
  #bytes = 0;

  constructor(states: AssetStates) {
    this.#states = states;
  }

  /** @throws SyntaxError if the head is incomplete, since the rest is useless then */
  take(bytes: Buffer, start: number, lineEnd: number): void {
    const text = bytes.toString('utf8', start, lineEnd);
    this.#bytes += lineEnd - start + 1;
    if (this.#head === undefined) this.#head = headIn(text);
    else if (this.#end !== undefined)
      this.#end = undefined; // a line follows the end
    else this.#takeLine(text);
    this.#crc = crc32('\n', crc32(bytes.subarray(start, lineEnd), this.#crc));
  }

  #takeLine(text: string): void {
    const isOld = this.#head!.format === OLD_FORMAT;
    if (text.startsWith('{"assets":')) {
      if (isSealed(text, isOld ? this.#crc : 0)) this.#end = JSON.parse(text) as End;
    } else if (isOld) this.#put(() => assetOfOldLine(JSON.parse(text) as OldAssetLine));
    else if (isSealed(text)) this.#put(() => assetOfLine(JSON.parse(text) as AssetLine));
    else this.#broken += 1;
  }

  /** A line whose members have other forms was not written by this program. */
  #put(read: () => Parameters<AssetStates['put']>[0]): void {
    try {
      this.#states.put(read());
      this.#assets += 1;
    } catch {
      this.#broken += 1;
    }
  }

  result(): { readonly kept: Kept; readonly saved: Saved; readonly broken: number } | undefined {
    const [head, end, broken] = [this.#head, this.#end, this.#broken];
    if (head === undefined || end === undefined || end.assets !== this.#assets + broken) return undefined;
    if (head.format === OLD_FORMAT && broken > 0) return undefined;
    const states = this.#states;
    states.refused = head.refused;
    for (const parts of head.left_out ?? []) states.leftOut.add(parts.join(BETWEEN_PARTS));
    const mark = { seq: end.seq, id: end.id, crc: end.line_crc };
    const unseen = head.unseen.map(([first, last]) => ({ first, last }));
    const kept = { states, seq: head.seq, end: mark, sinceSeq: head.since_seq, unseen };
    return { kept, saved: { seq: head.seq, bytes: this.#bytes, crc: end.crc }, broken };
  }
}

/** @throws SyntaxError if it is not the complete head of a supported format */
function headIn(text: string): Head {
  const head = JSON.parse(text) as Head;
  if (head?.format === OLD_FORMAT || (head?.format === FORMAT && isSealed(text))) return head;
  throw new SyntaxError();
}

/**
 * JSON contains no zero byte, but a hole of a sparse file, which can be larger than any disk, contains nothing else. @throws
 * SyntaxError
 */
async function* untilHole(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    if (chunk.includes(0)) throw new SyntaxError();
    yield chunk;
  }
}

/**
 * @param saved undefined if there was no file
 * @returns whether the file is still the one that was written or read
 * @throws the error of a system call
 */
export async function isSaved(disk: ReadableDisk, saved: Saved | undefined): Promise<boolean> {
  const size = await disk.size(STATE_FILE).catch(unlessAbsent(undefined));
  if (saved === undefined || size !== saved.bytes) return size === saved?.bytes;
  return crcAtEnd(await readBytes(disk, STATE_FILE, size - END_BYTES, size)) === saved.crc;
}

function crcAtEnd(bytes: Buffer): string {
  return bytes.toString('latin1', bytes.length - END_BYTES, bytes.length - END_BYTES + 8);
}

interface Head {
  readonly format: number;
  readonly seq: number;
  readonly since_seq: number;
  readonly unseen: readonly (readonly [first: number, last: number])[];
  readonly refused: number;
  /** The watched keys under which assets were left out. */
  readonly left_out?: readonly (readonly string[])[];
}

interface End {
  readonly assets: number;
  readonly seq: number;
  readonly id: string;
  readonly line_crc: string;
  readonly crc: string;
}

/** A program that finds another number rejects the file. */
const FORMAT = 2;
const OLD_FORMAT = 1;
/** Length of the crc and the bytes after it. */
const END_BYTES = '00000000"}\n'.length;
/** Number of characters that are encoded and written at a time. */
const PART_CHARACTERS = 64 * 1024;
