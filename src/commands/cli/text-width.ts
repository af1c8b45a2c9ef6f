/**
 * How many columns a text takes on a terminal, by Unicode's East Asian Width (UAX #11) and emoji presentation (UTS #51). The
 * text must be free of control characters: see `printable`.
 */

/** @returns the number of terminal columns that the text takes: 4 for `日本`, 2 for a flag */
export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const [cluster] of text.matchAll(CLUSTERS)) width += clusterWidth(cluster);
  return width;
}

/** Which part of a text that is too wide is shown: `beginning` gives `wareho…`, `end` gives `…orders`. */
export type ShownPart = 'beginning' | 'end';

/** Cuts a text that takes more columns than `widthMax`, between two characters and never inside a wide one. */
export function cutTo(text: string, widthMax: number, shownPart: ShownPart = 'beginning'): string {
  if (widthOf(text) <= widthMax) return text;
  const clusters = Array.from(text.matchAll(CLUSTERS), ([cluster]) => cluster);
  if (shownPart === 'end') clusters.reverse();
  let left = widthMax - 1;
  const tooMany = clusters.findIndex((cluster) => {
    left -= clusterWidth(cluster);
    return left < 0;
  });
  const shown = clusters.slice(0, tooMany);
  return shownPart === 'end' ? `…${shown.reverse().join('')}` : `${shown.join('')}…`;
}

/** @returns the text, cut or padded with spaces to exactly this many columns */
export function fitTo(text: string, width: number, shownPart: ShownPart = 'beginning'): string {
  const cut = cutTo(text, width, shownPart);
  return cut + ' '.repeat(Math.max(0, width - widthOf(cut)));
}

const PLAIN = /^[\x20-\x7e]*$/;
/** A character with the marks that are drawn over it, an emoji with its skin tone, or the two halves of a flag. */
const CLUSTERS = /\p{RI}{2}|\p{Emoji_Modifier_Base}\p{Emoji_Modifier}|.[\p{Mn}\p{Me}\u1160-\u11ff\ud7b0-\ud7ff]*/gsu;
/** Combining marks, and the vowels and final consonants of Hangul, which are drawn into the syllable before them. */
const NO_WIDTH = /^[\p{Mn}\p{Me}\u1160-\u11ff\ud7b0-\ud7ff]/u;
/** Turns the character before it into an emoji (variation selector 16). */
const EMOJI_SELECTOR = '\ufe0f';
const EMOJI = /^\p{Emoji}/u;
/** Characters that are always two columns wide. Unassigned ones in ranges of ideographs count as wide, as in UAX #11. */
const WIDE =
  /^[\u1100-\u115f\u2329\u232a\u2630-\u2637\u268a-\u268f\u2e80-\u303e\u3041-\u3247\u3250-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18dff}\u{1aff0}-\u{1b2ff}\u{1d300}-\u{1d376}\u{1f200}-\u{1f265}\u{20000}-\u{3fffd}\p{Emoji_Presentation}]/u;

function clusterWidth(cluster: string): number {
  if (NO_WIDTH.test(cluster)) return 0;
  if (cluster.includes(EMOJI_SELECTOR) && EMOJI.test(cluster)) return 2;
  return WIDE.test(cluster) ? 2 : 1;
}
