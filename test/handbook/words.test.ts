/** The pages of the handbook are written in the words of the field, with one word for one thing. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { HANDBOOK, pagePaths } from '../support/handbook.ts';
import { root } from '../support/program.ts';
import { foreign, retired } from '../support/words.ts';

/** The paragraphs, items, headings and rows of a page, each as one line without code and without the targets of links. */
function prosesOf(text: string): string[] {
  const prose = text
    .replace(/^```.*?^```$/gms, '')
    .replace(/`[^`]*`/g, '`')
    .replace(/\]\([^)]*\)/g, ']')
    .replace(/^(?:#+|[-*|]|\d+\.) /gm, '\n$&');
  return prose.split(/\n{2,}/).map((part) => part.replace(/\s+/g, ' ').trim());
}

test('the pages use none of the words that the rules exclude, and none of the retired terms', () => {
  const found = ['README.md', HANDBOOK, ...pagePaths].flatMap((path) => {
    const proses = prosesOf(readFileSync(join(root, path), 'utf8'));
    return [...foreign, ...retired].flatMap(([rule, pattern]) =>
      proses.flatMap((prose) => {
        const [words] = pattern.exec(prose) ?? [];
        return words === undefined ? [] : [`${path}: ${rule}: "${words}" in: ${prose.slice(0, 200)}`];
      }),
    );
  });
  assert.equal(found.length, 0, found.join('\n'));
});

test('the handbook stays within its limit of words', () => {
  const lookedUp = ['bin/handbook/options.md', 'bin/handbook/messages.md'];
  const textOf = (path: string) => readFileSync(join(root, path), 'utf8').replace(/^```mermaid.*?^```$/gms, '');
  const wordsIn = (path: string) => textOf(path).match(/\S+/g)?.length ?? 0;
  const counts = [HANDBOOK, ...pagePaths].filter((path) => !lookedUp.includes(path)).map(wordsIn);
  const sum = counts.reduce((all, count) => all + count, 0);
  assert.ok(sum <= 16_000, `${sum} words`);
});
