/** Which of the dead letters of a destination an operator still has to decide about: they are sent again, or given up. */

import type { GoneRange } from '../journal/segments.ts';
import type { DeadLetter } from './dead-letter.ts';

/** What became last of the event, or the events, of a dead letter: `{ first: 7, last: 7, outcome: 'refused', at: 0 }`. */
export interface LetterState extends GoneRange, Pick<DeadLetter, 'outcome' | 'became'> {
  /** Index in the file of the letter that says so. */
  readonly at: number;
}

/** @returns the seqs that a letter is about: `{ first: 7, last: 7 }`; NaN if its line has none */
export function seqsOf({ line, first, last }: DeadLetter): GoneRange {
  const seq = first ?? Number(/^\{"seq":(\d+)/.exec(line ?? '')?.[1]);
  return { first: seq, last: last ?? seq };
}

/** Whether an operator still has to decide about a letter: `false` for `sent again` and `skipped`, and for an event that was taken. */
export function isOpen({ outcome, became }: Pick<LetterState, 'outcome' | 'became'>): boolean {
  return outcome !== 'sent again' && outcome !== 'skipped' && became !== 'taken';
}

/** The states of the letters of a file, by their first seqs. Of two letters about an event, the later one counts. */
export class LetterStates extends Map<number, LetterState> {
  /** Number of events that retention removed, and that the destination did not confirm. */
  lost = 0;
  /** First seqs of the states of removed events. */
  readonly #removed = new Set<number>();

  /** Adds what the next letter of the file says. @param at index of the letter */
  add(letter: DeadLetter, at: number): void {
    const { outcome, became } = letter;
    const { first, last } = seqsOf(letter);
    this.lost += lostBy(letter);
    if (outcome !== 'removed' && first !== last) {
      // Many were given up together.
      for (const state of this.values()) {
        if (first <= state.first && state.last <= last) this.set(state.first, { ...state, outcome, became, at });
      }
      return;
    }
    // The letter may be about a part of a removed range.
    for (const range of this.removed()) {
      if (range.last < first || last < range.first) continue;
      this.#removed.delete(range.first);
      this.delete(range.first);
      if (range.first < first) this.#add({ ...range, last: first - 1 });
      if (last < range.last) this.#add({ ...range, first: last + 1 });
    }
    this.#add({ first, last, outcome, became, at });
  }

  /** @returns the states of events that retention removed, in no order */
  removed(): LetterState[] {
    return [...this.#removed].map((first) => this.get(first) as LetterState);
  }

  /** @returns the number of open letters: `2` */
  get open(): number {
    let open = 0;
    for (const state of this.values()) open += Number(isOpen(state));
    return open;
  }

  /** @returns the seqs of a range that no letter says are lost, such as `[{ first: 4, last: 6 }]` */
  unnamed({ first, last }: GoneRange): GoneRange[] {
    const named = [...this.values()].filter((state) => isNamed(state) && state.first <= last && first <= state.last);
    const ranges: GoneRange[] = [];
    let next = first;
    for (const state of named.sort((one, other) => one.first - other.first)) {
      if (next < state.first) ranges.push({ first: next, last: state.first - 1 });
      next = Math.max(next, state.last + 1);
    }
    if (next <= last) ranges.push({ first: next, last });
    return ranges;
  }

  #add(state: LetterState): void {
    this.set(state.first, state);
    if (state.outcome === 'removed') this.#removed.add(state.first);
  }
}

/** Whether a letter says that the destination does not get the event, also after an operator gave the event up. */
export function isNamed(state: Pick<LetterState, 'outcome' | 'became'>): boolean {
  return isOpen(state) || state.outcome === 'skipped';
}

/** @returns by how many events a letter changes the number of lost ones: `20`, or a negative number if they were taken after all */
export function lostBy(letter: DeadLetter): number {
  if (letter.outcome !== 'removed') return 0;
  const { first, last } = seqsOf(letter);
  return letter.became === 'taken' ? first - 1 - last : last + 1 - first;
}
