/** The changes that a hook must be sent: the difference between the alarms that hold and those that it was sent. */

import type { AlarmKind } from '../settings.ts';
import { type Alarm, endOf, type ToldAlarm, type ToldAlarms } from './alarm.ts';

export interface Change {
  readonly key: string;
  readonly on: AlarmKind;
  /** The alarm that holds now; undefined if it ended. */
  readonly now: Alarm | undefined;
  /** The alarm that the hook was sent; undefined if there was none. */
  readonly before: ToldAlarm | undefined;
}

/**
 * @param holding the alarms that hold, by key @returns first the alarms that start or change their severity, in the
 * order of their starts, and then those that end
 */
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
