/** The outcome of each event with a dead letter. */

import { findFirstIndex } from '../../journal/first-index.ts';
import type { SeqRange } from '../position.ts';
import { type DeadLetter, isNamed, isOpen, lostBy, seqsOf } from './letter.ts';

/** The latest outcome of the events of a dead letter. */
export interface LetterState extends SeqRange, Pick<DeadLetter, 'outcome' | 'became'> {
  /** Index in the file of the letter with this outcome. */
  readonly at: number;
}

/**
 * The states of the letters of a file. If two letters concern an event, the later one counts. An event that its destination
 * accepted has no state, so each state is either open, or of events that an operator gave up.
 */
export class LetterStates {
  /** In the order of their seqs, which do not overlap. */
  readonly #all: LetterState[] = [];
  /** Number of open letters. */
  open = 0;
  /** Number of events that retention removed before the destination confirmed them. */
  lost = 0;
  /** The same number, including events that the destination confirmed later. */
  lostTotal = 0;

  get all(): readonly LetterState[] {
    return this.#all;
  }

  /** Adds the next letter of the file. @param at index of the letter */
  add(letter: DeadLetter, at: number): void {
    const { outcome, became } = letter;
    const { first, last } = seqsOf(letter);
    if (!(first <= last)) return; // its line has no seq
    this.lost += lostBy(letter);
    this.lostTotal += Math.max(0, lostBy(letter));
    const states = this.in({ first, last });
    if (outcome !== 'removed' && first !== last) {
      // Many events were given up together.
      const isWithin = (state: LetterState) => first <= state.first && state.last <= last;
      const changed = states.map((state) => (isWithin(state) ? { ...state, outcome, became, at } : state));
      this.#replace(first, states, changed.filter(isNamed));
      return;
    }
    // The letter might concern a part of a removed range.
    const before = states.filter((state) => state.first < first).map((state) => ({ ...state, last: first - 1 }));
    const after = states.filter((state) => last < state.last).map((state) => ({ ...state, first: last + 1 }));
    const own = isNamed(letter) ? [{ first, last, outcome, became, at }] : [];
    this.#replace(first, states, [...before, ...own, ...after]);
  }

  /** @returns the state of an event */
  of(seq: number): LetterState | undefined {
    return this.in({ first: seq, last: seq })[0];
  }

  /** @returns the last seq up to which each event after `seq` has a letter that reports it as lost; `seq` if there is none */
  namedAfter(seq: number): number {
    let last = seq;
    for (let at = this.#from(seq + 1); at < this.#all.length && this.#all[at]!.first <= last + 1; at += 1)
      last = this.#all[at]!.last;
    return last;
  }

  /** @returns in order the parts of a range that no letter reports as lost */
  unnamed({ first, last }: SeqRange): SeqRange[] {
    const ranges: SeqRange[] = [];
    let next = first;
    for (const state of this.in({ first, last })) {
      if (next < state.first) ranges.push({ first: next, last: state.first - 1 });
      next = state.last + 1;
    }
    if (next <= last) ranges.push({ first: next, last });
    return ranges;
  }

  /** @returns the states of all events of a range */
  in({ first, last }: SeqRange): LetterState[] {
    const from = this.#from(first);
    let to = from;
    while (to < this.#all.length && this.#all[to]!.first <= last) to += 1;
    return this.#all.slice(from, to);
  }

  #from(seq: number): number {
    return findFirstIndex(this.#all, (state) => state.last >= seq);
  }

  /** @param states the states from the event `first` on */
  #replace(first: number, states: readonly LetterState[], by: readonly LetterState[]): void {
    const countOpen = (some: readonly LetterState[]) => some.filter(isOpen).length;
    this.open += countOpen(by) - countOpen(states);
    this.#all.splice(this.#from(first), states.length, ...by);
  }
}
