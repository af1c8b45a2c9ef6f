/** The event that a report records: one event about one asset (specification section 6). */

interface CommonEvent {
  /** The parts of the key, at least one, each with at least one character. */
  readonly assetKey: readonly string[];
  readonly partition?: string | undefined;
  /** The JSON of an object, as it was sent, without white space between tokens: its text, or the bytes of a long one. */
  readonly metadata?: string | Buffer | undefined;
  /** When it happened, as the client says, in UTC with the digits of the fraction as sent: `2026-11-20T15:19:45.25Z`. */
  readonly eventTime?: string | undefined;
  /** Identifies the report when it is sent again. Visible ASCII characters. */
  readonly idempotencyKey?: string | undefined;
  /** Only in an event that another assetlog recorded first and forwarded. */
  readonly origin?: EventOrigin | undefined;
}

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
  /** What a line has of the event itself, if that is known. Not a member of the event, since each report would look for it. */
  readonly encoded?: string | undefined;
}

export interface AssetEvent extends CommonEvent {
  readonly type: 'AssetMaterialization' | 'AssetObservation';
  readonly description?: string | undefined;
  /** Recorded as the tag `data_version`. */
  readonly dataVersion?: string | undefined;
}

export interface CheckEvent extends CommonEvent {
  readonly type: 'AssetCheckEvaluation';
  /** Not empty. */
  readonly checkName: string;
  readonly passed: boolean;
  /** Recorded for a check that passed as well. */
  readonly severity: Severity;
}

/** How bad it is that a check fails, least bad first. */
export const severities = ['WARN', 'ERROR'] as const;
export type Severity = (typeof severities)[number];

export type Event = AssetEvent | CheckEvent;

/** An event as a line of a journal has it, with the names of the line's members, and without its metadata. */
export interface Recorded {
  readonly seq: number;
  readonly id: string;
  /** When it was recorded, in UTC: `2026-11-20T15:19:45.266Z`. */
  readonly time: string;
  readonly type: Event['type'];
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
