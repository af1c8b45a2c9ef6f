/** Which bytes of a line show that its event may match a filter, so that a reader parses few other lines. */

import { escaped, quote, quoteAll } from '../../event/encoded.ts';
import { allSearches, type Filter, type SearchKind, type SourceFilter } from '../../event/search.ts';
import { ID } from '../line/uuid.ts';

/**
 * @returns bytes that each matching line contains, and few others do: of `{ assetKey: ['a', 'b'] }` those of
 *   `"asset_key":["a","b"]`; undefined if the filter has only bounds. Text in metadata may contain them as well: see `isMatch`
 */
export function traceOf(filter: Filter): Buffer | undefined {
  const given = allSearches.filter(({ member, line }) => line !== undefined && filter[member] !== undefined);
  const row = given.findLast(({ kind }) => !COMMON.includes(kind)) ?? given.at(-1);
  if (row === undefined) return undefined;
  const text = textOf(row.kind, filter[row.member]);
  // `origin` and `from` have the id of a source alike.
  const name = row.kind === 'source' && text !== ANY ? '' : `"${row.line}`;
  return escaped(Buffer.from(`${name}":${text}`));
}

/** The beginning of any source. */
const ANY = '["';
/** The kinds of values that many events share. */
const COMMON: readonly SearchKind[] = ['type', 'severity', 'boolean', 'token name', 'source'];

/** @returns the JSON text of the value of a filter, or the beginning of the text if a longer one may match as well */
function textOf(kind: SearchKind, value: Filter[keyof Filter]): string {
  const parts = value as readonly string[];
  if (kind === 'key') return quoteAll(parts);
  if (kind === 'key prefix') return quoteAll(parts).slice(0, -1);
  // The last part may be incomplete: `["warehouse","ord`. If it is empty, another part may follow or not: `["warehouse"`.
  if (kind === 'key start')
    return parts.at(-1) === '' ? quoteAll(parts.slice(0, -1)).slice(0, -1) : quoteAll(parts).slice(0, -2);
  if (kind === 'source') {
    const { text } = value as SourceFilter;
    return ID.test(text) ? `["${text}",` : ANY; // a text in the form of an id is no name
  }
  if (kind === 'boolean') return String(value);
  const text = quote(value as string);
  return kind === 'event time' ? text.slice(0, -1) : text;
}
