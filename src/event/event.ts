/** The event that a report records: one event about one asset (specification section 6). */

export interface Event {
  readonly type: EventType;
  /**
   * The members of its line but those that depend on its position in a journal: `"type":"AssetObservation","asset_key":["a"]`.
   * Metadata is as it was sent, without white space between tokens. Text in
   * ASCII, or the bytes of what is long or not all ASCII, with U+0085, U+2028 and U+2029 escaped. It keeps no body in memory.
   */
  readonly encoded: string | Buffer;
  /** Identifies the report when it is sent again. Visible ASCII characters. It is in `encoded` as well. */
  readonly idempotencyKey: string | undefined;
  /** Only in an event that another assetlog recorded first and forwarded. */
  readonly origin: EventOrigin | undefined;
}

export type EventType = 'AssetMaterialization' | 'AssetCheckEvaluation' | 'AssetObservation';

/** The line of a forwarded event in the journals that had the event before. */
export interface EventOrigin {
  /** The id of the line, which every journal that the event is forwarded to keeps. */
  readonly id: string;
  /** The id of the journal that sent the event. */
  readonly source: string;
  /** The seq of the line in that journal, from 1. */
  readonly seq: number;
  /** The `time` of the line in the journal that recorded the event first. */
  readonly recorded: string;
}

/** How bad it is that a check fails, least bad first. */
export const severities = ['WARN', 'ERROR'] as const;
export type Severity = (typeof severities)[number];

/** An event as a line of a journal has it, with the names of the line's members, and without its metadata. */
export interface Recorded {
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
  /** When it happened, as the client said, in UTC. */
  readonly event_time?: string;
  readonly idempotency_key?: string;
  /** The id of the journal that recorded the event first, and its seq there. */
  readonly from?: readonly [source: string, seq: number];
  /** The `time` of its line in that journal. */
  readonly recorded?: string;
}

/** What the report of an event says, with the names of the line's members. */
export type Said = Omit<Recorded, 'seq' | 'id' | 'time' | 'from' | 'recorded'>;

/** @returns what an event says, for those that look at few events; a copy */
export function decodeEvent({ encoded }: Event): Said {
  return JSON.parse(`{${encoded}}`);
}
