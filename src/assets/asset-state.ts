/** The state of each asset of a journal, collected event by event: counts, the latest event of each kind, and its checks. */

import { detach } from '../config/memory.ts';
import { BETWEEN_PARTS } from '../event/asset-key.ts';
import type { Recorded } from '../event/event.ts';
import { type By, sortKeyOf } from '../event/event-time.ts';
import { findFirstIndex } from '../journal/first-index.ts';
import type { Reported } from '../journal/line/reported.ts';
import { mergedBefore, type Runs, runOf } from './runs.ts';
import type { Watch, WatchedPrefix } from './watch.ts';

/**
 * The count of the events of one kind, or of one check, and the values of the latest one. Each event overwrites the same object:
 * the garbage of ten million new objects would take more memory than a million assets.
 */
export interface Latest {
  count: number;
  /** Of the latest event. */
  seq: number;
  /** When it was recorded, in milliseconds since 1970. */
  timeMs: number;
  /** Its `event_time`, as it is recorded. */
  eventTime: string | undefined;
  /** When it happened, in a form that sorts: `2026-11-20T14:19:45.25`. Empty if events are ordered by when they were recorded. */
  happened: string;
  partition: string | undefined;
  dataVersion: string | undefined;
  /** The id of the journal that it was forwarded from; undefined if it was reported here. */
  source: string | undefined;
}

/** The latest result of a check, and the last results in a row that are the same. */
export interface Check extends Latest, Runs {
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
  /** The parts of the asset's key, joined by `BETWEEN_PARTS`. In hosted mode the deployment follows two NUL. */
  readonly name: string;
  /** The first event that its journal still has; undefined if that is unknown. */
  readonly firstSeq?: number;
}

interface Held extends AssetState {
  /** Undefined if it is not watched. */
  readonly watchedBy: readonly WatchedPrefix[] | undefined;
}

const BEFORE_DEPLOYMENT = '\0\0';

/** What several states together take and refuse. */
export interface StatesMemory {
  /** Approximate. */
  bytes: number;
  /** Number of events that were not taken. */
  refused: number;
}

export interface AssetStatesOptions {
  /** Whether the latest event is the last one by recording, or by event time. */
  readonly by: By;
  readonly memory?: StatesMemory;
  /** Whether another asset or another check fits into the memory. By default each does. */
  readonly hasSpace?: () => boolean;
  /** The assets that are watched: they are taken whether they fit or not. */
  readonly watch?: Watch | undefined;
}

/** The states of all assets. Takes memory for each asset and check, not for each event. */
export class AssetStates {
  readonly watch: Watch | undefined;
  /** Number of events of assets and checks that were not taken, since they did not fit into the memory. */
  refused = 0;
  readonly #found = new Map<string, Held>();
  readonly #by: By;
  readonly #memory: StatesMemory;
  readonly #hasSpace: () => boolean;
  /** The names in order, but for the newest names, which are in any order. */
  #names: string[] = [];
  #newNames: string[] = [];
  /** Each id once: a hub has few sources and many assets. */
  readonly #ids = new Map<string, string>();
  #bytes = 0;

  constructor({ by, memory = { bytes: 0, refused: 0 }, hasSpace = () => true, watch }: AssetStatesOptions) {
    this.#by = by;
    this.#memory = memory;
    this.#hasSpace = hasSpace;
    this.watch = watch;
  }

  /**
   * Takes an event; the events of one journal in the order of their seqs. Of events of the same time the later seq is the latest. An
   * event that was taken before changes nothing, if events are ordered by when they were recorded.
   * @param timeMs when it was recorded
   * @param deployment undefined for a journal without one
   */
  take(seq: number, timeMs: number, event: Reported, deployment?: string): void {
    const name = deployment === undefined ? event.key : `${event.key}${BEFORE_DEPLOYMENT}${deployment}`;
    const asset = this.#found.get(name) ?? this.#newAsset(name);
    const latest = asset && this.#latestOf(asset, event);
    if (asset === undefined || latest === undefined) {
      this.refused += 1;
      this.#memory.refused += 1;
      return;
    }
    if (this.#by === 'time') {
      if (seq <= latest.seq) return;
    } else {
      const happened = sortKeyOf(event.eventTime ?? new Date(timeMs).toISOString());
      if (happened < latest.happened) {
        latest.count += 1;
        return;
      }
      latest.happened = happened;
    }
    latest.count += 1;
    latest.seq = seq;
    latest.timeMs = timeMs;
    if (latest.eventTime !== event.eventTime) latest.eventTime = this.#exchange(latest.eventTime, event.eventTime);
    if (latest.partition !== event.partition) latest.partition = this.#exchange(latest.partition, event.partition);
    if (latest.dataVersion !== event.dataVersion)
      latest.dataVersion = this.#exchange(latest.dataVersion, event.dataVersion);
    if (latest.source !== event.source) latest.source = this.#sharedId(event.source);
    if (event.checkName !== undefined) takeResult(latest as Check, event, this.#by);
    if (asset.watchedBy !== undefined) for (const prefix of asset.watchedBy) prefix.took(name, timeMs);
  }

  /** @returns undefined without an event of the asset, or if it did not fit into the memory */
  find(key: readonly string[]): AssetState | undefined {
    return this.#found.get(key.join(BETWEEN_PARTS));
  }

  /** Approximate memory of the states, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  get size(): number {
    return this.#found.size;
  }

  /** Adds an asset that is not there. */
  put({ name, materialization, observation, checks }: Asset): void {
    for (const latest of [materialization, observation, ...(checks?.values() ?? [])])
      if (latest?.source !== undefined) latest.source = this.#sharedId(latest.source);
    const asset = Object.assign(this.#add(name), { materialization, observation, checks });
    this.#count(bytesOf(asset));
  }

  /** Called after the last `put`: puts the watched assets in the order of their last events. */
  beginWatch(): void {
    const watched: [seq: number, timeMs: number, name: string, Held][] = [];
    for (const [name, asset] of this.watch === undefined ? [] : this.#found) {
      if (asset.watchedBy === undefined) continue;
      const { seq, timeMs } = latestEvent(asset);
      watched.push([seq, timeMs, name, asset]);
    }
    for (const [, timeMs, name, { watchedBy }] of watched.sort(([a], [b]) => a - b))
      for (const prefix of watchedBy ?? []) prefix.took(name, timeMs);
  }

  /** Takes the states of all later events of the same journal, which must not be used afterwards. */
  absorb(later: AssetStates): void {
    this.refused += later.refused;
    for (const [name, { materialization, observation, checks }] of later.#found) {
      const mine = this.#found.get(name) ?? this.#add(name);
      const before = bytesOf(mine);
      mine.materialization = merged(mine.materialization, materialization);
      mine.observation = merged(mine.observation, observation);
      if (checks !== undefined) mine.checks ??= new Map();
      for (const [checkName, check] of checks ?? [])
        mine.checks!.set(checkName, mergedCheck(mine.checks!.get(checkName), check));
      this.#count(bytesOf(mine) - before);
    }
    this.watch?.absorb(later.watch);
    later.drop();
  }

  /** Forgets assets. @returns how many they were */
  forget(isForgotten: (asset: Asset) => boolean): number {
    const before = this.#found.size;
    for (const [name, state] of this.#found) {
      if (!isForgotten({ name, ...state })) continue;
      this.#found.delete(name);
      this.#count(-ASSET_BYTES - CHARACTER_BYTES * name.length - bytesOf(state));
      for (const prefix of state.watchedBy ?? []) prefix.forget(name);
    }
    this.#names = this.#names.filter((name) => this.#found.has(name));
    this.#newNames = this.#newNames.filter((name) => this.#found.has(name));
    return before - this.#found.size;
  }

  /** Frees the memory that it counts in `AssetStatesOptions.memory`. It must not be used afterwards. */
  drop(): void {
    this.#count(-this.#bytes);
  }

  /**
   * Events may be taken during the iteration. It does not yield the assets that they add.
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

  /** @returns undefined if another check does not fit into the memory */
  #latestOf(asset: Held, { type, checkName = '' }: Reported): Latest | undefined {
    if (type === 'AssetMaterialization') {
      asset.materialization ??= this.#newLatest();
      return asset.materialization;
    }
    if (type === 'AssetObservation') {
      asset.observation ??= this.#newLatest();
      return asset.observation;
    }
    const known = asset.checks?.get(checkName);
    if (known !== undefined) return known;
    if (asset.watchedBy === undefined && !this.#hasSpace()) return undefined;
    asset.checks ??= new Map();
    const check = blankCheck();
    asset.checks.set(detach(checkName), check);
    this.#count(LATEST_BYTES + CHECK_BYTES + CHARACTER_BYTES * checkName.length);
    return check;
  }

  #newLatest(): Latest {
    this.#count(LATEST_BYTES);
    return { ...NONE };
  }

  /** @returns undefined if another asset does not fit into the memory */
  #newAsset(name: string): Held | undefined {
    if (!this.#hasSpace() && this.watch?.of(name) === undefined) return undefined;
    const asset = this.#add(detach(name));
    if (this.#newNames.length >= NEW_NAMES_MAX) this.#sortNew();
    return asset;
  }

  #add(name: string): Held {
    const asset = {
      materialization: undefined,
      observation: undefined,
      checks: undefined,
      watchedBy: this.watch?.of(name),
    };
    this.#found.set(name, asset);
    this.#newNames.push(name);
    this.#count(ASSET_BYTES + CHARACTER_BYTES * name.length);
    return asset;
  }

  #sharedId(id: string | undefined): string | undefined {
    if (id === undefined) return undefined;
    const known = this.#ids.get(id) ?? detach(id);
    this.#ids.set(known, known);
    return known;
  }

  #exchange(old = '', text: string | undefined): string | undefined {
    const isKept = text === undefined || text.length <= LONG_TEXT || this.#hasSpace();
    const kept = isKept && text !== undefined ? detach(text) : undefined;
    this.#count(CHARACTER_BYTES * ((kept?.length ?? 0) - old.length));
    return kept;
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    this.#memory.bytes += bytes;
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

/** @param by in the order of `event_time` a late result would belong between earlier ones, so results in a row are not counted */
function takeResult(check: Check, { passed = false, severity = '' }: Reported, by: By): void {
  if (by === 'time') {
    if (check.inARow === 0 || check.passed !== passed) {
      if (check.inARow > 0) check.before = Object.assign(check.before ?? {}, runOf(check));
      check.sinceSeq = check.seq;
      check.sinceMs = check.timeMs;
      check.inARow = 0;
    }
    check.inARow += 1;
  }
  check.passed = passed;
  check.severity = severity;
}

function merged(mine: Latest | undefined, later: Latest | undefined): Latest | undefined {
  if (mine !== undefined && later !== undefined) later.count += mine.count;
  return later ?? mine;
}

function mergedCheck(mine: Check | undefined, later: Check): Check {
  if (mine === undefined) return later;
  // All later results are the same, and the ones before too.
  if (later.inARow === later.count && later.passed === mine.passed) {
    later.inARow += mine.inARow;
    later.sinceSeq = mine.sinceSeq;
    later.sinceMs = mine.sinceMs;
    later.before = mine.before;
  } else if (mine.inARow > 0) later.before = mergedBefore(mine, later);
  later.count += mine.count;
  return later;
}

/** In one literal: an object that is spread into another one takes several times the memory. */
export function blankCheck(): Check {
  return {
    count: 0,
    seq: 0,
    timeMs: 0,
    eventTime: undefined,
    happened: '',
    partition: undefined,
    dataVersion: undefined,
    source: undefined,
    passed: false,
    severity: '',
    sinceSeq: 0,
    sinceMs: 0,
    inARow: 0,
    before: undefined,
  };
}

/** Approximate memory of the state of an asset, without its name. */
function bytesOf({ materialization, observation, checks }: AssetState): number {
  let bytes = 0;
  for (const latest of [materialization, observation, ...(checks?.values() ?? [])])
    if (latest !== undefined) bytes += LATEST_BYTES + bytesOfTexts(latest);
  for (const checkName of checks?.keys() ?? []) bytes += CHECK_BYTES + CHARACTER_BYTES * checkName.length;
  return bytes;
}

/** The bytes of texts that a report chose the length of. */
function bytesOfTexts({ partition = '', dataVersion = '', eventTime = '' }: Latest): number {
  return CHARACTER_BYTES * (partition.length + dataVersion.length + eventTime.length);
}

/** Measured with 100,000 assets on Node 20. A character takes one byte or two. */
const ASSET_BYTES = 150;
const LATEST_BYTES = 138;
const CHECK_BYTES = 210;
const CHARACTER_BYTES = 2;
/** A longer partition or data version is left out while the memory is used up. */
const LONG_TEXT = 256;
/** So many names are sorted at a time. */
const NEW_NAMES_MAX = 4_096;

export const NONE: Latest = {
  count: 0,
  seq: 0,
  timeMs: 0,
  eventTime: undefined,
  happened: '',
  partition: undefined,
  dataVersion: undefined,
  source: undefined,
};

/** @returns what an event in the form of a line says of its asset */
export function reportedIn(event: Recorded): Reported {
  const { type, asset_key, partition, check_name, passed, severity, tags, event_time: eventTime, from } = event;
  const key = asset_key.join(BETWEEN_PARTS);
  const checkName = type === 'AssetCheckEvaluation' ? (check_name ?? '') : undefined;
  const [dataVersion, source] = [tags?.data_version, from?.[0]];
  return { type, key, partition, checkName, passed, severity, dataVersion, eventTime, source };
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

/** @returns the same asset, as one of a deployment */
export function withDeploymentName(asset: Asset, deployment: string): Asset {
  return { ...asset, name: `${asset.name}${BEFORE_DEPLOYMENT}${deployment}` };
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
function isFailing({ checks }: Asset): boolean {
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

/** Which assets are asked for: those that are failing, and those that are stale since that time in milliseconds. */
export interface AssetTest {
  readonly failing: boolean | undefined;
  readonly staleMs: number | undefined;
}

export function isAskedFor(asset: Asset, { failing, staleMs }: AssetTest): boolean {
  return (!failing || isFailing(asset)) && (staleMs === undefined || isStale(asset, staleMs));
}

/** @returns the assets in arrays of at most 1,000: so many are formatted and printed at a time */
export function* pagesOf(assets: Iterable<Asset>): Generator<readonly Asset[]> {
  let page: Asset[] = [];
  for (const asset of assets) {
    page.push(asset);
    if (page.length < PAGE_ASSETS) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}

const PAGE_ASSETS = 1_000;

/** @param all at least one */
function newestOf(all: readonly Latest[]): Latest {
  return all.reduce((newest, one) => (isLater(one, newest) ? one : newest));
}

function isLater(one: Latest, other: Latest): boolean {
  return one.happened === other.happened ? one.seq > other.seq : one.happened > other.happened;
}
