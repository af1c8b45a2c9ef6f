/** The names of lines, also for the page, which has no types of Node. */

/** A line by the id of its journal and its seq there. */
export type LineName = readonly [journal: string, seq: number];

/** The lines that an event in a journal is from. */
export interface Origins {
  /** The line that was reported, if that is not `from`. */
  readonly origin?: LineName;
  /** The line in the journal that sent the event. */
  readonly from?: LineName;
}

/** @returns the id of the journal that an event was reported to; undefined if that is the one with the line */
export function deviceOf({ origin, from }: Origins): string | undefined {
  return (origin ?? from)?.[0];
}
