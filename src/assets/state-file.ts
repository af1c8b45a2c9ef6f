/**
 * The file `assets.state` beside the events of a journal: the state of its assets, so that a start need not read all events, and so
 * that what retention removes stays in the state.
 *
 *     file = head asset… end                          (JSON lines)
 *     head = {"format":1,"seq":…,"since_seq":…,"unseen":[[4,6]],"refused":0}
 *     asset = as in the reply of GET /assets, in the order of the keys; of a check also `before`, the results in a row before
 *     end  = {"assets":…,"seq":…,"id":"…","line_crc":"…","crc":"…"}
 *
 * Events may be recorded while the assets are written. The file has all events up to the `seq` of its head, and of some assets
 * later events too, but none after the line that its end names. A reader takes the lines after the head once more: each latest
 * event in it has its seq, so that no event counts twice.
 *
 * `crc` is the CRC-32 of all bytes before its member. The file is written to another name, synced and renamed, so after a crash it
 * is complete, or the one before.
 */

import { crc32 } from 'node:zlib';
import type { Limits } from '../config/limits.ts';
import type { Disk, ReadableDisk } from '../journal/disk.ts';
import { unlessAbsent } from '../journal/disk.ts';
import { readBytes, replaceDurably } from '../journal/file-io.ts';
import { forEachLine } from '../journal/line/lines.ts';
import type { LineMark } from '../journal/line/record.ts';
import { isSealed, sealed } from '../journal/sealed.ts';
import { type GoneRange, STATE_FILE } from '../journal/segments.ts';
import { type AssetJson, assetOf, savedJson } from './asset-json.ts';
import type { AssetStates } from './asset-state.ts';

/** The state of the assets of a journal. */
export interface Kept {
  readonly states: AssetStates;
  /** The states have the events up to this one. */
  seq: number;
  /** The last line whose event they have: later than `seq` while the lines after a file are taken. Its id is empty without a line. */
  end: LineMark;
  /** The states have all events from this one on, except `unseen`. */
  readonly sinceSeq: number;
  /** Events that retention removed before they were read: an older version of the service ran, or the disk was full. */
  unseen: readonly GoneRange[];
}

/** A state that is in a file. */
export interface Saved {
  /** The last event that the file has of all assets. */
  readonly seq: number;
  readonly bytes: number;
  /** Tells the file from others. */
  readonly crc: string;
}

/**
 * Replaces the file, durably.
 * @param kept may change during the write
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
  const head = { format: FORMAT, seq: headSeq, since_seq, unseen, refused: states.refused };
  let text = `${JSON.stringify(head)}\n`;
  let crc = 0;
  let assets = 0;
  for (const asset of states.inOrder()) {
    text += `${JSON.stringify(savedJson(asset))}\n`;
    assets += 1;
    if (text.length < PART_CHARACTERS) continue;
    const part = Buffer.from(text);
    crc = crc32(part, crc);
    yield part;
    text = '';
  }
  const { seq, id, crc: line_crc } = kept.end;
  text += JSON.stringify({ assets, seq, id, line_crc }).slice(0, -1);
  yield Buffer.from(`${sealed(text, crc)}\n`);
}

/**
 * Reads the file.
 * @param states gets the assets
 * @returns undefined if there is no such file, or it is not whole; then the states are of no use
 * @throws the error of a system call
 */
export async function readState(
  disk: ReadableDisk,
  states: AssetStates,
  { assetLineBytesMax }: Limits,
): Promise<{ readonly kept: Kept; readonly saved: Saved } | undefined> {
  const found: { head?: Head; end?: End } = {};
  let [crc, bytes, assets] = [0, 0, 0];
  const take = (chunk: Buffer, start: number, lineEnd: number) => {
    const text = chunk.toString('utf8', start, lineEnd);
    const json = JSON.parse(text);
    if (found.head === undefined) found.head = json as Head;
    else if (json.asset_key === undefined) {
      found.end = { ...json, isWhole: isSealed(text, crc) };
    } else {
      states.put(assetOf(json as AssetJson));
      assets += 1;
    }
    crc = crc32('\n', crc32(chunk.subarray(start, lineEnd), crc));
    bytes += lineEnd - start + 1;
  };
  try {
    await forEachLine(untilHole(disk.read(STATE_FILE)), assetLineBytesMax, take);
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof TypeError)) return unlessAbsent(undefined)(error as Error);
  }
  const { head, end } = found;
  if (head?.format !== FORMAT || end?.isWhole !== true || end.assets !== assets) return undefined;
  states.refused = head.refused;
  states.beginWatch();
  return {
    kept: {
      states,
      seq: head.seq,
      end: { seq: end.seq, id: end.id, crc: end.line_crc },
      sinceSeq: head.since_seq,
      unseen: head.unseen.map(([first, last]) => ({ first, last })),
    },
    saved: { seq: head.seq, bytes, crc: end.crc },
  };
}

/** JSON has no zero byte, and a hole of a sparse file, which can be larger than any disk, has nothing else. @throws SyntaxError */
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
}

interface End {
  readonly assets: number;
  readonly seq: number;
  readonly id: string;
  readonly line_crc: string;
  readonly crc: string;
  /** Whether the crc is that of the bytes before it. */
  readonly isWhole: boolean;
}

/** A program that finds another number does not read the file. */
const FORMAT = 1;
/** The crc and what follows it. */
const END_BYTES = '00000000"}\n'.length;
/** Characters that are encoded and written at a time. */
const PART_CHARACTERS = 64 * 1024;
