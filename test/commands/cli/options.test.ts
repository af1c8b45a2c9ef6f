/** Mistakes that any option of any command can have: the table of all commands' options is run through each of them. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commands } from '../../../src/commands/all-commands.ts';
import { flagOf, hasVariable, type Option, readOptions, variableOf } from '../../../src/config/options.ts';
import { runHere } from '../../support/command-output.ts';

interface Row {
  readonly command: string;
  readonly name: string;
  readonly flag: string;
  readonly option: Option<unknown>;
}

const rows: readonly Row[] = Object.entries(commands).flatMap(([command, { options }]) =>
  Object.entries<Option<unknown>>(options as never).map(([name, option]) => {
    return { command, name, flag: `--${flagOf(name)}`, option };
  }),
);

/** The problems of a command line and an environment, without a call of the command. */
function problemsOf({ command }: Row, args: readonly string[], env: Record<string, string> = {}): readonly string[] {
  const { options, operands } = commands[command]!;
  const read = readOptions(args, env, options, operands);
  return read.kind === 'invalid' ? read.problems : [];
}

test('each option of each command with one value is refused when it is given twice, also with the same value', async () => {
  const single = rows.filter(({ option }) => option.argument !== '' && !option.repeated);
  assert.ok(single.length > 100, `${single.length}`);
  for (const { command, flag, option } of single) {
    const [first, second] = option.secret ? ['***', '***'] : ['x', 'y'];
    for (const [args, shown] of [
      [[flag, 'x', `${flag}=y`], `as "${first}" and as "${second}"`],
      [[`${flag}=x`, flag, 'x'], `as "${first}" and as "${first}"`],
    ] as const) {
      const { code, stdout, stderr } = await runHere([command, ...args]);
      assert.deepEqual([code, stdout], [2, ''], args.join(' '));
      assert.ok(stderr.includes(`assetlog: ${flag} is given twice, ${shown}; give it once\n`), stderr);
    }
  }
});

test('a list and a switch may be repeated, and a flag beside its variable is no repetition', () => {
  for (const row of rows) {
    const { name, flag, option } = row;
    const args = option.argument === '' ? [flag, flag] : option.repeated ? [`${flag}=x`, `${flag}=y`] : [`${flag}=x`];
    const env = hasVariable(option) ? { [variableOf(name)]: 'z' } : {};
    const repetition = problemsOf(row, args, env).filter((problem) => problem.includes('is given twice'));
    assert.deepEqual(repetition, [], `${row.command} ${args.join(' ')}`);
  }
});

test('of a switch that is given as true and as false none is lost, and a repetition shows no password', () => {
  const problem = (command: string, ...args: string[]) => problemsOf({ command } as Row, args);
  assert.deepEqual(problem('events', '--passed', '--passed=false', '--passed=true'), [
    '--passed is given twice, as "true" and as "false"; give it once',
  ]);
  assert.deepEqual(problem('report', '--url', 'http://a:b@c', '--url=d'), [
    '--url is given twice, as "http:***@c" and as "d"; give it once',
  ]);
});
