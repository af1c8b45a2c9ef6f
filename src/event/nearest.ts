/** Finds the name that a misspelt flag, command, parameter or path probably means. */

/**
 * @param distanceMax the largest edit distance that counts as near: the number of characters to insert, delete or replace to turn
 *   one word into the other (Levenshtein distance). Candidates whose length differs by more are skipped.
 * @returns the candidate with the smallest edit distance, the first of several, or undefined if none is near
 */
export function nearest(word: string, candidates: readonly string[], distanceMax: number): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.floor(distanceMax) + 1;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue; // a word from a client can have 16 KiB
    const distance = editDistance(word, candidate);
    if (distance >= bestDistance) continue;
    best = candidate;
    bestDistance = distance;
  }
  return best;
}

/**
 * Like `nearest` with one edit, for names that clients write: letter case does not count, `-` is the same as `_`, and a suffix in
 * brackets is ignored, since some form libraries add it.
 * @returns `'check_name'` for `'check-name'`, `'CheckName'`, `'chek_name'` and `'check_name[0]'`, undefined for `'name'`
 */
export function nearestName(word: string, candidates: readonly string[]): string | undefined {
  const bare = word.replace(/\[.*$/s, '');
  if (candidates.every(({ length }) => Math.abs(length - bare.length) > 1)) return undefined;
  return nearest(bare.toLowerCase().replaceAll('-', '_'), candidates, 1);
}

/**
 * @returns `; did you mean serve?` for the candidate nearest to the word, or an empty string if none is near: at most 2 edits,
 * or a third of the characters of a long word
 */
export function didYouMean(word: string, candidates: readonly string[]): string {
  const near = nearest(word, candidates, Math.max(2, word.length / 3));
  return near === undefined ? '' : `; did you mean ${near}?`;
}

function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const replaced = row[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[to.length]!;
}
