/**
 * Reads the state of an asset from the members of an event's line, without parsing them: the recording path does this for each
 * event, and a start for each line. The members are in the order of `encodeEvent`.
 */

import { BETWEEN_PARTS } from '../../event/asset-key.ts';
import type { EventType } from '../../event/event.ts';
import { BACKSLASH, CLOSE_BRACE, COMMA } from '../../event/json-bytes.ts';
import { type LineMembers, METADATA_MEMBER } from './record.ts';
import { ERASED_MEMBER, originIn, slotAt } from './slot.ts';

/** What an event reports about the state of its asset. */
export interface Reported {
  readonly type: EventType;
  /** The parts of the asset's key, joined by `BETWEEN_PARTS`. */
  readonly key: string;
  readonly partition: string | undefined;
  /** The next three members are set only in the result of a check. */
  readonly checkName: string | undefined;
  readonly passed: boolean | undefined;
  readonly severity: string | undefined;
  readonly dataVersion: string | undefined;
  readonly eventTime: string | undefined;
  /** Whether the event was erased: its partition is then unknown. */
  readonly isErased: boolean;
  /**
   * The next three members are set only in a forwarded event: the id of the journal to which it was reported, on whatever path it
   * arrived, and its seq and `time` there.
   */
  readonly source: string | undefined;
  readonly sourceSeq: number | undefined;
  readonly recorded: string | undefined;
}

/**
 * The returned texts may be parts of a longer text, which they keep in memory.
 * @param members the result of `encodeEvent`
 */
export function readReported(members: LineMembers): Reported {
  return typeof members === 'string'
    ? new Scan(members, false).read(members)!
    : readReportedIn(members, 0, members.length);
}

/** Like `readReported`, for the members in a verified line. @param start of the members, and @param end of them */
export function readReportedIn(bytes: Buffer, start: number, end: number): Reported {
  const isCut = end - start > HEAD_BYTES;
  const head = bytes.toString('latin1', start, isCut ? start + HEAD_BYTES : end);
  const tail = isCut ? bytes.toString('latin1', end - TAIL_BYTES, end) : head;
  return new Scan(head, isCut).read(tail) ?? new Scan(bytes.toString('latin1', start, end), false).read(tail)!;
}

/** Reads one member after the other from a text that has one character for each byte. */
class Scan {
  readonly #text: string;
  readonly #isCut: boolean;
  #at = 0;

  /** @param isCut whether the text is only the beginning of the members */
  constructor(text: string, isCut: boolean) {
    this.#text = text;
    this.#isCut = isCut;
  }

  /** @param tail the end of the members @returns undefined if the text ends before everything was read */
  read(tail: string): Reported | undefined {
    const text = this.#text;
    const [type, keyAt] = TYPES[text.charCodeAt(TYPE_AT)]!;
    this.#at = keyAt;
    const key = this.#key();
    const partition = this.#string(PARTITION);
    const checkName = this.#string(CHECK_NAME);
    let passed: boolean | undefined;
    let severity: string | undefined;
    if (checkName !== undefined) {
      passed = text.startsWith(PASSED, this.#at);
      this.#at += passed ? PASSED.length : FAILED.length;
      severity = this.#string(SEVERITY);
    }
    if (text.startsWith(DESCRIPTION, this.#at)) this.#at = this.#stringEnd(this.#at + DESCRIPTION.length) + 1;
    const dataVersion = this.#string(DATA_VERSION);
    if (dataVersion !== undefined) this.#at += 1; // the brace of the tags
    const slot = this.#isBeforeTime ? '' : slotAt(text, this.#at);
    this.#at += slot.length;
    if (this.#isCut && (this.#at > text.length - NEXT_BYTES || !this.#isBeforeTime)) return undefined;
    const eventTime = text.startsWith(METADATA_MEMBER, this.#at) ? timeAfterMetadata(tail) : this.#string(EVENT_TIME);
    const first = slot === '' ? undefined : originIn(slot);
    const last = originAtEnd(tail);
    const source = first?.[0] ?? last.source;
    const sourceSeq = first?.[1] ?? last.sourceSeq;
    const { recorded } = last;
    const isErased = slot.includes(ERASED_MEMBER);
    const result = { checkName, passed, severity };
    return { type, key, partition, ...result, dataVersion, eventTime, isErased, source, sourceSeq, recorded };
  }

  #key(): string {
    const start = this.#at;
    let end = this.#stringEnd(start);
    while (this.#text.charCodeAt(end + 1) === COMMA) end = this.#stringEnd(end + BETWEEN_STRINGS.length);
    this.#at = end + 2;
    const raw = this.#text.slice(start, end);
    if (NEEDS_DECODING.test(raw) && !this.#isPastEnd)
      return (JSON.parse(`["${utf8(raw)}"]`) as string[]).join(BETWEEN_PARTS);
    return raw.includes(BETWEEN_STRINGS) ? raw.replaceAll(BETWEEN_STRINGS, BETWEEN_PARTS) : raw;
  }

  /** @param prefix the member up to its opening quote @returns undefined if the member is missing */
  #string(prefix: string): string | undefined {
    if (!this.#text.startsWith(prefix, this.#at)) return undefined;
    const start = this.#at + prefix.length;
    const end = this.#stringEnd(start);
    this.#at = end + 1;
    const raw = this.#text.slice(start, end);
    return NEEDS_DECODING.test(raw) && !this.#isPastEnd ? JSON.parse(`"${utf8(raw)}"`) : raw;
  }

  /** @returns the index of the quote that ends the string; the end of the text if it ends before */
  #stringEnd(start: number): number {
    const text = this.#text;
    let end = text.indexOf('"', start);
    while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
    return end === -1 ? text.length : end;
  }

  /** Whether the next member is enough to locate the event time. */
  get #isBeforeTime(): boolean {
    return this.#text.startsWith(METADATA_MEMBER, this.#at) || this.#text.startsWith(EVENT_TIME, this.#at);
  }

  /** Whether the text ends within the last member that was read. */
  get #isPastEnd(): boolean {
    return this.#at > this.#text.length;
  }
}

/** Whether the quote at an index is part of a string: an odd number of backslashes is in front of it. */
function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text.charCodeAt(first - 1) === BACKSLASH) first -= 1;
  return (at - first) % 2 === 1;
}

/**
 * @param tail the end of the members of an event with metadata. Metadata ends in a brace, and no member after it does
 */
function timeAfterMetadata(tail: string): string | undefined {
  if (tail.charCodeAt(tail.length - 1) === CLOSE_BRACE) return undefined;
  return AFTER_METADATA.exec(tail.slice(-TAIL_BYTES))?.[1];
}

/**
 * @param tail the end of the members. No text of a report can look like the last members of a forwarded event, since its quotes would be
 * escaped
 */
function originAtEnd(tail: string): Pick<Reported, 'source' | 'sourceSeq' | 'recorded'> {
  const recordedAt = tail.length - RECORDED_CHARACTERS;
  if (!tail.startsWith(RECORDED, recordedAt)) return NO_ORIGIN;
  const start = tail.lastIndexOf(FROM, recordedAt) + FROM.length;
  const end = tail.indexOf('"', start);
  return {
    source: tail.slice(start, end),
    sourceSeq: Number(tail.slice(end + 2, recordedAt)),
    recorded: tail.slice(recordedAt + RECORDED.length, -1),
  };
}

function utf8(text: string): string {
  return Buffer.from(text, 'latin1').toString();
}

const KEY = '","asset_key":["';
const typeRow = (type: EventType): readonly [EventType, number] => [type, '"type":"'.length + type.length + KEY.length];
/** The three types differ in the letter after `Asset`. */
const TYPE_AT = '"type":"Asset'.length;
const TYPES: Readonly<Record<number, readonly [type: EventType, keyAt: number]>> = {
  [0x4d]: typeRow('AssetMaterialization'),
  [0x4f]: typeRow('AssetObservation'),
  [0x43]: typeRow('AssetCheckEvaluation'),
};
const BETWEEN_STRINGS = '","';
const PARTITION = ',"partition":"';
const CHECK_NAME = ',"check_name":"';
const PASSED = ',"passed":true';
const FAILED = ',"passed":false';
const SEVERITY = ',"severity":"';
const DESCRIPTION = ',"description":"';
const DATA_VERSION = ',"tags":{"data_version":"';
const EVENT_TIME = ',"event_time":"';
const NO_ORIGIN = { source: undefined, sourceSeq: undefined, recorded: undefined };
const FROM = ',"from":["';
const RECORDED = '],"recorded":"';
/** Including its time and the quote after that. */
const RECORDED_CHARACTERS = RECORDED.length + '2026-11-20T15:19:45.266Z"'.length;
/** The next member is compared with a prefix, and an event time is read whole. */
const NEXT_BYTES = 64;
/** Most events have fewer characters before their metadata. */
const HEAD_BYTES = 1024;
/** The members after the metadata have fewer bytes: an idempotency key has up to 255 characters, and each can be escaped. */
const TAIL_BYTES = 800;
const AFTER_METADATA =
  /\}(?:,"event_time":"([^"\\]*)")?(?:,"idempotency_key":"(?:[^"\\]|\\.)*")?(?:,"from":\["[^"\\]*",\d+\],"recorded":"[^"\\]*")?$/;
const NEEDS_DECODING = /[\\\u0080-\u00ff]/;
