/** Command lines as rows of a table: what a user types, how the command ends, and what it prints. */

import assert from 'node:assert/strict';
import { jsonIn, runHere } from './command-output.ts';

/**
 * What is printed: the whole text, where the last line feed may be left out, or a pattern of it. Of JSON lines
 * each line whole, or its name: the seq of an event, the key of an asset, the name or the id of a source,
 * after the deployment if the line has one.
 */
export type Printed = string | RegExp | readonly (number | string | object)[];

/** The line is written as in a shell, without `assetlog`; `$NAME` is a value of the test. Nothing is printed by default. */
export type CommandRow = readonly [line: string, code: number, stdout?: Printed, stderr?: Printed];

export type Values = Readonly<Record<string, string>>;

interface RowOptions {
  /** The ends of a line: each row is run with each of them. */
  readonly endings?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs the rows in order. A value in an output is compared as its `$NAME`. A secret in a line and a stack are never printed. */
export async function runRows(
  values: Values,
  rows: readonly CommandRow[],
  { endings = [''], env = {} }: RowOptions = {},
): Promise<void> {
  for (const [line, code, stdout = '', stderr = ''] of rows) {
    for (const ending of endings) {
      const typed = ending === '' ? line : `${line} ${ending}`;
      const ended = await runHere(wordsOf(typed, values), { env });
      const shown = `assetlog ${typed}: ${ended.stderr}`;
      assert.equal(ended.code, code, shown);
      check(named(ended.stdout, values), stdout, `standard output of ${shown}`);
      check(named(ended.stderr, values), stderr, `standard error of ${shown}`);
      assert.doesNotMatch(ended.stdout + ended.stderr, /secret|\n {4}at /, shown);
    }
  }
}

/** @returns the words of a command line, whose quotes enclose one word or a part of it */
export function wordsOf(line: string, values: Values): string[] {
  const words = line.match(/(?:'[^']*'|"[^"]*"|[^ '"])+/g) ?? [];
  return words.map((word) =>
    word
      .replaceAll(/'([^']*)'|"([^"]*)"/g, (_, single = '', double = '') => single + double)
      .replaceAll(/\$([A-Z]+)/g, (_, name: string) => values[name] ?? assert.fail(`there is no $${name}`)),
  );
}

function named(text: string, values: Values): string {
  const longestFirst = Object.entries(values).sort(([, one], [, other]) => other.length - one.length);
  return longestFirst.reduce((shown, [name, value]) => shown.replaceAll(value, `$${name}`), text);
}

function check(text: string, printed: Printed, what: string): void {
  if (typeof printed === 'string')
    assert.equal(text, printed === '' || printed.endsWith('\n') ? printed : `${printed}\n`, what);
  else if (printed instanceof RegExp) assert.match(text, printed, what);
  else if (typeof printed[0] === 'object') assert.deepEqual(jsonIn(text), printed, what);
  else assert.deepEqual(jsonIn(text).map(nameOf), printed, what);
}

function nameOf({ deployment, seq, asset_key, name, id }: Record<string, unknown>): unknown {
  const own = seq ?? (asset_key as string[] | undefined)?.join('/') ?? name ?? id;
  return deployment == null ? own : `${deployment} ${own}`;
}
