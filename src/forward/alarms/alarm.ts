/** An alarm of a hook with `on`: a check of an asset that fails, or an asset that is silent. */

import type { AlarmKind } from '../settings.ts';

/** The kinds of alarms, called by what begins them. */
export type Beginning = 'failed' | 'stale';

export const endOf = { failed: 'recovered', stale: 'fresh' } as const satisfies Record<Beginning, AlarmKind>;

/** What an alarm is about. */
export interface Subject {
  /** The name of the asset, as in `Asset.name`. */
  readonly asset: string;
  /** The next two are undefined of silence, and the second one of a failure without a partition. */
  readonly check: string | undefined;
  readonly partition: string | undefined;
}

export interface Alarm extends Subject {
  readonly on: Beginning;
  /** Of a failure: `WARN` or `ERROR`. */
  readonly severity: string | undefined;
  /** When the first of the failures in a row happened, or the last event of a silent asset, in ms since 1970, and its seq. */
  readonly sinceMs: number;
  readonly sinceSeq: number;
}

/** An alarm that the hook has heard of. */
export interface ToldAlarm extends Alarm {
  /** When it was posted, as `2026-11-20T15:19:45.266Z`; null if it is noted and was never posted. */
  readonly posted: string | null;
}

/** The alarms that a hook has heard of and that have not ended, by their keys. */
export type ToldAlarms = ReadonlyMap<string, ToldAlarm>;

/** @returns a text that names the subject, and no other one */
export function alarmKey({ asset, check, partition }: Subject): string {
  return JSON.stringify([asset, check, partition]);
}

/** @returns about the bytes of an alarm in the file of the hook */
export function alarmBytes(key: string): number {
  return Buffer.byteLength(key) + OTHER_BYTES;
}

/** The names of the members, the times and the seqs. */
const OTHER_BYTES = 200;
