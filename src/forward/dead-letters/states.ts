/** What became of each event with a dead letter, and which letters are kept when the file is full. */

import type { GoneRange } from '../../journal/segments.ts';
import { type DeadLetter, encodeDeadLetter, isNamed, isOpen, lostBy, seqsOf } from './letter.ts';

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

/**
 * Keeps one letter for each that is open, and one for removed events that follow each other.
 * @returns the lines of the new file
 */
export async function* compacted(read: () => AsyncIterable<DeadLetter>): AsyncGenerator<Buffer> {
  const states = new LetterStates();
  /** By seq: the index of the last letter with the line of the event, and what a later letter without it says. */
  const lines = new Map<number, number>();
  const notes = new Map<number, DeadLetter>();
  /** By index. */
  const removed = new Map<number, DeadLetter>();
  let count = 0;
  for await (const letter of read()) {
    const { first } = seqsOf(letter);
    states.add(letter, count);
    if (letter.outcome === 'removed') removed.set(count, letter);
    else if (letter.line !== undefined) {
      lines.set(first, count);
      notes.delete(first);
    } else if (isOpen(letter)) notes.set(first, letter);
    else notes.delete(first);
    count += 1;
  }
  let at = -1;
  for await (const letter of read()) {
    at += 1;
    const { first } = seqsOf(letter);
    const state = states.get(first);
    if (letter.outcome === 'removed' || state === undefined || state.outcome === 'removed' || !isOpen(state)) continue;
    const note = notes.get(first);
    if (at === lines.get(first)) yield encoded({ ...(note ?? letter), line: letter.line, ...NO_SEQS });
    else if (at === state.at && !lines.has(first)) yield encoded(letter);
  }
  for (const letter of joined(states.removed().filter(isOpen), removed)) yield encoded(letter);
}

/** @param letters by their index in the file */
function joined(states: readonly LetterState[], letters: ReadonlyMap<number, DeadLetter>): DeadLetter[] {
  const all: DeadLetter[] = [];
  for (const { first, last, at } of [...states].sort((one, other) => one.first - other.first)) {
    const { time, reason } = letters.get(at) as DeadLetter;
    const before = all.at(-1);
    if (before?.last === first - 1 && before.reason === reason) all[all.length - 1] = { ...before, time, last };
    else all.push({ time, outcome: 'removed', reason, first, last });
  }
  return all;
}

const NO_SEQS = { first: undefined, last: undefined };

function encoded(letter: DeadLetter): Buffer {
  return Buffer.from(`${encodeDeadLetter(letter)}\n`);
}
