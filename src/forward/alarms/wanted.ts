/** The alarms that hold and that a hook wants: at most `alarmsMax` with `alarmBytesMax`, starting with those that it was sent. */

import type { AssetStates } from '../../assets/asset-state.ts';
import { type Check, failuresOf, isFailing, type Slot } from '../../assets/check-state.ts';
import type { Limits } from '../../config/limits.ts';
import { type Alarm, alarmBytes, alarmKey, type Subject, type ToldAlarm, type ToldAlarms } from './alarm.ts';
import { Chosen } from './chosen.ts';
import type { AlarmMoment } from './clock.ts';
import { type AlarmRules, hears } from './rules.ts';
import type { Silence } from './silence.ts';

export interface WantedAlarms {
  /** The alarms by key. */
  readonly holding: ReadonlyMap<string, Alarm>;
  /** Number of other alarms that hold and have no space. Failures of partitions that the state does not list are counted too. */
  readonly left: number;
}

export interface WantedOptions {
  readonly rules: AlarmRules;
  readonly silence: Silence;
  readonly limits: Limits;
}

/**
 * Yields after each part of the work, which takes about a millisecond. The state can change between parts.
 * @param told an alarm that has ended still counts until the hook is sent its end, so that the limit holds
 * @param isNoted see `Silence.look`
 */
export function* wanted(
  states: AssetStates,
  told: ToldAlarms,
  at: AlarmMoment,
  { rules, silence, limits }: WantedOptions,
  isNoted = false,
): Generator<void, WantedAlarms> {
  const holding = new Map<string, Alarm>();
  for (const [key, before] of told) {
    const now = before.on === 'failed' ? stillFailing(states, before, rules) : silence.stillSilent(states, before, at);
    if (now !== undefined) holding.set(key, now);
  }
  const silentTold = [...holding.values()].filter(({ on }) => on === 'stale').length;
  const chosen = new Chosen(limits.alarmsMax - told.size);
  let all = silentTold;
  if (hears(rules, 'failed')) all += yield* countFailures(states, told, rules, chosen);
  const { silent, others } = yield* silence.look(states, told, at, isNoted);
  all += silent.length + others;
  for (const alarm of silent) if (chosen.accepts(alarm)) chosen.add(alarm);
  let bytes = 0;
  for (const key of told.keys()) bytes += alarmBytes(key);
  for (const alarm of chosen.taken()) {
    const key = alarmKey(alarm);
    bytes += alarmBytes(key);
    if (bytes > limits.alarmBytesMax) break;
    holding.set(key, alarm);
  }
  return { holding, left: Math.max(0, all - holding.size) };
}

/** @param chosen gets the alarms that the hook was not sent. @returns the number of current failures */
function* countFailures(
  states: AssetStates,
  told: ToldAlarms,
  rules: AlarmRules,
  chosen: Chosen,
): Generator<void, number> {
  let [count, looked] = [0, 0];
  for (const asset of [...states.failing]) {
    const checks = rules.covers(asset) ? states.get(asset)?.checks : undefined;
    for (const [name, check] of checks ?? []) {
      looked += 1 + check.failures;
      if (isFailing(check) && rules.coversCheck(name)) count += offer(asset, name, check, { told, rules, chosen });
    }
    looked += 1;
    if (looked < FAILURES_A_TURN) continue;
    looked = 0;
    yield;
  }
  return count;
}

interface Offering {
  readonly told: ToldAlarms;
  readonly rules: AlarmRules;
  readonly chosen: Chosen;
}

/** @returns the number of current failures of a check */
function offer(asset: string, name: string, check: Check, { told, rules, chosen }: Offering): number {
  let count = check.beyond;
  for (const [partition, slot] of failuresOf(check)) {
    if (!rules.wants(partition, slot)) continue;
    count += 1;
    if (!chosen.accepts(slot)) continue;
    const alarm = failureOf({ asset, check: name, partition }, slot);
    if (!told.has(alarmKey(alarm))) chosen.add(alarm);
  }
  return count;
}

/**
 * @returns the current alarm of a check for which the hook was sent an alarm; undefined if the check no longer fails, or is no longer wanted
 */
function stillFailing(states: AssetStates, before: ToldAlarm, rules: AlarmRules): Alarm | undefined {
  const slot = slotOf(checkOf(states, before), before);
  if (slot?.passed !== false || !isCovered(before, rules)) return undefined;
  return rules.wants(before.partition, slot) ? failureOf(before, slot) : undefined;
}

/** Whether the settings still include the subject of an alarm. */
export function isCovered({ asset, check }: Subject, rules: AlarmRules): boolean {
  if (!rules.covers(asset)) return false;
  return check === undefined ? hears(rules, 'stale') : hears(rules, 'failed') && rules.coversCheck(check);
}

export function checkOf(states: AssetStates, { asset, check }: Subject): Check | undefined {
  return check === undefined ? undefined : states.get(asset)?.checks?.get(check);
}

export function slotOf(check: Check | undefined, { partition }: Subject): Slot | undefined {
  return partition === undefined ? check?.whole : check?.partitions?.get(partition);
}

function failureOf({ asset, check, partition }: Subject, { severity, sinceMs, sinceSeq }: Slot): Alarm {
  return { on: 'failed', asset, check, partition, severity, sinceMs, sinceSeq };
}

/** Number of assets, checks and failures that are checked in a turn. */
const FAILURES_A_TURN = 2_000;
