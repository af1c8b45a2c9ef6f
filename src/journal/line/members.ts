/**
 * Reads the members of a verified line, in most cases without parsing the whole line. The line is given as `bytes`, the
 * index `start` of its first byte, and `end`, the index of its newline.
 */

import type { EventType, Recorded } from '../../event/event.ts';
import { BACKSLASH, CLOSE_BRACE, CLOSE_BRACKET, COMMA, isDigit, LINE_FEED, QUOTE } from '../../event/json-bytes.ts';
import type { LineName } from '../../event/line-name.ts';
import {
  CRC_MEMBER_BYTES,
  CRC_TAIL_BYTES,
  ID_MEMBER_BYTES,
  type LineMark,
  METADATA_MEMBER,
  SEQ_PREFIX,
  TIME_BYTES,
  TIME_PREFIX_BYTES,
  TIME_SUFFIX_BYTES,
} from './record.ts';
import { type Reported, readReportedIn } from './reported.ts';
import { isOldName, ORIGIN_MEMBER, originIn, PLAIN, SLOT } from './slot.ts';
import { ID_FORM } from './uuid.ts';

/** @throws SyntaxError only for a line that assetlog did not write */
export function readRecorded(bytes: Buffer, start: number, end: number): Recorded {
  return JSON.parse(`${withoutMetadata(bytes, start, end)}}`);
}

/** @returns the metadata as JSON text, as it was sent, such as `{"rows":1.0}`; undefined if the report had none */
export function metadataOf(bytes: Buffer, start: number, end: number): string | undefined {
  const metadata = bytes.subarray(start, end).indexOf(METADATA_MEMBER);
  if (metadata === -1) return undefined;
  return bytes.toString('utf8', start + metadata + METADATA_MEMBER.length, metadataEnd(bytes, end));
}

/** @returns the index of the metadata in a line that has metadata */
export function metadataStart(bytes: Buffer, start: number): number {
  return bytes.indexOf(METADATA_MEMBER, start) + METADATA_MEMBER.length;
}

/**
 * @returns the idempotency key of the report; undefined if it had none, and for a forwarded event, since the journal that
 * recorded it first
 *   has looked up its key
 */
export function idempotencyKeyOf(bytes: Buffer, start: number, end: number): string | undefined {
  const at = end - CRC_MEMBER_BYTES;
  if (bytes[at - 1] !== QUOTE) return undefined;
  const quote = stringStart(bytes, at);
  const prefixStart = quote - KEY_PREFIX.length + 1;
  if (prefixStart <= start || !bytes.subarray(prefixStart, quote + 1).equals(KEY_PREFIX)) return undefined;
  return JSON.parse(bytes.toString('utf8', quote, at));
}

/** @returns the bytes of the members that `encodeEvent` made of its event: `"type":"AssetObservation","asset_key":["a"]` */
export function membersOf(bytes: Buffer, start: number, end: number, seq: number): Buffer {
  return bytes.subarray(timeStart(start, seq) + TIME_BYTES + TIME_SUFFIX_BYTES, end - CRC_MEMBER_BYTES);
}

/**
 * Whether the result of `membersOf` includes a byte of a line. True for a line without such members.
 * @param at index of the byte; the line can be unverified
 */
export function isInMembers(bytes: Buffer, at: number): boolean {
  const newline = bytes.indexOf(LINE_FEED, at);
  const end = newline === -1 ? bytes.length : newline;
  const type = bytes.indexOf(TYPE_MEMBER, bytes.lastIndexOf(LINE_FEED, at) + 1);
  return type === -1 || type >= end || (at >= type && at < end - CRC_MEMBER_BYTES);
}

/** @returns the members of a verified line that describe the state of its asset */
export function reportedOf(bytes: Buffer, start: number, end: number, seq: number): Reported {
  return readReportedIn(bytes, timeStart(start, seq) + TIME_BYTES + TIME_SUFFIX_BYTES, end - CRC_MEMBER_BYTES);
}

/**
 * @param bytes from `membersOf` or `packMembers`
 * @returns the members in their order, each with its value as JSON text: `asset_key` with `["a"]`
 */
export function readLineMembers(bytes: Buffer): ReadonlyMap<string, string> {
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

/** @returns the seq, the id and the crc of a verified line */
export function markOf(bytes: Buffer, start: number, end: number, seq: number): LineMark {
  const idEnd = timeStart(start, seq) - TIME_PREFIX_BYTES - QUOTE_BYTES;
  const crcAt = end - CRC_TAIL_BYTES;
  return {
    seq,
    id: bytes.toString('latin1', idEnd - ID_BYTES, idEnd),
    crc: bytes.toString('latin1', crcAt, crcAt + 8),
  };
}

function timeStart(start: number, seq: number): number {
  return start + SEQ_PREFIX.length + String(seq).length + ID_MEMBER_BYTES + TIME_PREFIX_BYTES;
}

/** @returns a line's `time` member as text, such as `2026-11-20T15:19:45.266Z`, not verified; undefined if it has none */
export function readTime(line: Buffer): string | undefined {
  return TIME_MEMBER.exec(line.toString('latin1', 0, 128))?.[1];
}

/** @returns a line's `seq`, not verified; NaN if it has none */
export function seqInLine(line: string): number {
  return Number(SEQ_MEMBER.exec(line)?.[1]);
}

/** @param members as JSON text, each with a comma after it: `"source":"…",` @returns the lines, each with a newline, starting with these members */
export function withMembers(
  lines: readonly { readonly bytes: Buffer; readonly start: number; readonly end: number }[],
  members: string,
): Buffer {
  const begin = Buffer.from(`{${members}`);
  // Each line loses its opening brace and gains a newline.
  const rows = Buffer.allocUnsafe(lines.reduce((sum, { start, end }) => sum + begin.length + end - start, 0));
  let at = 0;
  for (const { bytes, start, end } of lines) {
    at += begin.copy(rows, at);
    at += bytes.copy(rows, at, start + 1, end);
    at = rows.writeUInt8(LINE_FEED, at);
  }
  return rows;
}

/** The parts of a line as text, found without parsing its members. */
export interface WrittenLine {
  readonly id: string;
  /** When the event was first recorded, as JSON text. */
  readonly recorded: string;
  /**
   * The line of the event in the journal that sent it; undefined if the event was reported to this journal. The seq can
   * be any number.
   */
  readonly from: LineName | undefined;
  readonly type: EventType;
  /** The members that came from the report. */
  readonly encoded: string;
  /** The members in its slot: `,"site":"north"`. */
  readonly slot: string;
  /** It has at least one part, and no part is empty. */
  readonly assetKey: readonly string[];
  /** The metadata and the event time are not checked. */
  readonly metadata: string | undefined;
  readonly eventTime: string | undefined;
  readonly idempotencyKey: string | undefined;
}

/**
 * @returns undefined if the text does not have the form in which a journal writes lines. An escape outside of metadata, or more
 * than
 *   100 parts of a key, also give undefined, although such a text can be a line
 */
export function readWritten(line: string): WrittenLine | undefined {
  const found = WRITTEN.exec(line);
  if (found === null) return undefined;
  const type = found[4] as EventType;
  if ((type === 'AssetCheckEvaluation') !== (found[6] !== undefined)) return undefined;
  return {
    id: found[1]!,
    recorded: found[14] ?? found[2]!,
    from: found[12] === undefined ? undefined : [found[12], Number(found[13])],
    type,
    encoded: found[3]! + found[8],
    slot: found[7]!,
    assetKey: found[5]!.split('","'),
    metadata: found[9],
    eventTime: found[10],
    idempotencyKey: found[11],
  };
}

/** The report in a line, as text, found without parsing its members. */
export interface WrittenReport {
  /** The members that came from the report. */
  readonly encoded: string;
  /** When the journal of the line recorded it. It is not checked. */
  readonly time: string;
  readonly hasEventTime: boolean;
  readonly hasKey: boolean;
}

/**
 * @returns undefined in the cases of `readWritten`, except that a check can lack its members and another report can
 * have them
 */
export function readWrittenReport(line: string): WrittenReport | undefined {
  const found = WRITTEN.exec(line);
  if (found === null) return undefined;
  return {
    encoded: found[3]! + found[8],
    time: found[2]!.slice(1, -1),
    hasEventTime: found[10] !== undefined,
    hasKey: found[11] !== undefined,
  };
}

/** @returns the line in the journal that sent an event, found without parsing; undefined if the event was reported to this journal */
export function fromOf(bytes: Buffer, start: number, end: number): LineName | undefined {
  const [, source, seq] = FROM.exec(bytes.toString('latin1', Math.max(start, end - FROM_BYTES_MAX), end)) ?? [];
  return source === undefined ? undefined : [source, Number(seq)];
}

/** Whether a line has members in its slot. */
export function hasSlot(bytes: Buffer, start: number, end: number): boolean {
  return !Object.keys(readRecorded(bytes, start, end)).every(isOldName);
}

/**
 * @param from the result of `fromOf` @returns the name of the line that was reported; on the first hub of a device this is `from`
 * itself
 */
export function originOf(bytes: Buffer, start: number, end: number, from: LineName): LineName {
  const line = bytes.subarray(start, end);
  const metadata = line.indexOf(METADATA_MEMBER);
  const at = line.subarray(0, metadata === -1 ? line.length : metadata).indexOf(ORIGIN_MEMBER);
  return (at === -1 ? undefined : originIn(line.toString('latin1', at, at + FROM_BYTES_MAX))) ?? from;
}

/** Number of bytes at the start of a line that include its time. */
export const TIME_HEAD_BYTES = 256;

const ID_BYTES = 36;
const QUOTE_BYTES = 1;
const TYPE_MEMBER = Buffer.from('"type":"');
const TYPE_PREFIX_BYTES = TYPE_MEMBER.length;
const KEY_PREFIX = Buffer.from(',"idempotency_key":"');
/** The members that can follow the metadata, last first, up to the opening quote of their string. */
const MEMBERS_AFTER_METADATA = [
  { prefix: Buffer.from(',"recorded":"'), isList: false },
  { prefix: Buffer.from(',"from":["'), isList: true },
  { prefix: KEY_PREFIX, isList: false },
  { prefix: Buffer.from(',"event_time":"'), isList: false },
];
const PART = '[^"\\\\\u0000-\u001f\u007f]+';
/** Members after the metadata end in a quote or a bracket, so the metadata ends with the last brace before them. */
const WRITTEN = new RegExp(
  `^\\{"seq":[0-9]+,"id":"(${ID_FORM})","time":("[^"\\\\]{24}"),` +
    `("type":"(Asset(?:Materialization|Observation|CheckEvaluation))","asset_key":\\["(${PART}(?:","${PART}){0,99})"\\]` +
    `(?:,"partition":"${PLAIN}*")?` +
    `(?:,"check_name":"(${PLAIN}+)","passed":(?:true|false),"severity":"(?:WARN|ERROR)"` +
    `|(?:,"description":"${PLAIN}*")?(?:,"tags":\\{"data_version":"${PLAIN}*"\\})?))(${SLOT})` +
    `((?:,"metadata":(\\{.*\\}))?(?:,"event_time":"(${PLAIN}*)")?(?:,"idempotency_key":"([!#-[\\]-~]{1,255})")?)` +
    `(?:,"from":\\["(${ID_FORM})",([0-9]+)\\],"recorded":("[^"\\\\]{24}"))?,"crc":"[0-9a-f]{8}"\\}$`,
);
/**
 * The end of a forwarded line. Other lines cannot end like this, since a quote in a string is escaped and metadata ends in `}`.
 */
const FROM = /,"from":\["([0-9a-f-]{36})",([0-9]+)\],"recorded":"[^"\\]*","crc":"[0-9a-f]{8}"\}$/;
const FROM_BYTES_MAX = 160;
const SHORT_LINE_BYTES = 1024;
const SEQ_MEMBER = /^\{"seq":(\d+)/;
const TIME_MEMBER = /^\{"seq":[0-9]+,"id":"[^"]*","time":"([0-9TZ:.-]{1,40})"/;

/** The text of the members except metadata and crc. A short line, as most are, is searched faster as text. */
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
 * Finds the end of the metadata in a line that has metadata: skips the members after it one by one, starting with the
 * last.
 */
function metadataEnd(bytes: Buffer, end: number): number {
  let at = end - CRC_MEMBER_BYTES;
  for (const { prefix, isList } of MEMBERS_AFTER_METADATA) {
    if (bytes[at - 1] === CLOSE_BRACE) return at;
    const stringEnd = isList ? listStringEnd(bytes, at) : at;
    const prefixStart = stringStart(bytes, stringEnd) - prefix.length + 1;
    if (bytes.subarray(prefixStart, prefixStart + prefix.length).equals(prefix)) at = prefixStart;
  }
  return at;
}

/** @returns the end of the string in a list such as `["0193e0c2-…",7]`, which ends at `end`; `end` for other bytes */
function listStringEnd(bytes: Buffer, end: number): number {
  let at = end - 1;
  if (bytes[at] !== CLOSE_BRACKET) return end;
  while (isDigit(bytes[at - 1]!)) at -= 1;
  return bytes[at - 1] === COMMA ? at - 1 : end;
}

/** @returns the index of the opening quote of the string that ends at `end`; a quote inside the string follows a backslash */
function stringStart(bytes: Buffer, end: number): number {
  for (let at = end - 2; ; at -= 1) {
    at = bytes.lastIndexOf(QUOTE, at);
    if (at === -1) return -1;
    let backslashes = 0;
    while (bytes[at - 1 - backslashes] === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return at;
  }
}
