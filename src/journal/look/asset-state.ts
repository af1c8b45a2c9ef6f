/** The state of each asset of a journal, collected event by event: counts, the latest event of each kind, and its checks. */

import type { Recorded } from '../../event/event.ts';
import { type By, happenedAt, sortKeyOf } from '../../event/event-time.ts';
import { findFirstIndex } from '../first-index.ts';

/**
 * The count of the events of one kind, or of one check, and the values of the latest one. Each event overwrites the same object:
 * the garbage of ten million new objects would take more memory than a million assets.
 */
export interface Latest {
  count: number;
  /** How many of these events are in the oldest file of the journal, as far as they are counted: see `AssetStates.countOldest`. */
  oldest: number;
  /** Of the latest event. */
  seq: number;
  /** When it was recorded, in milliseconds since 1970. */
  timeMs: number;
  /** Its `event_time`, as it is recorded. */
  eventTime: string | undefined;
  /** Sorts as the time that it happened: `2026-11-20T14:19:45.25`. Empty if the order is that of the recording. */
  happened: string;
  partition: string | undefined;
  dataVersion: string | undefined;
}

/** The latest result of a check. */
export interface Check extends Latest {
  passed: boolean;
  /** `WARN` or `ERROR`. */
  severity: string;
}

/** The state of an asset. It is small, because there may be a million assets. */
export interface AssetState {
  /** Undefined until the first materialization. */
  materialization: Latest | undefined;
  /** Undefined until the first observation. */
  observation: Latest | undefined;
  /** Checks by name; undefined until the first result of a check. */
  checks: Map<string, Check> | undefined;
}

/** An asset with its state. */
export interface Asset extends AssetState {
  /** The parts of the asset's key, joined by NUL, which no key contains. In hosted mode the deployment follows two NUL. */
  readonly name: string;
}

const BETWEEN_PARTS = '\0';
const BEFORE_DEPLOYMENT = '\0\0';

/** The states of all assets. Takes memory for each asset and check, not for each event. */
export class AssetStates {
  readonly #found = new Map<string, AssetState>();
  readonly #by: By;
  /** The names in order, but for the newest names, which are in any order. */
  #names: string[] = [];
  #newNames: string[] = [];
  #bytes = 0;

  /** @param by which event is the latest one: the one recorded last, or the one that happened last */
  constructor(by: By) {
    this.#by = by;
  }

  /**
   * Takes an event; the events of one journal in the order of their seqs. Of events of the same time the later seq is the latest.
   * @param deployment undefined for a journal without one
   */
  take(event: Recorded, deployment: string | undefined): void {
    const happened = this.#by === 'time' ? '' : sortKeyOf(happenedAt(event));
    const latest = this.#latestOf(event, deployment);
    const textBytes = bytesOfTexts(latest);
    if (!count(latest, event, happened)) return;
    this.#bytes += bytesOfTexts(latest) - textBytes;
    if (event.type !== 'AssetCheckEvaluation') return;
    const check = latest as Check;
    const { passed = false, severity = '' } = event;
    check.passed = passed;
    check.severity = severity;
  }

  /** Approximate memory of the states, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  get size(): number {
    return this.#found.size;
  }

  /**
   * Counts an event that was taken, since it is in the oldest file of its journal: only that file can be removed next, and then
   * these are the events to be forgotten. `#by` must be `time`: the latest event of a kind is then the last one to be removed.
   */
  countOldest(event: Recorded): void {
    this.#latestOf(event, undefined).oldest += 1;
  }

  /** Forgets the events that were counted as events of the oldest file. */
  forgetOldest(): void {
    const isLeft = (latest: Latest | undefined) => {
      if (latest === undefined) return false;
      latest.count -= latest.oldest;
      latest.oldest = 0;
      if (latest.count > 0) return true;
      this.#bytes -= LATEST_BYTES + bytesOfTexts(latest);
      return false;
    };
    for (const [name, asset] of this.#found) {
      if (!isLeft(asset.materialization)) asset.materialization = undefined;
      if (!isLeft(asset.observation)) asset.observation = undefined;
      for (const [checkName, check] of asset.checks ?? []) {
        if (isLeft(check)) continue;
        asset.checks?.delete(checkName);
        this.#bytes -= CHECK_BYTES + CHARACTER_BYTES * checkName.length;
      }
      if (asset.checks?.size === 0) asset.checks = undefined;
      if (asset.materialization ?? asset.observation ?? asset.checks) continue;
      this.#found.delete(name);
      this.#bytes -= ASSET_BYTES + CHARACTER_BYTES * name.length;
    }
    this.#names = this.#names.filter((name) => this.#found.has(name));
    this.#newNames = this.#newNames.filter((name) => this.#found.has(name));
  }

  /** @returns the assets in the order of their keys, in arrays of at most 1,000 */
  *pages(): Generator<readonly Asset[]> {
    let page: Asset[] = [];
    for (const asset of this.inOrder()) {
      page.push(asset);
      if (page.length < PAGE_ASSETS) continue;
      yield page;
      page = [];
    }
    if (page.length > 0) yield page;
  }

  /**
   * Events may be taken while it is used. An asset that comes meanwhile is not yielded.
   * @param after the key of an asset, which need not exist
   * @param prefix the first parts of the keys
   * @returns the assets in the order of their keys
   */
  *inOrder(after?: readonly string[], prefix?: readonly string[]): Generator<Asset> {
    this.#sortNew();
    const names = this.#names;
    const first = prefix?.join(BETWEEN_PARTS) ?? '';
    const afterName = after?.join(BETWEEN_PARTS);
    let at = findFirstIndex(names, (name) => name >= first && (afterName === undefined || name > afterName));
    for (; at < names.length; at += 1) {
      const name = names[at]!;
      if (prefix !== undefined && name !== first && !name.startsWith(`${first}${BETWEEN_PARTS}`)) return;
      const state = this.#found.get(name);
      if (state !== undefined) yield { name, ...state };
    }
  }

  #latestOf(event: Recorded, deployment: string | undefined): Latest {
    const asset = this.#assetOf(event, deployment);
    if (event.type === 'AssetMaterialization') {
      asset.materialization ??= this.#newLatest();
      return asset.materialization;
    }
    if (event.type === 'AssetObservation') {
      asset.observation ??= this.#newLatest();
      return asset.observation;
    }
    const { check_name = '', passed = false, severity = '' } = event;
    asset.checks ??= new Map();
    let check = asset.checks.get(check_name);
    if (check === undefined) {
      check = blankCheck(passed, severity);
      this.#bytes += LATEST_BYTES;
      asset.checks.set(check_name, check);
      this.#bytes += CHECK_BYTES + CHARACTER_BYTES * check_name.length;
    }
    return check;
  }

  #newLatest(): Latest {
    this.#bytes += LATEST_BYTES;
    return { ...NONE };
  }

  #assetOf({ asset_key }: Recorded, deployment: string | undefined): AssetState {
    const key = asset_key.join(BETWEEN_PARTS);
    const name = deployment === undefined ? key : `${key}${BEFORE_DEPLOYMENT}${deployment}`;
    let asset = this.#found.get(name);
    if (asset === undefined) {
      asset = { materialization: undefined, observation: undefined, checks: undefined };
      this.#found.set(name, asset);
      this.#newNames.push(name);
      this.#bytes += ASSET_BYTES + CHARACTER_BYTES * name.length;
      if (this.#newNames.length >= NEW_NAMES_MAX) this.#sortNew();
    }
    return asset;
  }

  /** Sorts a few thousand names at a time: to sort all of 100,000 at once would stop a service for a tenth of a second. */
  #sortNew(): void {
    if (this.#newNames.length === 0) return;
    const fresh = this.#newNames.sort();
    const old = this.#names;
    const merged: string[] = [];
    let at = 0;
    for (const name of fresh) {
      while (at < old.length && old[at]! < name) merged.push(old[at++]!);
      merged.push(name);
    }
    while (at < old.length) merged.push(old[at++]!);
    this.#names = merged;
    this.#newNames = [];
  }
}

/** In one literal: an object that is spread into another one takes several times the memory. */
function blankCheck(passed: boolean, severity: string): Check {
  return {
    count: 0,
    oldest: 0,
    seq: 0,
    timeMs: 0,
    eventTime: undefined,
    happened: '',
    partition: undefined,
    dataVersion: undefined,
    passed,
    severity,
  };
}

/** The bytes of texts that a report chose the length of. */
function bytesOfTexts({ partition = '', dataVersion = '', eventTime = '' }: Latest): number {
  return CHARACTER_BYTES * (partition.length + dataVersion.length + eventTime.length);
}

/** Measured with 100,000 assets on Node 20. A character takes one byte or two. */
const ASSET_BYTES = 140;
const LATEST_BYTES = 130;
const CHECK_BYTES = 110;
const CHARACTER_BYTES = 2;
/** So many names are sorted at a time. */
const NEW_NAMES_MAX = 4_096;

/** The number of assets that are formatted and printed at a time. */
const PAGE_ASSETS = 1_000;

const NONE: Latest = {
  count: 0,
  oldest: 0,
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

/** @returns the deployment that the asset belongs to; empty for an asset of a journal without one */
export function deploymentOf({ name }: Asset): string {
  return name.split(BEFORE_DEPLOYMENT)[1] ?? '';
}

/** @returns the asset's checks with their names, in the order of the names */
export function checksOf({ checks = new Map() }: Asset): [string, Check][] {
  return [...checks].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** @returns the names of the checks whose latest result is a failure */
export function failingOf(asset: Asset): string[] {
  return checksOf(asset)
    .filter(([, { passed }]) => !passed)
    .map(([name]) => name);
}

/** @returns whether the latest result of any check is a failure */
export function isFailing({ checks }: Asset): boolean {
  for (const { passed } of checks?.values() ?? []) if (!passed) return true;
  return false;
}

/** @returns the latest result of any check, with the count of the results of all checks; undefined without checks */
export function latestCheck(asset: Asset): Latest | undefined {
  const checks = checksOf(asset).map(([, check]) => check);
  if (checks.length === 0) return undefined;
  return { ...newestOf(checks), count: checks.reduce((sum, { count }) => sum + count, 0) };
}

/** @returns the latest event of an asset, of any kind */
export function latestEvent({ materialization, observation, checks }: AssetState): Latest {
  return newestOf([materialization, observation, ...(checks?.values() ?? [])].filter((one) => one !== undefined));
}

/** Whether the latest event of an asset was recorded at a time in ms since 1970 or before; by `event_time`, whether it happened then. */
export function isStale(asset: AssetState, ms: number): boolean {
  const { happened, timeMs } = latestEvent(asset);
  return (happened === '' ? timeMs : Date.parse(`${happened}Z`)) <= ms;
}

/** @param all at least one */
function newestOf(all: readonly Latest[]): Latest {
  return all.reduce((newest, one) => (isLater(one, newest) ? one : newest));
}

function isLater(one: Latest, other: Latest): boolean {
  return one.happened === other.happened ? one.seq > other.seq : one.happened > other.happened;
}

/**
 * @param by whether the latest events are shown with their `event_time`
 * @returns the asset as its JSON line has it
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

/** @returns the asset that `assetJson` made the object of, by `time` */
export function assetOf(json: {
  readonly asset_key: readonly string[];
  readonly materialization?: LatestJson;
  readonly observation?: LatestJson;
  readonly checks: readonly (LatestJson & Pick<Check, 'passed' | 'severity'> & { readonly check_name: string })[];
}): Asset {
  const checks = json.checks.map((check): [string, Check] => [
    check.check_name,
    { ...latestOf(check), passed: check.passed, severity: check.severity },
  ]);
  return {
    name: json.asset_key.join(BETWEEN_PARTS),
    materialization: json.materialization && latestOf(json.materialization),
    observation: json.observation && latestOf(json.observation),
    checks: checks.length === 0 ? undefined : new Map(checks),
  };
}

interface LatestJson {
  readonly count: number;
  readonly seq: number;
  readonly time: string;
  readonly partition?: string;
  readonly data_version?: string;
}

function latestOf({ count, seq, time, partition, data_version }: LatestJson): Latest {
  return { ...NONE, count, seq, timeMs: Date.parse(time), partition, dataVersion: data_version };
}
