/** An asset in the form of a line of `assets.state`, in both formats that a start reads. */

import { BETWEEN_PARTS } from '../event/asset-key.ts';
import {
  type HoldsJson,
  holdsJson,
  type LatestJson,
  latestJson,
  type CheckJson as ShownCheck,
  textsWithChecks,
} from './asset-json.ts';
import { type Asset, blankAsset, checksOf, keyOf } from './asset-state.ts';
import { blankCheck, blankSlot, type Check, isFailing, type Slot } from './check-state.ts';
import { blankLatest, type Latest } from './latest.ts';
import { copyPlace, type KeptPlace } from './place.ts';

/** A time and the seq in the journal of its source: see `KeptPlace`. */
interface PlaceJson {
  readonly at?: string | undefined;
  readonly source?: string | undefined;
  readonly own_seq?: number | undefined;
}

interface SlotJson extends PlaceJson, HoldsJson {
  readonly passed: boolean;
  readonly severity: string;
  readonly seq: number;
}

interface CheckJson extends LatestJson, PlaceJson {
  readonly check_name: string;
  readonly passed: boolean;
  readonly severity: string;
  readonly whole?: SlotJson | undefined;
  readonly ended?: PlaceJson | undefined;
  readonly partitions?: readonly (SlotJson & { readonly partition: string })[] | undefined;
  readonly beyond?: number | undefined;
}

export interface AssetLine {
  readonly asset_key: readonly string[];
  readonly seen: number;
  readonly alive: string;
  readonly alive_seq: number;
  readonly materialization?: (LatestJson & PlaceJson) | undefined;
  readonly observation?: (LatestJson & PlaceJson) | undefined;
  readonly checks_beyond?: number | undefined;
  readonly checks: readonly CheckJson[];
}

/** Yields the line of an asset in the texts of `textsWithChecks`, without its crc. */
export function* lineTexts(asset: Asset): Generator<string> {
  const head: Omit<AssetLine, 'checks'> = {
    asset_key: keyOf(asset),
    seen: asset.seen,
    alive: new Date(asset.aliveMs).toISOString(),
    alive_seq: asset.aliveSeq,
    materialization: asset.materialization && keptJson(asset.materialization),
    observation: asset.observation && keptJson(asset.observation),
    checks_beyond: asset.checksBeyond || undefined,
  };
  yield* textsWithChecks(head, checksOf(asset), checkJson);
}

function checkJson(check_name: string, check: Check): CheckJson {
  const partitions = [...(check.partitions ?? [])].map(([partition, slot]) => ({ partition, ...slotJson(slot) }));
  return {
    check_name,
    passed: check.passed,
    severity: check.severity,
    ...keptJson(check),
    whole: check.whole && slotJson(check.whole),
    ended: check.ended && placeJson(check.ended),
    partitions: partitions.length === 0 ? undefined : partitions,
    beyond: check.beyond || undefined,
  };
}

function keptJson(latest: Latest): LatestJson & PlaceJson {
  return { ...latestJson(latest, 0), ...placeJson(latest) };
}

function slotJson(slot: Slot): SlotJson {
  const { passed, severity, seq } = slot;
  return { passed, severity, seq, ...placeJson(slot), ...holdsJson(slot) };
}

function placeJson({ at, source, ownSeq }: KeptPlace): PlaceJson {
  return { at: at === 0 ? undefined : new Date(at).toISOString(), source, own_seq: ownSeq || undefined };
}

/** @param json the JSON of a complete line @returns the asset that `lineTexts` wrote */
export function assetOfLine(json: AssetLine): Asset {
  const asset = {
    ...blankAsset(json.asset_key.join(BETWEEN_PARTS)),
    seen: json.seen,
    aliveMs: Date.parse(json.alive),
    aliveSeq: json.alive_seq,
    materialization: json.materialization && latestOf(json.materialization),
    observation: json.observation && latestOf(json.observation),
    checksBeyond: json.checks_beyond ?? 0,
  };
  for (const one of json.checks) {
    const check = Object.assign(blankCheck(), latestOf(one), { passed: one.passed, severity: one.severity });
    if (one.whole !== undefined) check.whole = slotOf(one.whole);
    if (one.ended !== undefined) check.ended = placeIn(one.ended);
    for (const slot of one.partitions ?? []) addPartition(asset, check, slot.partition, slotOf(slot));
    check.beyond = one.beyond ?? 0;
    addCheck(asset, one.check_name, check);
  }
  return asset;
}

/** A line in the format of version 0.3, which only had the latest result of any partition. */
export interface OldAssetLine extends Pick<AssetLine, 'asset_key' | 'materialization' | 'observation'> {
  readonly checks: readonly ShownCheck[];
}

/**
 * @param json the JSON of a line of format 1
 * @returns the asset. If a check fails with a partition, that partition counts as failing, otherwise the whole asset
 */
export function assetOfOldLine(json: OldAssetLine): Asset {
  const asset = {
    ...blankAsset(json.asset_key.join(BETWEEN_PARTS)),
    materialization: json.materialization && oldLatest(json.materialization),
    observation: json.observation && oldLatest(json.observation),
  };
  for (const one of json.checks) {
    const latest = oldLatest(one);
    const { passed, severity, since, since_seq, in_a_row } = one;
    const check = Object.assign(blankCheck(), latest, { passed, severity });
    const slot = Object.assign(blankSlot(), copyPlace(latest), { passed, severity, seq: one.seq });
    slot.sinceMs = since === undefined ? latest.at : Date.parse(since);
    slot.sinceSeq = since_seq ?? one.seq;
    slot.inARow = in_a_row ?? 1;
    if (passed || one.partition === undefined) check.whole = slot;
    else addPartition(asset, check, one.partition, slot);
    addCheck(asset, one.check_name, check);
  }
  for (const latest of [asset.materialization, asset.observation, ...(asset.checks?.values() ?? [])]) {
    if (latest === undefined) continue;
    asset.seen = Math.max(asset.seen, latest.seq);
    if (latest.at < asset.aliveMs) continue;
    asset.aliveMs = latest.at;
    asset.aliveSeq = latest.seq;
  }
  return asset;
}

function oldLatest(json: LatestJson): Latest {
  return Object.assign(latestOf(json), placeIn(oldPlace(json)));
}

/** Format 1 has no seq of a device, so only the times of its events count. */
function oldPlace({ time, event_time, source, seq }: LatestJson): PlaceJson {
  if (event_time !== undefined && event_time >= EARLIEST_EVENT && event_time <= time) return { at: event_time, source };
  return { at: time, source, own_seq: source === undefined ? seq : undefined };
}

function addCheck(asset: Asset, name: string, check: Check): void {
  asset.checks ??= new Map();
  asset.checks.set(name, check);
  if (isFailing(check)) asset.failing += 1;
}

function addPartition(asset: Asset, check: Check, name: string, slot: Slot): void {
  check.partitions ??= new Map();
  check.partitions.set(name, slot);
  if (!slot.passed) check.failures += 1;
  asset.partitions += 1;
  asset.partitionCharacters += name.length;
}

function latestOf(json: LatestJson & PlaceJson): Latest {
  const { count, seq, time, event_time: eventTime, partition, data_version: dataVersion } = json;
  const latest = { count, seq, timeMs: Date.parse(time), eventTime, partition, dataVersion };
  return Object.assign(blankLatest(), latest, placeIn(json));
}

function slotOf(json: SlotJson): Slot {
  const { passed, severity, seq, since, since_seq: sinceSeq, in_a_row: inARow } = json;
  return Object.assign(blankSlot(), placeIn(json), {
    passed,
    severity,
    seq,
    sinceMs: Date.parse(since),
    sinceSeq,
    inARow,
  });
}

function placeIn({ at, source, own_seq: ownSeq = 0 }: PlaceJson): KeptPlace {
  return { at: at === undefined ? 0 : Date.parse(at), source, ownSeq };
}

/** See `placeOf`. */
const EARLIEST_EVENT = '2001-01-02';
