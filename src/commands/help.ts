/** The text of `--help`. No line is longer than 120 columns. */

import { flagOf, hasVariable, variableOf } from '../config/options.ts';
import type { Command } from './command.ts';

/** Groups of commands, by heading: `{ 'Look at a journal': { events, assets } }`. A group has its commands by their names. */
export type Groups = Readonly<Record<string, Readonly<Record<string, Command>>>>;

/**
 * The help of one command, such as that of `assetlog events --help`.
 * @param name of the command, such as `events`
 * @returns the text without its last newline; its first line is `Usage: assetlog events [FOLDER] [options]`
 */
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

/**
 * The help of the program, as `assetlog --help` prints it.
 * @param notes the lines at the end of the help
 * @returns the text without its last newline; its first line is `Usage: assetlog [command] [options]`
 */
export function generalHelp(groups: Groups, notes: readonly string[]): string {
  const rows = Object.entries(groups).flatMap(([heading, commands]) => [
    `${heading}:`,
    ...Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(12)} ${summary}`),
    '',
  ]);
  return [
    'Usage: assetlog [command] [options]',
    '',
    'Records reports about data assets: one POST, one JSON line on disk, 200 only when it is on stable storage.',
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
