/** Finds where the last events of a journal begin, without reading what is before them. */

import type { Limits } from '../config/limits.ts';
import type { Filter } from '../event/search.ts';
import type { ReadableJournal } from './journals.ts';
import { recorded } from './tail.ts';

/**
 * Looks at the newest lines, then at eight times as many, until enough of them match.
 * @param signal ends it early
 * @returns the seq before the first of the last `count` events after `afterSeq` that match
 */
export async function startOfLast(
  journal: ReadableJournal,
  count: number,
  afterSeq: number,
  filter: Filter,
  signal: AbortSignal,
  limits: Limits,
): Promise<number> {
  const { first, last } = await journal.range();
  const least = Math.max(afterSeq, first - 1);
  for (let looked = count; ; looked *= 8) {
    const start = Math.max(least, last - looked);
    let seqs: number[] = [];
    for await (const { lines } of recorded(journal, start, { filter, signal, limits })) {
      for (const { seq } of lines) seqs.push(seq);
      if (seqs.length > 2 * count) seqs = seqs.slice(-count);
    }
    if (seqs.length >= count) return seqs.at(-count)! - 1;
    if (start === least || signal.aborted) return start;
  }
}
