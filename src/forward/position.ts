/** A position in the events of a journal, and a range of them. */

/** All events of a journal up to one of them. */
export interface Position {
  /** The seq of that event; 0 at the start. */
  readonly seq: number;
  /** The id of that event; null at the start, or if unknown. */
  readonly id: string | null;
}

/** Events with consecutive seqs. */
export interface SeqRange {
  readonly first: number;
  /** Inclusive. */
  readonly last: number;
}

/** The position of a hub or a destination that has no event of the journal. */
export const START: Position = { seq: 0, id: null };
