/** The table *Pages* of the handbook leads to the right page by the words of a question, and the page of questions names tested versions. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { HANDBOOK, type PageName, page } from '../support/handbook.ts';
import { root } from '../support/program.ts';

/** What a user asks, in the words of a search, and the page that has the answer. */
const questions: readonly (readonly [question: string, page: PageName])[] = [
  ['alert to Slack', 'alarms'],
  ['silent device', 'fleet'],
  ['delete personal data', 'erase'],
  ['back-dated reports', 'alarms'],
  ['export CSV', 'read'],
  ['rate limit', 'secure'],
  ['works on a Mac', 'install'],
  ['Windows', 'install'],
  ['move device to another hub', 'fleet'],
  ['replace SD card', 'fleet'],
  ['restore a backup', 'operate'],
  ['go back to the old version', 'upgrade'],
  ['which token was used', 'secure'],
  ['Kubernetes restart', 'install'],
  ['disk full', 'repair'],
  ['duplicate events', 'report'],
  ['Prometheus metrics', 'watch'],
  ['mock in pytest', 'test-recipes'],
  ['query with SQL', 'sql'],
  ['who reported this', 'secure'],
];
const FIRST = 2;

const withoutMeaning = new Set(['a', 'in', 'of', 'on', 'the', 'this', 'to', 'was', 'with']);

/** The words of a text in lower case, without those that say nothing and without the `s` of a plural. */
function wordsOf(text: string): string[] {
  const words = text.toLowerCase().match(/[\p{L}\p{N}-]+/gu) ?? [];
  return words.filter((word) => !withoutMeaning.has(word)).map((word) => word.replace(/(?<=..)s$/, ''));
}

/** The rows of the table, each with the words of its task and of the title of its page. */
function rowsOf(front: string): { name: string; words: Set<string> }[] {
  const [, table = ''] = front.split('\n## Pages\n');
  return [...table.matchAll(/^\| (.*) \| \[[^\]]+\]\(handbook\/([\w-]+)\.md[^)]*\) \|$/gm)].map(
    ([, task = '', name = '']) => {
      const [, title = ''] = /^# (.*)$/m.exec(page(name as PageName)) ?? [];
      return { name, words: new Set(wordsOf(`${task} ${title}`)) };
    },
  );
}

test('a question finds its page among the first two rows, in the order of how many of its words they have', () => {
  const rows = rowsOf(readFileSync(join(root, HANDBOOK), 'utf8'));
  assert.ok(rows.length >= 25, `${rows.length} rows`);
  const lost = questions.flatMap(([question, wanted]) => {
    const asked = wordsOf(question);
    const found = rows.map(({ name, words }) => ({ name, count: asked.filter((word) => words.has(word)).length }));
    const first = found.sort((a, b) => b.count - a.count).slice(0, FIRST);
    const isFound = first.some(({ name, count }) => name === wanted && count > 0);
    return isFound ? [] : [`${question}: ${wanted} is not in ${JSON.stringify(first)}`];
  });
  assert.deepEqual(lost, []);
});

test('the versions that the page of questions names are those that the tests install', () => {
  const tools = readFileSync(join(root, '.ci/tools.ts'), 'utf8');
  const text = page('questions');
  const pins = [...tools.matchAll(/'(dagster|pytest|duckdb)==([\d.]+)'|\b(nats): 'v([\d.]+)'/g)];
  const missing = pins.flatMap(([, name, version, other, itsVersion]) => {
    const pinned = version ?? itsVersion ?? '';
    return new RegExp(`\\b${pinned.replaceAll('.', '\\.')}\\b`).test(text) ? [] : [`${name ?? other} ${pinned}`];
  });
  assert.ok(pins.length >= 5, `${pins.length} pins`);
  assert.deepEqual(missing, []);
});
