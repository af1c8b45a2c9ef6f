/** The filter for events, shared by all code that reads a journal. */

import { startsWith } from '../event/asset-key.ts';
import type { Event, Severity } from '../event/event.ts';
import { sortKeyOf } from '../event/event-time.ts';
import { packMembers, quote, quoteAll, type Recorded } from './record.ts';

/**
 * What an event has to match. A member that is omitted or undefined matches anything. Example:
 * `{ type: 'AssetObservation', afterSeq: 7 }`.
 */
export interface Filter extends Bounds {
  readonly type?: Event['type'] | undefined;
  /** All parts of the key: `['warehouse', 'orders']`. */
  readonly assetKey?: readonly string[] | undefined;
  /** The first parts of the key, whole: `['warehouse']` matches `['warehouse', 'orders']`. */
  readonly keyPrefix?: readonly string[] | undefined;
  /** The first parts of the key, of which the last one may be incomplete: see `readKeyStart`. */
  readonly keyStart?: readonly string[] | undefined;
  readonly partition?: string | undefined;
  readonly dataVersion?: string | undefined;
  readonly description?: string | undefined;
  readonly checkName?: string | undefined;
  readonly passed?: boolean | undefined;
  readonly severity?: Severity | undefined;
  /** The sort key of the time at which it happened, from `sortKeyOf`: `2026-11-20T15:04:05.25`. */
  readonly eventTime?: string | undefined;
  readonly idempotencyKey?: string | undefined;
}

/**
 * Bounds of seq and time. Files outside of them need not be read. Example: `{ afterSeq: 7, until: '2026-11-21T00:00:00.000Z' }`.
 */
export interface Bounds {
  /** Only events with a larger seq. */
  readonly afterSeq?: number | undefined;
  /** Only events with this seq or a smaller one. */
  readonly untilSeq?: number | undefined;
  /** Only events recorded at this time or later, and before that one: in the form of a line, `2026-11-20T15:19:45.266Z`. */
  readonly since?: string | undefined;
  readonly until?: string | undefined;
}

type Values = { readonly [Name in keyof Filter]-?: NonNullable<Filter[Name]> };
type Rules = { readonly [Name in keyof Values]: (event: Recorded, value: Values[Name]) => boolean };

const rules: Rules = {
  type: ({ type }, value) => type === value,
  assetKey: ({ asset_key }, value) => asset_key.length === value.length && beginsWith(asset_key, value),
  keyPrefix: ({ asset_key }, value) => beginsWith(asset_key, value),
  keyStart: ({ asset_key }, value) => startsWith(asset_key, value),
  partition: ({ partition }, value) => partition === value,
  dataVersion: ({ tags }, value) => tags?.data_version === value,
  description: ({ description }, value) => description === value,
  checkName: ({ check_name }, value) => check_name === value,
  passed: ({ passed }, value) => passed === value,
  severity: ({ severity }, value) => severity === value,
  eventTime: ({ event_time }, value) => event_time !== undefined && sortKeyOf(event_time) === value,
  idempotencyKey: ({ idempotency_key }, value) => idempotency_key === value,
  afterSeq: ({ seq }, value) => seq > value,
  untilSeq: ({ seq }, value) => seq <= value,
  since: ({ time }, value) => time >= value,
  until: ({ time }, value) => time < value,
};

/**
 * @returns whether the event matches each member of the filter, such as `{ type: 'AssetObservation', partition: 'p' }`; `{}`
 *   matches every event
 */
export function isWanted(event: Recorded, filter: Filter): boolean {
  for (const name in filter) if (!holds(event, filter, name as keyof Filter)) return false;
  return true;
}

/** @returns the names of the members that do not match, in the order of the filter, such as `['type', 'passed']` */
export function differences(event: Recorded, filter: Filter): (keyof Filter)[] {
  const names = Object.keys(filter) as (keyof Filter)[];
  return names.filter((name) => !holds(event, filter, name));
}

/**
 * @returns bytes that each matching line contains, and few others do: of `{ assetKey: ['a', 'b'] }` those of
 *   `"asset_key":["a","b"]`; undefined if the filter has only bounds. Text in metadata may contain them as well: see `isWanted`
 */
export function traceOf(filter: Filter): Buffer | undefined {
  const { type, assetKey, keyPrefix, partition, dataVersion, description, checkName, passed, severity } = filter;
  const { eventTime, idempotencyKey, keyStart } = filter;
  if (idempotencyKey !== undefined) return packMembers(`"idempotency_key":${quote(idempotencyKey)}`);
  if (eventTime !== undefined) return packMembers(`"event_time":"${eventTime}`);
  if (partition !== undefined) return packMembers(`"partition":${quote(partition)}`);
  if (dataVersion !== undefined) return packMembers(`"data_version":${quote(dataVersion)}`);
  if (description !== undefined) return packMembers(`"description":${quote(description)}`);
  if (checkName !== undefined) return packMembers(`"check_name":${quote(checkName)}`);
  if (assetKey !== undefined) return packMembers(`"asset_key":${quoteAll(assetKey)}`);
  if (keyPrefix !== undefined) return packMembers(`"asset_key":${quoteAll(keyPrefix).slice(0, -1)}`);
  if (keyStart !== undefined) return packMembers(`"asset_key":${startOfJson(keyStart)}`);
  if (passed !== undefined) return packMembers(`"passed":${passed}`);
  if (severity !== undefined) return packMembers(`"severity":"${severity}"`);
  return type === undefined ? undefined : packMembers(`"type":"${type}"`);
}

/** @returns `["warehouse","ord` for `['warehouse', 'ord']`, and `["warehouse"` for `['warehouse', '']` */
function startOfJson(start: readonly string[]): string {
  return start.at(-1) === '' ? quoteAll(start.slice(0, -1)).slice(0, -1) : quoteAll(start).slice(0, -2);
}

function holds<Name extends keyof Filter>(event: Recorded, filter: Filter, name: Name): boolean {
  const value = filter[name];
  return value === undefined || rules[name](event, value as Values[Name]);
}

function beginsWith(key: readonly string[], parts: readonly string[]): boolean {
  return parts.every((part, index) => key[index] === part);
}
