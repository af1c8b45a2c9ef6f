/** An asset with its state as JSON: in the reply of `GET /assets` and in the output of a command. */

import { integerFrom, listSchema, namedSchema, objectSchema, type Schema, TEXT, TIME } from '../event/schema.ts';
import { type Asset, checksOf, failingOf, keyOf, latestCheck, recordedAt } from './asset-state.ts';
import { type Check, failingSeverity, failuresOf, holdingSlot, isFailing, type Slot } from './check-state.ts';
import type { Latest } from './latest.ts';

export interface AssetJson {
  readonly asset_key: readonly string[];
  /** When its last event happened. Older services do not send it. */
  readonly alive?: string | undefined;
  readonly materialization?: LatestJson | undefined;
  readonly observation?: LatestJson | undefined;
  /** The latest result of any check. */
  readonly check?: LatestJson | undefined;
  /** Number of results that are not in `checks`, because the asset has too many. */
  readonly checks_beyond?: number | undefined;
  readonly checks: readonly CheckJson[];
}

export interface LatestJson {
  readonly count: number;
  readonly seq: number;
  readonly time: string;
  readonly event_time?: string | undefined;
  readonly partition?: string | undefined;
  readonly data_version?: string | undefined;
  /** The id of the journal from which the event was forwarded. */
  readonly source?: string | undefined;
  /** Whether the journal no longer has the event; absent otherwise. */
  readonly removed?: true | undefined;
}

/** Since when the result is the same, and for how many consecutive results. */
export interface HoldsJson {
  readonly since: string;
  readonly since_seq: number;
  readonly in_a_row: number;
}

/** `passed`, `severity` and the members of `LatestJson` belong to the latest result, the others to the whole check. */
export interface CheckJson extends LatestJson, Partial<HoldsJson> {
  readonly check_name: string;
  readonly passed: boolean;
  readonly severity: string;
  /**
   * Whether the latest result without a partition, or the latest result of any partition, is a failure. Older services do not send it.
   */
  readonly failing?: boolean;
  readonly failing_severity?: string | undefined;
  readonly failed_partitions?: readonly FailedPartitionJson[] | undefined;
  /** Number of further failures of partitions. */
  readonly failed_partitions_beyond?: number | undefined;
}

interface FailedPartitionJson extends HoldsJson {
  readonly partition: string;
  readonly severity: string;
}

/**
 * @param firstSeq the first event that the journal still has
 * @param isFailingOnly whether only failing checks are wanted
 * @returns the asset in the form of JSON, as in the reply of `GET /assets`
 */
export function assetJson(asset: Asset, firstSeq: number, isFailingOnly = false): AssetJson {
  const checks = shownChecks(asset, isFailingOnly).map(([name, check]) => checkJson(name, check, firstSeq));
  return { ...assetHead(asset, firstSeq), checks };
}

/** Yields the JSON of the asset in the texts of `textsWithChecks`. */
export function* assetTexts(asset: Asset, firstSeq: number, isFailingOnly: boolean): Generator<string> {
  const checks = shownChecks(asset, isFailingOnly);
  yield* textsWithChecks(assetHead(asset, firstSeq), checks, (name, check) => checkJson(name, check, firstSeq));
  yield '}';
}

/**
 * Yields the JSON of an object in texts, one for each check, so that an asset with many checks delays nothing.
 * @param head its other members, without the closing brace; `checks` becomes the last member
 */
export function* textsWithChecks(
  head: object,
  checks: readonly (readonly [name: string, check: Check])[],
  jsonOf: (name: string, check: Check) => object,
): Generator<string> {
  yield `${JSON.stringify(head).slice(0, -1)},"checks":[`;
  let before = '';
  for (const [name, check] of checks) {
    yield `${before}${JSON.stringify(jsonOf(name, check))}`;
    before = ',';
  }
  yield ']';
}

function shownChecks(asset: Asset, isFailingOnly: boolean): [string, Check][] {
  return isFailingOnly ? failingOf(asset) : checksOf(asset);
}

function assetHead(asset: Asset, firstSeq: number): Omit<AssetJson, 'checks'> {
  const check = latestCheck(asset);
  return {
    asset_key: keyOf(asset),
    alive: new Date(asset.aliveMs).toISOString(),
    materialization: asset.materialization && latestJson(asset.materialization, firstSeq),
    observation: asset.observation && latestJson(asset.observation, firstSeq),
    check: check && latestJson(check, firstSeq),
    checks_beyond: asset.checksBeyond || undefined,
  };
}

function checkJson(check_name: string, check: Check, firstSeq: number): CheckJson {
  const holding = holdingSlot(check);
  const failed: FailedPartitionJson[] = [];
  for (const [partition, slot] of failuresOf(check))
    if (partition !== undefined) failed.push({ partition, severity: slot.severity, ...holdsJson(slot) });
  return {
    check_name,
    passed: check.passed,
    severity: check.severity,
    ...latestJson(check, firstSeq),
    failing: isFailing(check),
    failing_severity: failingSeverity(check),
    ...(holding && holdsJson(holding)),
    failed_partitions: failed.length === 0 ? undefined : failed,
    failed_partitions_beyond: check.beyond || undefined,
  };
}

/** @returns since when a slot has its state, in the form of JSON */
export function holdsJson({ sinceMs, sinceSeq, inARow }: Slot): HoldsJson {
  return { since: new Date(sinceMs).toISOString(), since_seq: sinceSeq, in_a_row: inARow };
}

/** @returns the count and the latest event in the form of JSON. @param firstSeq 0 if that is unknown */
export function latestJson(latest: Latest, firstSeq: number): LatestJson {
  const { count, seq, eventTime, partition, dataVersion, source } = latest;
  const removed = seq < firstSeq || undefined;
  const time = recordedAt(latest);
  return { count, seq, time, event_time: eventTime, partition, data_version: dataVersion, source, removed };
}

/** @returns the schema of an asset in the reply of `GET /assets` */
export function assetSchema(): Schema {
  const [seq, truth] = [integerFrom(1), { type: 'boolean' }];
  const latest = { count: seq, seq, time: TIME };
  const more = { event_time: TEXT, partition: TEXT, data_version: TEXT, source: TEXT, removed: truth };
  const result = { check_name: TEXT, passed: truth, severity: TEXT, failing: truth };
  const holds = { since: TIME, since_seq: seq, in_a_row: seq };
  const failures = {
    failing_severity: TEXT,
    failed_partitions: listSchema(objectSchema({ partition: TEXT, severity: TEXT, ...holds })),
    failed_partitions_beyond: seq,
  };
  const one = objectSchema(latest, more);
  return objectSchema(
    {
      asset_key: namedSchema('KeyParts'),
      alive: TIME,
      checks: listSchema(objectSchema({ ...result, ...latest }, { ...more, ...holds, ...failures })),
    },
    { materialization: one, observation: one, check: one, checks_beyond: seq },
  );
}
