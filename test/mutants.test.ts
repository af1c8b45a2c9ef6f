/** Each mutant still applies to the source, so that a change which leaves one behind is found before the long run. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { mutants } from './faults/mutants/all.ts';
import { type Mutant, mutate, readTest } from './faults/mutants/mutant.ts';
import { root } from './support/program.ts';

test('each mutant patches its file in one place, and its tests exist', () => {
  const stale: string[] = [];
  for (const mutant of mutants) {
    try {
      mutate(readFileSync(join(root, 'src', mutant.file), 'utf8'), mutant);
    } catch (error) {
      stale.push((error as Error).message);
    }
    if (mutant.from === mutant.to) stale.push(`mutant '${mutant.breaks}' changes nothing`);
    if (mutant.tests.length === 0) stale.push(`mutant '${mutant.breaks}' names no test`);
    for (const test of mutant.tests) {
      const reason = reasonAgainst(test);
      if (reason !== undefined) stale.push(`mutant '${mutant.breaks}' in test/faults/mutants: ${reason}`);
    }
  }
  assert.deepEqual(stale, []);
  assert.ok(mutants.length > 240, `only ${mutants.length} mutants`);
});

/** @returns why there is no such test as a mutant names */
function reasonAgainst(test: string): string | undefined {
  const { file, name } = readTest(test);
  const path = `test/${file}.test.ts`;
  if (!existsSync(join(root, path))) return `there is no ${path}`;
  if (name === undefined || titlesIn(path).some((title) => title.test(name))) return undefined;
  return `${path} has no test '${name}'; if it has another name now, write that`;
}

const titles = new Map<string, RegExp[]>();

/** What the names of the tests of a file match; those that are made in a loop have anything for `${…}`. */
function titlesIn(path: string): RegExp[] {
  const known = titles.get(path);
  if (known !== undefined) return known;
  const text = readFileSync(join(root, path), 'utf8');
  const found = [...text.matchAll(/(?<![.\w])test\(\s*(['"`])((?:\\.|(?!\1).)*)\1/g)].map(([, quote, title = '']) => {
    const parts = quote === '`' ? title.split(/\$\{[^}]*\}/) : [title];
    const plain = parts.map((part) => part.replace(/\\(.)/g, '$1').replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
    return new RegExp(`^${plain.join('.*')}$`);
  });
  titles.set(path, found);
  return found;
}

test('no two mutants have the same promise', () => {
  const promises = mutants.map(({ breaks }) => breaks);
  assert.deepEqual(
    promises.filter((promise, index) => promises.indexOf(promise) !== index),
    [],
  );
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
const mutant: Mutant = { breaks: 'a rule', file: 'line.ts', from: 'check(text);', to: 'skip();', tests: [] };

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
