import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  asksForHelp,
  booleanOption,
  duration,
  type Options,
  readOptions,
  trueOrFalse,
} from '../../src/config/options.ts';

interface Values {
  readonly folder: string;
  readonly tag: readonly string[];
  readonly onlyHere: string;
  readonly yes: boolean;
  readonly good: boolean | undefined;
}

const options: Options<Values> = {
  folder: { argument: 'FOLDER', help: '', initial: '.', parse: (text) => text },
  tag: { argument: 'TEXT', help: '', initial: [], repeated: true, parse: (text, before) => [...before, text] },
  onlyHere: { argument: 'TEXT', help: '', initial: '', flagOnly: true, parse: (text) => text },
  yes: { argument: '', help: '', initial: false, parse: () => true },
  good: booleanOption(''),
};
const initial = { folder: '.', tag: [], onlyHere: '', yes: false, good: undefined };
const WORDS = { text: 'WORD…', max: 2 };

test('flags override the environment; switches and options for one call have no variable', () => {
  const env = { ASSETLOG_YES: 'true', ASSETLOG_ONLY_HERE: 'x', ASSETLOG_TAG: 'a,b', ASSETLOG_FOLDER: '' };
  assert.deepEqual(readOptions([], env, options), {
    kind: 'valid',
    values: { ...initial, tag: ['a', 'b'] },
    operands: [],
  });
  assert.deepEqual(readOptions(['--tag', 'c', '--yes', '--only-here=y', '--tag=d'], env, options), {
    kind: 'valid',
    values: { ...initial, tag: ['c', 'd'], onlyHere: 'y', yes: true },
    operands: [],
  });
  assert.deepEqual(readOptions(['--yes=no'], {}, options), {
    kind: 'invalid',
    problems: ['--yes takes no value; leave out "=no"'],
  });
});

test('a switch can have a variable, which is true or false', () => {
  const read = { read: { argument: '', variable: true, help: '', initial: false, parse: trueOrFalse } } as const;
  const resultOf = (args: string[], text?: string) =>
    readOptions(args, text === undefined ? {} : { ASSETLOG_READ: text }, read);
  for (const [args, text, value] of [
    [[], undefined, false],
    [[], '', false],
    [[], 'true', true],
    [[], 'false', false],
    [['--read'], undefined, true],
    [['--read'], 'false', true],
  ] as const)
    assert.deepEqual(resultOf([...args], text), { kind: 'valid', values: { read: value }, operands: [] });
  for (const text of ['1', 'yes', 'True', 'true,true'])
    assert.deepEqual(resultOf([], text), {
      kind: 'invalid',
      problems: [`ASSETLOG_READ ${JSON.stringify(text)} is not true or false`],
    });
});

test('operands can be anywhere, and after -- they can start with a dash', () => {
  assert.deepEqual(readOptions(['one', '--yes', '-'], {}, options, WORDS), {
    kind: 'valid',
    values: { ...initial, yes: true },
    operands: ['one', '-'],
  });
  assert.deepEqual(readOptions(['--', '--yes', '--'], {}, options, WORDS), {
    kind: 'valid',
    values: initial,
    operands: ['--yes', '--'],
  });
  assert.deepEqual(readOptions(['1', '2', '3'], {}, options, WORDS), {
    kind: 'invalid',
    problems: ['unexpected argument "3"; options are written --name value'],
  });
  assert.deepEqual(readOptions(['-', '--'], {}, options), {
    kind: 'invalid',
    problems: ['unknown option -', 'unknown option --'],
  });
});

const problemsOf = (args: readonly string[], operands = WORDS) => {
  const read = readOptions(args, {}, options, operands);
  return read.kind === 'invalid' ? read.problems : [];
};
const operandsOf = (args: readonly string[], max = 4) => {
  const read = readOptions(args, {}, options, { text: '', max });
  return read.kind === 'valid' ? read.operands : read.problems;
};

test('operands after the first may not be split by an option, so that a value without quotes is noticed', () => {
  for (const args of [
    ['do', 'a', 'b', '--yes'],
    ['--yes', 'do', 'a', 'b'],
    ['do', '--yes', 'a', 'b', '--tag', 'x'],
    ['--tag', 'x', 'do', '--yes', '--', 'a', 'b'],
    ['do', 'a', '--', 'b'],
  ]) {
    assert.deepEqual(operandsOf(args), ['do', 'a', 'b'], args.join(' '));
  }
  const quotes = (text: string) => [`unexpected argument "${text}" after --tag; a value of several words needs quotes`];
  assert.deepEqual(operandsOf(['do', 'a', '--tag', 'nightly', 'load', 'of', 'b']), quotes('load of b'));
  assert.deepEqual(operandsOf(['do', '--yes', 'a', '--tag=nightly', 'load']), quotes('load'));
  assert.deepEqual(operandsOf(['--tag', 'my', 'tag'], 0), quotes('tag'));
  assert.deepEqual(operandsOf(['a', '--yes', 'b'], 1), [
    'unexpected argument "b" after --yes; it takes no value, and arguments that are not options must stand together',
  ]);
  assert.deepEqual(operandsOf(['do', 'a', '--good', 'b', '--yes', '--', '--good']), [
    'unexpected argument "b" after --good; it takes no value, and arguments that are not options must stand together',
    'unexpected argument "--good" after --yes; it takes no value, and arguments that are not options must stand together',
  ]);
});

test('an option is not the value of another option, unless it is written with =', () => {
  const refusal = (flag: string, next: string) =>
    `${flag} needs a value before ${next}; if ${next} is the value, write ${flag}=${next}`;
  assert.deepEqual(problemsOf(['--tag', '--folder', 'x', '--only-here', '--yes']), [
    refusal('--tag', '--folder'),
    refusal('--only-here', '--yes'),
  ]);
  assert.deepEqual(problemsOf(['--tag', '--folder=secret']), [refusal('--tag', '--folder')]);
  assert.deepEqual(problemsOf(['--tag', '--', 'x']), [refusal('--tag', '--')]);
  assert.deepEqual(problemsOf(['--tag', '--help']), [refusal('--tag', '--help')]);
  const read = readOptions(['--tag=--folder', '--tag', '-1', '--tag', '--other', '--tag', '-h'], {}, options);
  assert.deepEqual(read.kind === 'valid' && read.values.tag, ['--folder', '-1', '--other', '-h']);
});

test('a switch that can be false accepts exactly true or false, with = or as the next word', () => {
  for (const [args, value] of [
    [['--good'], true],
    [['--good', 'word'], true],
    [['--good', 'true'], true],
    [['--good', 'false', 'word'], false],
    [['--good=true'], true],
    [['--good=false'], false],
  ] as const) {
    const read = readOptions(args, {}, options, WORDS);
    assert.deepEqual(read.kind === 'valid' && read.values.good, value, args.join(' '));
  }
  for (const word of ['False', 'TRUE', 'no', 'yes', 'off', '0', '1']) {
    assert.deepEqual(problemsOf(['--good', word, 'key']), [`--good "${word}" is not true or false`]);
  }
  for (const text of ['', 'False', 'orders']) {
    assert.deepEqual(problemsOf([`--good=${text}`]), [`--good "${text}" is not true or false`]);
  }
});

test('help is requested by an option, not by a value or an operand', () => {
  for (const args of [['--help'], ['word', '-h'], ['--yes', '--help', '--tag', 'x']])
    assert.equal(asksForHelp(args, options, WORDS), true, args.join(' '));
  for (const args of [
    [],
    ['--tag', '-h'],
    ['--tag=--help'],
    ['--tag', '--help'],
    ['--', '--help'],
    ['--unknown', '-h'],
  ])
    assert.equal(asksForHelp(args, options, WORDS), false, args.join(' '));
});

test('a duration has a unit, except for 0', () => {
  const table = { '500ms': 500, '60s': 60_000, '5m': 300_000, '2h': 7_200_000, '7d': 604_800_000, '0': 0, '0s': 0 };
  for (const [text, ms] of Object.entries(table)) assert.equal(duration(text), ms, text);
  for (const text of ['', '60', '1.5s', '-1s', '8d', '604801s', '60 s', '5M', 's', '99999999999s']) {
    assert.throws(() => duration(text), /^Error: is not a duration of at most a week, such as/, text);
  }
});
