/**
 * The format of a journal line, and its encoder. Only the files in this folder depend on the format.
 *
 *     line    = '{"seq":' seq ',"id":"' uuid '","time":"' time '",' members ',"crc":"' crc '"}' LF
 *     members = '"type":…,"asset_key":[…]' and then, each only if the report has it (`encodeEvent` in `event/encoded.ts`),
 *               partition, check_name, passed, severity, description, tags,
 *               any members of the slot (`slot.ts`), metadata,
 *               event_time, idempotency_key, from, recorded
 *
 * 1. `seq` counts from 1 without gaps over all files of a journal.
 * 2. `crc` is the CRC-32 of the line's bytes before `,"crc"`, seeded with the crc of the line before it in the same file
 *    (0 for a file's first), as eight hexadecimal digits. This chain detects a flipped bit and a lost, swapped or repeated line.
 * 3. A line contains no line break of any kind: JSON escapes the ASCII ones, and U+0085, U+2028 and U+2029 are escaped too, even
 *    inside metadata, which is otherwise recorded as it was sent.
 * 4. White space between the tokens of metadata is removed: it does not make another event, and the lines are shorter. Digits,
 *    escapes, order and repeated members are recorded as they were sent.
 * 5. A forwarded event has the members `from`, which is `["<id of the journal that recorded it first>",<seq there>]`, and `recorded`,
 *    its time there.
 * 6. Metadata can contain any text, so its end is found from the end of the line: the members after it end in `"` or `]`, and
 *    metadata ends in `}`.
 *
 * The price is intended: a program that changes a line has to rewrite all later lines of its file.
 */

import { crc32 } from 'node:zlib';
import { LINE_FEED } from '../../event/json-bytes.ts';
import { createUuids } from './uuid.ts';

/** The members of a line that come from the report (`Event.encoded`): text in ASCII, or bytes. `encodeBatch` adds the others. */
export type LineMembers = string | Buffer;

/** A position in the checksum chain, which a line depends on. A journal starts at `{ seq: 1, crc: 0 }`. */
export interface ChainPosition {
  /** Seq of the next line. */
  readonly seq: number;
  /** The crc of the previous line in the same file; 0 if there is none. */
  readonly crc: number;
}

/** Distinguishes a line from all lines of all journals: its crc also depends on the lines before it in its file. */
export interface LineMark {
  readonly seq: number;
  readonly id: string;
  /** Eight hexadecimal digits. */
  readonly crc: string;
}

/** @returns the length in bytes of a line with these members */
export function lineBytes(members: LineMembers, seq: number): number {
  return lineBytesMax(members) - String(SEQ_MAX).length + String(seq).length;
}

/** @returns the length in bytes of a line with these members and the largest seq */
export function lineBytesMax(members: LineMembers): number {
  return members.length + FRAME_BYTES_MAX;
}

export function packMembers(members: LineMembers): Buffer {
  return typeof members === 'string' ? Buffer.from(members, 'latin1') : members;
}

/** Buffer that one writer reuses to encode its batches; it grows as necessary, up to 1 MiB. */
export interface EncodeBuffer {
  bytes: Buffer;
  /** The last batch; undefined if it did not fit. */
  batch?: Buffer | undefined;
}

/**
 * Encodes a batch of lines that have the same time.
 * @param batch the members of each line, as text or bytes
 * @param scratch buffer for the returned bytes, if they fit; it must not be reused until they are written
 * @param ids the id of each line that already has one, with 36 characters; undefined if all lines get new ids
 * @returns the bytes to append, the chain position after them, and the id of the last line
 */
export function encodeBatch(
  batch: readonly LineMembers[],
  chain: ChainPosition,
  now: Date,
  scratch: EncodeBuffer = { bytes: NO_BYTES },
  ids?: readonly (string | undefined)[],
): { bytes: Buffer; chain: ChainPosition; lastId: string } {
  const time = now.toISOString();
  const nextId = createUuids(now);
  const parts: LineMembers[] = [];
  let { seq, crc } = chain;
  let text = '';
  let lastId = '';
  for (const members of batch) {
    lastId = ids?.[seq - chain.seq] ?? nextId();
    text += `{"seq":${seq},"id":"${lastId}","time":"${time}",`;
    if (typeof members === 'string') {
      text += members;
    } else {
      parts.push(text, members);
      text = '';
    }
    text += CRC_TEMPLATE;
    seq += 1;
  }
  parts.push(text);
  const bytes = packInto(scratch, parts);
  // A crc is computed over bytes, so it replaces the zeros of the template after the text is encoded.
  let count = 0;
  for (let start = 0, end = 0; start < bytes.length; start = end + 1) {
    end = bytes.indexOf(LINE_FEED, start);
    crc = crc32(bytes.subarray(start, end - CRC_MEMBER_BYTES), crc);
    writeHex(crc, bytes, end - CRC_TAIL_BYTES);
    count += 1;
  }
  return { bytes, chain: { seq: chain.seq + count, crc }, lastId };
}

/**
 * Writes texts and members one after the other, into the buffer if they fit, since allocating memory for each batch costs more
 * than the encoding.
 */
function packInto(scratch: EncodeBuffer, parts: readonly LineMembers[]): Buffer {
  let length = 0;
  for (const part of parts) length += part.length;
  scratch.batch = undefined;
  if (length > ENCODE_BUFFER_BYTES_MAX) return Buffer.concat(parts.map(packMembers));
  if (length > scratch.bytes.length)
    scratch.bytes = Buffer.allocUnsafeSlow(Math.min(2 * length, ENCODE_BUFFER_BYTES_MAX));
  const { bytes } = scratch;
  let end = 0;
  for (const part of parts) {
    if (typeof part === 'string') bytes.write(part, end, 'latin1');
    else bytes.set(part, end);
    end += part.length;
  }
  scratch.batch = bytes.subarray(0, end);
  return scratch.batch;
}

/** The largest seq of a journal. A JavaScript number cannot represent every integer above it. */
export const SEQ_MAX = Number.MAX_SAFE_INTEGER;

const NO_BYTES = Buffer.alloc(0);
const ENCODE_BUFFER_BYTES_MAX = 1024 * 1024;
/**
 * No string can contain this text, since a quote in a string is escaped with a backslash. So its first occurrence is the
 * member.
 */
export const METADATA_MEMBER = ',"metadata":';
export const CRC_TEMPLATE = ',"crc":"00000000"}\n';
export const CRC_MEMBER_BYTES = CRC_TEMPLATE.length - 1;
export const CRC_TAIL_BYTES = '00000000"}'.length;
export const SEQ_PREFIX = Buffer.from('{"seq":');
export const ID_MEMBER_BYTES = ',"id":"01a1fb95-ce62-7e59-9364-610bf5613940"'.length;
export const TIME_PREFIX_BYTES = ',"time":"'.length;
export const TIME_BYTES = '2026-11-20T15:19:45.266Z'.length;
export const TIME_SUFFIX_BYTES = '",'.length;
/** Bytes that `encodeBatch` adds to the members of a line. */
const FRAME_BYTES_MAX =
  SEQ_PREFIX.length +
  String(SEQ_MAX).length +
  ID_MEMBER_BYTES +
  TIME_PREFIX_BYTES +
  TIME_BYTES +
  TIME_SUFFIX_BYTES +
  CRC_TEMPLATE.length;
export const HEX_DIGITS = Buffer.from('0123456789abcdef');

export function hex(crc: number): string {
  return crc.toString(16).padStart(8, '0');
}

export function writeHex(crc: number, bytes: Buffer, at: number): void {
  for (let digit = 0; digit < 8; digit += 1) bytes[at + digit] = HEX_DIGITS[(crc >>> (28 - 4 * digit)) & 15]!;
}
