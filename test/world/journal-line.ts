/**
 * A line of a journal, read by its format: the members in their order, no others, and metadata as it was written. It uses no file of
 * the service, since tests compare the service with what it reads.
 */

import { crc32 } from 'node:zlib';

/** The members that come from a report. */
export interface Report {
  readonly type: string;
  readonly asset_key: readonly string[];
  readonly partition?: string;
  readonly check_name?: string;
  readonly passed?: boolean;
  readonly severity?: string;
  readonly description?: string;
  readonly tags?: { readonly data_version: string };
  readonly metadata?: object;
  readonly event_time?: string;
  readonly idempotency_key?: string;
}

export interface JournalLine {
  readonly seq: number;
  readonly id: string;
  readonly time: string;
  readonly report: Report;
  /** The members of the report, as text, without those of the slot. */
  readonly members: string;
  /** Its metadata, as text. */
  readonly metadata: string | undefined;
  /** The members that this version does not know, and the line that was reported first. */
  readonly slot: Readonly<Record<string, unknown>>;
  readonly origin: readonly [source: string, seq: number] | undefined;
  /** The journal and the seq that a hub got the event from. */
  readonly from: readonly [source: string, seq: number] | undefined;
  /** The time there. */
  readonly recorded: string | undefined;
  readonly crc: number;
  /** All of it. */
  readonly text: string;
}

const NUMBER = '[1-9]\\d*';
const UUID = '"[\\da-f]{8}-[\\da-f]{4}-7[\\da-f]{3}-[89ab][\\da-f]{3}-[\\da-f]{12}"';
const TIME = '"\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z"';
const EVENT_TIME = '"\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(?:\\.\\d{1,9})?Z"';
/** No line has a line break of any kind. */
const STRING = '"(?:[^"\\\\\\0-\\x1f\\x85\\u2028\\u2029]|\\\\.)*"';
const BEGIN = `,"asset_key":\\[${STRING}(?:,${STRING})*\\](?:,"partition":${STRING})?`;
const OTHERS = `(?:,"description":${STRING})?(?:,"tags":\\{"data_version":${STRING}\\})?`;
const ATOM = '(?:"[^"\\\\\\0-\\x1f\\x85\\u2028\\u2029]*"|0|-?[1-9]\\d{0,15})';
const VALUE = `(?:${ATOM}|\\[(?:${ATOM}(?:,${ATOM})*)?\\])`;
const REPORT_NAMES = 'partition|check_name|passed|severity|description|tags|metadata|event_time|idempotency_key';
const SLOT = `(?:,"(?!(?:${REPORT_NAMES}|seq|id|time|type|asset_key|from|recorded|crc)")[^"\\\\]+":${VALUE})*`;
const REPORT = [
  `(?:"type":"Asset(?:Materialization|Observation)"${BEGIN}${OTHERS}`,
  `|"type":"AssetCheckEvaluation"${BEGIN},"check_name":${STRING},"passed":(?:true|false),"severity":"(?:WARN|ERROR)")`,
  `(?<slot>${SLOT})`,
  `(?:,"metadata":(?<metadata>\\{[^\\x85\\u2028\\u2029]*\\}))?`,
  `(?:,"event_time":${EVENT_TIME})?(?:,"idempotency_key":${STRING})?`,
].join('');
const ORIGIN = `(?:,"from":\\["[\\w-]+",${NUMBER}\\],"recorded":${TIME})?`;
const LINE = new RegExp(
  `^\\{"seq":${NUMBER},"id":${UUID},"time":${TIME},(?<members>${REPORT})${ORIGIN},"crc":"[\\da-f]{8}"\\}$`,
);
const CRC_MEMBER = ',"crc":"00000000"}';

/** @throws Error or SyntaxError if the text is no line */
export function readLine(text: string): JournalLine {
  const written = LINE.exec(text)?.groups;
  if (written === undefined) throw new Error(`no line of a journal: ${text}`);
  const { metadata, slot, ...whole } = written as { members: string; metadata: string | undefined; slot: string };
  const members = whole.members.replace(slot, '');
  const { origin, ...others } = JSON.parse(`{${slot.slice(1)}}`);
  const { seq, id, time, from, recorded, crc, ...report } = JSON.parse(text);
  for (const name of ['origin', ...Object.keys(others)]) delete report[name];
  if (metadata !== undefined) JSON.parse(metadata); // it is one object, and no member follows it
  return {
    seq,
    id,
    time,
    report,
    members,
    metadata,
    slot: others,
    origin,
    from,
    recorded,
    crc: Number.parseInt(crc, 16),
    text,
  };
}

/**
 * @param before the checksum of the line before; 0 for the first of a file
 * @returns undefined if the text does not end with its checksum
 * @throws Error or SyntaxError if it does and is no line
 */
export function readNext(text: string, before: number): JournalLine | undefined {
  const end = text.length - CRC_MEMBER.length;
  const crc = crc32(text.slice(0, Math.max(0, end)), before);
  return text.endsWith(`"${crc.toString(16).padStart(8, '0')}"}`) ? readLine(text) : undefined;
}
