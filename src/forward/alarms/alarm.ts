/** An alarm of a hook with `on`: a failing check of an asset, or a silent asset. */

import type { AlarmKind } from '../settings.ts';

/** The kinds of alarms, named after what starts them. */
export type Beginning = 'failed' | 'stale';

export const endOf = { failed: 'recovered', stale: 'fresh' } as const satisfies Record<Beginning, AlarmKind>;

/** What an alarm is about. */
export interface Subject {
  /** The name of the asset, as in `Asset.name`. */
  readonly asset: string;
  /** The next two members are undefined for silence. The second is also undefined for a failure without a partition. */
  readonly check: string | undefined;
  readonly partition: string | undefined;
}

export interface Alarm extends Subject {
  readonly on: Beginning;
  /** Set for a failure: `WARN` or `ERROR`. */
  readonly severity: string | undefined;
  /** The time, in ms since 1970, and the seq of the first consecutive failure, or of the last event of a silent asset. */
  readonly sinceMs: number;
  readonly sinceSeq: number;
}

/** An alarm that the hook has been sent. */
export interface ToldAlarm extends Alarm {
  /** When it was posted, as `2026-11-20T15:19:45.266Z`; null if it was only noted and never posted. */
  readonly posted: string | null;
}

/** The alarms, by key, that the hook has been sent and that have not ended. */
export type ToldAlarms = ReadonlyMap<string, ToldAlarm>;

/** @returns a text that is unique to the subject */
export function alarmKey({ asset, check, partition }: Subject): string {
  return JSON.stringify([asset, check, partition]);
}

/** @returns the approximate size of an alarm in the hook's file, in bytes */
export function alarmBytes(key: string): number {
  return Buffer.byteLength(key) + OTHER_BYTES;
}

/** Space for the names of the members, the times and the seqs. */
const OTHER_BYTES = 200;
