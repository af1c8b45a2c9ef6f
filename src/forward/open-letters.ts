/** Which of the dead letters of a destination an operator still has to decide about: they are sent again, or given up. */

import type { GoneRange } from '../journal/segments.ts';
import type { DeadLetter } from './dead-letter.ts';

/** What became last of the event, or the events, of a dead letter: `{ first: 7, last: 7, outcome: 'refused', at: 0 }`. */
export interface LetterState extends GoneRange {
  readonly outcome: DeadLetter['outcome'];
  /** Index in the file of the letter that says so. */
  readonly at: number;
}

/** @returns the seqs that a letter is about: `{ first: 7, last: 7 }`; NaN if its line has none */
export function seqsOf({ line, first, last }: DeadLetter): GoneRange {
  const seq = first ?? Number(/^\{"seq":(\d+)/.exec(line ?? '')?.[1]);
  return { first: seq, last: last ?? seq };
}

/** Whether an operator still has to decide about it: `true` for `refused`, `in doubt` and `removed`. */
export function isOpen({ outcome }: Pick<LetterState, 'outcome'>): boolean {
  return outcome !== 'sent again' && outcome !== 'skipped';
}

/** Adds what the next letter of a file says to the states of those before it, by their first seqs. @param at index of the letter */
export function addLetter(states: Map<number, LetterState>, letter: DeadLetter, at: number): void {
  const { first, last } = seqsOf(letter);
  const { outcome } = letter;
  if (outcome === 'removed' || first === last) {
    states.set(first, { first, last, outcome, at });
    return;
  }
  // Many were given up together.
  for (const state of states.values()) {
    if (first <= state.first && state.last <= last) states.set(state.first, { ...state, outcome, at });
  }
}

/** @returns how many of them are open: `2` */
export function countOpen(states: ReadonlyMap<number, LetterState>): number {
  return [...states.values()].filter(isOpen).length;
}
