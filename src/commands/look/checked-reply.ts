/** Checks the lines of a reply before a command shows them: any server might be at a URL. */

import { type AssetJson, assetOf } from '../../assets/asset-json.ts';
import type { Asset } from '../../assets/asset-state.ts';
import { isObject, readObject } from '../../config/json-file.ts';
import { readForm } from '../../journal/line/chain.ts';
import { Line } from '../../journal/look/reading.ts';
import type { SourceState } from '../../journal/look/source-state.ts';
import type { GoneRange } from '../../journal/segments.ts';

/** @returns a line of a journal whose members have their types; its crc is not verified. Undefined for anything else */
export function readLine(bytes: Buffer, start: number, end: number): Line | undefined {
  const seq = readForm(bytes, start, end)?.seq;
  if (seq === undefined) return undefined;
  const line = new Line(bytes, start, end, seq);
  try {
    JSON.parse(line.text); // with its metadata, which `event` leaves out
    return line.event.seq === seq && hasMembers(line.event, EVENT) ? line : undefined;
  } catch {
    return undefined;
  }
}

/** @param text a line of `GET /assets` @returns undefined for anything else */
export function readAsset(text: string): Asset | undefined {
  const json = readObject(text);
  return hasMembers(json, ASSET) ? assetOf(json as unknown as AssetJson) : undefined;
}

/** @param text a line of `GET /sources` @returns undefined for anything else */
export function readSourceState(text: string): SourceState | undefined {
  const json = readObject(text);
  return hasMembers(json, SOURCE) ? (json as unknown as SourceState) : undefined;
}

/** @param text the data of an event `gap` @returns undefined for anything else */
export function readGap(text: string): GoneRange | undefined {
  const json = readObject(text);
  if (!hasMembers(json, { first: isSeq, last: isSeq })) return undefined;
  const { first, last } = json as unknown as GoneRange;
  return first <= last ? { first, last } : undefined;
}

type Test = (value: unknown) => boolean;

function hasMembers(value: unknown, tests: Readonly<Record<string, Test>>): value is Readonly<Record<string, unknown>> {
  return isObject(value) && Object.entries(tests).every(([name, test]) => test(value[name]));
}

const isText: Test = (value) => typeof value === 'string';
const isBoolean: Test = (value) => typeof value === 'boolean';
const isCount: Test = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isSeq: Test = (value) => isCount(value) && value !== 0;
const isTime: Test = (value) => typeof value === 'string' && TIME.test(value) && !Number.isNaN(Date.parse(value));
const isKey: Test = (value) => Array.isArray(value) && value.length > 0 && value.every(isText);
const orNull =
  (test: Test): Test =>
  (value) =>
    value === null || test(value);
const optional =
  (test: Test): Test =>
  (value) =>
    value === undefined || test(value);
const listOf =
  (test: Test): Test =>
  (value) =>
    Array.isArray(value) && value.every(test);
const objectWith =
  (tests: Readonly<Record<string, Test>>): Test =>
  (value) =>
    hasMembers(value, tests);

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

const EVENT: Readonly<Record<string, Test>> = {
  id: isText,
  time: isTime,
  type: isText,
  asset_key: isKey,
  partition: optional(isText),
  check_name: optional(isText),
  passed: optional(isBoolean),
  severity: optional(isText),
  description: optional(isText),
  tags: optional(objectWith({ data_version: isText })),
  event_time: optional(isText),
  idempotency_key: optional(isText),
};

const LATEST: Readonly<Record<string, Test>> = {
  count: isCount,
  seq: isSeq,
  time: isTime,
  partition: optional(isText),
  data_version: optional(isText),
  source: optional(isText),
  removed: optional(isBoolean),
};

/** An older service does not say since when a result is the same. */
const RESULT: Readonly<Record<string, Test>> = {
  check_name: isText,
  passed: isBoolean,
  severity: isText,
  since_seq: optional(isSeq),
  since: optional(isTime),
  in_a_row: optional(isCount),
};

const ASSET: Readonly<Record<string, Test>> = {
  asset_key: isKey,
  materialization: optional(objectWith(LATEST)),
  observation: optional(objectWith(LATEST)),
  checks: listOf(objectWith({ ...LATEST, ...RESULT })),
};

const SOURCE: Readonly<Record<keyof SourceState, Test>> = {
  id: isText,
  name: orNull(isText),
  token_name: orNull(isText),
  deployment: orNull(isText),
  last_seq: isCount,
  last_event: orNull(isTime),
  last_seen: orNull(isTime),
  lost_events: isCount,
  lag_events: orNull(isCount),
};
