/** How much of a client's text is quoted in an error or a log line. */

/**
 * This is not a limit in `config/limits.ts`, since it limits no memory and no time, and all errors quote in the same
 * way.
 */
export const shownCharactersMax = 100;

/** @returns the text, cut to `shownCharactersMax` with an ellipsis */
export function shownStart(text: string): string {
  return text.length > shownCharactersMax ? `${text.slice(0, shownCharactersMax)}…` : text;
}
