/** Results of a check in a row that are the same: since when the last ones are, and those before. */

/** The first result, when it was recorded, and how many these are; 0 if that is unknown. */
export interface Run {
  sinceSeq: number;
  sinceMs: number;
  inARow: number;
}

/** The last results in a row of a check, and the other ones before; undefined if there were none. */
export interface Runs extends Run {
  passed: boolean;
  count: number;
  before: Run | undefined;
}

export function runOf({ sinceSeq, sinceMs, inARow }: Run): Run {
  return { sinceSeq, sinceMs, inARow };
}

/**
 * @param mine of the earlier events
 * @param later of the later events alone
 * @returns the results in a row before the last ones: the earlier events can have the beginning of them, or all
 */
export function mergedBefore(mine: Runs, { before, inARow, count, passed }: Runs): Run | undefined {
  if (before === undefined) return inARow === count ? runOf(mine) : undefined;
  const isSplit = inARow + before.inARow === count && passed !== mine.passed;
  return isSplit ? { ...runOf(mine), inARow: mine.inARow + before.inARow } : before;
}
