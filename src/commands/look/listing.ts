/** What `events` and `assets` share: options, help, and the output formats. */

import { type Option, switchOption } from '../../config/options.ts';
import { readKey } from '../../event/asset-key.ts';
import { printable } from '../../telemetry/printable.ts';
import type { Stdout } from '../cli/command.ts';
import { csvRecord } from '../cli/csv.ts';
import { type Column, Table } from '../cli/table.ts';

export const keyOption = (help: string): Option<readonly string[] | undefined> => ({
  argument: 'KEY',
  help,
  initial: undefined,
  flagOnly: true,
  parse: (text) => readKey([text]),
});

/** Which output format was asked for. */
export interface FormatOptions {
  readonly json: boolean;
  readonly table: boolean;
  readonly csv: boolean;
}

export const formatOptions = {
  json: switchOption('JSON lines, which is the default into a pipe or a file'),
  table: switchOption('a table, which is the default on a terminal'),
  csv: switchOption('CSV with a header (RFC 4180)'),
};

/** @returns what to do if more than one format was asked for */
export function problemWithFormat({ json, table, csv }: FormatOptions): string | undefined {
  return Number(json) + Number(table) + Number(csv) > 1 ? 'use one of --json, --table and --csv' : undefined;
}

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

/** How rows of one kind, such as events or assets, are written in each format. */
export interface Forms<Row> {
  readonly columns: readonly Column[];
  /** @returns the cells of the table, in the order of `columns` */
  readonly row: (row: Row) => readonly string[];
  /** The names of the CSV columns, such as `asset_key`. */
  readonly header: readonly string[];
  /** @returns the cells of a CSV record, in the order of `header` */
  readonly record: (row: Row) => readonly (string | number | boolean | undefined)[];
  /** @returns JSON lines, each with its newline */
  readonly json: (rows: readonly Row[]) => string | Buffer;
}

/**
 * Adds the deployment: a column of the table, and the first column of CSV.
 * @param at the index of the column in the table
 */
export function withDeployment<Row>(
  forms: Forms<Row>,
  at: number,
  deploymentOf: (row: Row) => string,
  json: Forms<Row>['json'],
): Forms<Row> {
  return {
    columns: forms.columns.toSpliced(at, 0, { title: 'deployment' }),
    row: (row) => forms.row(row).toSpliced(at, 0, deploymentOf(row)),
    header: ['deployment', ...forms.header],
    record: (row) => [deploymentOf(row), ...forms.record(row)],
    json,
  };
}

/** Prints rows, with the titles before the first rows. @returns false if the reading end of the pipe is closed */
export type Print<Row> = (rows: readonly Row[]) => Promise<boolean>;

/** @returns a function that prints in the format that was asked for, or in the default format of the output */
export function printerOf<Row>(
  { json, table, csv }: FormatOptions,
  { columns, write }: Stdout,
  forms: Forms<Row>,
): Print<Row> {
  const isTerminal = columns !== undefined;
  if (csv) {
    let header: string = csvRecord(forms.header);
    return async (rows) => {
      const records = rows.map((row) => csvRecord(forms.record(row)));
      const shown = isTerminal ? records.map((record) => `${printable(record.slice(0, -2))}\r\n`) : records;
      const text = header + shown.join('');
      header = '';
      return text === '' || write(text);
    };
  }
  if (table || (isTerminal && !json)) {
    const rendered = new Table(forms.columns, columns);
    return async (rows) => rows.length === 0 || write(rendered.print(rows.map(forms.row)));
  }
  return async (rows) => {
    if (rows.length === 0) return true;
    const lines = forms.json(rows);
    return write(isTerminal ? `${lines.toString().slice(0, -1).split('\n').map(printable).join('\n')}\n` : lines);
  };
}
