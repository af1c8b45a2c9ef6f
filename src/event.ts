/**
 * What one line of the journal means. This file alone knows the format.
 *
 *     line    = '{"seq":' seq ',"id":"' uuid '","time":"' time '",' members ',"crc":"' crc '"}' LF
 *     members = '"type":…,"asset_key":[…]' and then, each only where the report gave it,
 *               partition, check_name, passed, severity, description, tags, metadata
 *
 * 1. `seq` counts from 1 without gaps over all files of a journal.
 * 2. `crc` is the CRC-32 of the line's bytes before `,"crc"`, seeded with the crc of the line before it in the same file
 *    (0 for a file's first), as eight hexadecimal digits. So a flipped bit, a lost, a swapped and a doubled line all show.
 * 3. A line holds no line break of any kind: JSON escapes the ASCII ones, and U+0085, U+2028 and U+2029 are escaped here
 *    even inside metadata, which is otherwise recorded as it was sent.
 *
 * What it costs: a line can not be changed without writing anew all that follow it in its file. That is the point.
 */

import { randomUUID } from 'node:crypto';
import { crc32 } from 'node:zlib';

interface Common {
  readonly assetKey: readonly string[];
  readonly partition?: string | undefined;
  /** JSON text of an object, as it was sent. */
  readonly metadata?: string | undefined;
}

/** A materialization or an observation: the same fields, another meaning. */
export interface AssetEvent extends Common {
  readonly type: 'AssetMaterialization' | 'AssetObservation';
  readonly description?: string | undefined;
  /** Recorded as the tag `data_version`. */
  readonly dataVersion?: string | undefined;
}

export interface CheckEvent extends Common {
  readonly type: 'AssetCheckEvaluation';
  readonly checkName: string;
  readonly passed: boolean;
  readonly severity: 'WARN' | 'ERROR';
}

export type Event = AssetEvent | CheckEvent;

/** The members of a line that the report decides; `encodeBatch` adds those that its place in the journal decides. */
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
  return members;
}

/** The state that a line takes from the one before it. */
export interface Place {
  /** The next line's. */
  readonly seq: number;
  /** The crc of the line before it in the same file, 0 where there is none. */
  readonly crc: number;
}

/**
 * Encodes a batch of lines that were recorded at one moment.
 * @param batch the members of each, from `encodeMembers`
 * @returns the bytes to append and the place after them
 */
export function encodeBatch(batch: readonly string[], place: Place, now: Date): { bytes: Buffer; place: Place } {
  const time = now.toISOString();
  const nextId = uuids(now);
  let { seq, crc } = place;
  let text = '';
  for (const members of batch) {
    text += `{"seq":${seq},"id":"${nextId()}","time":"${time}",${members}${CRC_TEMPLATE}`;
    seq += 1;
  }
  let bytes = Buffer.from(text);
  // Only text outside ASCII can hold a separator, and a separator can only stand inside a string.
  if (bytes.length !== text.length) bytes = Buffer.from(text.replace(LINE_SEPARATORS, escapeSeparator));
  // The crc goes over bytes, so it is filled in once they are there.
  for (let start = 0, end = 0; start < bytes.length; start = end + 1) {
    end = bytes.indexOf(LINE_FEED, start);
    crc = crc32(bytes.subarray(start, end - CRC_MEMBER_BYTES), crc);
    writeHex(crc, bytes, end - CRC_TAIL_BYTES);
  }
  return { bytes, place: { seq, crc } };
}

/** What is wrong with a line: one clause for the operator. */
export type LineProblem = string;

/**
 * Checks one line, without its newline, against its place in the file.
 * @returns the place after it, or what is wrong
 */
export function checkLine(line: Buffer, place: Place): Place | LineProblem {
  const body = line.length - CRC_MEMBER_BYTES;
  const tail = body > 0 ? line.toString('latin1', body) : '';
  const found = CRC_MEMBER.exec(tail)?.[1];
  if (found === undefined) return 'it does not end in a crc member';
  const crc = crc32(line.subarray(0, body), place.crc);
  if (found !== hex(crc)) return `its crc is ${found}, computed ${hex(crc)}`;
  const seq = readSeq(line);
  if (seq !== place.seq) return `its seq is ${seq ?? 'missing'}, expected ${place.seq}`;
  return { seq: place.seq + 1, crc };
}

/** Whether bytes have the outward form of a line, whatever its crc and its place. */
export function isLine(line: Buffer): boolean {
  return (
    readSeq(line) !== undefined && CRC_MEMBER.test(line.toString('latin1', Math.max(0, line.length - CRC_MEMBER_BYTES)))
  );
}

/** @returns the seq with which a line begins, or undefined where it begins with something else */
export function readSeq(line: Buffer): number | undefined {
  const digits = SEQ_MEMBER.exec(line.toString('latin1', 0, 32))?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** @returns the name of the file whose first line has this seq; names sort as their numbers do */
export function segmentName(firstSeq: number): string {
  return `events-${String(firstSeq).padStart(20, '0')}.jsonl`;
}

/** @returns the seq in a segment's name, or undefined for a name of another kind */
export function segmentFirstSeq(name: string): number | undefined {
  const digits = SEGMENT_NAME.exec(name)?.[1];
  const seq = Number(digits);
  return Number.isSafeInteger(seq) && seq >= 1 ? seq : undefined;
}

const LINE_FEED = 0x0a;
const LINE_SEPARATORS = /[\u0085\u2028\u2029]/g;
const NEEDS_ESCAPE = /[\u0000-\u001f"\\]/;
const CRC_MEMBER = /^,"crc":"([0-9a-f]{8})"\}$/;
const CRC_TEMPLATE = ',"crc":"00000000"}\n';
const CRC_MEMBER_BYTES = CRC_TEMPLATE.length - 1;
const CRC_TAIL_BYTES = '00000000"}'.length;
const SEQ_MEMBER = /^\{"seq":([1-9][0-9]{0,15}),/;
const SEGMENT_NAME = /^events-([0-9]{20})\.jsonl$/;
const HEX_DIGITS = Buffer.from('0123456789abcdef');

/** JSON text of a string without lone surrogates; most need no escape, and then this is faster than JSON.stringify. */
function quote(text: string): string {
  return NEEDS_ESCAPE.test(text) ? JSON.stringify(text) : `"${text}"`;
}

function quoteAll(texts: readonly string[]): string {
  let all = '';
  for (const text of texts) all += all === '' ? quote(text) : `,${quote(text)}`;
  return `[${all}]`;
}

function escapeSeparator(separator: string): string {
  return `\\u${separator.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function hex(crc: number): string {
  return crc.toString(16).padStart(8, '0');
}

function writeHex(crc: number, bytes: Buffer, at: number): void {
  for (let digit = 0; digit < 8; digit += 1) bytes[at + digit] = HEX_DIGITS[(crc >>> (28 - 4 * digit)) & 15]!;
}

/**
 * Version 7 UUIDs of one moment (RFC 9562 section 5.7): 48 bits of milliseconds, the version, 74 random bits with the
 * variant between them. Those of one batch count up from its random start (section 6.2, method 2), so they sort as they came.
 */
function uuids(now: Date): () => string {
  const milliseconds = now.getTime().toString(16).padStart(12, '0');
  // A version 4 UUID has its random and variant bits where version 7 wants them.
  const random = randomUUID();
  const prefix = `${milliseconds.slice(0, 8)}-${milliseconds.slice(8)}-7${random.slice(15, 29)}`;
  // The last 28 bits count, from a start in their lower half: they never reach the digit before them.
  let count = Number.parseInt(random.slice(29), 16) >>> 1;
  return () => {
    count += 1;
    return prefix + count.toString(16).padStart(7, '0');
  };
}
