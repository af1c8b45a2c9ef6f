/** What became of each event with a dead letter. */

import type { GoneRange } from '../../journal/segments.ts';
import { type DeadLetter, isNamed, isOpen, lostBy, seqsOf } from './letter.ts';

/** What became last of the event, or the events, of a dead letter. */
export interface LetterState extends GoneRange, Pick<DeadLetter, 'outcome' | 'became'> {
  /** Index in the file of the letter that says so. */
  readonly at: number;
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

  /** Number of open letters. */
  get open(): number {
    let open = 0;
    for (const state of this.values()) open += Number(isOpen(state));
    return open;
  }

  /** @returns the last seq up to which each event after `seq` has a letter that says that the event is lost; `seq` if there is none */
  namedAfter(seq: number): number {
    for (let last = seq; ; ) {
      const state = this.get(last + 1);
      if (state === undefined || !isNamed(state)) return last;
      last = state.last;
    }
  }

  /** @returns the parts of a range that no letter says are lost, in order */
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
