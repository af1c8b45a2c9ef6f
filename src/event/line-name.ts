/** The names of lines. The page uses this file too, and has no types of Node. */

/** A line, identified by the id of its journal and its seq there. */
export type LineName = readonly [journal: string, seq: number];

/** The lines from which an event in a journal originates. */
export interface Origins {
  /** The line that was reported; absent if that is `from`. */
  readonly origin?: LineName;
  /** The line in the journal that sent the event. */
  readonly from?: LineName;
}

/**
 * @returns the id of the journal to which an event was reported; undefined if the journal with the line is that journal
 */
export function deviceOf({ origin, from }: Origins): string | undefined {
  return (origin ?? from)?.[0];
}
