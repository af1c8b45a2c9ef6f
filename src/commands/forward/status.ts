/** `assetlog forward status`: how far each destination is, why, and what to do, on one screen. */

import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { inLargestUnit } from '../../event/moment.ts';
import { type DestinationStatus, readStatus } from '../../forward/pipe/status.ts';
import type { Disk } from '../../journal/disk.ts';
import { printable, shellWord } from '../../telemetry/printable.ts';
import { type Output, refuse } from '../cli/command.ts';
import type { DeploymentFolder, FolderWithJournal } from '../cli/data-folder.ts';
import { askServed } from '../cli/door.ts';
import { type Column, minuteOf, PIPE_COLUMNS, Table } from '../cli/table.ts';

/**
 * Prints the destinations of a journal, or of the journals of all deployments.
 * @returns 0 if all is well, 1 if a destination is stopped or has no service, 5 if dead letters cannot be read, 2 if no destination has the name
 */
export async function showStatus(
  found: FolderWithJournal,
  { json }: { readonly json: boolean },
  name: string | undefined,
  output: Output,
): Promise<ExitCode> {
  const { print, stdout } = output;
  const all = (await readAll(found)).filter(({ status }) => (name ?? status.name) === status.name);
  if (name !== undefined && all.length === 0) {
    return refuse(output, `nothing is forwarded to ${name}; leave the name out to see all destinations`);
  }
  if (json) {
    const destinations = all.map(({ status: { why, ...shown } }) => shown);
    const text = JSON.stringify({ destinations });
    print(stdout.columns === undefined ? text : printable(text));
  } else if (all.length === 0) print('nothing is forwarded; start a service with --forward-to URL to forward');
  else await stdout.write(screenOf(all, stdout.columns ?? PIPE_COLUMNS));
  if (all.some(({ status }) => status.dead_letters === null)) return exitCodes.diskFailed;
  return all.every(({ status }) => isWell(status)) ? exitCodes.done : exitCodes.refused;
}

async function readAll(found: FolderWithJournal): Promise<ShownDestination[]> {
  const journals: readonly (DeploymentFolder | { readonly name: null; readonly disk: Disk })[] =
    found.kind === 'journal' ? [{ name: null, disk: found.disk }] : found.deployments;
  const all: ShownDestination[] = [];
  for (const { name, disk } of journals) {
    const statuses = await readStatus(disk, name, await askServed(disk), limits);
    all.push(...statuses.map((status) => ({ status, folder: disk.folder })));
  }
  return all;
}

/** Whether the operator has nothing to do. If a destination does not answer, forwarding continues as soon as it does. */
function isWell({ state }: DestinationStatus): boolean {
  return state !== 'stopped' && !state.startsWith('not ');
}

const columns: readonly Column[] = [
  { title: 'destination', shownPart: 'end' },
  { title: 'state', whole: 11 },
  { title: 'since (UTC)', whole: 16 },
  { title: 'behind', whole: 6 },
  { title: 'oldest', whole: 6 },
  { title: 'dead', whole: 4 },
];

interface ShownDestination {
  readonly status: DestinationStatus;
  readonly folder: string;
}

function screenOf(all: readonly ShownDestination[], width: number): string {
  const rows = all.map(({ status }) => {
    const { state, since, alarms, alarms_waiting, lag_events, lag_seconds, dead_letters } = status;
    const isAge = lag_events !== 0 && alarms === null;
    const age = !isAge ? '-' : lag_seconds === null ? '?' : inLargestUnit(lag_seconds);
    return [
      titleOf(status),
      isWell(status) ? state : state.toUpperCase(),
      shownMinute(since),
      `${lag_events ?? alarms_waiting ?? '?'}`,
      age,
      `${dead_letters ?? '?'}`,
    ];
  });
  return new Table(columns, width).print(rows) + all.map((shown) => notesOf(shown, width)).join('');
}

/** The notes below the table: the URL, why forwarding does not continue, and what to do. */
function notesOf({ status, folder }: ShownDestination, width: number): string {
  const { name, to, kind, seq, last_seq, reason, next_try, dead_letters, lost_events, last_success } = status;
  const position = status.alarms === null ? `event ${seq ?? '?'} of ${last_seq}` : alarmsText(status);
  const at = `${position}, last success ${shownMinute(last_success)}`;
  const notes = [`${titleOf(status)}: ${to}${kind === null ? '' : ` (${kind === 'api' ? 'plain' : kind})`}, ${at}`];
  if (reason !== null) notes.push(...reason.split(LAST_COMMAND));
  if (next_try !== null && Date.parse(next_try) > Date.now())
    notes.push(`tries again at ${next_try.slice(11, 19)} UTC, or on SIGHUP`);
  if (lost_events) notes.push(`events that were removed before it confirmed them: ${lost_events}`);
  if (dead_letters !== 0) notes.push(`assetlog forward dead ${name} --data ${shellWord(folder)}`);
  // Lines break between words, except in a command, so that an operator can paste it.
  const fitting = new RegExp(`(.{1,${width - 2}})( |$)`, 'g');
  const fit = (note: string) => (COMMAND.test(note) ? note : note.replace(fitting, '$1\n  ').trimEnd());
  return `\n${notes.map((note) => fit(printable(note))).join('\n  ')}\n`;
}

function alarmsText({ alarms, alarms_waiting, alarms_left_out }: DestinationStatus): string {
  const others = alarms_left_out ? `, ${alarms_left_out} left out` : '';
  return `alarms: ${alarms} open, ${alarms_waiting ?? '?'} to be posted${others}`;
}

/** Only plain words, since a reason can contain text of a server. */
const COMMAND = /^(?:assetlog|nats)(?: (?:[\w./:=-]+|'[^']*'))+$/;
/** The space before a command that ends a reason: `; run: nats stream add …`. */
const LAST_COMMAND = new RegExp(`(?<=\\brun:?) (?=${COMMAND.source.slice(1)})`);

function titleOf({ deployment, name }: DestinationStatus): string {
  return deployment === null ? name : `${deployment}/${name}`;
}

function shownMinute(time: string | null): string {
  return time === null ? '-' : minuteOf(time);
}
