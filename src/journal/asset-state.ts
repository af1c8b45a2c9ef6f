/** The state of each asset of a journal, collected event by event: counts, the latest event of each kind, and its checks. */

import { type By, happenedAt, sortKeyOf } from '../event/event-time.ts';
import type { Recorded } from './record.ts';

/**
 * The count of the events of one kind, or of one check, and the values of the latest one. Each event overwrites the same object:
 * the garbage of ten million new objects would take more memory than a million assets. For example
 * `{ count: 3, seq: 41, timeMs: 1_795_187_985_266, partition: '2026-11-20', … }`.
 */
export interface Latest {
  count: number;
  /** Of the latest event. */
  seq: number;
  /** When it was recorded, in milliseconds since 1970. */
  timeMs: number;
  /** Its `event_time`, as it is recorded. */
  eventTime: string | undefined;
  /** Sorts as the time that it happened: `2026-11-20T14:19:45.25`. Empty where the order is that of the recording. */
  happened: string;
  partition: string | undefined;
  dataVersion: string | undefined;
}

/** The latest result of a check: `{ count: 3, seq: 41, passed: false, severity: 'WARN', … }`. */
export interface Check extends Latest {
  passed: boolean;
  /** `WARN` or `ERROR`. */
  severity: string;
}

/**
 * The state of an asset: `{ materialization: { count: 3, … }, observation: undefined, checks: undefined }`. It is small, because
 * there may be a million assets.
 */
export interface AssetState {
  /** Undefined until the first materialization. */
  materialization: Latest | undefined;
  /** Undefined until the first observation. */
  observation: Latest | undefined;
  /** Checks by name; undefined until the first result of a check. */
  checks: Map<string, Check> | undefined;
}

/** An asset with its state: `{ name: 'warehouse\0orders', materialization: { count: 3, … }, … }`. */
export interface Asset extends AssetState {
  /** The parts of the asset's key, joined by NUL, which no key contains. In hosted mode the deployment follows two NUL. */
  readonly name: string;
}

const BETWEEN_PARTS = '\0';
const BEFORE_DEPLOYMENT = '\0\0';

/**
 * The states of all assets, such as `warehouse/orders` with 3 materializations. Takes memory for each asset and check, not for
 * each event.
 */
export class AssetStates {
  readonly #found = new Map<string, AssetState>();
  readonly #by: By;

  /** @param by which event is the latest one: the one recorded last, or the one that happened last */
  constructor(by: By) {
    this.#by = by;
  }

  /**
   * Takes an event; those of one journal in the order of their seqs. Of events of the same time the later seq is the latest.
   * @param deployment such as `prod`; undefined for a journal without one
   */
  take(event: Recorded, deployment: string | undefined): void {
    const asset = this.#assetOf(event, deployment);
    const happened = this.#by === 'time' ? '' : sortKeyOf(happenedAt(event));
    if (event.type === 'AssetMaterialization') {
      asset.materialization ??= { ...NONE };
      count(asset.materialization, event, happened);
    } else if (event.type === 'AssetObservation') {
      asset.observation ??= { ...NONE };
      count(asset.observation, event, happened);
    } else {
      const { check_name = '', passed = false, severity = '' } = event;
      asset.checks ??= new Map();
      let check = asset.checks.get(check_name);
      if (check === undefined) {
        check = { ...NONE, passed, severity };
        asset.checks.set(check_name, check);
      }
      if (!count(check, event, happened)) return;
      check.passed = passed;
      check.severity = severity;
    }
  }

  /** @returns the assets in the order of their keys, in arrays of at most 1,000, such as 1,000 and 200 for 1,200 assets */
  *pages(): Generator<readonly Asset[]> {
    const names = [...this.#found.keys()].sort();
    for (let at = 0; at < names.length; at += PAGE_ASSETS) {
      yield names
        .slice(at, at + PAGE_ASSETS)
        .map((name): Asset => ({ name, ...(this.#found.get(name) as AssetState) }));
    }
  }

  #assetOf({ asset_key }: Recorded, deployment: string | undefined): AssetState {
    const key = asset_key.join(BETWEEN_PARTS);
    const name = deployment === undefined ? key : `${key}${BEFORE_DEPLOYMENT}${deployment}`;
    let asset = this.#found.get(name);
    if (asset === undefined) {
      asset = { materialization: undefined, observation: undefined, checks: undefined };
      this.#found.set(name, asset);
    }
    return asset;
  }
}

/** The number of assets that are formatted and printed at a time. */
const PAGE_ASSETS = 1_000;

const NONE: Latest = {
  count: 0,
  seq: 0,
  timeMs: 0,
  eventTime: undefined,
  happened: '',
  partition: undefined,
  dataVersion: undefined,
};

/** @returns whether the event is the latest one now */
function count(latest: Latest, { seq, time, event_time, partition, tags }: Recorded, happened: string): boolean {
  latest.count += 1;
  if (happened < latest.happened) return false;
  latest.seq = seq;
  latest.timeMs = Date.parse(time);
  latest.happened = happened;
  if (latest.eventTime !== event_time) latest.eventTime = event_time;
  if (latest.partition !== partition) latest.partition = partition;
  if (latest.dataVersion !== tags?.data_version) latest.dataVersion = tags?.data_version;
  return true;
}

/** @returns when the latest event was recorded: `2026-11-20T15:19:45.266Z` */
export function recordedAt({ timeMs }: Latest): string {
  return new Date(timeMs).toISOString();
}

/** @returns the parts of the asset's key: `['warehouse', 'orders']` */
export function keyOf({ name }: Asset): readonly string[] {
  const [key = ''] = name.split(BEFORE_DEPLOYMENT, 1);
  return key.split(BETWEEN_PARTS);
}

/** @returns the deployment that the asset belongs to: `'prod'`; empty for an asset of a journal without one */
export function deploymentOf({ name }: Asset): string {
  return name.split(BEFORE_DEPLOYMENT)[1] ?? '';
}

/** @returns the asset's checks with their names, in the order of the names: `[['no_nulls', { passed: true, … }]]` */
export function checksOf({ checks = new Map() }: Asset): [string, Check][] {
  return [...checks].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** @returns the names of the checks whose latest result is a failure: `['no_nulls']` */
export function failingOf(asset: Asset): string[] {
  return checksOf(asset)
    .filter(([, { passed }]) => !passed)
    .map(([name]) => name);
}

/** @returns whether the latest result of any check is a failure: `true` if `failingOf` returns `['no_nulls']` */
export function isFailing(asset: Asset): boolean {
  return failingOf(asset).length > 0;
}

/**
 * @returns the latest result of any check, with the count of the results of all checks: `{ count: 5, seq: 41, … }` for checks
 *   with 3 and 2 results; undefined without checks
 */
export function latestCheck(asset: Asset): Latest | undefined {
  const checks = checksOf(asset).map(([, check]) => check);
  if (checks.length === 0) return undefined;
  const newest = checks.reduce((most, check) => (isLater(check, most) ? check : most));
  return { ...newest, count: checks.reduce((sum, { count }) => sum + count, 0) };
}

function isLater(check: Check, other: Check): boolean {
  return check.happened === other.happened ? check.seq > other.seq : check.happened > other.happened;
}

/**
 * @param by whether the latest events are shown with their `event_time`
 * @returns the asset as its JSON line has it:
 *   `{ asset_key: ['warehouse', 'orders'], materialization: { count: 3, seq: 41, time: '…' }, …, checks: [] }`
 */
export function assetJson(asset: Asset, by: By): object {
  return {
    asset_key: keyOf(asset),
    materialization: latestAsJson(asset.materialization, by),
    observation: latestAsJson(asset.observation, by),
    check: latestAsJson(latestCheck(asset), by),
    checks: checksOf(asset).map(([check_name, check]) => ({
      check_name,
      passed: check.passed,
      severity: check.severity,
      ...latestAsJson(check, by),
    })),
  };
}

function latestAsJson(kind: Latest | undefined, by: By): object | undefined {
  if (kind === undefined) return undefined;
  const { count, seq, eventTime, partition, dataVersion } = kind;
  const times = { time: recordedAt(kind), ...(by === 'event_time' && { event_time: eventTime }) };
  return { count, seq, ...times, partition, data_version: dataVersion };
}
