/** Which events a hook gets, as the file of `--forward` says it. */

import { isObject } from '../config/json-file.ts';
import { readKey } from '../event/asset-key.ts';
import { allSearches, type Filter, readEventType, type SearchKind } from '../event/search.ts';

/**
 * Reads the member `only`, whose members are called as the parameters of `GET /events` or as those of a line.
 * @param value such as `{ type: 'check', passed: false, key_prefix: 'warehouse' }`
 * @returns undefined if it is none
 */
export function readOnly(value: unknown): Filter | undefined {
  if (!isObject(value)) return undefined;
  const filter: Record<string, unknown> = {};
  for (const [name, given] of Object.entries(value)) {
    const search = allSearches.find(({ query, line }) => name === (query ?? line));
    const read = search && readers[search.kind]?.(given);
    if (read === undefined) return undefined;
    filter[search!.member] = read;
  }
  return filter;
}

/** Each returns undefined for a wrong value. */
const readers: { readonly [Kind in SearchKind]?: (given: unknown) => unknown } = {
  'key prefix': keyIn,
  type: (given) => readEventType(`${given}`),
  text: (given) => (typeof given === 'string' && given !== '' ? given : undefined),
  boolean: (given) => (typeof given === 'boolean' ? given : undefined),
  severity: (given) => (given === 'WARN' || given === 'ERROR' ? given : undefined),
};

function keyIn(given: unknown): readonly string[] | undefined {
  try {
    return readKey([typeof given === 'string' ? given : JSON.stringify(given)]);
  } catch {
    return undefined;
  }
}
