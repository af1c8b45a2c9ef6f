import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { texts as textsOfSource } from '../../src/commands/all-commands.ts';
import { commandHelp, generalHelp } from '../../src/commands/help.ts';
import { root, run } from '../support/program.ts';

const COLUMNS = 120;

test('the help of every command fits a terminal, and has examples and exit codes', async () => {
  const general = await run(['--help']);
  const names = [...general.stdout.matchAll(/^ {2}([a-z]+) {2,}\S/gm)].map(([, name = '']) => name);
  assert.ok(names.length >= 7, `${names}`);
  const helps = await Promise.all(names.map((name) => run([name, '--help'])));
  for (const [index, { code, stdout, stderr }] of [...helps, general].entries()) {
    const name = names[index] ?? '';
    assert.deepEqual([code, stderr], [0, ''], name);
    assert.ok(stdout.startsWith(`Usage: assetlog ${name || '[command]'}`), stdout);
    assert.match(stdout, new RegExp(`\nExamples:\n(.*\n)*?  .*assetlog ${name}`), name);
    assert.match(stdout, /\nExit codes:\n {2}0 [a-z]/, name);
    for (const line of stdout.split('\n')) assert.ok(line.length <= COLUMNS, `${name}: ${line}`);
  }
});

test('an option is told with its default and its variable, where it has one', () => {
  const option = { argument: 'N', help: 'how many', parse: (text: string) => text };
  const end = { kind: 'ended', exitCode: 0 } as const;
  const command = { summary: 'do it', about: 'Does it.', notes: ['Examples:'], run: async () => end };
  const options = {
    count: { ...option, initial: 3 },
    waitFor: { ...option, initial: 60_000, standard: '60s', flagOnly: true as const },
    name: { ...option, initial: '' },
    yes: { ...option, argument: '', initial: false },
  };
  assert.equal(
    commandHelp('x', { ...command, options, operands: { text: 'KEY...', max: 9 } }),
    [
      'Usage: assetlog x KEY... [options]',
      '',
      'Does it.',
      '',
      'Options:',
      '  --count N     how many [3]',
      '                (or ASSETLOG_COUNT in the environment)',
      '  --wait-for N  how many [60s]',
      '  --name N      how many',
      '                (or ASSETLOG_NAME in the environment)',
      '  --yes         how many',
      '',
      'Examples:',
    ].join('\n'),
  );
  assert.equal(commandHelp('x', { ...command, options: {} }), 'Usage: assetlog x\n\nDoes it.\n\nExamples:');
  assert.match(
    generalHelp({ One: { x: { ...command, options: {} } }, Two: {} }, ['end']),
    /\n\nOne:\n {2}x {12}do it\n\nTwo:\n\n(.*\n)+end$/,
  );
});

const builtFile = join(root, 'dist/server.js');
test('the built file prints the texts that the source makes', {
  skip: !existsSync(builtFile) && 'nothing is built here',
}, async () => {
  const texts = Object.entries(textsOfSource());
  const printed = await Promise.all(
    texts.map(async ([name]) => {
      const { code, stdout, stderr } = await run(name.split(' '), { program: [process.execPath, builtFile] });
      return [name, code, stderr, stdout];
    }),
  );
  assert.deepEqual(
    printed,
    texts.map(([name, text]) => [name, 0, '', `${text}\n`]),
  );
  assert.ok(texts.length > 12, 'each command, both scripts and the program itself');
  assert.equal((await run(['help', 'nonsense'])).stdout, `${textsOfSource()['help']}\n`);
  assert.equal((await run(['report', '--help'])).stdout, `${textsOfSource()['help report']}\n`);
});
