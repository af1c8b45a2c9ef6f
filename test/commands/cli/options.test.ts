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

test('each option with one value is refused when it is given twice, also with the same value', async () => {
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

test('a list and a switch may be repeated, and a flag together with its variable is no repetition', () => {
  for (const row of rows) {
    const { name, flag, option } = row;
    const args = option.argument === '' ? [flag, flag] : option.repeated ? [`${flag}=x`, `${flag}=y`] : [`${flag}=x`];
    const env = hasVariable(option) ? { [variableOf(name)]: 'z' } : {};
    const repetition = problemsOf(row, args, env).filter((problem) => problem.includes('is given twice'));
    assert.deepEqual(repetition, [], `${row.command} ${args.join(' ')}`);
  }
});

test('a switch given as true and as false is refused, and the error for a repetition masks a password', () => {
  const problem = (command: string, ...args: string[]) => problemsOf({ command } as Row, args);
  assert.deepEqual(problem('events', '--passed', '--passed=false', '--passed=true'), [
    '--passed is given twice, as "true" and as "false"; give it once',
  ]);
  assert.deepEqual(problem('report', '--url', 'http://a:b@c', '--url=d'), [
    '--url is given twice, as "http:***@c" and as "d"; give it once',
  ]);
});

/** By the names of the options that may have any text as a flag: what a report says, and what a search looks for. */
const FREE = ['description', 'metadata', 'metadataJson', 'contains', 'key', 'keyPrefix', 'keyBeginsWith', 'partition'];

/** Values of a file that Docker, direnv or an editor of Windows left as they were, with a part of the problem. */
const LEFT: readonly (readonly [value: string, shown: string, problem: string])[] = [
  ['/data\r', '/data\\r', 'has a carriage return; save its file with LF, not CR LF, at the end of lines'],
  ['a=b\r\n', 'a=b\\r\\n', 'has a carriage return; save its file'],
  ['\t/data', '\\t/data', 'has the control character U+0009; leave it out'],
  ['a\u007fb', 'a\\u007fb', 'has the control character U+007F; leave it out'],
  ['a\u0085', 'a\\u0085', 'has the control character U+0085; leave it out'],
  ['"/data"', '\\"/data\\"', 'has quotes around it, which would be a part of the value; leave them out'],
  ["'/data'", "'/data'", 'has quotes around it'],
  ['"a,b" ', '\\"a,b\\" ', 'has quotes around it'],
  ['“/data”', '“/data”', 'has quotes around it'],
];

test('a control character in a value, or quotes around it, is refused in each flag and each variable', async () => {
  const valued = rows.filter(({ option }) => option.argument !== '' || hasVariable(option));
  assert.deepEqual(new Set(valued.flatMap(({ name, option }) => (option.anyText ? [name] : []))), new Set(FREE));
  for (const { command, name, flag, option } of valued) {
    const withFlag = option.argument === '' || option.anyText ? [] : [flag];
    const sources = [...withFlag, ...(hasVariable(option) ? [variableOf(name)] : [])];
    for (const source of sources) {
      for (const [value, shown, problem] of LEFT) {
        const isFlag = source === flag;
        const args = isFlag ? [command, `${flag}=${value}`] : [command];
        const { code, stdout, stderr } = await runHere(args, { env: isFlag ? {} : { [source]: value } });
        assert.deepEqual([code, stdout], [2, ''], `${args} ${source}`);
        const start = `assetlog: ${source} "${option.secret ? '***' : shown}" ${problem}`;
        assert.ok(
          stderr.split('\n').some((line) => line.startsWith(start)),
          `${stderr} without ${start}`,
        );
      }
    }
  }
});

test('texts of a report or a search may have line ends and quotes; other values may have quotes that enclose nothing', () => {
  for (const row of rows.filter(({ option }) => option.anyText)) {
    for (const value of row.name === 'metadata'
      ? ['a="b"', '"=\r\n"']
      : row.name === 'metadataJson'
        ? ['{"a":\r\n1}']
        : ['"a"', "'a\r\n'"]) {
      assert.deepEqual(problemsOf(row, [`${row.flag}=${value}`]), [], `${row.command} ${row.flag} ${value}`);
    }
  }
  const quoted = { command: 'serve' } as Row;
  for (const value of ['"', '"a', 'a"b"c', "it's", '/a/"b"', '\'a"'])
    assert.deepEqual(problemsOf(quoted, ['--data', value]), [], value);
  assert.deepEqual(problemsOf(quoted, [], { ASSETLOG_WATCH_ASSET: 'a,"b"', ASSETLOG_TRUSTED_PROXY: '10.0.0.0/8,\r' }), [
    'ASSETLOG_WATCH_ASSET "\\"b\\"" has quotes around it, which would be a part of the value; leave them out',
    'ASSETLOG_TRUSTED_PROXY "\\r" has a carriage return; save its file with LF, not CR LF, at the end of lines',
  ]);
});
