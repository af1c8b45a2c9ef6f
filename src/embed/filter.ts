/** Reads the filter of `events` and `waitFor`, and finds the members in which an event differs. */

import { isObject } from '../config/json-file.ts';
import type { Limits } from '../config/limits.ts';
import { keyJson, looksLike } from '../event/asset-key.ts';
import { severities } from '../event/event.ts';
import { eventTimeForm, readEventTime, sortKeyOf } from '../event/event-time.ts';
import { didYouMean } from '../event/nearest.ts';
import { endpoints, parameters } from '../event/parameters.ts';
import { allSearches, differences, type Filter, readEventType } from '../event/search.ts';
import type { Line } from '../journal/look/reading.ts';
import { checkMetadata, metadataDifferences } from './metadata.ts';

export interface Wanted {
  /** The members that a reader of the journal can compare. */
  readonly filter: Filter;
  /** The required members of the metadata; undefined if there are no requirements. */
  readonly metadata: object | undefined;
}

const embedded = allSearches.filter((row) => row.embedded);
/** The members of a filter. */
const names: readonly string[] = [...embedded.map(({ member }) => member), 'metadata', 'deployment'];

/**
 * Reads a filter such as `{ assetKey: 'warehouse/orders', passed: false }`. Undefined members are ignored.
 * @throws TypeError for an unknown member, which would match too much, and for a value that no event can have, since a test that
 *   expects no event could not fail with it
 */
export function readWanted(value: unknown, limits: Limits): Wanted {
  const { deployment: _, metadata, ...rest } = givenMembers(value, 'a filter', names);
  if (metadata !== undefined) checkMetadata(metadata, limits.jsonDepthMax);
  const members = Object.entries(rest).map(([name, given]) => [name, readMember(name, given)]);
  return { filter: Object.fromEntries(members), metadata: metadata as object | undefined };
}

/** @returns the filter as JSON, such as `{"assetKey":"orders"}`, with the digits of a bigint as a string */
export function showFilter(filter: object): string {
  return JSON.stringify(filter, (_name, value) => (typeof value === 'bigint' ? String(value) : value));
}

/**
 * @param what the object is: `a filter`
 * @returns the members that are not undefined
 * @throws TypeError for a value that is not an object, and for a member with another name
 */
export function givenMembers(
  value: unknown,
  what: string,
  names: readonly string[],
): Readonly<Record<string, unknown>> {
  if (!isObject(value)) throw new TypeError(`${what} is an object, not ${shown(value)}`);
  const given = Object.entries(value).filter(([, member]) => member !== undefined);
  for (const [name] of given) {
    if (names.includes(name)) continue;
    throw new TypeError(`${what} has no ${name}${didYouMean(name, names) || `; it may have ${names.join(', ')}`}`);
  }
  return Object.fromEntries(given);
}

/**
 * @returns the names of the members that do not match, in the order of the filter, such as `['type', 'metadata.rows']`; empty if
 *   the line matches. A key that looks like the key of the filter, or is another spelling of it, is followed by its parts.
 */
export function differencesOf(line: Line, { filter, metadata }: Wanted): string[] {
  const { asset_key } = line.event;
  const wrong = differences(line, filter).map((name) =>
    name === 'assetKey' && looksLike(asset_key, filter.assetKey ?? [])
      ? `assetKey (write ${keyJson(asset_key)})`
      : name,
  );
  return metadata === undefined ? wrong : [...wrong, ...metadataDifferences(line.metadata, metadata)];
}

function readMember(name: string, value: unknown): unknown {
  switch (embedded.find(({ member }) => member === name)?.kind) {
    case 'key':
      return keyOf(value);
    case 'event time':
      return momentOf(value);
    case 'type':
      return typeOf(value);
    case 'boolean':
      if (typeof value === 'boolean') return value;
      throw wrong(name, value, 'true or false');
    case 'severity':
      if (severities.some((known) => known === value)) return value;
      throw wrong(name, value, severities.join(' or '), severities);
    case 'seq':
      if (typeof value === 'number' && !Number.isNaN(value)) return Math.max(0, Math.floor(value));
      throw wrong(name, value, 'the seq of an event');
    default:
      if (typeof value === 'string' && (value !== '' || !isNeverEmpty(name))) return value;
      throw wrong(name, value, isNeverEmpty(name) ? 'a text that is not empty' : 'a text');
  }
}

function isNeverEmpty(name: string): boolean {
  return parameters.some(({ member, kind }) => member === name && kind === 'non-empty string');
}

/** @returns the parts of a key such as `'warehouse/orders'`. @throws TypeError for a value that is not a key */
function keyOf(value: unknown): readonly string[] {
  const parts: unknown = typeof value === 'string' ? value.split('/') : value;
  const isKey =
    Array.isArray(parts) && parts.length > 0 && parts.every((part) => typeof part === 'string' && part !== '');
  if (isKey) return parts;
  throw wrong('assetKey', value, "a key, such as 'warehouse/orders' or ['warehouse', 'orders']");
}

/** @returns the type of an event, from its short or its long name. @throws TypeError for any other value */
function typeOf(value: unknown): string {
  const type = typeof value === 'string' ? readEventType(value) : undefined;
  if (type !== undefined) return type;
  const [short, long] = [endpoints.map(({ name }) => name), endpoints.map(({ type }) => type)];
  throw wrong('type', value, `${short.join(', ')}, ${long.slice(0, -1).join(', ')} or ${long.at(-1)}`, [
    ...short,
    ...long,
  ]);
}

/** @param words the values that might have been meant */
function wrong(name: string, value: unknown, wanted: string, words: readonly string[] = []): TypeError {
  const hint = typeof value === 'string' ? didYouMean(value, words) : '';
  return new TypeError(`${name} is ${shown(value)}; give ${wanted}${hint}`);
}

function shown(value: unknown): string {
  return typeof value === 'string' || Array.isArray(value) ? JSON.stringify(value) : String(value);
}

/** @returns the sort key of a time @throws TypeError for a text that no report could have sent */
function momentOf(value: unknown): string {
  const read = typeof value === 'string' ? readEventTime(value) : undefined;
  if (read?.kind === 'time') return sortKeyOf(read.utc);
  throw new TypeError(`eventTime is ${JSON.stringify(value)}; ${read?.problem ?? `give ${eventTimeForm}`}`);
}
