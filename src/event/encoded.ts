/**
 * Encodes an event as a journal line. The bytes of the values in a report are copied once, and a value whose text needs no check
 * is never decoded.
 */

import type { Event, EventOrigin } from './event.ts';
import type { Json } from './json.ts';
import type { parameters } from './parameters.ts';

/** A JSON text, or a value in a body. */
export type Fragment = string | Json;

type ParameterName = (typeof parameters)[number]['name'];

/** The text before the value of each parameter in a line, in the order of a line. */
const prefixes: Readonly<Record<ParameterName, string>> = {
  asset_key: ',"asset_key":',
  partition: ',"partition":',
  check_name: ',"check_name":',
  passed: ',"passed":',
  severity: ',"severity":',
  description: ',"description":',
  data_version: ',"tags":{"data_version":',
  metadata: ',"metadata":',
  event_time: ',"event_time":',
};
/** The parameters in the order of a line, the asset key first. */
export const lineOrder = Object.keys(prefixes) as readonly ParameterName[];

/**
 * @param fragments the values of the parameters in `lineOrder`, undefined for a missing parameter; the key is an array of
 * strings
 * @returns the members of its line that come from the report: `"type":"AssetObservation","asset_key":["a"]`. It is a text, or
 * bytes if
 *   it is longer than `scratch` or not entirely ASCII. It keeps no body in memory
 */
export function encodeEvent(
  type: Event['type'],
  fragments: readonly (Fragment | undefined)[],
  idempotencyKey: string | undefined,
): string | Buffer {
  const keyMember = idempotencyKey === undefined ? '' : `,"idempotency_key":${quote(idempotencyKey)}`;
  let bytesMax = FRAME_BYTES_MAX + keyMember.length;
  for (const fragment of fragments) if (fragment !== undefined) bytesMax += bytesMaxOf(fragment);
  const target = bytesMax > scratch.length ? Buffer.allocUnsafe(bytesMax) : scratch;
  let at = copy(TYPE_MEMBERS[type], target, 0);
  let isPlain = true;
  for (let index = 0; index < fragments.length; index += 1) {
    const fragment = fragments[index];
    if (fragment === undefined) continue;
    at = copy(PREFIXES[index]!, target, at);
    if (typeof fragment === 'string') {
      const written = target.write(fragment, at);
      at += written;
      isPlain &&= written === fragment.length;
    } else {
      const { source, start, end, omitted } = fragment;
      at = source.copyCompacted(start, end - omitted, target, at);
      isPlain &&= source.isAscii;
    }
    if (index === TAG) target[at++] = CLOSE_BRACE;
  }
  if (keyMember !== '') at += target.write(keyMember, at);
  if (target !== scratch) return escaped(target.subarray(0, at));
  return isPlain ? target.toString('latin1', 0, at) : escaped(Buffer.from(target.subarray(0, at)));
}

/**
 * @param slot further members of the event: `,"site":"north"`
 * @returns an event of another journal, with the seq and the id of its line there
 */
export function forwardedEvent(
  { type, encoded, idempotencyKey }: Omit<Event, 'origin'>,
  origin: EventOrigin,
  slot = '',
): Event {
  const { source, seq, recorded, first } = origin;
  const middle = first === undefined ? slot : `,"origin":["${first[0]}",${first[1]}]${slot}`;
  const end = `,"from":["${source}",${seq}],"recorded":"${recorded}"`;
  return { type, encoded: withSlot(encoded, middle, end), idempotencyKey, origin };
}

/**
 * @param by a name that needs no escape
 * @returns an event that was reported here, with the name of the token of its report; a forwarded event is returned
 * unchanged
 */
export function reportedBy(event: Event, by: string): Event {
  return event.origin === undefined ? { ...event, encoded: withSlot(event.encoded, `,"by":"${by}"`) } : event;
}

function withSlot(encoded: string | Buffer, slot: string, end = ''): Buffer {
  const at = slot === '' ? encoded.length : slotStart(encoded);
  if (typeof encoded === 'string') return Buffer.from(encoded.slice(0, at) + slot + encoded.slice(at) + end);
  return Buffer.concat([encoded.subarray(0, at), Buffer.from(slot), encoded.subarray(at), Buffer.from(end)]);
}

/** No text before the metadata has an unescaped quote, so the first of these members is not part of a text. */
function slotStart(encoded: string | Buffer): number {
  for (const member of AFTER_SLOT) {
    const at = encoded.indexOf(member);
    if (at !== -1) return at;
  }
  return encoded.length;
}

/** @returns an upper bound of the bytes of a fragment */
function bytesMaxOf(fragment: Fragment): number {
  if (typeof fragment !== 'string') return fragment.end - fragment.start;
  return fragment.length < SHORT ? fragment.length * UTF8_BYTES_MAX : Buffer.byteLength(fragment);
}

/** Copies a few bytes with a loop, which is faster than a call of Node. @returns the offset after them in the target */
function copy(bytes: Buffer, target: Buffer, at: number): number {
  for (let index = 0; index < bytes.length; index += 1) target[at + index] = bytes[index]!;
  return at + bytes.length;
}

/** @returns UTF-8 with U+0085, U+2028 and U+2029 escaped; the same buffer if it has none of them */
export function escaped(bytes: Buffer): Buffer {
  const hasSome = ['\u0085', '\u2028', '\u2029'].some((separator) => bytes.includes(separator));
  return hasSome ? Buffer.from(bytes.toString().replace(LINE_SEPARATORS, escapeSeparator)) : bytes;
}

function escapeSeparator(separator: string): string {
  return `\\u${separator.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/**
 * @returns the JSON text of a string without lone surrogates: `"a\"b"` for `a"b`. Faster than JSON.stringify for a string that
 *   needs no escape, as most do.
 */
export function quote(text: string): string {
  return NEEDS_ESCAPE.test(text) ? JSON.stringify(text) : `"${text}"`;
}

/** @returns the JSON text of an array of strings without lone surrogates: `["warehouse","orders"]` */
export function quoteAll(texts: readonly string[]): string {
  return `[${texts.map(quote).join(',')}]`;
}

/** Holds an event of up to 4 KiB while it is encoded, so that the result can be allocated at once in its final size. */
const scratch = Buffer.allocUnsafeSlow(4096);
const TYPE_MEMBERS = {
  AssetMaterialization: Buffer.from('"type":"AssetMaterialization"'),
  AssetCheckEvaluation: Buffer.from('"type":"AssetCheckEvaluation"'),
  AssetObservation: Buffer.from('"type":"AssetObservation"'),
};
const PREFIXES = Object.values(prefixes).map((prefix) => Buffer.from(prefix));
const AFTER_SLOT = [prefixes.metadata, prefixes.event_time, ',"idempotency_key":'];
const TAG = lineOrder.indexOf('data_version');
const CLOSE_BRACE = 0x7d;
/** Bytes of an event in addition to the values of its parameters and its idempotency key. */
const FRAME_BYTES_MAX = 256;
const SHORT = 64;
/** The most bytes of one UTF-16 code unit. */
const UTF8_BYTES_MAX = 3;
const LINE_SEPARATORS = /[\u0085\u2028\u2029]/g;
const NEEDS_ESCAPE = /[\u0000-\u001f"\\]/;
