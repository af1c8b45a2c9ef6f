/** A dead letter: an event that a destination did not accept, or might have recorded twice, and its line in the file. */

import { seqInLine } from '../../journal/line/members.ts';
import type { SeqRange } from '../position.ts';

/** One event, or several that retention removed: `{"time":"…","outcome":"refused","status":400,"reason":"…","line":{"seq":7,…}}`. */
export interface DeadLetter {
  /** When it was written, in UTC. */
  readonly time: string;
  /**
   * `refused`: the destination does not have it. `in doubt`: it might have it, once or twice. `removed`: retention removed it
   * before the destination confirmed it. `skipped`: an operator gave it up. `sent again`: the destination accepted it when an
   * operator sent it again.
   */
  readonly outcome: 'refused' | 'in doubt' | 'removed' | 'skipped' | 'sent again';
  /**
   * For an event in doubt: the destination accepted it, and the letter is closed; or the event is not sent any more. Absent in other
   * letters, and in files of programs that did not write it. Earlier programs also wrote `taken` for removed events.
   */
  readonly became?: 'taken' | 'given up' | undefined;
  /** HTTP status of the last reply. */
  readonly status?: number | undefined;
  readonly reason: string;
  /** The line of the journal without its newline, unchanged. */
  readonly line?: string | undefined;
  /** The seqs of the events, both inclusive, if there is no line. */
  readonly first?: number | undefined;
  readonly last?: number | undefined;
}

/** What a letter reports about its event. */
export type Outcome = Pick<DeadLetter, 'outcome' | 'became' | 'status' | 'reason'>;

/** @returns the letter as one line of JSON without a newline; `line` is its last member and is unchanged */
export function encodeDeadLetter({ line, ...letter }: DeadLetter): string {
  const text = JSON.stringify(letter);
  return line === undefined ? text : `${text.slice(0, -1)}${LINE_MEMBER}${line}}`;
}

/** Reads what `encodeDeadLetter` wrote. @returns undefined if the text is not a complete letter */
export function decodeDeadLetter(text: string): DeadLetter | undefined {
  // No string can contain this text, since a quote in a string is escaped. So its first occurrence is the member.
  const at = text.indexOf(LINE_MEMBER);
  const line = at === -1 ? undefined : text.slice(at + LINE_MEMBER.length, -1);
  try {
    if (line !== undefined) JSON.parse(line);
    const letter = JSON.parse(line === undefined ? text : `${text.slice(0, at)}}`);
    return typeof letter.outcome === 'string' && text.endsWith('}') ? { ...letter, line } : undefined;
  } catch {
    return undefined; // not JSON
  }
}

const LINE_MEMBER = ',"line":';

/** @returns the seqs of the events in a letter; NaN if its line has none */
export function seqsOf({ line, first, last }: DeadLetter): SeqRange {
  const seq = first ?? seqInLine(line ?? '');
  return { first: seq, last: last ?? seq };
}

/** @returns the letter for events that an operator gives up. @param more further information about them, as a clause */
export function skipped(what: { line: string } | SeqRange, more = ''): DeadLetter {
  return { time: new Date().toISOString(), outcome: 'skipped', reason: `an operator gave it up${more}`, ...what };
}

/** Whether an operator still has to decide about a letter, because its event can be sent again or given up. */
export function isOpen({ outcome, became }: Pick<DeadLetter, 'outcome' | 'became'>): boolean {
  return outcome !== 'sent again' && outcome !== 'skipped' && became !== 'taken';
}

/** Whether a letter reports that the destination does not get the event, even after an operator gave the event up. */
export function isNamed(letter: Pick<DeadLetter, 'outcome' | 'became'>): boolean {
  return isOpen(letter) || letter.outcome === 'skipped';
}

/**
 * @returns by how many events a letter changes the number of lost events; negative if an earlier program noted that they were accepted
 */
export function lostBy(letter: DeadLetter): number {
  if (letter.outcome !== 'removed') return 0;
  const { first, last } = seqsOf(letter);
  return letter.became === 'taken' ? first - 1 - last : last + 1 - first;
}
