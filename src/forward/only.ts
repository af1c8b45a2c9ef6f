/** Which events a hook gets, according to the file of `--forward`. */

import { isObject } from '../config/json-file.ts';
import { readKey, readKeyStart } from '../event/asset-key.ts';
import { didYouMean } from '../event/nearest.ts';
import { allSearches, type Filter, readEventType, type SearchKind } from '../event/search.ts';

/**
 * Reads the member `only`, whose members have the names of parameters of `GET /events` or of members of a line.
 * @param value such as `{ type: 'check', passed: false, key_prefix: 'warehouse' }`
 * @throws Error whose message completes "only …"
 */
export function readOnly(value: unknown): Filter {
  if (!isObject(value)) throw new Error('must be as {"type": "check", "passed": false}');
  const filter: Record<string, unknown> = {};
  for (const [name, given] of Object.entries(value)) {
    const search = named.get(name);
    if (search === undefined) {
      const problem = `has no member ${JSON.stringify(name)}${didYouMean(name, onlyNames)}`;
      throw new Error(`${problem}; there are ${onlyNames.join(', ')}`);
    }
    const [form, read] = readers[search.kind]!;
    const found = read(given);
    if (found === undefined) throw new Error(`has a wrong ${name}; write ${form}`);
    filter[search.member] = found;
  }
  return filter;
}

/** The valid form of a value, and the function that reads it and returns undefined for an invalid value. */
const readers: { readonly [Kind in SearchKind]?: readonly [form: string, read: (given: unknown) => unknown] } = {
  key: ['warehouse/orders', keyBy((text) => readKey([text]))],
  'key prefix': ['warehouse/orders', keyBy((text) => readKey([text]))],
  'key start': ['warehouse/ord', keyBy(readKeyStart)],
  type: ['materialization, check or observation', (given) => readEventType(`${given}`)],
  text: ['a text', (given) => (typeof given === 'string' && given !== '' ? given : undefined)],
  boolean: ['true or false', (given) => (typeof given === 'boolean' ? given : undefined)],
  severity: ['WARN or ERROR', (given) => (given === 'WARN' || given === 'ERROR' ? given : undefined)],
};

function keyBy(read: (text: string) => readonly string[]): (given: unknown) => readonly string[] | undefined {
  return (given) => {
    const text = Array.isArray(given) ? JSON.stringify(given) : given;
    try {
      return typeof text === 'string' && text !== '' ? read(text) : undefined;
    } catch {
      return undefined;
    }
  };
}

const named = new Map(
  allSearches
    .filter(({ kind }) => readers[kind] !== undefined)
    .map((search) => [(search.query ?? search.line)!, search] as const),
);

/** The members that are allowed in `only`. */
export const onlyNames: readonly string[] = [...named.keys()];
