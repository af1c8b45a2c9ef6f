/** What a hook is to hear: the difference between the alarms that hold and those that it has heard of. */

import type { AlarmKind } from '../settings.ts';
import { type Alarm, endOf, type ToldAlarm, type ToldAlarms } from './alarm.ts';

export interface Change {
  readonly key: string;
  readonly on: AlarmKind;
  /** What holds now; undefined if the alarm ended. */
  readonly now: Alarm | undefined;
  /** What the hook has heard of; undefined if of nothing. */
  readonly before: ToldAlarm | undefined;
}

/** @param holding by their keys @returns what begins, or has another severity, by when it began, and then what ends */
export function difference(told: ToldAlarms, holding: ReadonlyMap<string, Alarm>): Change[] {
  const begun: (Change & { readonly now: Alarm })[] = [];
  for (const [key, now] of holding) {
    const before = told.get(key);
    if (before === undefined || before.severity !== now.severity) begun.push({ key, on: now.on, now, before });
  }
  begun.sort((a, b) => a.now.sinceMs - b.now.sinceMs || a.now.sinceSeq - b.now.sinceSeq);
  const ended: Change[] = [];
  for (const [key, before] of told)
    if (!holding.has(key)) ended.push({ key, on: endOf[before.on], now: undefined, before });
  return [...begun, ...ended];
}
