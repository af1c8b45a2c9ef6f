/** Shared by the commands that list what a journal holds: options and output formats. */

import type { Option } from '../config/options.ts';
import { readKey } from '../event/asset-key.ts';
import { printable } from '../telemetry/printable.ts';
import type { Page } from './command.ts';
import { csvRecord } from './csv.ts';
import { type Column, Table } from './table.ts';

/** An option whose value is an asset key: `warehouse/orders` becomes `['warehouse', 'orders']`. */
export const keyOption = (help: string): Option<readonly string[] | undefined> => ({
  argument: 'KEY',
  help,
  initial: undefined,
  flagOnly: true,
  parse: (text) => readKey([text]),
});

/** An option without a value, such as `--failing`: `true` if it is given, else `false`. */
export const switchOption = (help: string): Option<boolean> => ({
  argument: '',
  help,
  initial: false,
  parse: () => true,
});

/** Which output format was asked for; at most one: `{ json: false, table: false, csv: true }`. */
export interface FormatOptions {
  readonly json: boolean;
  readonly table: boolean;
  readonly csv: boolean;
}

/** The options that choose the output format: `--json`, `--table` and `--csv`. */
export const formatOptions = {
  json: switchOption('JSON lines, which is the default into a pipe or a file'),
  table: switchOption('a table, which is the default on a terminal'),
  csv: switchOption('CSV with a header (RFC 4180)'),
};

/** Lines of the help that all listing commands have, such as `Exit codes:` and the codes. */
export const lookNotes: readonly string[] = [
  'On a terminal, control characters in reported text are shown as \\u001b, also in JSON. In CSV, text that begins like a',
  'formula (= + - @) gets an apostrophe before it, also after a semicolon, a tab or a line break inside.',
  '',
  'Keys:',
  '  warehouse/orders has two parts. A key with a slash in a part is written as a JSON array: \'["warehouse","a/b"]\'.',
  '',
  'Hosted mode:',
  '  Of the folder of all deployments it shows all of them: a column for the deployment, and in JSON a first member',
  '  "deployment" in each line. The folder of one deployment, FOLDER/NAME, is shown as any other journal.',
  '',
  'Exit codes:',
  '  0 read, 2 flags or no journal there, 3 the journal is damaged: file, line and byte are reported on standard error,',
  '  and the lines after the damage that verify are shown; 5 it cannot be read or printed; with --url also 1 the service',
  '  refuses, 75 it was unavailable',
];

/**
 * The columns and conversions of each output format for one kind of row, such as an event or an asset. For example
 * `{ header: ['seq'], record: ({ seq }) => [seq], … }` for CSV with one column.
 */
export interface Forms<Thing> {
  /** The columns of the table. */
  readonly columns: readonly Column[];
  /** @returns the cells of the table, in the order of `columns` */
  readonly row: (thing: Thing) => readonly string[];
  /** The names of the CSV columns, such as `asset_key`. */
  readonly header: readonly string[];
  /** @returns the cells of a CSV record, in the order of `header` */
  readonly record: (thing: Thing) => readonly (string | number | boolean | undefined)[];
  /** @returns JSON lines, each with its newline */
  readonly json: (things: readonly Thing[]) => string | Buffer;
}

/**
 * Prints rows, with the titles before the first ones.
 * @returns false if the reading end of the pipe is closed: `await print([line])` is then `false`
 */
export type Print<Thing> = (things: readonly Thing[]) => Promise<boolean>;

/** Width of a table that goes into a pipe, since the width of the final display is unknown. */
const PIPE_COLUMNS = 120;

/**
 * @returns a function that prints in the chosen format, or undefined if more than one format is chosen: for
 *   `{ json: false, table: false, csv: true }` and the header `['seq']` it prints `seq\r\n7\r\n`
 */
export function printerOf<Thing>(
  { json, table, csv }: FormatOptions,
  { columns, write }: Page,
  forms: Forms<Thing>,
): Print<Thing> | undefined {
  if (Number(json) + Number(table) + Number(csv) > 1) return undefined;
  const terminal = columns !== undefined;
  if (csv) {
    let header: string = csvRecord(forms.header);
    return (things) => {
      const records = things.map((thing) => csvRecord(forms.record(thing)));
      const text =
        header + records.map((record) => (terminal ? `${printable(record.slice(0, -2))}\r\n` : record)).join('');
      header = '';
      return text === '' ? Promise.resolve(true) : write(text);
    };
  }
  if (table || (terminal && !json)) {
    const rows = new Table(forms.columns, columns ?? PIPE_COLUMNS);
    return async (things) => things.length === 0 || write(rows.print(things.map(forms.row)));
  }
  return async (things) => {
    if (things.length === 0) return true;
    const lines = forms.json(things);
    return write(terminal ? `${lines.toString().slice(0, -1).split('\n').map(printable).join('\n')}\n` : lines);
  };
}
