/** Text from anywhere, made safe to print on one line of a terminal, a log or an error. */

/** Controls, direction marks and separators could forge a line, hide a part of one, or steer the terminal; JSON stays the JSON it is. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) =>
    Array.from({ length: character.length }, (_, at) => character.charCodeAt(at))
      .map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
/** A path or a URL as a person can paste it into a shell. */
export function shellWord(path: string): string {
  return /^[\w./:-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
