/** The text of `--help`. No line is longer than 120 columns. */

import { flagOf, hasVariable, variableOf } from '../../config/options.ts';
import type { Command } from './command.ts';

/** Commands by heading and then by name. */
export type CommandGroups = Readonly<Record<string, Readonly<Record<string, Command>>>>;

/** @returns the help of one command, without its last newline */
export function commandHelp(name: string, { about, operands, options, notes }: Command): string {
  const entries = Object.entries(options).map(([name, option]) => {
    const { argument, help, initial, standard = shownDefault(initial) } = option;
    const text = `${help}${standard === '' ? '' : ` [${standard}]`}`;
    const variable = hasVariable(option) ? `(or ${variableOf(name)} in the environment)` : '';
    return { flag: `--${flagOf(name)} ${argument}`.trimEnd(), text, variable };
  });
  const width = Math.max(0, ...entries.map(({ flag }) => flag.length));
  const lines = entries.flatMap(({ flag, text, variable }) => {
    const first = `  ${flag.padEnd(width)}  ${text}`;
    return variable === '' ? [first] : [first, `${' '.repeat(width + 4)}${variable}`];
  });
  const usage = ['Usage: assetlog', name, operands?.text, lines.length > 0 ? '[options]' : undefined];
  const head = [usage.filter((word) => word !== undefined).join(' '), '', about, ''];
  return [...head, ...(lines.length > 0 ? ['Options:', ...lines, ''] : []), ...notes.flat()].join('\n');
}

/** @returns the help of the program, without its last newline */
export function generalHelp(groups: CommandGroups, notes: readonly string[]): string {
  const rows = Object.entries(groups).flatMap(([heading, commands]) => [
    `${heading}:`,
    ...Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(12)} ${summary}`),
    '',
  ]);
  return [
    'Usage: assetlog [command] [options]',
    '',
    'Records reports about data assets: one POST, one JSON line, 200 only when it is written and synced.',
    '',
    ...rows,
    '  assetlog COMMAND --help   its options, examples and exit codes',
    '  assetlog --version        the version',
    '',
    ...notes,
  ].join('\n');
}

function shownDefault(initial: unknown): string {
  return typeof initial === 'number' || typeof initial === 'string' ? String(initial) : '';
}
