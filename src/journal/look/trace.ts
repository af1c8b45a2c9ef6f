/** The bytes of a line that show whether its event can match a filter, so that a reader parses few other lines. */

import { escaped, quote, quoteAll } from '../../event/encoded.ts';
import { allSearches, type Filter, type SearchKind, type SourceFilter } from '../../event/search.ts';
import { ID } from '../line/uuid.ts';

/**
 * @returns bytes that each matching line contains, and few other lines do: for `{ assetKey: ['a', 'b'] }` the bytes
 *   `"asset_key":["a","b"]`; undefined if the filter has only bounds. Text in metadata can contain them too: see `isMatch`
 */
export function traceOf(filter: Filter): Buffer | undefined {
  const given = allSearches.filter(({ member, line }) => line !== undefined && filter[member] !== undefined);
  const row = given.findLast(({ kind }) => !COMMON.includes(kind)) ?? given.at(-1);
  if (row === undefined) return undefined;
  const text = textOf(row.kind, filter[row.member]);
  // `origin` and `from` both have the id of a source.
  const name = row.kind === 'source' && text !== ANY ? '' : `"${row.line}`;
  return escaped(Buffer.from(`${name}":${text}`));
}

/** The start of any source. */
const ANY = '["';
/** The kinds of values that many events share. */
const COMMON: readonly SearchKind[] = ['type', 'severity', 'boolean', 'token name', 'source'];

/** @returns the JSON text of the value of a filter, or the start of the text if a longer text can match too */
function textOf(kind: SearchKind, value: Filter[keyof Filter]): string {
  const parts = value as readonly string[];
  if (kind === 'key') return quoteAll(parts);
  if (kind === 'key prefix') return quoteAll(parts).slice(0, -1);
  // The last part can be incomplete: `["warehouse","ord`. If it is empty, another part can follow: `["warehouse"`.
  if (kind === 'key start')
    return parts.at(-1) === '' ? quoteAll(parts.slice(0, -1)).slice(0, -1) : quoteAll(parts).slice(0, -2);
  if (kind === 'source') {
    const { text } = value as SourceFilter;
    return ID.test(text) ? `["${text}",` : ANY; // a text in the form of an id is not a name
  }
  if (kind === 'boolean') return String(value);
  const text = quote(value as string);
  return kind === 'event time' ? text.slice(0, -1) : text;
}
