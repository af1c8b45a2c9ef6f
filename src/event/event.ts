/**
 * The event that a report records: one event about one asset (specification section 6). Example:
 * `{ type: 'AssetMaterialization', assetKey: ['warehouse', 'orders'], partition: '2026-11-20', metadata: '{"rows":10}' }`.
 */

interface CommonEvent {
  /** The parts of the key, at least one, each with at least one character: `['warehouse', 'orders']`. */
  readonly assetKey: readonly string[];
  /** Name of the partition: `2026-11-20`. */
  readonly partition?: string | undefined;
  /** The JSON text of an object, as it was sent: `{"rows":1.0}`. */
  readonly metadata?: string | undefined;
  /** When it happened, as the client says, in UTC with the digits of its fraction: `2026-11-20T15:19:45.25Z`. */
  readonly eventTime?: string | undefined;
  /** Identifies the report when it is sent again: `order-17/1`. Visible ASCII characters. */
  readonly idempotencyKey?: string | undefined;
  /** Only in an event that another assetlog recorded first and forwarded. */
  readonly origin?: EventOrigin | undefined;
}

/**
 * Where a forwarded event comes from: `{ id: '01a1fb95-…', source: '0193e0c2-…', seq: 7, recorded: '2026-11-20T15:19:45.266Z' }`.
 */
export interface EventOrigin {
  /** The id of its line, which every journal that it is forwarded to keeps. */
  readonly id: string;
  /** The id of the journal that sent it. */
  readonly source: string;
  /** Its seq there, from 1. */
  readonly seq: number;
  /** The `time` of its line in the journal that recorded it first. */
  readonly recorded: string;
}

/** A materialization or an observation, which have the same members: `{ type: 'AssetObservation', assetKey: ['orders'] }`. */
export interface AssetEvent extends CommonEvent {
  readonly type: 'AssetMaterialization' | 'AssetObservation';
  /** For people: `nightly load`. */
  readonly description?: string | undefined;
  /** Recorded as the tag `data_version`: `v1`. */
  readonly dataVersion?: string | undefined;
}

/** The result of a check: `{ type: 'AssetCheckEvaluation', checkName: 'no_nulls', passed: false, severity: 'WARN', … }`. */
export interface CheckEvent extends CommonEvent {
  readonly type: 'AssetCheckEvaluation';
  /** Name of the check, not empty: `no_nulls`. */
  readonly checkName: string;
  readonly passed: boolean;
  /** Recorded for a check that passed as well: `ERROR` if the report has none. */
  readonly severity: Severity;
}

/** How bad it is that a check fails, least bad first: `WARN`, then `ERROR`. */
export const severities = ['WARN', 'ERROR'] as const;
/** `WARN` or `ERROR`. */
export type Severity = (typeof severities)[number];

/** One event, whose `type` says which: `{ type: 'AssetObservation', assetKey: ['warehouse', 'orders'] }` and its parameters. */
export type Event = AssetEvent | CheckEvent;
