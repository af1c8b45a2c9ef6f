/**
 * The state of a check: the latest result, and a slot for the results without a partition and for each partition that matters. A check
 * fails while one of its slots does. A pass without a partition concerns the whole asset, and ends the failures of all partitions.
 */

import type { Limits } from '../config/limits.ts';
import type { Latest } from './latest.ts';
import { copyPlace, type EventPlace, isLater, type KeptPlace, keepPlace } from './place.ts';

/** The latest result of a check for one partition, or without a partition. */
export interface Slot extends KeptPlace {
  passed: boolean;
  /** `WARN` or `ERROR`. */
  severity: string;
  /** The seq of the latest result. */
  seq: number;
  /** When the first of the consecutive equal results happened, in ms since 1970, and its seq. */
  sinceMs: number;
  sinceSeq: number;
  /** Number of consecutive equal results. */
  inARow: number;
}

/** The members of `Latest`, `passed` and `severity` belong to the latest result of any partition. */
export interface Check extends Latest {
  passed: boolean;
  severity: string;
  /** The results without a partition; undefined if there are none. */
  whole: Slot | undefined;
  /** The latest pass without a partition, if `whole` is a failure after it. */
  ended: KeptPlace | undefined;
  /** Failing partitions, and the few that passed last; undefined if no result has a partition. */
  partitions: Map<string, Slot> | undefined;
  /** The number of failing partitions among these. */
  failures: number;
  /** The number of failures of partitions without a slot. */
  beyond: number;
}

/** The slots that an asset and its checks share. */
export interface SlotSpace {
  /** Number of partitions of all checks that have a slot, and the characters of their names. */
  partitions: number;
  partitionCharacters: number;
}

/** A result of a check. */
export interface Result {
  readonly seq: number;
  readonly timeMs: number;
  readonly partition: string | undefined;
  readonly passed: boolean;
  readonly severity: string;
  /** Whether the event was erased, so that it might have had a partition. */
  readonly isErased: boolean;
  readonly place: EventPlace;
}

/** Created by a single literal: an object that is spread into another one uses several times as much memory. */
export function blankCheck(): Check {
  return {
    count: 0,
    seq: 0,
    timeMs: 0,
    eventTime: undefined,
    at: 0,
    source: undefined,
    ownSeq: 0,
    partition: undefined,
    dataVersion: undefined,
    passed: false,
    severity: '',
    whole: undefined,
    ended: undefined,
    partitions: undefined,
    failures: 0,
    beyond: 0,
  };
}

/**
 * Whether a check fails: the latest result without a partition, or the latest result of any partition, is a failure.
 */
export function isFailing({ whole, failures, beyond }: Check): boolean {
  return failures > 0 || beyond > 0 || whole?.passed === false;
}

/** Yields the failing slots, each with its partition, which is undefined for the slot without one. */
export function* failuresOf({
  whole,
  partitions,
  failures,
}: Check): Generator<readonly [partition: string | undefined, slot: Slot]> {
  if (whole?.passed === false) yield [undefined, whole];
  if (failures > 0) for (const [name, slot] of partitions!) if (!slot.passed) yield [name, slot];
}

/**
 * @returns the worst severity of the failing slots; without such a slot the severity of the latest result; undefined if the check passes
 */
export function failingSeverity(check: Check): string | undefined {
  if (!isFailing(check)) return undefined;
  let worst: string | undefined;
  for (const [, { severity }] of failuresOf(check)) {
    if (severity !== 'WARN') return severity;
    worst = severity;
  }
  return worst ?? check.severity;
}

/**
 * @returns the slot that shows since when a check has its state: the failure that started first, or while the check passes the slot of
 *   the latest result. Undefined if the latest result has no slot
 */
export function holdingSlot(check: Check): Slot | undefined {
  let first: Slot | undefined;
  for (const [, slot] of failuresOf(check)) if (first === undefined || slot.sinceMs < first.sinceMs) first = slot;
  if (first !== undefined || check.beyond > 0) return first;
  return check.partition === undefined ? check.whole : check.partitions?.get(check.partition);
}

/** Adds a result to its slot. The name and the values are copied. */
export function takeResult(check: Check, result: Result, space: SlotSpace, limits: Limits): void {
  if (result.isErased) takeErased(check, result, space);
  else if (result.partition === undefined) takeWhole(check, result, space);
  else takePartition(check, result.partition, result, space, limits);
}

/** @returns the place of the latest pass without a partition; undefined before the first one */
function lastPass({ whole, ended }: Check): KeptPlace | undefined {
  return whole?.passed ? whole : ended;
}

function takeWhole(check: Check, result: Result, space: SlotSpace): void {
  const { place, timeMs, passed } = result;
  const ended = lastPass(check);
  if (passed) {
    for (const [name, slot] of check.partitions ?? [])
      if (isLater(slot, place, timeMs)) removeSlot(check, name, slot, space);
    if (isLater(ended, place, timeMs)) check.beyond = 0;
  }
  if (isLater(check.whole, place, timeMs)) {
    if (passed) check.ended = undefined;
    else if (check.whole?.passed) check.ended = copyPlace(check.whole);
    check.whole ??= blankSlot();
    overwrite(check.whole, result);
  } else if (passed && !check.whole?.passed && isLater(ended, place, timeMs)) {
    check.ended ??= { at: 0, source: undefined, ownSeq: 0 };
    keepPlace(check.ended, place);
  }
}

/**
 * Treated like a result of a partition with an unknown name, so that an erased pass does not end the failure of another
 * partition.
 */
function takeErased(check: Check, result: Result, space: SlotSpace): void {
  const ended = lastPass(check);
  const isWhole = check.partitions === undefined && check.whole !== undefined;
  if (result.passed && isWhole) takeWhole(check, result, space);
  else if (result.passed) check.beyond = Math.max(0, check.beyond - 1);
  else if (isLater(ended, result.place, result.timeMs)) check.beyond += 1;
}

function takePartition(check: Check, name: string, result: Result, space: SlotSpace, limits: Limits): void {
  const { place, timeMs, passed } = result;
  const ended = lastPass(check);
  if (ended !== undefined && !isLater(ended, place, timeMs)) return; // a later pass of all partitions ended it
  const known = check.partitions?.get(name);
  if (!isLater(known, place, timeMs)) return;
  const isFull = space.partitions >= limits.assetPartitionsMax;
  if (known === undefined && passed) {
    if (check.beyond > 0) check.beyond -= 1; // perhaps it was one of these
    if (isFull) return;
  }
  if (
    !passed &&
    known?.passed !== false &&
    (check.failures >= limits.failedPartitionsMax || (known === undefined && isFull))
  ) {
    check.beyond += 1;
    if (known !== undefined) removeSlot(check, name, known, space);
    return;
  }
  const slot = known ?? blankSlot();
  if (known === undefined) {
    check.partitions ??= new Map();
    check.partitions.set(name, slot);
    space.partitions += 1;
    space.partitionCharacters += name.length;
  }
  const wasFailing = known?.passed === false;
  overwrite(slot, result);
  check.failures += Number(!passed) - Number(wasFailing);
  if (passed && check.partitions!.size - check.failures > PASSED_PARTITIONS) removeOldestPass(check, space);
}

/** A late failure of a partition does not return while its pass is known. */
function removeOldestPass(check: Check, space: SlotSpace): void {
  let oldest: readonly [string, Slot] | undefined;
  for (const one of check.partitions!) {
    const [, slot] = one;
    if (!slot.passed) continue;
    if (oldest === undefined || slot.at < oldest[1].at || (slot.at === oldest[1].at && slot.seq < oldest[1].seq))
      oldest = one;
  }
  removeSlot(check, ...oldest!, space);
}

/**
 * Removes the partitions whose latest result was erased. A failure is kept, without the name of its partition.
 * @param wasErased whether the event with a seq was erased
 */
export function erasePartitions(check: Check, wasErased: (seq: number) => boolean, space: SlotSpace): void {
  for (const [name, slot] of check.partitions ?? []) {
    if (!wasErased(slot.seq)) continue;
    removeSlot(check, name, slot, space);
    check.beyond += Number(!slot.passed);
  }
}

function removeSlot(check: Check, name: string, { passed }: Slot, space: SlotSpace): void {
  check.partitions!.delete(name);
  check.failures -= Number(!passed);
  space.partitions -= 1;
  space.partitionCharacters -= name.length;
}

/** A result that equals the previous one continues its state. */
function overwrite(slot: Slot, { seq, timeMs, passed, severity, place }: Result): void {
  if (slot.inARow === 0 || slot.passed !== passed) {
    slot.sinceMs = place.at ?? timeMs;
    slot.sinceSeq = seq;
    slot.inARow = 0;
  }
  slot.inARow += 1;
  slot.passed = passed;
  slot.severity = severity;
  slot.seq = seq;
  keepPlace(slot, place);
}

export function blankSlot(): Slot {
  return {
    passed: false,
    severity: '',
    seq: 0,
    at: 0,
    source: undefined,
    ownSeq: 0,
    sinceMs: 0,
    sinceSeq: 0,
    inARow: 0,
  };
}

/** Number of slots for passed partitions. The latest passes have them. */
const PASSED_PARTITIONS = 8;
