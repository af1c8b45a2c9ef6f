/** The state of each asset of a journal, collected event by event: counts, the latest event of each kind, and its checks. */

import { createHash } from 'node:crypto';
import type { Limits } from '../config/limits.ts';
import { detach } from '../config/memory.ts';
import { BETWEEN_PARTS } from '../event/asset-key.ts';
import { CLOCK_AHEAD_MS } from '../event/event-time.ts';
import { findFirstIndex } from '../journal/first-index.ts';
import type { Reported } from '../journal/line/reported.ts';
import { blankCheck, type Check, erasePartitions, isFailing, type SlotSpace, takeResult } from './check-state.ts';
import { blankLatest, type Latest } from './latest.ts';
import { type EventPlace, isLater, keepPlace, placeOf, silentMs } from './place.ts';

/** An asset with its state. It is small, because there can be a million assets. */
export interface Asset extends SlotSpace {
  /** The parts of the asset's key, joined by `BETWEEN_PARTS`. */
  readonly name: string;
  /** The last seq that was added: events up to it change nothing. */
  seen: number;
  /**
   * When its last event happened, or arrived if none of its clocks can be right, in ms since 1970, and the seq of that event.
   */
  aliveMs: number;
  aliveSeq: number;
  /** Undefined until the first materialization. */
  materialization: Latest | undefined;
  /** Undefined until the first observation. */
  observation: Latest | undefined;
  /** Checks by name; undefined until the first result of a check. */
  checks: Map<string, Check> | undefined;
  /** Number of failing checks. */
  failing: number;
  /** Number of results of checks that were not added because the asset has too many checks. */
  checksBeyond: number;
}

/** What several states together have added and refused. */
export interface StatesMemory {
  /** Approximate size. */
  bytes: number;
  /** Number of events that were not added. */
  refused: number;
}

export interface AssetStatesOptions {
  readonly limits: Limits;
  readonly memory?: StatesMemory;
  /** Whether another asset or another check fits into the memory. By default all fit. */
  readonly hasSpace?: () => boolean;
  /** The keys of `--watch-asset`, each with the first parts of its assets' keys. */
  readonly watched?: readonly (readonly string[])[];
}

/** The states of all assets. Uses memory for each asset, check and failing partition, not for each event. */
export class AssetStates {
  /** Number of events that were not added because another asset or check did not fit. */
  refused = 0;
  /** The names of the assets with a failing check. */
  readonly failing = new Set<string>();
  /** The watched keys under which an asset was not added, joined by `BETWEEN_PARTS`. Their ages are unknown. */
  readonly leftOut = new Set<string>();
  readonly #found = new Map<string, Asset>();
  readonly #memory: StatesMemory;
  readonly #hasSpace: () => boolean;
  readonly #limits: Limits;
  readonly #watched: readonly string[];
  /** The names in order, except the newest names, which are unsorted. */
  #names: string[] = [];
  #newNames: string[] = [];
  /** Each id is stored once: a hub has few sources and many assets. */
  readonly #ids = new Map<string, string>();
  #bytes = 0;

  constructor({ limits, memory = { bytes: 0, refused: 0 }, hasSpace = () => true, watched = [] }: AssetStatesOptions) {
    this.#limits = limits;
    this.#memory = memory;
    this.#hasSpace = hasSpace;
    this.#watched = watched.map((parts) => parts.join(BETWEEN_PARTS));
  }

  /**
   * Adds an event. The events of one journal must be added in the order of their seqs. The state depends on when they
   * happened: see `placeOf`.
   * @param timeMs when the event was recorded
   */
  take(seq: number, timeMs: number, event: Reported): void {
    const asset = this.#found.get(event.key) ?? this.#newAsset(event.key);
    if (asset === undefined) {
      this.#refuse();
      for (const prefix of this.#watched) if (isUnder(event.key, prefix)) this.leftOut.add(prefix);
      return;
    }
    if (seq <= asset.seen) return;
    asset.seen = seq;
    const place = placeOf(seq, timeMs, event, this.#sharedId(event.source));
    const aliveMs = place.at ?? timeMs;
    if (aliveMs >= asset.aliveMs || asset.aliveMs > timeMs + CLOCK_AHEAD_MS) {
      asset.aliveMs = aliveMs;
      asset.aliveSeq = seq;
    }
    if (event.type === 'AssetMaterialization') {
      asset.materialization ??= this.#newLatest();
      this.#takeLatest(asset.materialization, seq, timeMs, place, event);
    } else if (event.type === 'AssetObservation') {
      asset.observation ??= this.#newLatest();
      this.#takeLatest(asset.observation, seq, timeMs, place, event);
    } else this.#takeCheck(asset, seq, timeMs, place, event);
  }

  /** @param name see `Asset.name` @returns undefined if the asset has no event, or did not fit into the memory */
  get(name: string): Asset | undefined {
    return this.#found.get(name);
  }

  /** Approximate memory of the states, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  get size(): number {
    return this.#found.size;
  }

  /** Adds an asset that is not known yet. */
  put(asset: Asset): void {
    for (const kept of placesOf(asset)) kept.source = this.#sharedId(kept.source);
    this.#add(asset);
    if (asset.failing > 0) this.failing.add(asset.name);
    this.#count(bytesOf(asset));
  }

  /** Forgets assets. @returns the number of assets */
  forget(isForgotten: (asset: Asset) => boolean): number {
    const before = this.#found.size;
    for (const asset of this.#found.values()) {
      if (!isForgotten(asset)) continue;
      const { name } = asset;
      this.#found.delete(name);
      this.failing.delete(name);
      this.#count(-ASSET_BYTES - CHARACTER_BYTES * name.length - bytesOf(asset));
    }
    const count = before - this.#found.size;
    if (count > 0) this.leftOut.clear(); // there is space now; an asset that does not fit is noted again
    this.#names = this.#names.filter((name) => this.#found.has(name));
    this.#newNames = this.#newNames.filter((name) => this.#found.has(name));
    return count;
  }

  /**
   * Removes the texts of erased events; the counts are kept.
   * @param wasErased whether the event with a seq was erased
   * @param isThere if the keys were erased too: whether the journal has an event with this key, and with this check if it is given.
   *   Otherwise an asset or a check whose latest event was erased is forgotten
   */
  erase(wasErased: (seq: number) => boolean, isThere: (key: string, check?: string) => boolean = () => true): void {
    const isGone = (latest: Latest, ...name: Parameters<typeof isThere>) => wasErased(latest.seq) && !isThere(...name);
    this.forget((asset) => kindsOf(asset).some((latest) => isGone(latest, asset.name)));
    for (const asset of this.#found.values()) {
      this.#count(-bytesOf(asset));
      for (const [name, check] of asset.checks ?? []) {
        const isDropped = isGone(check, asset.name, name);
        if (isDropped) asset.checks!.delete(name);
        asset.failing -= Number(isDropped && isFailing(check));
        erasePartitions(check, (seq) => isDropped || wasErased(seq), asset);
      }
      if (asset.failing === 0) this.failing.delete(asset.name);
      for (const latest of kindsOf(asset)) {
        if (!wasErased(latest.seq)) continue;
        latest.eventTime = undefined;
        latest.partition = undefined;
        latest.dataVersion = undefined;
      }
      this.#count(bytesOf(asset));
    }
  }

  /** Frees the memory that it counts in `AssetStatesOptions.memory`. The object must not be used afterwards. */
  drop(): void {
    this.#count(-this.#bytes);
  }

  /**
   * Events can be added during the iteration. It does not yield the assets that they add.
   * @param after the key of an asset, which can be missing
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
      if (prefix !== undefined && !isUnder(name, first)) return;
      const asset = this.#found.get(name);
      if (asset !== undefined) yield asset;
    }
  }

  #takeCheck(asset: Asset, seq: number, timeMs: number, place: EventPlace, event: Reported): void {
    const name = keptText(event.checkName!);
    const check = asset.checks?.get(name) ?? this.#newCheck(asset, name);
    if (check === undefined) {
      asset.checksBeyond += 1;
      this.#refuse();
      return;
    }
    const { passed = false, severity = '', isErased } = event;
    if (this.#takeLatest(check, seq, timeMs, place, event)) {
      check.passed = passed;
      check.severity = severity;
    }
    const [slots, characters] = [asset.partitions, asset.partitionCharacters];
    const wasFailing = isFailing(check);
    const partition = event.partition === undefined ? undefined : detach(keptText(event.partition));
    takeResult(check, { seq, timeMs, partition, passed, severity, isErased, place }, asset, this.#limits);
    asset.failing += Number(isFailing(check)) - Number(wasFailing);
    if (asset.failing > 0) this.failing.add(asset.name);
    else this.failing.delete(asset.name);
    const addedBytes = SLOT_BYTES * (asset.partitions - slots);
    this.#count(addedBytes + CHARACTER_BYTES * (asset.partitionCharacters - characters));
  }

  /** @returns whether the event is the latest of its kind, or of its check */
  #takeLatest(latest: Latest, seq: number, timeMs: number, place: EventPlace, event: Reported): boolean {
    latest.count += 1;
    if (latest.seq > 0 && !isLater(latest, place, timeMs)) return false;
    latest.seq = seq;
    latest.timeMs = timeMs;
    if (latest.eventTime !== event.eventTime) latest.eventTime = this.#exchange(latest.eventTime, event.eventTime);
    if (latest.partition !== event.partition) latest.partition = this.#exchange(latest.partition, event.partition);
    if (latest.dataVersion !== event.dataVersion)
      latest.dataVersion = this.#exchange(latest.dataVersion, event.dataVersion);
    keepPlace(latest, place);
    return true;
  }

  #refuse(): void {
    this.refused += 1;
    this.#memory.refused += 1;
  }

  /** @returns undefined if another check does not fit into the memory, or the asset has too many */
  #newCheck(asset: Asset, name: string): Check | undefined {
    if ((asset.checks?.size ?? 0) >= this.#limits.assetChecksMax || !this.#hasSpace()) return undefined;
    asset.checks ??= new Map();
    const check = blankCheck();
    asset.checks.set(detach(name), check);
    this.#count(CHECK_BYTES + CHARACTER_BYTES * name.length);
    return check;
  }

  #newLatest(): Latest {
    this.#count(LATEST_BYTES);
    return blankLatest();
  }

  /** @returns undefined if another asset does not fit into the memory */
  #newAsset(name: string): Asset | undefined {
    if (!this.#hasSpace()) return undefined;
    const asset = this.#add(blankAsset(detach(name)));
    if (this.#newNames.length >= NEW_NAMES_MAX) this.#sortNew();
    return asset;
  }

  #add(asset: Asset): Asset {
    this.#found.set(asset.name, asset);
    this.#newNames.push(asset.name);
    this.#count(ASSET_BYTES + CHARACTER_BYTES * asset.name.length);
    return asset;
  }

  #sharedId(id: string | undefined): string | undefined {
    if (id === undefined) return undefined;
    let known = this.#ids.get(id);
    if (known === undefined) {
      known = detach(id);
      this.#ids.set(known, known);
    }
    return known;
  }

  #exchange(old = '', text: string | undefined): string | undefined {
    const kept = text === undefined ? undefined : detach(keptText(text));
    this.#count(CHARACTER_BYTES * ((kept?.length ?? 0) - old.length));
    return kept;
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    this.#memory.bytes += bytes;
  }

  /** Sorts a few thousand names at a time: sorting all 100,000 at once would stop a service for a tenth of a second. */
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

/** @returns an asset without an event */
export function blankAsset(name: string): Asset {
  return {
    name,
    seen: 0,
    aliveMs: 0,
    aliveSeq: 0,
    materialization: undefined,
    observation: undefined,
    checks: undefined,
    failing: 0,
    checksBeyond: 0,
    partitions: 0,
    partitionCharacters: 0,
  };
}

/**
 * @param prefix the first parts of keys; empty for all keys @returns whether the key of an asset starts with these
 * parts
 */
function isUnder(name: string, prefix: string): boolean {
  return prefix === '' || name === prefix || name.startsWith(`${prefix}${BETWEEN_PARTS}`);
}

/** @returns a text of at most 256 characters instead of a longer one: its start, and a part of its SHA-256 */
export function keptText(text: string): string {
  if (text.length <= TEXT_MAX) return text;
  const end = isHighSurrogate(text.charCodeAt(TEXT_HEAD - 1)) ? TEXT_HEAD - 1 : TEXT_HEAD;
  return `${text.slice(0, end)}…${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}

const TEXT_MAX = 256;
const TEXT_HEAD = 200;

/** @returns the latest event of each kind, and of each check */
function kindsOf({ materialization, observation, checks }: Asset): Latest[] {
  return [materialization, observation, ...(checks?.values() ?? [])].filter((latest) => latest !== undefined);
}

/** Yields all places of an asset. */
function* placesOf({ materialization, observation, checks }: Asset) {
  for (const latest of [materialization, observation]) if (latest !== undefined) yield latest;
  for (const check of checks?.values() ?? []) {
    yield check;
    for (const kept of [check.whole, check.ended]) if (kept !== undefined) yield kept;
    yield* check.partitions?.values() ?? [];
  }
}

/** Approximate memory of the state of an asset, without its name. */
function bytesOf({ materialization, observation, checks, partitions, partitionCharacters }: Asset): number {
  let bytes = SLOT_BYTES * partitions + CHARACTER_BYTES * partitionCharacters;
  for (const latest of [materialization, observation])
    if (latest !== undefined) bytes += LATEST_BYTES + bytesOfTexts(latest);
  for (const [name, check] of checks ?? []) bytes += CHECK_BYTES + CHARACTER_BYTES * name.length + bytesOfTexts(check);
  return bytes;
}

/** The bytes of texts whose length a report determines. */
function bytesOfTexts({ partition = '', dataVersion = '', eventTime = '' }: Latest): number {
  return CHARACTER_BYTES * (partition.length + dataVersion.length + eventTime.length);
}

/** Measured with 100,000 assets on Node 20. A character uses one byte or two. A check has a slot without a partition. */
const ASSET_BYTES = 200;
const LATEST_BYTES = 130;
const CHECK_BYTES = 480;
const SLOT_BYTES = 210;
const CHARACTER_BYTES = 2;
/** The number of names that are sorted at a time. */
const NEW_NAMES_MAX = 4_096;

/** @returns when the latest event was recorded: `2026-11-20T15:19:45.266Z` */
export function recordedAt({ timeMs }: Latest): string {
  return new Date(timeMs).toISOString();
}

/** @returns the parts of the asset's key: `['warehouse', 'orders']` */
export function keyOf({ name }: Pick<Asset, 'name'>): readonly string[] {
  return name.split(BETWEEN_PARTS);
}

/** @returns the asset's checks with their names, sorted by name */
export function checksOf({ checks = new Map() }: Asset): [string, Check][] {
  return [...checks].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** @returns the failing checks with their names, sorted by name */
export function failingOf(asset: Asset): [string, Check][] {
  return asset.failing === 0 ? [] : checksOf(asset).filter(([, check]) => isFailing(check));
}

/**
 * @returns the latest result of any check, with the count of the results of all checks; undefined if there are no
 * checks
 */
export function latestCheck(asset: Asset): Latest | undefined {
  const checks = [...(asset.checks?.values() ?? [])];
  if (checks.length === 0) return undefined;
  return { ...newestOf(checks), count: checks.reduce((sum, { count }) => sum + count, 0) };
}

/** Which assets a reader wants: assets with a failing check, or without an event for `staleMs`. */
export interface AssetTest {
  readonly failing: boolean | undefined;
  readonly staleMs: number | undefined;
}

export function isAskedFor({ failing, aliveMs }: Asset, asked: AssetTest, nowMs: number): boolean {
  if (asked.failing && failing === 0) return false;
  return asked.staleMs === undefined || silentMs(aliveMs, nowMs) >= asked.staleMs;
}

/** @returns assets in arrays of at most 1,000, the number that is formatted and printed at a time */
export function* pagesOf<Item>(assets: Iterable<Item>): Generator<readonly Item[]> {
  let page: Item[] = [];
  for (const asset of assets) {
    page.push(asset);
    if (page.length < PAGE_ASSETS) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}

const PAGE_ASSETS = 1_000;

/**
 * @param all at least one event @returns the event that happened last; of two at the same time, the one that arrived
 * later
 */
function newestOf(all: readonly Latest[]): Latest {
  return all.reduce((newest, one) =>
    one.at > newest.at || (one.at === newest.at && one.seq > newest.seq) ? one : newest,
  );
}
