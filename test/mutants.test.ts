/** Each mutant still applies to the source, so that a change that breaks one is found before the long run; and they stay few. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { allMutants, filesByTest, type Mutant, mutate, readMutants } from './faults/mutants/mutant.ts';
import { unseen } from './simulation/runner/unseen.ts';
import { root } from './support/program.ts';

/** Each has to be kept up to date with the source. At the limit, drop one whose promise a value shows: see `test/README.md`. */
const MUTANTS_MAX = 130;

test('there are no more mutants than are kept up to date', () => {
  const { length } = allMutants();
  assert.ok(length <= MUTANTS_MAX, `${length} mutants, of at most ${MUTANTS_MAX}`);
});

test('each mutant patches its file in one place, and one test has its id', () => {
  const files = filesByTest();
  const stale: string[] = [];
  for (const mutant of allMutants()) {
    try {
      mutate(readFileSync(join(root, 'src', mutant.file), 'utf8'), mutant);
    } catch (error) {
      stale.push((error as Error).message);
    }
    if (mutant.from === mutant.to) stale.push(`mutant '${mutant.breaks}' changes nothing`);
    const found = files.get(mutant.test) ?? [];
    if (found.length !== 1) stale.push(`mutant '${mutant.breaks}': ${found.length} tests have the id ${mutant.test}`);
  }
  assert.deepEqual(stale, []);
});

test('no two mutants have the same promise, and each id of a test is used', () => {
  const promises = allMutants().map(({ breaks }) => breaks);
  assert.deepEqual(
    promises.filter((promise, index) => promises.indexOf(promise) !== index),
    [],
  );
  assert.deepEqual(
    [...unseen.keys()].filter((promise) => !promises.includes(promise)),
    [],
  );
  const used = new Set(allMutants().map((mutant) => mutant.test));
  assert.deepEqual(
    [...filesByTest().keys()].filter((id) => !used.has(id)),
    [],
  );
});

test('a mutant is read from its paragraph, and another form is refused', () => {
  const id = 'journal-1';
  const place = `journal/append.ts Journal.#append [${id}]`;
  const text = `# Mutants of the journal.\n\nfirst\n${place}\n-a\n-\n-  b\n+c\n\n\nsecond\nevent/json.ts [json-2]\n-d\n`;
  assert.deepEqual(readMutants(text), [
    { breaks: 'first', file: 'journal/append.ts', within: 'Journal.#append', test: id, from: 'a\n\n  b', to: 'c' },
    { breaks: 'second', file: 'event/json.ts', within: '', test: 'json-2', from: 'd', to: '' },
  ]);
  for (const wrong of [`first\n${place}\n+c`, 'first\njournal/append.ts\n-a', `first\n${place}\n-a\nb`]) {
    assert.throws(() => readMutants(wrong), /^Error: not a mutant, see readMutants:\nfirst/);
  }
});

const SOURCE = `\
const limit = 3;
function first(text: string): string {
  check(text);
  return text;
}
class Line {
  check(text: string): void {
    if (text === '') throw new Error('empty');
  }
  static async #second(
    text: string,
  ): Promise<void> {
    check(text);
    const inner = (): void => {
      check(text);
    };
  }
}
`;
const mutant: Mutant = {
  ...{ breaks: 'a rule', file: 'line.ts', within: '', test: 'line-1' },
  ...{ from: 'check(text);', to: 'skip();' },
};

test('a patch is applied in one declaration only, to its end and no further', () => {
  const patched = mutate(SOURCE, { ...mutant, within: 'first' });
  assert.equal(patched, SOURCE.replace('check(text);', 'skip();'));
  const inner = mutate(SOURCE, { ...mutant, within: 'Line.#second.inner' });
  assert.equal(inner.indexOf('skip();'), SOURCE.lastIndexOf('check(text);'));
  assert.equal(mutate(SOURCE, { ...mutant, within: 'limit', from: '3', to: '4' }), SOURCE.replace('3', '4'));
  assert.throws(() => mutate(SOURCE, { ...mutant, within: 'check' }), /occurs 0 times in check, not once/);
});

test('a stale patch is reported with the mutant, the file and the reason', () => {
  assert.throws(
    () => mutate(SOURCE, mutant),
    /^Error: mutant 'a rule': in src\/line.ts, "check\(text\);" occurs 3 times, not once; bring it up to date$/,
  );
  assert.throws(() => mutate(SOURCE, { ...mutant, within: '#second' }), /occurs 2 times in #second, not once/);
  assert.throws(() => mutate(SOURCE, { ...mutant, within: 'gone' }), /gone is declared 0 times, not once/);
});
