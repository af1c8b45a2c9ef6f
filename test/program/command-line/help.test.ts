/** Help and version. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { version } from '../../../src/config/names.ts';
import { runHere } from '../../support/command-output.ts';
import { newFolder, run } from '../../support/program.ts';
import { FIRST, flip, segment } from '../../support/segments.ts';

const COLUMNS = 120;

test('the help of every command fits a terminal, and has examples and exit codes', async () => {
  const general = await runHere(['--help']);
  const names = [...general.stdout.matchAll(/^ {2}([a-z]+) {2,}\S/gm)].map(([, name = '']) => name);
  assert.ok(names.length >= 7, `${names}`);
  const helps = await Promise.all(names.map((name) => runHere([name, '--help'])));
  for (const [index, { code, stdout, stderr }] of [...helps, general].entries()) {
    const name = names[index] ?? '';
    assert.deepEqual([code, stderr], [0, ''], name);
    assert.ok(stdout.startsWith(`Usage: assetlog ${name || '[command]'}`), stdout);
    assert.match(stdout, new RegExp(`\nExamples:\n(.*\n)*?  .*assetlog ${name}`), name);
    assert.match(stdout, /\nExit codes:\n {2}0 [a-z]/, name);
    for (const line of stdout.split('\n')) assert.ok(line.length <= COLUMNS, `${name}: ${line}`);
  }
});

test('each spelling of the options for the version and the help works', async () => {
  const versions = ['--version', '-v', '-V', 'version'].map((word) => runHere([word]));
  const helps = ['--help', '-h', 'help'].map((word) => runHere([word]));
  for (const end of await Promise.all(versions))
    assert.deepEqual(end, { code: 0, stdout: `assetlog ${version}\n`, stderr: '' });
  for (const { code, stdout } of await Promise.all(helps)) {
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: assetlog \[command\] \[options\]\n/);
  }
  assert.match((await runHere(['help', 'verify'])).stdout, /^Usage: assetlog verify /);
});

test('a command that runs inside a test ends and prints like the process', async (t) => {
  const [good, damaged] = [newFolder(t), newFolder(t)];
  writeFileSync(join(good, FIRST), segment(1, 3));
  writeFileSync(join(damaged, FIRST), flip(segment(1, 3), 30));
  const table = [
    ['--version'],
    ['report', '--help'],
    ['serv'],
    ['events', '--data', '/no\u202e\u2028'],
    ['report', 'observation', 'a', '--port', '1'],
    ['events', '--csv', '--data', good],
    ['events', '--key', 'none', '--data', good],
    ['verify', '--data', damaged],
  ];
  const codes = table.map(async (args) => {
    const { signal: _, ...end } = await run(args);
    assert.deepEqual(await runHere(args), end, args.join(' '));
    return end.code;
  });
  assert.deepEqual(await Promise.all(codes), [0, 0, 2, 2, 2, 0, 0, 3]);
});
