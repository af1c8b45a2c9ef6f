/** Which stages run by day and at night, and when a stage can be left out. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ageText, changedInputs, Greens, inputsOf } from '../.ci/green.ts';
import { isOf, type Stage, stages } from '../.ci/stages.ts';
import { newFolder, root, type Scope } from './support/program.ts';
import { testFiles } from './support/run-tests.ts';

/** @returns the test files of a stage, such as `faults/order.test.ts` */
function filesOf({ command }: Stage): string[] {
  const [script = '', ...words] = command === 'README' ? ['test'] : command;
  return testFiles(script === 'test' ? 'all' : script.replace('test:', ''), words);
}

const filesByStage = new Map(stages.map((stage) => [stage, filesOf(stage)]));

/** A new clone with one commit for each change. */
function repository(t: Scope): { readonly folder: string; readonly commit: (path: string, text: string) => string } {
  const folder = newFolder(t);
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', folder, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { encoding: 'utf8' });
  git('init', '--quiet');
  const commit = (path: string, text: string) => {
    mkdirSync(join(folder, path, '..'), { recursive: true });
    writeFileSync(join(folder, path), text);
    git('add', '.');
    git('commit', '--quiet', '-m', path);
    return git('rev-parse', 'HEAD').trim();
  };
  return { folder, commit };
}

test('each test file runs at night, and each input of a stage exists', () => {
  const atNight = new Set(stages.filter((stage) => isOf('night', stage)).flatMap((stage) => filesByStage.get(stage)!));
  const all = ['coverage', 'edges', 'engines', 'faults'].flatMap((kind) => testFiles(kind));
  assert.deepEqual(
    all.filter((file) => !atNight.has(file)),
    [],
  );
  const gone = stages.flatMap(({ inputs }) => inputs.filter((input) => !existsSync(join(root, input))));
  assert.deepEqual(gone, []);
  for (const { name, command } of stages) {
    if (command === 'README' || !/^test:(edges|engines|faults)$/.test(command[0])) continue;
    for (const word of command.slice(1))
      assert.ok(
        all.some((file) => file.includes(word)),
        `${name}: ${word}`,
      );
  }
});

test('the workflow for other systems runs scripts that exist, with words that choose test files', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const workflow = readFileSync(join(root, '.github/workflows/platforms.yml'), 'utf8');
  const commands = [...workflow.matchAll(/^ +- run: (npm (?!ci$).*)$/gm)].map(([, command]) => command!);
  assert.equal(commands.length, 2);
  for (const command of commands) {
    const [, script = '', words = ''] = /^npm (?:run )?([a-z:]+) -- ([\w/ ]+)$/.exec(command) ?? [];
    assert.ok(script in scripts, command);
    const kind = script === 'test' ? 'all' : script.replace('test:', '');
    for (const word of words.split(' ')) assert.notDeepEqual(testFiles(kind, [word]), [], `${command}: ${word}`);
  }
  for (const [name, command] of Object.entries<string>(scripts))
    assert.doesNotMatch(command.replaceAll(/"[^"]*"/g, ''), /['`$;*]|(^|&& )\w+=/, `${name} needs no POSIX shell`);
});

test('the inputs of a stage are all files that git has under its paths, except .ci/green.json', (t) => {
  const { folder, commit } = repository(t);
  commit('src/a.ts', 'a');
  const first = inputsOf(folder, ['src', 'test']);
  commit('.ci/green.json', '{}');
  assert.deepEqual(inputsOf(folder, ['src', 'test']), first);
  commit('test/a.ts', 'a');
  assert.deepEqual(changedInputs(first, inputsOf(folder, ['src', 'test'])), ['test']);
  commit('.ci/stages.ts', 'a');
  assert.deepEqual(changedInputs(first, inputsOf(folder, ['src', 'test'])), ['.ci', 'test']);
});

test('a tool of another version makes a stage run again, a missing tool does not', () => {
  const then = { src: 'a', nginx: '1.22' };
  assert.deepEqual(changedInputs(then, { src: 'a' }), []);
  assert.deepEqual(changedInputs(then, { src: 'a', nginx: '1.24' }), ['nginx']);
  assert.deepEqual(changedInputs(then, { src: 'a', nginx: '1.22', go: '1.26' }), ['go']);
});

test('mutants are chosen since the newest green commit in the clone', (t) => {
  const { folder, commit } = repository(t);
  const commits = ['a', 'b', 'c'].map((name) => commit(`.ci/${name}.ts`, name));
  const greens = new Greens(folder);
  assert.equal(greens.newestCommit(['mutants']), undefined);
  const green = { date: '2026-11-26T21:00:00Z', seconds: 1, inputs: {} };
  greens.set('mutants-all', { ...green, commit: commits[0]! });
  greens.set('mutants', { ...green, commit: commits[1]! });
  greens.set('engines', { ...green, commit: commits[2]! });
  assert.equal(greens.newestCommit(['mutants', 'mutants-all']), commits[1]);
  greens.set('mutants', { ...green, commit: '0123456789abcdef0123456789abcdef01234567' });
  assert.equal(new Greens(folder).newestCommit(['mutants', 'mutants-all']), commits[0]);
});

test('an age is in hours up to two days, then in days', () => {
  const date = '2026-11-26T21:00:00Z';
  const after = (hours: number) => ageText(date, Date.parse(date) + hours * 3_600_000);
  assert.deepEqual([0, 1, 47, 48, 100].map(after), ['0 hours', '1 hour', '47 hours', '2 days', '4 days']);
});

test('the table of promises names the script that runs the tests of each promise', () => {
  const page = readFileSync(join(root, 'test/README.md'), 'utf8');
  const [, table = ''] = /^\| promise \| tests \| when \| tested with \|\n\|[-|]+\n((?:\|.*\n)+)/m.exec(page) ?? [];
  const rows = table.trimEnd().split('\n');
  assert.ok(rows.length > 40, `${rows.length} promises`);
  const order = ['test', 'run', 'changed', 'night'];
  for (const row of rows) {
    const [promise, tests = '', when = ''] = row.split(' | ');
    const named = [...tests.matchAll(/`([a-z-]+(?:\/[a-z-]+)*)`/g)].map(([, name]) => name!);
    const found = new Set(named.flatMap(whenOf));
    const expected = order.filter((one) => found.has(one)).join(', ');
    assert.equal(when, expected, promise);
  }
});

/** @returns the scripts that run the tests of a file; `.ci/run` runs lives as well */
function whenOf(name: string): string[] {
  const file = `${name}.test.ts`;
  const found = stages.filter((stage) => filesByStage.get(stage)!.includes(file));
  assert.ok(found.length > 0, `no stage has ${file}`);
  if (name === 'simulation/simulation') return ['run'];
  if (found.some(({ command }) => command === 'README')) return ['test'];
  const first = ['always', 'day', 'changed', 'night'].find((when) => found.some((stage) => stage.when === when));
  return [first === 'always' || first === 'day' ? 'run' : `${first}`];
}
