/** The journals that `events` and `assets` read, and the formats in which they print. */

import type { ExitCode } from '../../config/exit-codes.ts';
import { readOptions } from '../../config/options.ts';
import { ID } from '../../journal/line/uuid.ts';
import { printable } from '../../telemetry/printable.ts';
import type { Environment, Output, Stdout } from '../cli/command.ts';
import { csvRecord } from '../cli/csv.ts';
import { folderOption, surveyFolder } from '../cli/data-folder.ts';
import { type ServiceOptions, serviceOptions } from '../cli/service-options.ts';
import { type Column, Table } from '../cli/table.ts';
import { withLocalJournals } from './local.ts';
import type { FormatOptions } from './options.ts';
import { withServiceJournal } from './remote.ts';
import type { JournalSource, JournalSources } from './source.ts';

/**
 * Chooses the journal to read: a given URL or folder, otherwise a journal in the default folder, otherwise the service of
 * `ASSETLOG_URL`, which is reported. A variable that is set for `assetlog report` must not hide a journal.
 * @returns the values with a folder, and with a URL to read a service; or the problem of the variable
 */
export async function chooseJournal<Values extends { readonly data: string; readonly url: string }>(
  values: Values,
  { ASSETLOG_URL: text = '' }: Environment,
  { complain }: Output,
): Promise<Values | string> {
  if (values.data !== '') return values;
  const chosen = { ...values, data: folderOption.initial };
  if (values.url !== '' || text === '' || (await holdsJournal(chosen.data))) return chosen;
  const { url, problem } = readVariable(text);
  if (problem !== undefined) return problem;
  complain(`there is no journal in ${chosen.data}, so the service of ASSETLOG_URL is read`);
  return { ...chosen, url };
}

/** Whether a folder has a journal, or cannot be read, which the reader reports. */
function holdsJournal(folder: string): Promise<boolean> {
  return surveyFolder(folder).then(
    ({ kind }) => kind !== 'none',
    () => true,
  );
}

function readVariable(text: string): { readonly url: string; readonly problem?: string } {
  const read = readOptions([], { ASSETLOG_URL: text }, { url: serviceOptions.url });
  return read.kind === 'valid' ? read.values : { url: '', problem: read.problems.join('; ') };
}

/** Opens the journals of a folder, or the journal of a service, and runs `act`: see `withLocalJournals`. */
export function withJournals(
  values: ServiceOptions & { readonly data: string },
  output: Output,
  follow: AbortSignal | undefined,
  act: (sources: JournalSources) => Promise<ExitCode | undefined>,
): Promise<ExitCode> {
  if (values.url !== '') return withServiceJournal(values, output, follow, act);
  return withLocalJournals(values.data, output, follow, act);
}

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

/**
 * The sources of the journals that are shown. There is no column if no journal belongs to a hub. If several sources have a name, or it could be an
 * id, the name is not shown.
 */
export interface SourceColumn {
  readonly columns: readonly Column[];
  /** @returns the cells of the table, with the name of a source or its id */
  readonly cells: (id: string | undefined) => readonly string[];
  /** @returns the name of a source, or its id; undefined if there is no id */
  readonly nameOf: (id: string | undefined) => string | undefined;
}

/** Requests the names of the sources, if the format shows them. */
export async function sourceColumn(
  format: FormatOptions,
  stdout: Stdout,
  journals: readonly JournalSource[],
): Promise<SourceColumn> {
  const known = new Map<string, string>();
  const counts = new Map<string, number>();
  let isHub = false;
  for (const journal of isJson(format, stdout) ? [] : journals) {
    const names = await journal.sourceNames();
    isHub ||= names !== undefined;
    for (const [id, name] of names ?? []) {
      known.set(id, name);
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  }
  const nameOf = (id: string | undefined) => {
    const name = known.get(id ?? '');
    return name === undefined || counts.get(name) !== 1 || ID.test(name) ? id : name;
  };
  return {
    columns: isHub ? [{ title: 'source', shownPart: 'end' }] : [], // ids differ in their last characters
    cells: (id) => (isHub ? [nameOf(id) ?? ''] : []),
    nameOf,
  };
}

function isJson({ json, table, csv }: FormatOptions, { columns }: Stdout): boolean {
  return json || (columns === undefined && !table && !csv);
}

/** Used for `Forms.json`. */
export function jsonLines(objects: readonly object[]): string {
  return objects.map((one) => `${JSON.stringify(one)}\n`).join('');
}

/** Prints rows, with the titles before the first rows. @returns false if the reading end of the pipe is closed */
export type Print<Row> = (rows: readonly Row[]) => Promise<boolean>;

/** @returns a function that prints in the requested format, or in the default format of the output */
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
