/**
 * Finds a text in the lines of a chunk with one regular expression, so that lines without the text cost no step of
 * their own.
 */

import { LINE_FEED } from '../../event/json-bytes.ts';
import type { TextFilter } from '../../event/text-filter.ts';
import { newlineAfter } from '../line/lines.ts';

/**
 * @param to see `OnLines`
 * @returns a function that returns the first match at an index or later, which can also be outside of the members of a line; -1 if
 *   there is none. It is called with the start of a line or with an index after its last match
 */
export function textFinder(text: TextFilter, bytes: Buffer, to: number): (at: number) => number {
  let part = '';
  let start = 0;
  let end = 0;
  return (at) => {
    for (let from = at; from < to; from = end) {
      if (from >= end) {
        start = from;
        end = partEnd(bytes, from, to);
        part = bytes.toString('latin1', start, end);
      }
      const hit = text.find(part, from - start);
      if (hit !== -1) return start + hit;
    }
    return -1;
  };
}

/** @returns the end of as many complete lines as fit into a part, or of a single line */
function partEnd(bytes: Buffer, from: number, to: number): number {
  if (to - from <= PART_BYTES) return to;
  const end = bytes.lastIndexOf(LINE_FEED, from + PART_BYTES - 1) + 1;
  return end > from ? end : newlineAfter(bytes, from, to) + 1;
}

/** V8 allocates longer strings outside of its young generation, which takes as long as the search. */
const PART_BYTES = 64 * 1024;
