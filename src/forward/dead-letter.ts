/** One dead letter: an event that a destination did not take, or may have recorded twice, and its line in a file. */

/**
 * One event, or several that retention removed:
 * `{ time: '2026-11-20T15:19:45.266Z', outcome: 'refused', status: 400, reason: 'asset_key is missing', line: '{"seq":7,…}' }`.
 */
export interface DeadLetter {
  /** When it was written, in UTC. */
  readonly time: string;
  /**
   * `refused`: the destination does not have it. `in doubt`: it may have it, once or twice. `removed`: retention removed it
   * before the destination confirmed it. `skipped`: an operator gave it up. `sent again`: the destination took it when an operator sent it again.
   */
  readonly outcome: 'refused' | 'in doubt' | 'removed' | 'skipped' | 'sent again';
  /**
   * Of an event in doubt, or of removed ones: the destination took them, and the letter is closed; or nothing more is sent.
   * Absent in other letters, and in files of programs that did not write it.
   */
  readonly became?: 'taken' | 'given up' | undefined;
  /** HTTP status of the last reply. */
  readonly status?: number | undefined;
  readonly reason: string;
  /** The line of the journal as it is there, without its newline. */
  readonly line?: string | undefined;
  /** The seqs that it is about, both inclusive, if it has no line. */
  readonly first?: number | undefined;
  readonly last?: number | undefined;
}

/** @returns the letter as one line of JSON without a newline; `line` is its last member, digit by digit as in the journal */
export function encodeDeadLetter({ line, ...letter }: DeadLetter): string {
  const text = JSON.stringify(letter);
  return line === undefined ? text : `${text.slice(0, -1)}${LINE_MEMBER}${line}}`;
}

/** Reads what `encodeDeadLetter` wrote. @returns undefined if the text is not a whole letter */
export function decodeDeadLetter(text: string): DeadLetter | undefined {
  // No string can contain it, since a quote in a string is escaped. So its first occurrence is the member.
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
