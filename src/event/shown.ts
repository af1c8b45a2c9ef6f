/** How much of a text of a client an error or a line of the log quotes. */

/** No limit in `config/limits.ts`: it bounds no memory and no time, and every error quotes alike. */
export const shownCharactersMax = 100;

/** @returns the text, cut to `shownCharactersMax` with an ellipsis */
export function shownStart(text: string): string {
  return text.length > shownCharactersMax ? `${text.slice(0, shownCharactersMax)}…` : text;
}
