/** The event that a report records: one event about one asset (specification section 6). */

import type { LineName, Origins } from './line-name.ts';

export interface Event {
  readonly type: EventType;
  /**
   * The members of its line that do not depend on its position in a journal: `"type":"AssetObservation","asset_key":["a"]`.
   * Metadata is as sent, without white space between tokens. U+0085, U+2028 and U+2029 are escaped. It is a text in ASCII, or
   * bytes if it is long or has other characters. It keeps no body in memory.
   */
  readonly encoded: string | Buffer;
  /** Identifies the report when it is sent again. Visible ASCII characters, also in `encoded`. */
  readonly idempotencyKey: string | undefined;
  /** Set only in an event that another assetlog recorded first and forwarded. */
  readonly origin: EventOrigin | undefined;
}

export type EventType = 'AssetMaterialization' | 'AssetCheckEvaluation' | 'AssetObservation';

/** The line of a forwarded event in the journals that had the event before. */
export interface EventOrigin {
  /** The id of the line, which is the same in every journal that the event is forwarded to. */
  readonly id: string;
  /** The id of the journal that sent the event. */
  readonly source: string;
  /** The seq of the line in that journal, from 1. */
  readonly seq: number;
  /** The `time` of the line in the journal that recorded the event first. */
  readonly recorded: string;
  /** The name under which the event was first reported; undefined if that is the name of the line in `source`. */
  readonly first?: LineName | undefined;
}

/** The severities of a failed check, least severe first. */
export const severities = ['WARN', 'ERROR'] as const;
export type Severity = (typeof severities)[number];

/** An event in the form of a journal line, with the line's member names, without its metadata. */
export interface Recorded extends Origins {
  readonly seq: number;
  readonly id: string;
  /** When it was recorded, in UTC: `2026-11-20T15:19:45.266Z`. */
  readonly time: string;
  readonly type: EventType;
  readonly asset_key: readonly string[];
  readonly partition?: string;
  readonly check_name?: string;
  readonly passed?: boolean;
  readonly severity?: Severity;
  readonly description?: string;
  readonly tags?: { readonly data_version: string };
  /** When it happened, in UTC, according to the client. */
  readonly event_time?: string;
  readonly idempotency_key?: string;
  /** The name of the token of its report. */
  readonly by?: string;
  /** When `assetlog erase` erased its texts. */
  readonly erased?: string;
  /** The `time` of the line that was reported. */
  readonly recorded?: string;
}

/** The values of a report, with the line's member names. */
export type ReportedValues = Omit<Recorded, 'seq' | 'id' | 'time' | 'origin' | 'by' | 'erased' | 'from' | 'recorded'>;

/** @returns a decoded copy of an event's values; slow, for callers with few events */
export function decodeEvent({ encoded }: Event): ReportedValues {
  return JSON.parse(`{${encoded}}`);
}
