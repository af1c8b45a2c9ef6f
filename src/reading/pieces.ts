/**
 * The pieces of a reply with events: the bytes in the form in which they are sent. A client that does not read holds
 * one piece.
 */

import { type Line, linesBefore } from '../journal/look/reading.ts';

/** Bytes, or a line that is longer than a chunk. Such a line was dropped, and is read again while it is sent. */
export type Piece = Buffer | Line;

/** How a reply writes lines. */
export interface PieceForm {
  readonly textOf: (lines: readonly Line[]) => Buffer;
  /** The bytes before a line that is read again, and after its newline. */
  readonly headOf: (line: Line) => Buffer;
  readonly end: Buffer;
}

/**
 * @returns the lines in a form: one piece for the lines between dropped ones, and three pieces for each dropped line
 */
export function piecesOf(lines: readonly Line[], { textOf, headOf, end }: PieceForm): Piece[] {
  const pieces: Piece[] = [];
  for (let left = lines; left.length > 0; ) {
    const kept = linesBefore(left, ({ isDropped }) => isDropped);
    if (kept.length > 0) pieces.push(textOf(kept));
    else pieces.push(headOf(left[0]!), left[0]!, end);
    left = left.slice(Math.max(1, kept.length));
  }
  return pieces;
}
