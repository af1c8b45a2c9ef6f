/**
 * The format of a journal line. Only this file depends on it.
 *
 *     line    = '{"seq":' seq ',"id":"' uuid '","time":"' time '",' members ',"crc":"' crc '"}' LF
 *     members = '"type":…,"asset_key":[…]' and then, each only if the report has it,
 *               partition, check_name, passed, severity, description, tags, metadata,
 *               event_time, idempotency_key, from, recorded
 *
 * 1. `seq` counts from 1 without gaps over all files of a journal.
 * 2. `crc` is the CRC-32 of the line's bytes before `,"crc"`, seeded with the crc of the line before it in the same file
 *    (0 for a file's first), as eight hexadecimal digits. This chain detects a flipped bit and a lost, swapped or repeated line.
 * 3. A line holds no line break of any kind: JSON escapes the ASCII ones, and U+0085, U+2028 and U+2029 are escaped here
 *    even inside metadata, which is otherwise recorded as it was sent.
 * 4. `from` and `recorded` are in a forwarded event: `["<id of the journal that recorded it first>",<seq there>]`, and its time there.
 * 5. Metadata may contain any text, so its end is found from the end of the line: the members after it end in `"` or `]`, and
 *    metadata ends in `}`.
 *
 * The cost, which is intended: to change a line, all later lines of its file have to be rewritten.
 */

import { randomUUID } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Event } from '../event/event.ts';
import { seedOf } from './crc.ts';

/**
 * The members of a line that come from the report, such as `"type":"AssetObservation","asset_key":["a"]`: text from
 * `encodeMembers`, or bytes from `packMembers` for an event whose text would keep a large body alive.
 */
export type LineMembers = string | Buffer;

/**
 * The members of a line that come from the report. `encodeBatch` adds those that depend on its position in the journal.
 * @returns such as `"type":"AssetObservation","asset_key":["a"]`
 */
export function encodeMembers(event: Event): string {
  let members = `"type":"${event.type}","asset_key":${quoteAll(event.assetKey)}`;
  if (event.partition !== undefined) members += `,"partition":${quote(event.partition)}`;
  if (event.type === 'AssetCheckEvaluation') {
    members += `,"check_name":${quote(event.checkName)},"passed":${event.passed},"severity":"${event.severity}"`;
  } else {
    if (event.description !== undefined) members += `,"description":${quote(event.description)}`;
    if (event.dataVersion !== undefined) members += `,"tags":{"data_version":${quote(event.dataVersion)}}`;
  }
  if (event.metadata !== undefined) members += `,"metadata":${event.metadata}`;
  const { eventTime, idempotencyKey, origin } = event;
  if (eventTime !== undefined) members += `,"event_time":"${eventTime}"`;
  if (idempotencyKey !== undefined) members += `,"idempotency_key":${quote(idempotencyKey)}`;
  if (origin !== undefined) {
    members += `,"from":["${origin.source}",${origin.seq}],"recorded":"${origin.recorded}"`;
  }
  return members;
}

/** Position in the checksum chain: what a line takes from the line before it. A journal begins at `{ seq: 1, crc: 0 }`. */
export interface ChainPosition {
  /** Seq of the next line. */
  readonly seq: number;
  /** The crc of the previous line in the same file; 0 if there is none. */
  readonly crc: number;
}

/**
 * @returns an upper bound of a line's bytes with these members: `127` for a text of one character, 6 for each character and 121
 *   for the rest. For packed members it is at most a few bytes too large
 */
export function lineBytesMax(members: LineMembers): number {
  const bytes = typeof members === 'string' ? members.length * RECORDED_BYTES_MAX : members.length;
  return bytes + FRAME_BYTES_MAX;
}

/**
 * @returns the approximate memory of members while they wait, in bytes: a character of a text takes up to 2, so
 *   `memoryBytesOf('abc')` is `6`
 */
export function memoryBytesOf(members: LineMembers): number {
  return typeof members === 'string' ? 2 * members.length : members.length;
}

/**
 * Members as the bytes of a line, with U+0085, U+2028 and U+2029 escaped: `packMembers('"partition":"é"')` has `16`. Unlike a
 * substring, they do not keep the text alive that they were cut from.
 */
export function packMembers(members: string): Buffer {
  const bytes = Buffer.from(members);
  // Only text outside ASCII can contain a separator, and a separator can only be inside a string.
  return bytes.length === members.length ? bytes : Buffer.from(members.replace(LINE_SEPARATORS, escapeSeparator));
}

/**
 * Buffer that one writer reuses to encode its batches; it grows as necessary, up to 1 MiB. A new one is
 * `{ bytes: Buffer.alloc(0) }`.
 */
export interface EncodeBuffer {
  bytes: Buffer;
}

/**
 * Encodes a batch of lines that have the same time.
 * @param batch the members of each line, from `encodeMembers`, packed or not
 * @param scratch buffer that may hold the returned bytes: it must not be reused until they are written
 * @param ids the id of each line that has one already, with 36 characters; undefined if all get a new one
 * @returns the bytes to append and the chain position after them: for one line at `{ seq: 7, crc }` the bytes begin with
 *   `{"seq":7,"id":"`, and the position is `{ seq: 8, … }`
 */
export function encodeBatch(
  batch: readonly LineMembers[],
  chain: ChainPosition,
  now: Date,
  scratch: EncodeBuffer = { bytes: NO_BYTES },
  ids?: readonly (string | undefined)[],
): { bytes: Buffer; chain: ChainPosition } {
  const time = now.toISOString();
  const nextId = uuids(now);
  const parts: LineMembers[] = [];
  let { seq, crc } = chain;
  let text = '';
  for (const members of batch) {
    const id = ids?.[seq - chain.seq] ?? nextId();
    text += `{"seq":${seq},"id":"${id}","time":"${time}",`;
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
  for (let start = 0, end = 0; start < bytes.length; start = end + 1) {
    end = bytes.indexOf(LINE_FEED, start);
    crc = crc32(bytes.subarray(start, end - CRC_MEMBER_BYTES), crc);
    writeHex(crc, bytes, end - CRC_TAIL_BYTES);
  }
  return { bytes, chain: { seq, crc } };
}

/**
 * Like `packMembers`, of texts and packed members in turn, but reuses the buffer if they fit: allocating memory for each batch
 * costs more than the encoding.
 */
function packInto(scratch: EncodeBuffer, parts: readonly LineMembers[]): Buffer {
  let bytesMax = 0;
  for (const part of parts) bytesMax += typeof part === 'string' ? part.length * UTF8_BYTES_MAX : part.length;
  if (bytesMax > ENCODE_BUFFER_BYTES_MAX) return packApart(parts);
  if (bytesMax > scratch.bytes.length)
    scratch.bytes = Buffer.allocUnsafeSlow(Math.min(2 * bytesMax, ENCODE_BUFFER_BYTES_MAX));
  const { bytes } = scratch;
  let end = 0;
  for (const part of parts) {
    if (typeof part !== 'string') bytes.set(part, end);
    else if (bytes.write(part, end) !== part.length) return packApart(parts);
    end += part.length;
  }
  return bytes.subarray(0, end);
}

function packApart(parts: readonly LineMembers[]): Buffer {
  return Buffer.concat(parts.map((part) => (typeof part === 'string' ? packMembers(part) : part)));
}

/** Whether a line continues the chain: the chain position after it, or what is wrong, such as `its seq is 7, expected 6`. */
export type LineCheck =
  | { readonly kind: 'good'; readonly chain: ChainPosition }
  | { readonly kind: 'bad'; readonly problem: string };

/**
 * Checks one line against the chain position that it must have.
 * @param start index of the line in `bytes`
 * @param end of the line: the index of its newline
 * @returns for the line with the seq 7 at its chain position `{ kind: 'good', chain: { seq: 8, crc: 0x9ae0daaf } }`
 */
export function checkLine(bytes: Buffer, start: number, end: number, chain: ChainPosition): LineCheck {
  const form = readForm(bytes, start, end);
  if (form === undefined) return { kind: 'bad', problem: 'it is not of the form {"seq":…,"crc":"…"}' };
  const crc = crcOf(bytes, form, chain.crc);
  if (form.crc !== crc) return { kind: 'bad', problem: `its crc is ${hex(form.crc)}, computed ${hex(crc)}` };
  if (form.seq !== chain.seq) return { kind: 'bad', problem: `its seq is ${form.seq}, expected ${chain.seq}` };
  return { kind: 'good', chain: { seq: chain.seq + 1, crc } };
}

/**
 * Finds a valid line that does not begin at `start`, or that is not directly followed by a newline. A conversion of line ends
 * leaves such lines, a crash never does.
 * @param end of the bytes: the index of the next newline, or the end of the file
 * @param bytesMax of a line
 * @returns what is wrong around the line, such as `its line is good, but 2 bytes are before it`; undefined if there is no such
 *   line
 */
export function findMisplaced(
  bytes: Buffer,
  start: number,
  end: number,
  chain: ChainPosition,
  bytesMax: number,
): string | undefined {
  const line = bytes.subarray(start, end);
  const isGood = (form: Pick<LineForm, 'start' | 'end'>) =>
    checkLine(line, form.start, form.end, chain).kind === 'good';
  if (line.at(-1) === CARRIAGE_RETURN && isGood({ start: 0, end: line.length - 1 })) {
    return 'its line is good but ends with a carriage return: a program converted the line ends';
  }
  const form = findForms(line, line.length, MISPLACED_MAX, bytesMax).find(isGood);
  if (form === undefined) return undefined;
  if (form.start > 0) return `its line is good, but ${form.start} bytes are before it`;
  const after = line.toString('latin1', form.end, form.end + AFTER_LINE_BYTES);
  return AFTER_MISPLACED.test(after) ? 'its line is good, but something other than a newline follows it' : undefined;
}

/** The seq and crc that a line contains, not verified: `{ seq: 7, crc: 0x9ae0daaf, start: 0, end: 304 }`. */
export interface LineForm {
  readonly seq: number;
  readonly crc: number;
  readonly start: number;
  /** Index of its newline, or where it should be. */
  readonly end: number;
}

/**
 * Reads the seq and the crc of a line, and verifies neither.
 * @param end of the line: the index of its newline
 * @returns such as `{ seq: 7, crc: 0x9ae0daaf, start: 0, end: 304 }`; undefined if the bytes do not begin and end like a line
 */
export function readForm(bytes: Buffer, start: number, end: number): LineForm | undefined {
  const bodyEnd = end - CRC_MEMBER_BYTES;
  if (bodyEnd < start + SEQ_PREFIX.length) return undefined;
  for (let at = 0; at < SEQ_PREFIX.length; at += 1) if (bytes[start + at] !== SEQ_PREFIX[at]) return undefined;
  for (let at = 0; at < CRC_PREFIX.length; at += 1) if (bytes[bodyEnd + at] !== CRC_PREFIX[at]) return undefined;
  if (bytes[end - 2] !== QUOTE || bytes[end - 1] !== CLOSING_BRACE) return undefined;

  let crc = 0;
  for (let at = end - CRC_TAIL_BYTES; at < end - 2; at += 1) {
    const digit = HEX_VALUES[bytes[at]!]!;
    if (digit < 0) return undefined;
    crc = crc * 16 + digit;
  }
  let seq = 0;
  let at = start + SEQ_PREFIX.length;
  // The digit's value is computed first: an intermediate sum above 2^53 would be rounded.
  for (; isDigit(bytes[at]); at += 1) seq = seq * 10 + (bytes[at]! - ZERO);
  const sound = seq > 0 && Number.isSafeInteger(seq) && bytes[at] === COMMA && at < bodyEnd;
  return sound ? { seq, crc, start, end } : undefined;
}

/** @returns the seq of a line of which at least the beginning is there, not verified: `7`; undefined if it does not begin like a line */
export function readSeq(bytes: Buffer, start: number): number | undefined {
  const [, digits] = LINE_SEQ.exec(bytes.toString('latin1', start, start + 32)) ?? [];
  const seq = Number(digits);
  return Number.isSafeInteger(seq) ? seq : undefined;
}

/**
 * Finds all that has the form of a line anywhere in the bytes, for lines whose newline is damaged or that follow other bytes.
 * Metadata may contain such text as well: only the crc distinguishes it.
 * @param beginEnd only lines that begin before it are found; the bytes after it are searched for line ends only
 * @param countMax how many beginnings, and how many ends for each, are tried
 * @param bytesMax of a line
 * @returns such as `[{ seq: 7, crc: 0x9ae0daaf, start: 4, end: 308 }]` for a line after 4 other bytes
 */
export function findForms(bytes: Buffer, beginEnd: number, countMax: number, bytesMax: number): LineForm[] {
  const forms: LineForm[] = [];
  if (bytes.indexOf(SEQ_PREFIX) === -1) return forms; // most junk: nothing to decode
  const text = bytes.toString('latin1');
  let beginnings = 0;
  for (const { index: from } of text.matchAll(LINE_BEGINNING)) {
    beginnings += 1;
    if (beginnings > countMax || from >= beginEnd) break;
    const ending = new RegExp(LINE_ENDING);
    ending.lastIndex = from;
    for (let ends = 0; ends < countMax && ending.test(text); ends += 1) {
      if (ending.lastIndex - from > bytesMax) break;
      const form = readForm(bytes, from, ending.lastIndex);
      if (form !== undefined) forms.push(form);
    }
  }
  return forms;
}

/**
 * @returns the crc that a line must have after a line with the crc `seed`, which is 0 for a file's first: such as `0x9ae0daaf`
 */
export function crcOf(bytes: Buffer, { start, end }: Pick<LineForm, 'start' | 'end'>, seed: number): number {
  return crc32(bytes.subarray(start, end - CRC_MEMBER_BYTES), seed);
}

/** @returns a line's `time` member as text, such as `2026-11-20T15:19:45.266Z`, not verified; undefined if it has none */
export function readTime(line: Buffer): string | undefined {
  return TIME_MEMBER.exec(line.toString('latin1', 0, 128))?.[1];
}

/**
 * The event of a line, with the names of the line's members. Its metadata is read separately, as text: see `metadataOf`. Example:
 * `{ seq: 7, id: '0193e0c2-…', time: '2026-11-20T15:19:45.266Z', type: 'AssetObservation', asset_key: ['a'] }`.
 */
export interface Recorded {
  readonly seq: number;
  readonly id: string;
  /** When it was recorded, in UTC. */
  readonly time: string;
  readonly type: Event['type'];
  readonly asset_key: readonly string[];
  readonly partition?: string;
  readonly check_name?: string;
  readonly passed?: boolean;
  readonly severity?: 'WARN' | 'ERROR';
  readonly description?: string;
  readonly tags?: { readonly data_version: string };
  /** When it happened, as the client said, in UTC. */
  readonly event_time?: string;
  readonly idempotency_key?: string;
  /** The id of the journal that recorded the event first, and its seq there. */
  readonly from?: readonly [source: string, seq: number];
  /** The `time` of its line in that journal. */
  readonly recorded?: string;
}

/**
 * @param end of a verified line: the index of its newline
 * @returns its event: `{ seq: 7, type: 'AssetObservation', asset_key: ['a'], … }`
 * @throws SyntaxError only for a line that assetlog did not write
 */
export function readRecorded(bytes: Buffer, start: number, end: number): Recorded {
  return JSON.parse(`${withoutMetadata(bytes, start, end)}}`);
}

/**
 * @param end of a verified line: the index of its newline
 * @returns the metadata as JSON text, as it was sent, such as `{"rows":1.0}`; undefined if the report had none
 */
export function metadataOf(bytes: Buffer, start: number, end: number): string | undefined {
  const metadata = bytes.subarray(start, end).indexOf(METADATA_MEMBER);
  if (metadata === -1) return undefined;
  return bytes.toString('utf8', start + metadata + METADATA_MEMBER.length, metadataEnd(bytes, end));
}

/**
 * @param end of a verified line: the index of its newline
 * @returns the idempotency key of its report, such as `order-17/1`; undefined if it had none, and for a forwarded event, whose
 *   key was looked at by the journal that recorded it first
 */
export function idempotencyKeyOf(bytes: Buffer, start: number, end: number): string | undefined {
  const at = end - CRC_MEMBER_BYTES;
  if (bytes[at - 1] !== QUOTE) return undefined;
  const quote = stringBegin(bytes, at);
  const begin = quote - KEY_PREFIX.length + 1;
  if (begin <= start || !bytes.subarray(begin, quote + 1).equals(KEY_PREFIX)) return undefined;
  return JSON.parse(bytes.toString('utf8', quote, at));
}

/**
 * @param end of a verified line: the index of its newline
 * @returns the bytes of the members that `encodeMembers` made of its event: `"type":"AssetObservation","asset_key":["a"]`
 */
export function membersOf(bytes: Buffer, start: number, end: number, seq: number): Buffer {
  return bytes.subarray(timeStart(start, seq) + TIME_BYTES + TIME_SUFFIX_BYTES, end - CRC_MEMBER_BYTES);
}

/**
 * @param bytes from `membersOf` or `packMembers`
 * @returns each member with its value as JSON text, in their order: `asset_key` with `["a"]`
 */
export function readMembers(bytes: Buffer): ReadonlyMap<string, string> {
  const metadata = bytes.indexOf(METADATA_MEMBER);
  const tail = metadata === -1 ? bytes.length : metadataEnd(bytes, bytes.length + CRC_MEMBER_BYTES);
  const head = bytes.toString('utf8', 0, metadata === -1 ? bytes.length : metadata);
  const members = new Map<string, string>();
  const addAll = (text: string) => {
    for (const [name, value] of Object.entries(JSON.parse(`{${text}}`))) members.set(name, JSON.stringify(value));
  };
  addAll(head);
  if (metadata !== -1) members.set('metadata', bytes.toString('utf8', metadata + METADATA_MEMBER.length, tail));
  if (tail < bytes.length) addAll(bytes.toString('utf8', tail + 1));
  return members;
}

/** The time at which a verified line was recorded, such as `2026-11-20T15:19:45.266Z`. Such times sort as text. */
export function timeOf(bytes: Buffer, start: number, seq: number): string {
  const at = timeStart(start, seq);
  return bytes.toString('latin1', at, at + TIME_BYTES);
}

/** @returns the type of the event of a verified line: `AssetObservation` */
export function typeOf(bytes: Buffer, start: number, seq: number): string {
  const at = timeStart(start, seq) + TIME_BYTES + TIME_SUFFIX_BYTES + TYPE_PREFIX_BYTES;
  return bytes.toString('latin1', at, bytes.indexOf(QUOTE, at));
}

function timeStart(start: number, seq: number): number {
  return start + SEQ_PREFIX.length + String(seq).length + ID_MEMBER_BYTES + TIME_PREFIX_BYTES;
}

/** @returns the last bytes of a line with this crc, including its newline: of 7 they are `,"crc":"00000007"}` and LF */
export function endingOf(crc: number): Buffer {
  return Buffer.from(`,"crc":"${hex(crc)}"}\n`);
}

/**
 * @param end of a line, at least whose last bytes are there: the index of its newline
 * @returns the crc that the line contains, not verified: `7` for `00000007`; undefined if the bytes do not end like a line
 */
export function readEndingCrc(bytes: Buffer, end: number): number | undefined {
  const [, digits] = /^([0-9a-f]{8})"\}$/.exec(bytes.toString('latin1', end - CRC_TAIL_BYTES, end)) ?? [];
  return digits === undefined || bytes[end] !== LINE_FEED ? undefined : Number.parseInt(digits, 16);
}

/**
 * Overwrites a line's crc with the one that it must have after a line with the crc `seed`.
 * @param end of the line: the index of its newline
 * @returns that crc, such as `0x9ae0daaf`
 */
export function rechain(bytes: Buffer, start: number, end: number, seed: number): number {
  const crc = crcOf(bytes, { start, end }, seed);
  writeHex(crc, bytes, end - CRC_TAIL_BYTES);
  return crc;
}

/**
 * What is sufficient to compute a line's crc from a seed, and the seed from the crc:
 * `{ unseededCrc: 2091792334, lineBytes: 34 }`.
 */
export interface Link {
  /** The line's crc with the seed 0. */
  readonly unseededCrc: number;
  /** Length of the line without its newline. */
  readonly lineBytes: number;
}

/**
 * @returns the link of a line, for which `seedFor` computes the crc of the line before it:
 *   `{ unseededCrc: 2091792334, lineBytes: 34 }`
 */
export function linkOf(bytes: Buffer, { start, end }: Pick<LineForm, 'start' | 'end'>): Link {
  return { unseededCrc: crcOf(bytes, { start, end }, 0), lineBytes: end - start };
}

/**
 * @returns the crc of the previous line with which this line has the crc `crc`:
 *   `seedFor(linkOf(bytes, form), crcOf(bytes, form, 42))` is `42`
 */
export function seedFor({ unseededCrc, lineBytes }: Link, crc: number): number {
  return seedOf(unseededCrc, lineBytes - CRC_MEMBER_BYTES, crc);
}

/**
 * @param end of a verified line: the index of its newline
 * @returns the crc of the line before it in its file, as eight hexadecimal digits: `00000000` for a file's first
 */
export function crcBefore(bytes: Buffer, start: number, end: number): string {
  const form = readForm(bytes, start, end)!;
  return hex(seedFor(linkOf(bytes, form), form.crc));
}

/**
 * The largest seq of a journal, `9_007_199_254_740_991` (2^53 - 1): above it a JavaScript number can not represent every integer.
 */
export const SEQ_MAX = Number.MAX_SAFE_INTEGER;

const NO_BYTES = Buffer.alloc(0);
/** For one UTF-16 code unit. */
const UTF8_BYTES_MAX = 3;
/** For one UTF-16 code unit of members: U+0085, U+2028 and U+2029 are escaped as \uXXXX. */
const RECORDED_BYTES_MAX = 6;
const ENCODE_BUFFER_BYTES_MAX = 1024 * 1024;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const CLOSING_BRACKET = 0x5d;
const COMMA = 0x2c;
const ZERO = 0x30;
const CLOSING_BRACE = 0x7d;
const LINE_SEPARATORS = /[\u0085\u2028\u2029]/g;
const NEEDS_ESCAPE = /[\u0000-\u001f"\\]/;
const CRC_TEMPLATE = ',"crc":"00000000"}\n';
const CRC_MEMBER_BYTES = CRC_TEMPLATE.length - 1;
const CRC_TAIL_BYTES = '00000000"}'.length;
const CRC_PREFIX = Buffer.from(',"crc":"');
const SEQ_PREFIX = Buffer.from('{"seq":');
const ID_MEMBER_BYTES = ',"id":"01a1fb95-ce62-7e59-9364-610bf5613940"'.length;
const TIME_PREFIX_BYTES = ',"time":"'.length;
const TIME_BYTES = '2026-11-20T15:19:45.266Z'.length;
const TIME_SUFFIX_BYTES = '",'.length;
const TYPE_PREFIX_BYTES = '"type":"'.length;
/** What `encodeBatch` adds to the members of a line. */
const FRAME_BYTES_MAX =
  SEQ_PREFIX.length +
  String(SEQ_MAX).length +
  ID_MEMBER_BYTES +
  TIME_PREFIX_BYTES +
  TIME_BYTES +
  TIME_SUFFIX_BYTES +
  CRC_TEMPLATE.length;
/** No string can contain it, since a quote in a string is escaped with a backslash. So its first occurrence is the member. */
const METADATA_MEMBER = ',"metadata":';
const KEY_PREFIX = Buffer.from(',"idempotency_key":"');
/** The members that may follow the metadata, last first, up to the quote that begins their string. */
const MEMBERS_AFTER_METADATA = [
  { prefix: Buffer.from(',"recorded":"'), isList: false },
  { prefix: Buffer.from(',"from":["'), isList: true },
  { prefix: KEY_PREFIX, isList: false },
  { prefix: Buffer.from(',"event_time":"'), isList: false },
];
const SHORT_LINE_BYTES = 1024;
const LINE_SEQ = /^\{"seq":([0-9]{1,16}),/;
const LINE_BEGINNING = /\{"seq":[0-9]{1,16},"id":"/g;
const LINE_ENDING = /,"crc":"[0-9a-f]{8}"\}/g;
/** How many beginnings and ends are tried to find a misplaced line. */
const MISPLACED_MAX = 8;
const AFTER_LINE_BYTES = 16;
/** White space to the end, or the next line. Zeros are excluded: a crash may leave them after a valid line. */
const AFTER_MISPLACED = /^(\s+$|[^\0]{0,2}\{"seq":[0-9])/;
const TIME_MEMBER = /^\{"seq":[0-9]+,"id":"[^"]*","time":"([0-9TZ:.-]{1,40})"/;
const HEX_DIGITS = Buffer.from('0123456789abcdef');

/** For each byte its value as a hexadecimal digit in lower case, or -1 if it is none. */
const HEX_VALUES = Int8Array.from({ length: 256 }, (_, byte) => HEX_DIGITS.indexOf(byte));

/** The text of the members except metadata and crc. Most lines are short, and searched faster as text. */
function withoutMetadata(bytes: Buffer, start: number, end: number): string {
  const short = bytes.toString('utf8', start, Math.min(end, start + SHORT_LINE_BYTES));
  let head = short;
  let metadata = short.indexOf(METADATA_MEMBER);
  if (metadata === -1 && end - start > SHORT_LINE_BYTES) {
    head = bytes.toString('utf8', start, end);
    metadata = head.indexOf(METADATA_MEMBER);
  }
  if (metadata === -1) return head.slice(0, -CRC_MEMBER_BYTES);
  const tail = metadataEnd(bytes, end);
  return head.slice(0, metadata) + bytes.toString('utf8', tail, end - CRC_MEMBER_BYTES);
}

/**
 * Finds the end of the metadata of a line that has some: the members after it are removed one by one, from the last.
 * @param end of the line: the index of its newline
 */
function metadataEnd(bytes: Buffer, end: number): number {
  let at = end - CRC_MEMBER_BYTES;
  for (const { prefix, isList } of MEMBERS_AFTER_METADATA) {
    if (bytes[at - 1] === CLOSING_BRACE) return at;
    const stringEnd = isList ? listStringEnd(bytes, at) : at;
    const begin = stringBegin(bytes, stringEnd) - prefix.length + 1;
    if (bytes.subarray(begin, begin + prefix.length).equals(prefix)) at = begin;
  }
  return at;
}

/** @returns the end of the string in a list such as `["0193e0c2-…",7]`, which ends at `end`; `end` for other bytes */
function listStringEnd(bytes: Buffer, end: number): number {
  let at = end - 1;
  if (bytes[at] !== CLOSING_BRACKET) return end;
  while (isDigit(bytes[at - 1])) at -= 1;
  return bytes[at - 1] === COMMA ? at - 1 : end;
}

/** @returns the index of the quote that begins the string which ends at `end`; quotes inside it follow a backslash */
function stringBegin(bytes: Buffer, end: number): number {
  for (let at = end - 2; ; at -= 1) {
    at = bytes.lastIndexOf(QUOTE, at);
    if (at === -1) return -1;
    let backslashes = 0;
    while (bytes[at - 1 - backslashes] === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return at;
  }
}

/**
 * JSON text of a string without lone surrogates: of `a"b` it is `"a\"b"`. Most strings need no escape, and then this is faster
 * than JSON.stringify.
 */
export function quote(text: string): string {
  return NEEDS_ESCAPE.test(text) ? JSON.stringify(text) : `"${text}"`;
}

/** @returns the JSON text of an array of strings without lone surrogates: `["warehouse","orders"]` */
export function quoteAll(texts: readonly string[]): string {
  let all = '';
  for (const text of texts) all += all === '' ? quote(text) : `,${quote(text)}`;
  return `[${all}]`;
}

function escapeSeparator(separator: string): string {
  return `\\u${separator.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= ZERO + 9;
}

function hex(crc: number): string {
  return crc.toString(16).padStart(8, '0');
}

function writeHex(crc: number, bytes: Buffer, at: number): void {
  for (let digit = 0; digit < 8; digit += 1) bytes[at + digit] = HEX_DIGITS[(crc >>> (28 - 4 * digit)) & 15]!;
}

/**
 * Version 7 UUIDs of one moment (RFC 9562 section 5.7): 48 bits of milliseconds, the version, 74 random bits with the
 * variant between them. The UUIDs of one batch count up from its random start (section 6.2, method 2), so they sort in order.
 * @returns a function whose results are such as `01a1fb95-ce62-7e59-9364-610bf5613940`, and then the same with `…941`
 */
export function uuids(now: Date): () => string {
  const milliseconds = now.getTime().toString(16).padStart(12, '0');
  // A version 4 UUID has its random and variant bits at the positions of version 7.
  const random = randomUUID();
  const prefix = `${milliseconds.slice(0, 8)}-${milliseconds.slice(8)}-7${random.slice(15, 29)}`;
  // The last 28 bits are the counter. It starts in their lower half, so it never overflows into the digit before them.
  let count = Number.parseInt(random.slice(29), 16) >>> 1;
  return () => {
    count += 1;
    return prefix + count.toString(16).padStart(7, '0');
  };
}

/** @returns when an id of `uuids` was made, in milliseconds since 1970; undefined for any other text */
export function idTimeMs(id: string | null): number | undefined {
  const [, high = '', low] = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-/.exec(id ?? '') ?? [];
  return low === undefined ? undefined : Number.parseInt(high + low, 16);
}
