/** Escapes untrusted text, so that it is safe to print on one line of a terminal, a log or an error. */

import { type Platform, platform } from '../config/platform.ts';
import { withEscapes } from '../event/visible.ts';

/**
 * Escapes control characters, direction marks and line separators as `\uXXXX`. They could forge a line, hide part of it or
 * send escape sequences to the terminal. Compact JSON stays valid JSON with the same value. A tab becomes `\u0009`.
 */
export function printable(text: string): string {
  return withEscapes(text, UNPRINTABLE);
}

/** @returns the text, with `…` for the characters beyond `charactersMax` */
export function shortened(text: string, charactersMax: number): string {
  return text.length > charactersMax ? `${text.slice(0, charactersMax)}…` : text;
}

/** @returns a number with its noun: `1 line`, `2 lines`. The last word of `noun` gets the `s` */
export function numbered(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/**
 * @returns a path or a URL, quoted if necessary so that it can be pasted into a shell: `'/srv/my data'`, and `"C:\my data"` on Windows
 */
export function shellWord(path: string, { isWindows }: Platform = platform): string {
  if ((isWindows ? /^[\w./:\\-]+$/ : /^[\w./:-]+$/).test(path)) return path;
  return isWindows ? `"${path.replaceAll('"', '""')}"` : `'${path.replaceAll("'", "'\\''")}'`;
}
