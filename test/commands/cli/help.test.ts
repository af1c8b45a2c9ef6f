/** The help of a command, from its options. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commands } from '../../../src/commands/all-commands.ts';
import { commandHelp, generalHelp } from '../../../src/commands/cli/help.ts';
import { flagOf } from '../../../src/config/options.ts';

test('the help of an option has its default and its variable, if any', () => {
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

test('the help of a command names only options of that command', () => {
  for (const [name, command] of Object.entries(commands)) {
    const flags = Object.keys(command.options).map(flagOf);
    for (const [, flag = ''] of commandHelp(name, command).matchAll(/--([a-z-]+)/g))
      assert.ok(flags.includes(flag), `${name} --${flag}`);
  }
});
