/** The content of a post about a change: the member `alarm`, and the members about its subject. */

import { type Asset, type AssetStates, keyOf } from '../../assets/asset-state.ts';
import type { Check, Slot } from '../../assets/check-state.ts';
import { BETWEEN_PARTS } from '../../event/asset-key.ts';
import type { AlarmKind } from '../settings.ts';
import type { Alarm, Subject, ToldAlarm } from './alarm.ts';
import type { Change } from './difference.ts';
import type { AlarmRules } from './rules.ts';
import { checkOf, isCovered, slotOf } from './wanted.ts';

/** Why an alarm ended. */
export type Because = 'passed' | 'reported' | 'severity' | 'clock' | 'forgotten' | 'settings';

/** The member `alarm` of a body. */
export interface AlarmJson {
  readonly on: AlarmKind;
  /** Set when an alarm ends. */
  readonly because?: Because;
  /** Set when an alarm starts or changes its severity. */
  readonly since?: string;
  readonly since_seq?: number;
  readonly in_a_row?: number;
  /** What the hook was sent before. */
  readonly before?: { readonly severity?: string | undefined; readonly since: string; readonly since_seq?: number };
}

/** The other members, used if the journal does not have the line of the result. */
export interface AboutJson {
  readonly asset_key: readonly string[];
  readonly check_name?: string | undefined;
  readonly partition?: string | undefined;
  readonly passed?: boolean;
  readonly severity?: string | undefined;
}

/** A post. After a stop it is sent again unchanged, whatever holds then. */
export interface Post {
  readonly alarm: AlarmJson;
  readonly about: AboutJson;
  /** The event whose line is sent; undefined for silence. */
  readonly seq?: number | undefined;
}

/** @returns the post for a change */
export function postOf({ on, now, before }: Change, states: AssetStates, rules: AlarmRules): Post {
  const subject = (now ?? before)!;
  const check = checkOf(states, subject);
  const slot = slotOf(check, subject);
  const about = aboutOf(subject);
  if (now === undefined) return endPost(on, before!, { asset: states.get(before!.asset), check, slot, rules });
  const since = { since: timeText(now.sinceMs), since_seq: now.sinceSeq };
  if (now.on === 'stale') return { alarm: { on, ...since }, about };
  const earlier = before && { before: { severity: before.severity, since: timeText(before.sinceMs) } };
  const alarm = { on, ...since, in_a_row: slot?.inARow ?? 1, ...earlier };
  return { alarm, about: { ...about, passed: false, severity: now.severity }, seq: slot?.seq ?? now.sinceSeq };
}

interface Ending {
  readonly asset: Asset | undefined;
  readonly check: Check | undefined;
  readonly slot: Slot | undefined;
  readonly rules: AlarmRules;
}

function endPost(on: AlarmKind, before: ToldAlarm, ending: Ending): Post {
  const { severity, sinceMs, sinceSeq: since_seq } = before;
  const about = aboutOf(before);
  const since = timeText(sinceMs);
  const because = reasonOf(before, ending);
  if (before.on === 'stale') return { alarm: { on, because, before: { since } }, about };
  const alarm = { on, because, before: { severity, since, since_seq } };
  // A pass without a partition can have ended the alarm; no result of its partition is then kept.
  const { check, slot = check?.whole } = ending;
  const passed = slot?.passed ?? true;
  return { alarm, about: { ...about, passed, severity: slot?.severity ?? severity }, seq: slot?.seq };
}

function reasonOf(before: ToldAlarm, { asset, check, slot, rules }: Ending): Because {
  if (!isCovered(before, rules)) return 'settings';
  if (asset === undefined) return 'forgotten';
  if (before.on === 'stale') return asset.aliveSeq === before.sinceSeq ? 'clock' : 'reported';
  if (check === undefined) return 'forgotten';
  if (slot?.passed !== false) return 'passed';
  return slot.severity === before.severity ? 'settings' : 'severity';
}

function aboutOf({ asset, check, partition }: Subject): AboutJson {
  return { asset_key: keyOf({ name: asset }), check_name: check, partition };
}

/** @returns the subject from which `postOf` created the members */
export function subjectOf({ asset_key, check_name, partition }: AboutJson): Subject {
  return { asset: asset_key.join(BETWEEN_PARTS), check: check_name, partition };
}

/** @returns the alarm that a post starts, or whose severity it changes; undefined if the post is about an end */
export function begunWith({ alarm, about }: Post): Alarm | undefined {
  const { on, since, since_seq } = alarm;
  if (on !== 'failed' && on !== 'stale') return undefined;
  return { on, ...subjectOf(about), severity: about.severity, sinceMs: Date.parse(since!), sinceSeq: since_seq! };
}

/** @returns a time in the form of JSON: `2026-11-20T15:19:45.266Z` */
export function timeText(ms: number): string {
  return new Date(ms).toISOString();
}
