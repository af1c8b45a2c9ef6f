/** `assetlog sources`: shows which devices forward their events to a journal, and which of them are silent. */

import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { flagOption, switchOption, type ValuesOf } from '../../config/options.ts';
import { durationMs } from '../../event/moment.ts';
import type { SourceState } from '../../journal/look/source-state.ts';
import { defineCommand, type Output, refuse } from '../cli/command.ts';
import { folderOption, withFolder } from '../cli/data-folder.ts';
import { throughService } from '../cli/door.ts';
import { secondOf } from '../cli/table.ts';
import { chooseJournal, type Forms, jsonLines, printerOf, withDeployment, withJournals } from './listing.ts';
import { bindSources, forgetSource } from './local.ts';
import { journalOption, lastOptions, problemWith } from './options.ts';
import type { JournalSources } from './source.ts';

const silent = flagOption('DURATION', 'only sources without a request for this long, such as 1h', (text) => {
  const ms = durationMs(text) ?? Number.NaN;
  if (ms < 1e12) return ms;
  throw new Error('is not a duration such as 30m, 1h or 2d');
});

const sourcesOptions = {
  data: journalOption,
  silent,
  stopped: switchOption('only sources that reported that they cannot send'),
  token: flagOption('NAME', 'bind the source to the tokens of this name', String),
  any: switchOption('bind it to the name of the next token that it uses'),
  tokenName: flagOption('NAME', 'all sources that are bound to this name, with --any', String),
  ...lastOptions,
};

type SourcesOptions = ValuesOf<typeof sourcesOptions>;

export const sources = defineCommand(
  {
    summary: 'show which devices forward to a hub, the silent ones first',
    about:
      'Shows the journals that forward to this one. A device without events makes a request every ten minutes. forget ID is for\n' +
      'a device that never returns: later events of it would be recorded again. bind ID lets a source use another token.',
    notes: [
      'Examples:',
      '  assetlog sources --url https://hub.example/prod --token-file token.txt --silent 1h',
      '',
      'Exit codes:',
      '  0 done, 1 a source is silent or stopped, or the service refuses; 2 flags, no journal or source there; 3 damaged,',
      '  4 in use, 5 it cannot be read or written, 75 the service was unavailable',
    ],
    operands: { max: 2, text: '[forget ID | bind [ID]]', choices: ['forget', 'bind'] },
    options: sourcesOptions,
  },
  async (given, output, operands, env) => {
    if (operands[0] === 'bind') return bind(given, output, operands[1]);
    if (operands.length > 0) return forget(given, output, operands);
    const values = problemWith(given, undefined) ?? (await chooseJournal(given, env, output));
    if (typeof values === 'string') return refuse(output, values);
    const { silent: silentMs = Number.POSITIVE_INFINITY } = values;
    if (silentMs <= limits.forwardIdleMs)
      output.complain(
        `a device without events makes a request every ${minutes} min; give --silent more than that to see only silent ones`,
      );
    return withJournals(values, output, undefined, (found) => list(found, values, output));
  },
);

/** @returns 1 if only silent or stopped sources are requested and there is one; otherwise undefined */
async function list(
  { kind, all }: JournalSources,
  values: SourcesOptions,
  { complain, stdout }: Output,
): Promise<ExitCode | undefined> {
  const { silent: silentMs, stopped: isStopped } = values;
  const rows: SourceState[] = [];
  for (const journal of all) rows.push(...(await journal.sources({ silentMs, isStopped }))); // reading thousands at once would require as many open files
  rows.sort(bySilence);
  const print = printerOf(values, stdout, kind === 'hosted' ? formsByDeployment : forms);
  await print([]);
  await print(rows);
  const isAny = silentMs === undefined && !isStopped;
  if (rows.length > 0) return isAny ? undefined : exitCodes.refused;
  if (isAny) complain('no journal forwards to this one');
  else complain(isStopped ? 'no source is stopped' : 'no source was silent for that long');
  return undefined;
}

/** Sorts the source with the oldest request first, after sources whose last request is unknown. */
function bySilence({ last_seen: one }: SourceState, { last_seen: other }: SourceState): number {
  return (one ?? '') < (other ?? '') ? -1 : 1;
}

const minutes = limits.forwardIdleMs / 60_000;

const members = [
  'id',
  'name',
  'token_name',
  'last_seq',
  'last_event',
  'last_seen',
  'through',
  'state',
  'reason',
  'lost_events',
  'missing_events',
  'lag_events',
] as const;

const forms: Forms<SourceState> = {
  columns: [
    { title: 'last seen (UTC)', whole: 19 },
    { title: 'name' },
    { title: 'last event', whole: 19 },
    { title: 'last seq', whole: 8 },
    { title: 'lag', whole: 3 },
    { title: 'lost', whole: 4 },
    { title: 'state' },
    { title: 'id', whole: 36 },
  ],
  row: ({ id, name, last_seq, last_event, last_seen, lost_events, lag_events, state, reason }) => [
    secondOf(last_seen ?? '-'),
    name ?? '',
    secondOf(last_event ?? '-'),
    ...[last_seq, lag_events ?? '?', lost_events].map(String),
    [state, reason].filter(Boolean).join(', '),
    id,
  ],
  header: members,
  record: (row) => members.map((member) => row[member] ?? undefined),
  json: jsonLines,
};

const formsByDeployment = withDeployment(forms, 1, ({ deployment }) => deployment ?? '', forms.json);

/** Lets sources use another token, in the same way as `forget`. */
async function bind(given: SourcesOptions, output: Output, id: string | undefined): Promise<ExitCode> {
  const { data, any, token, tokenName: bound } = given;
  const isOne = id !== undefined && bound === undefined && any === (token === undefined);
  const areAll = id === undefined && bound !== undefined && any && token === undefined;
  if (!isOne && !areAll)
    return refuse(output, 'give bind ID --token NAME, bind ID --any, or bind --token-name OLD --any');
  const request = { do: 'bind sources', ...(isOne ? { id } : { bound }), ...(any ? {} : { token }) } as const;
  return withFolder(data || folderOption.initial, output, async (found) => {
    const disks = found.kind === 'journal' ? [found.disk] : found.deployments.map(({ disk }) => disk);
    let count = 0;
    for (const disk of disks) count += await throughService(disk, request, () => bindSources(disk, id, bound, token));
    output.print(`sources bound to ${any ? 'the next token that they use' : token}: ${count}`);
    return count > 0 ? exitCodes.done : exitCodes.refused;
  });
}

/** Makes a hub forget a source, through the service that uses its journal, or directly if no service runs. */
async function forget({ data }: SourcesOptions, output: Output, [action, id]: readonly string[]): Promise<ExitCode> {
  if (action !== 'forget' || id === undefined) return refuse(output, 'give forget ID, or nothing');
  return withFolder(data || folderOption.initial, output, async (found) => {
    const disks = found.kind === 'journal' ? [found.disk] : found.deployments.map(({ disk }) => disk);
    let wasKnown = false;
    for (const disk of disks) {
      if (!(await throughService(disk, { do: 'forget source', id }, () => forgetSource(disk, id)))) continue;
      wasKnown = true;
      output.print(`${id} is forgotten; its events are kept`);
    }
    if (wasKnown) return exitCodes.done;
    return refuse(output, `${found.kind === 'journal' ? found.disk.folder : found.folder} has no source ${id}`);
  });
}
