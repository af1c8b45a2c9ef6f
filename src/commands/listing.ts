/** Shared by the commands that show a journal: options, output formats, and exit codes. */

import { join } from 'node:path';
import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import { limits } from '../config/limits.ts';
import type { Option } from '../config/options.ts';
import { readKey } from '../event/asset-key.ts';
import { readLastStop } from '../journal/clean-stop.ts';
import { type Disk, openDisk } from '../journal/disk.ts';
import type { Filter } from '../journal/filter.ts';
import { pollProgress } from '../journal/progress.ts';
import { type Line, type Remark, readJournal } from '../journal/reader.ts';
import { contentsOf } from '../journal/segments.ts';
import { oncePerName } from '../telemetry/log.ts';
import { printable } from '../telemetry/printable.ts';
import type { Output, Page } from './command.ts';
import { csvRecord } from './csv.ts';
import { type Column, Table } from './table.ts';

export const keyOption = (help: string): Option<readonly string[] | undefined> => ({
  argument: 'KEY',
  help,
  initial: undefined,
  flagOnly: true,
  parse: (text) => readKey([text]),
});

export const switchOption = (help: string): Option<boolean> => ({
  argument: '',
  help,
  initial: false,
  parse: () => true,
});

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

export const lookNotes: readonly string[] = [
  'On a terminal, control characters in reported text are shown as \\u001b, also in JSON. In CSV, text that begins like a',
  'formula (= + - @) gets an apostrophe before it, also after a semicolon, a tab or a line break inside.',
  '',
  'Keys:',
  '  warehouse/orders has two parts. A key with a slash in a part is written as a JSON array: \'["warehouse","a/b"]\'.',
  '',
  'Exit codes:',
  '  0 read, 2 flags or no journal there, 3 the journal is damaged: file, line and byte are reported on standard error,',
  '  and the lines after the damage that verify are shown; 5 it cannot be read or printed',
];

/** The columns and conversions of each output format for one kind of row, such as an event or an asset. */
export interface Forms<Thing> {
  readonly columns: readonly Column[];
  readonly row: (thing: Thing) => readonly string[];
  readonly header: readonly string[];
  readonly record: (thing: Thing) => readonly (string | number | boolean | undefined)[];
  /** @returns JSON lines, each with its newline */
  readonly json: (things: readonly Thing[]) => string | Buffer;
}

/** Prints rows, with the titles before the first ones. @returns false if the reading end of the pipe is closed */
export type Print<Thing> = (things: readonly Thing[]) => Promise<boolean>;

/** Width of a table that goes into a pipe, since the width of the final display is unknown. */
const PIPE_COLUMNS = 120;

/** @returns a function that prints in the chosen format, or undefined if more than one format is chosen */
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

/** Reads the lines that match the filter. If a signal is given, follows the journal until it aborts. */
export type Read = (filter: Filter, follow?: AbortSignal) => AsyncIterable<readonly Line[]>;

/**
 * Opens the folder and runs `act`. Reports damage and other remarks of the reader on standard error, each once.
 * @param waits whether `act` also runs if the folder has no journal yet
 * @returns 0 if all was read, 2 if there is no journal, 3 if something is damaged, 5 if it cannot be read or printed
 */
export async function lookAt(
  data: string,
  { complain }: Output,
  waits: boolean,
  act: (disk: Disk, read: Read) => Promise<void>,
): Promise<ExitCode> {
  const disk = openDisk(data);
  const isNew = oncePerName(limits.damageReportsMax);
  let damaged = false;
  let unreported = 0;
  const reported = new Set<string>();
  const report = ({ kind, text }: Remark) => {
    damaged ||= kind === 'damage';
    if (isNew(text)) {
      reported.add(text);
      complain(`${kind === 'damage' ? 'damaged: ' : ''}${text}`);
    } else if (!reported.has(text)) unreported += 1;
  };
  const read: Read = (filter, follow) => {
    const progress = pollProgress(disk.folder, limits.followMs);
    return readJournal(disk, { filter, follow, progress, limits }, report);
  };
  try {
    const problem = await absenceOf(disk);
    if (problem !== undefined && !waits) {
      complain(problem);
      return exitCodes.configuration;
    }
    await act(disk, read);
  } catch (error) {
    complain(`the journal in ${disk.folder} could not be shown: ${(error as Error).message}`);
    return exitCodes.diskFailed;
  }
  if (unreported > 0) complain(`and ${unreported} more; assetlog verify with the same --data lists them`);
  return damaged ? exitCodes.damaged : exitCodes.done;
}

/**
 * @returns why there is nothing to read and what to do, or undefined if there is a journal
 * @throws the error of a system call, but not of a missing folder
 */
export async function absenceOf(disk: Disk): Promise<string | undefined> {
  const { folder } = disk;
  let names: string[];
  try {
    names = await disk.list();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
    return `there is no journal in ${folder}: ${message}; give its folder with --data`;
  }
  const { segments, lost, removedLast } = contentsOf(names);
  // Files that account for missing events prove that there was a journal, so verify and repair have something to report.
  const stopSeq = (await readLastStop(disk, names))?.end?.chain.seq ?? 1;
  if (segments.length > 0 || lost.length > 0 || removedLast > 0 || stopSeq > 1) return undefined;
  const deployments = await journalsIn(disk, SHOWN_MAX);
  if (deployments.length === 0) return `there is no journal in ${folder}; give its folder with --data`;
  return `${folder} holds a journal for each deployment: ${deployments.join(', ')}; give one of them, such as --data ${join(folder, deployments[0] ?? '')}`;
}

/**
 * @param countMax ends the search after so many
 * @returns the names of the subfolders that hold a journal, which are those of deployments, in order
 * @throws the error of a system call on the folder itself, but not of a missing folder
 */
export async function journalsIn(disk: Disk, countMax = Number.POSITIVE_INFINITY): Promise<string[]> {
  const names = await disk.list().catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error;
    return [];
  });
  const found: string[] = [];
  for (const name of names.filter((name) => /^[A-Za-z0-9]/.test(name) && !name.startsWith('damaged-')).sort()) {
    const inside = await openDisk(join(disk.folder, name))
      .list()
      .catch(() => []); // not a folder, or one that can not be read
    if (contentsOf(inside).segments.length > 0) found.push(name);
    if (found.length === countMax) break;
  }
  return found;
}

const SHOWN_MAX = 5;
