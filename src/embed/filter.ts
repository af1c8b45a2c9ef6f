/** Reads the filter of `events` and `waitFor`, and says in which of its members an event differs. */

import type { Limits } from '../config/limits.ts';
import { eventTimeForm, readEventTime, sortKeyOf } from '../event/event-time.ts';
import { allSearches, differences, type Filter } from '../event/search.ts';
import type { Line } from '../journal/look/reading.ts';
import { checkMetadata, metadataDifferences } from './metadata.ts';

export interface Wanted {
  /** What a reader of the journal can compare. */
  readonly filter: Filter;
  /** Members that the metadata has to have; undefined if none are asked for. */
  readonly metadata: object | undefined;
}

const embedded = allSearches.filter((row) => row.embedded);
/** The members that a filter may have, besides the deployment. */
const names = [...embedded.map(({ member }) => member), 'metadata'];

/**
 * Reads a filter such as `{ assetKey: 'warehouse/orders', passed: false }`. A member that is undefined is ignored.
 * @throws TypeError for an unknown member: if a misspelt one were ignored, the filter would match too much
 */
export function readWanted(
  { deployment: _, ...rest }: Readonly<Record<string, unknown>>,
  limits: Pick<Limits, 'jsonDepthMax'>,
): Wanted {
  const given = Object.entries(rest).filter(([, value]) => value !== undefined);
  for (const [name] of given) {
    if (!(names as readonly string[]).includes(name))
      throw new TypeError(`a filter has no ${name}; it may have ${names.join(', ')}`);
  }
  if (rest['metadata'] !== undefined) checkMetadata(rest['metadata'], limits.jsonDepthMax);
  const { metadata, ...filter } = Object.fromEntries(given.map(([name, value]) => [name, readMember(name, value)]));
  return { filter, metadata: metadata as object | undefined };
}

/**
 * @returns the names of the members that do not match, in the order of the filter, such as `['type', 'metadata.rows']`; empty if
 *   the line is what is wanted
 */
export function differencesOf(line: Line, { filter, metadata }: Wanted): string[] {
  const wrong: string[] = differences(line.event, filter);
  return metadata === undefined ? wrong : [...wrong, ...metadataDifferences(line.metadata, metadata)];
}

function readMember(name: string, value: unknown): unknown {
  const kind = embedded.find(({ member }) => member === name)?.kind;
  if (kind === 'key') return keyOf(value);
  if (kind === 'event time') return momentOf(value);
  if (kind !== 'seq') return value;
  const seq = Math.floor(Number(value));
  if (Number.isNaN(seq)) throw new TypeError(`${name} is ${value}; give the seq of an event`);
  return Math.max(0, seq);
}

/** @returns the parts of a key such as `'warehouse/orders'`; for a value that is no key an empty array, which matches no event */
function keyOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return value.split('/');
  return Array.isArray(value) ? value : [];
}

/** @returns the sort key of a time @throws TypeError for a text that no report could have sent */
function momentOf(value: unknown): string {
  const read = typeof value === 'string' ? readEventTime(value) : undefined;
  if (read?.kind === 'time') return sortKeyOf(read.utc);
  throw new TypeError(`eventTime is ${JSON.stringify(value)}; ${read?.problem ?? `give ${eventTimeForm}`}`);
}
