import assert from 'node:assert/strict';
import { test } from 'node:test';
import { duration, flagOf, type Options, readOptions, trueOrFalse, variableOf } from '../../src/config/options.ts';
import { didYouMean } from '../../src/event/nearest.ts';

interface Values {
  readonly folder: string;
  readonly tag: readonly string[];
  readonly onlyHere: string;
  readonly yes: boolean;
}

const options: Options<Values> = {
  folder: { argument: 'FOLDER', help: '', initial: '.', parse: (text) => text },
  tag: { argument: 'TEXT', help: '', initial: [], repeated: true, parse: (text, before) => [...before, text] },
  onlyHere: { argument: 'TEXT', help: '', initial: '', flagOnly: true, parse: (text) => text },
  yes: { argument: '', help: '', initial: false, parse: () => true },
};
const initial = { folder: '.', tag: [], onlyHere: '', yes: false };
const WORDS = { text: 'WORD…', max: 2 };

test('a flag and a variable are named after the option', () => {
  assert.equal(flagOf('segmentBytes'), 'segment-bytes');
  assert.equal(variableOf('segmentBytes'), 'ASSETLOG_SEGMENT_BYTES');
});

test('flags go over the environment; a switch and what is for one call only have no variable', () => {
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

test('a switch may have a variable, which is true or false', () => {
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

test('operands may be anywhere, and after -- whatever they look like', () => {
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

test('the nearest of some words is found, if any is near', () => {
  assert.equal(didYouMean('serv', ['serve', 'healthcheck']), '; did you mean serve?');
  assert.equal(didYouMean('x', ['serve', 'healthcheck']), '');
});

test('a duration has a unit, but for none at all', () => {
  const table = { '500ms': 500, '60s': 60_000, '5m': 300_000, '2h': 7_200_000, '7d': 604_800_000, '0': 0, '0s': 0 };
  for (const [text, ms] of Object.entries(table)) assert.equal(duration(text), ms, text);
  for (const text of ['', '60', '1.5s', '-1s', '8d', '604801s', '60 s', '5M', 's', '99999999999s']) {
    assert.throws(() => duration(text), /^Error: is not a duration of at most a week, such as/, text);
  }
});
