/** An asset with its state as JSON: in the reply of `GET /assets`, in the output of a command and in the file. */

import { BETWEEN_PARTS } from '../event/asset-key.ts';
import type { By } from '../event/event-time.ts';
import { integerFrom, listSchema, namedSchema, objectSchema, type Schema, TEXT, TIME } from '../event/schema.ts';
import {
  type Asset,
  blankCheck,
  type Check,
  checksOf,
  keyOf,
  type Latest,
  latestCheck,
  NONE,
  recordedAt,
} from './asset-state.ts';
import type { Run } from './runs.ts';

/**
 * @param by whether the latest events have their `event_time`
 * @param firstSeq the first event that the journal still has
 * @returns the asset in the form of JSON, as in the reply of `GET /assets`
 */
export function assetJson(asset: Asset, by: By, firstSeq = asset.firstSeq ?? 0): AssetJson {
  const check = latestCheck(asset);
  return {
    asset_key: keyOf(asset),
    materialization: asset.materialization && latestAsJson(asset.materialization, by, firstSeq),
    observation: asset.observation && latestAsJson(asset.observation, by, firstSeq),
    check: check && latestAsJson(check, by, firstSeq),
    checks: checksOf(asset).map(([check_name, check]) => ({
      check_name,
      passed: check.passed,
      severity: check.severity,
      ...latestAsJson(check, by, firstSeq),
      ...(check.inARow > 0 && runJson(check)),
    })),
  };
}

/** @returns the asset in the form of its file, which also has the results before the last ones */
export function savedJson(asset: Asset): AssetJson {
  const { check, checks, ...saved } = assetJson(asset, 'event_time');
  const withBefore = (one: CheckJson): CheckJson => {
    const before = asset.checks?.get(one.check_name)?.before;
    return before === undefined ? one : { ...one, before: runJson(before) };
  };
  return { ...saved, checks: checks.map(withBefore) };
}

/** @returns results in a row in the form of JSON */
export function runJson({ sinceSeq, sinceMs, inARow }: Run): RunJson {
  return { since_seq: sinceSeq, since: new Date(sinceMs).toISOString(), in_a_row: inARow };
}

function latestAsJson(latest: Latest, by: By, firstSeq: number): LatestJson {
  const { count, seq, eventTime, partition, dataVersion, source } = latest;
  const times = { time: recordedAt(latest), ...(by === 'event_time' && { event_time: eventTime }) };
  const removed = seq < firstSeq || undefined;
  return { count, seq, ...times, partition, data_version: dataVersion, source, removed };
}

/** @returns the asset that `assetJson` made the object of, in the order of recording */
export function assetOf(json: AssetJson): Asset {
  const checks = json.checks.map((check): [string, Check] => [check.check_name, checkOf(check)]);
  const all = [json.materialization, json.observation, ...json.checks];
  const removed = all.map((latest) => (latest?.removed ? latest.seq : 0));
  return {
    name: json.asset_key.join(BETWEEN_PARTS),
    firstSeq: Math.max(...removed) + 1,
    materialization: json.materialization && latestOf(json.materialization),
    observation: json.observation && latestOf(json.observation),
    checks: checks.length === 0 ? undefined : new Map(checks),
  };
}

export interface AssetJson {
  readonly asset_key: readonly string[];
  readonly materialization?: LatestJson | undefined;
  readonly observation?: LatestJson | undefined;
  /** The latest result of any check. */
  readonly check?: LatestJson | undefined;
  readonly checks: readonly CheckJson[];
}

/** @returns the schema of an asset in the reply of `GET /assets` */
export function assetSchema(): Schema {
  const [seq, truth] = [integerFrom(1), { type: 'boolean' }];
  const latest = { count: seq, seq, time: TIME };
  const more = { partition: TEXT, data_version: TEXT, source: TEXT, removed: truth };
  const result = { check_name: TEXT, passed: truth, severity: TEXT };
  const run = { since_seq: seq, since: TIME, in_a_row: seq };
  const one = objectSchema(latest, more);
  return objectSchema(
    {
      asset_key: namedSchema('KeyParts'),
      checks: listSchema(objectSchema({ ...result, ...latest, ...run }, more)),
    },
    { materialization: one, observation: one, check: one },
  );
}

interface LatestJson {
  readonly count: number;
  readonly seq: number;
  readonly time: string;
  readonly event_time?: string | undefined;
  readonly partition?: string | undefined;
  readonly data_version?: string | undefined;
  /** The id of the journal that the event was forwarded from. */
  readonly source?: string | undefined;
  /** Whether the journal does not have the event any more; only if so. */
  readonly removed?: true | undefined;
}

interface RunJson {
  readonly since_seq: number;
  readonly since: string;
  readonly in_a_row: number;
}

/** The members of `RunJson` are missing in the reply of an older service. */
interface CheckJson extends LatestJson, Partial<RunJson>, Pick<Check, 'passed' | 'severity'> {
  readonly check_name: string;
  /** Only in the file. */
  readonly before?: RunJson;
}

function latestOf({ count, seq, time, event_time, partition, data_version, source }: LatestJson): Latest {
  const latest = { ...NONE, count, seq, timeMs: Date.parse(time) };
  return { ...latest, eventTime: event_time, partition, dataVersion: data_version, source };
}

function checkOf(json: CheckJson): Check {
  const { passed, severity, before } = json;
  const own = { passed, severity, ...runIn(json), before: before && runIn(before) };
  return Object.assign(blankCheck(), latestOf(json), own);
}

function runIn({ since_seq: sinceSeq = 0, since, in_a_row: inARow = 0 }: Partial<RunJson>): Run {
  return { sinceSeq, sinceMs: since === undefined ? 0 : Date.parse(since), inARow };
}
