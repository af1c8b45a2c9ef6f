/**
 * What is kept of the dead letters of a destination when their file is full: one letter for each that is open, and one for removed
 * events that follow each other.
 */

import { type DeadLetter, encodeDeadLetter } from './dead-letter.ts';
import { isOpen, LetterStates, seqsOf } from './open-letters.ts';

/**
 * @param read reads the letters of the file, oldest first
 * @returns the lines of the new file
 * @throws what `read` throws
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
  let joined: DeadLetter | undefined;
  const open = states.removed().filter(isOpen);
  for (const { first, last, at } of open.sort((one, other) => one.first - other.first)) {
    const { time, reason } = removed.get(at) as DeadLetter;
    if (joined !== undefined && joined.last === first - 1 && joined.reason === reason)
      joined = { ...joined, time, last };
    else {
      if (joined !== undefined) yield encoded(joined);
      joined = { time, outcome: 'removed', reason, first, last };
    }
  }
  if (joined !== undefined) yield encoded(joined);
}

const NO_SEQS = { first: undefined, last: undefined };

function encoded(letter: DeadLetter): Buffer {
  return Buffer.from(`${encodeDeadLetter(letter)}\n`);
}
