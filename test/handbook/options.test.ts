/**
 * `bin/handbook/options.md`: the first cells of each row are made from the source, with the problems that options and files report
 * for a wrong value. The last cell is written by hand.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commands } from '../../src/commands/all-commands.ts';
import { exitCodes } from '../../src/config/exit-codes.ts';
import { KIB, MIB } from '../../src/config/limits.ts';
import { flagOf, hasVariable, type Invalid, type Option, variableOf } from '../../src/config/options.ts';
import { contradictionsIn, options, readConfig } from '../../src/config/options-of-service.ts';
import { readDeployments } from '../../src/deployments/file.ts';
import { traitsOf } from '../../src/forward/destinations/kinds.ts';
import { onlyNames } from '../../src/forward/only.ts';
import { readDestinations } from '../../src/forward/settings-file.ts';
import { page as pageOf } from '../support/handbook.ts';

const page = pageOf('options');
const code = (text: unknown) => `\`${text}\``;

/** Checks that the rows of a part of the page start with these cells, in this order. */
function checkRows(heading: string, rows: readonly (readonly string[])[]): void {
  const [, part = ''] = page.split(RegExp(`^## ${heading}$`, 'm'));
  const shown = (part.split(/^## /m)[0] ?? '').split('\n').filter((line) => /^\| `/.test(line));
  const wanted = rows.map((cells) => `| ${cells.join(' | ')} | `);
  const wrong = wanted.filter((start) => !shown.some((row) => row.startsWith(start) && row.length > start.length + 20));
  assert.ok(
    wrong.length === 0,
    `## ${heading} lacks these rows, each with its meaning at the end:\n${wrong.join('\n')}`,
  );
  const order = (row: string) => row.split(' | ')[0];
  assert.deepEqual(shown.map(order), wanted.map(order), `the order of the rows of ## ${heading}`);
}

function problemOf(parse: () => unknown): string {
  try {
    parse();
  } catch (error) {
    return (error as Error).message;
  }
  return '';
}

/** The least and the greatest value of a number or a size; undefined for another option. */
function boundsOf({ parse, initial, argument }: Option<unknown>): readonly [number, number] | undefined {
  const sample = argument === 'SIZE' ? '9999999TiB' : '-1';
  const [, min, max] = / from (\d+) to (\d+)( bytes)?$/.exec(problemOf(() => parse(sample, initial))) ?? [];
  if (min === undefined) return undefined;
  const bounds = [Number(min), Number(max)] as const;
  const reachable = bounds.filter((bound) => bound < Number.MAX_SAFE_INTEGER);
  for (const good of reachable) assert.equal(parse(`${good}`, initial), good);
  for (const bad of [bounds[0] - 1, bounds[1] + 1]) assert.throws(() => parse(`${bad}`, initial));
  return bounds;
}

function bytes(count: number): string {
  const [unit, name] = (
    [
      [1024 * MIB, 'GiB'],
      [MIB, 'MiB'],
      [KIB, 'KiB'],
    ] as const
  ).find(([one]) => count % one === 0)!;
  return `${count / unit} ${name}`;
}

/** The type of a value, and its range: the limits of a number, of the length of a text, or of the times it can be repeated. */
function typeOf(option: Option<unknown>): string {
  const { argument, choices, repeated, parse, initial } = option;
  if (argument === '') return 'switch';
  if (choices !== undefined) return choices.map(code).join(', ');
  const type = argument === 'URL' ? 'URL' : argument.replace('/', '').toLowerCase();
  const bounds = boundsOf(option);
  if (bounds !== undefined) {
    const [min, max] = bounds;
    if (argument !== 'SIZE') return `${min.toLocaleString('en')} to ${max.toLocaleString('en')}`;
    const end = max === Number.MAX_SAFE_INTEGER ? 'or more' : `to ${bytes(max)}`;
    return min === 0 ? type : `${type}, ${bytes(min)} ${end}`;
  }
  const times = countAccepted(100, (count) => {
    let before = initial;
    for (let time = 0; time < count; time += 1) before = parse('127.0.0.1', before);
  });
  if (repeated) return `${type}, ${times === 100 ? 'repeatable' : `up to ${times} times`}`;
  const characters = countAccepted(1_000, (count) => parse('a'.repeat(count), initial));
  return characters > 0 && characters < 1_000 ? `${type}, at most ${characters} characters` : type;
}

/** @returns the last number from 1 to `most` for which a function throws nothing */
function countAccepted(most: number, parse: (count: number) => unknown): number {
  let count = 0;
  while (count < most && problemOf(() => parse(count + 1)) === '') count += 1;
  return count;
}

function defaultOf({ help, initial, argument }: Option<unknown>): string {
  const standard = / \[(.*?)\]/.exec(help)?.[1]?.replace(/--[a-z-]+/g, code);
  if (argument === '') return standard ?? 'off';
  return typeof initial === 'number' || (typeof initial === 'string' && initial !== '')
    ? code(initial)
    : (standard ?? 'none');
}

test('each option has a row with its flag, variable, value and default', () => {
  const rows = Object.entries<Option<unknown>>(options as never).map(([name, option]) => {
    const variable = hasVariable(option) ? code(variableOf(name)) : 'none';
    return [code(`--${flagOf(name)}`), variable, typeOf(option), defaultOf(option)];
  });
  checkRows('Options of serve', rows);
});

test('the page names each variable of each command, and no other', () => {
  const variables = Object.values(commands).flatMap((command) =>
    Object.entries<Option<unknown>>(command.options as never).flatMap(([name, option]) =>
      hasVariable(option) ? [variableOf(name)] : [],
    ),
  );
  const named = new Set(page.match(/\bASSETLOG_[A-Z_]+\b/g));
  assert.deepEqual([...named].sort(), [...new Set(variables)].sort());
});

test('each contradiction between options is in a row with all its flags, and each exit code has a row', () => {
  const config = readConfig([], {});
  assert.equal(config.kind, 'valid');
  const none = { ...config.config, retainBytes: 20_000, segmentBytes: 30_000, keepFree: 20_000, minFreeBytes: 30_000 };
  const problems = [
    ...contradictionsIn({ ...none, read: true, noRead: true, ack: 'hub', forwardTokenFile: 'a' }),
    ...contradictionsIn({ ...config.config, test: true, deployments: 'a', forward: 'b', watchAsset: [['a/b']] }),
  ];
  assert.equal(problems.length, 8);
  const rows = page.split('\n').filter((line) => line.startsWith('| '));
  for (const problem of problems) {
    const flags = problem.match(/--[a-z-]+/g) ?? [];
    assert.ok(
      rows.some((row) => flags.every((flag) => row.includes(`\`${flag}\``))),
      problem,
    );
  }
  checkRows(
    'Exit codes',
    [...new Set(Object.values(exitCodes))].map((exit) => [code(exit)]),
  );
});

/** The rows of the members of a file, from the names and the problems that its reader reports, and what it reads without them. */
function memberRows(
  read: (entry: Readonly<Record<string, unknown>>) => { readonly kind: 'valid'; readonly entry: object } | Invalid,
  least: Readonly<Record<string, unknown>>,
): string[][] {
  const problemsOf = (entry: Readonly<Record<string, unknown>>) => {
    const found = read(entry);
    return found.kind === 'invalid' ? found.problems : [];
  };
  const [, listed = ''] = /use one of (.*)$/.exec(problemsOf({ ...least, zzz: 0 })[0] ?? '') ?? [];
  const names = listed.split(', ');
  const found = read(least);
  assert.ok(found.kind === 'valid', JSON.stringify(found));
  return names.map((name) => {
    const problems = [0, -1].flatMap((wrong) => problemsOf({ ...least, [name]: wrong })).join('\n');
    const [, value = ''] = RegExp(`\\.${name} must be (?:as )?([^;\n]*)`).exec(problems) ?? [];
    const initial = (found.entry as Readonly<Record<string, unknown>>)[name];
    const standard =
      initial === undefined ? 'none' : code(typeof initial === 'string' ? initial : JSON.stringify(initial));
    return [
      code(name),
      value.replace(', and begin with', ', the first').replace(/https:\S+|\{.*\}/, '`$&`'),
      name in least ? 'required' : standard,
    ];
  });
}

test('each member of the deployments file has a row', () => {
  const good = { name: 'a', tokens: [] };
  const token = { name: 'a', sha256: 'ab'.repeat(32) };
  const readWith = (deployment: object) => readDeployments(JSON.stringify({ deployments: [deployment] }));
  const ofDeployment = memberRows((entry) => {
    const found = readWith(entry);
    return found.kind === 'valid' ? { kind: 'valid', entry: {} } : found;
  }, good);
  const ofToken = memberRows((entry) => {
    const found = readWith({ ...good, tokens: [entry] });
    return found.kind === 'valid' ? { kind: 'valid', entry: found.value.tokensOf.get('a')![0]! } : found;
  }, token);
  checkRows('Members of the deployments file', [...ofDeployment, ...ofToken]);
});

test('each member of the destinations file has a row, with the schemes of the URLs that take it', () => {
  const config = readConfig(['--deployments', 'a'], {});
  assert.ok(config.kind === 'valid');
  const rows = memberRows(
    (entry) => {
      const found = readDestinations(JSON.stringify({ destinations: [entry] }), config.config);
      return found.kind === 'valid' ? { kind: 'valid', entry: found.value[0]! } : found;
    },
    { name: 'a', to: 'http://hub.example/{deployment}' },
  );
  const kinds = Object.values(traitsOf);
  const schemeOf = (traits: { readonly schemes: readonly string[] }) => traits.schemes[0]!.replace('+http', '');
  const schemes = [...new Set(kinds.map(schemeOf))];
  const takenBy = (member: string) =>
    schemes.filter((scheme) => {
      const same = kinds.filter((traits) => schemeOf(traits) === scheme);
      return !same.every((traits) => (traits.withoutMembers as readonly string[]).includes(member));
    });
  const where = ([member = '']: readonly string[]) => {
    const taken = takenBy(member.replaceAll('`', ''));
    return taken.length === schemes.length ? 'all' : taken.map(code).join(', ');
  };
  checkRows(
    'Members of the destinations file',
    rows.map((cells) => [...cells, where(cells)]),
  );
  const [, only = ''] = /^\| `only` \|.* events with (.*)/m.exec(page) ?? [];
  assert.deepEqual(only.match(/(?<=`)[a-z_]+(?=`)/g), onlyNames);
});
