/**
 * The state of a check: the latest result, and a slot for the results without a partition and for each partition that matters. A check
 * fails while one of its slots does. A pass without a partition is about the whole asset, and ends the failures of all partitions.
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
  /** When the first of the results in a row that are the same happened, in ms since 1970, and its seq. */
  sinceMs: number;
  sinceSeq: number;
  /** How many results in a row are the same. */
  inARow: number;
}

/** `Latest` and `passed`, `severity` are those of the latest result of any partition. */
export interface Check extends Latest {
  passed: boolean;
  severity: string;
  /** Results without a partition; undefined without one. */
  whole: Slot | undefined;
  /** The latest pass without a partition, if `whole` is a failure after it. */
  ended: KeptPlace | undefined;
  /** Failing partitions, and a few that passed last; undefined without a partition. */
  partitions: Map<string, Slot> | undefined;
  /** How many of these fail. */
  failures: number;
  /** How many failures of partitions have no slot. */
  beyond: number;
}

/** What an asset and its checks share. */
export interface SlotSpace {
  /** How many partitions of all checks have a slot, and the characters of their names. */
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
  /** Whether it might be one of a partition all the same. */
  readonly isErased: boolean;
  readonly place: EventPlace;
}

/** In one literal: an object that is spread into another one takes several times the memory. */
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

/** Whether a check fails: its latest result without a partition is a failure, or the latest one of any partition. */
export function isFailing({ whole, failures, beyond }: Check): boolean {
  return failures > 0 || beyond > 0 || whole?.passed === false;
}

/** Yields the slots that fail, each with its partition; undefined for the one without. */
export function* failuresOf({
  whole,
  partitions,
  failures,
}: Check): Generator<readonly [partition: string | undefined, slot: Slot]> {
  if (whole?.passed === false) yield [undefined, whole];
  if (failures > 0) for (const [name, slot] of partitions!) if (!slot.passed) yield [name, slot];
}

/** @returns the worst severity of the slots that fail; without such a slot the severity of the latest result; undefined while it passes */
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
 * @returns the slot that says since when a check has its state: the failure that began first, or while the check passes the slot of the
 *   latest result. Undefined if the latest result has no slot
 */
export function holdingSlot(check: Check): Slot | undefined {
  let first: Slot | undefined;
  for (const [, slot] of failuresOf(check)) if (first === undefined || slot.sinceMs < first.sinceMs) first = slot;
  if (first !== undefined || check.beyond > 0) return first;
  return check.partition === undefined ? check.whole : check.partitions?.get(check.partition);
}

/** Takes a result into its slot. Its name and its values are copies. */
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

/** As of a partition whose name is not known, so that an erased pass ends no failure of another one. */
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
    if (check.beyond > 0) check.beyond -= 1; // perhaps one of those
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

/** A late failure of a partition does not come back while its pass is known. */
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
 * Takes out the partitions whose latest result was erased. A failure stays, without the name of its partition.
 * @param wasErased whether the event with a seq was
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

/** A result that is the same as the one before continues what holds since then. */
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

/** Slots for partitions that passed; the latest passes have them. */
const PASSED_PARTITIONS = 8;
