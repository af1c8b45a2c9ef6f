/** Text from outside with JSON escapes for characters that are invisible, or that look like others. */

/**
 * @returns the text with JSON escapes for characters that are invisible or reorder their neighbours: `\u202e` for a right-to-left
 *   override. Tabs, line feeds and the joiners of scripts and emoji are kept
 */
export function visible(text: string): string {
  return withEscapes(text, /(?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu);
}

/** @returns the text with JSON escapes for all matches of the pattern */
export function withEscapes(text: string, pattern: RegExp): string {
  return text.replace(pattern, (found) =>
    found.replace(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
  );
}
