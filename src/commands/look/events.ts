/** `assetlog events`: shows the recorded events of a journal, one line each. */

import type { ExitCode } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { flagOption, integer, switchOption, type ValuesOf } from '../../config/options.ts';
import { keyText, shownKey } from '../../event/asset-key.ts';
import type { Recorded } from '../../event/event.ts';
import { type By, happenedAt } from '../../event/event-time.ts';
import { deviceOf } from '../../event/line-name.ts';
import { endpoints, findEndpoint } from '../../event/parameters.ts';
import type { Filter } from '../../event/search.ts';
import { dropLarge } from '../../journal/look/newest-lines.ts';
import { bytesOf, type Line } from '../../journal/look/reading.ts';
import { defineCommand, type Environment, type Output, refuse } from '../cli/command.ts';
import { askForOne, folderOperand } from '../cli/data-folder.ts';
import { secondOf } from '../cli/table.ts';
import { sortedByEventTime, TooManyToSort } from './by-event-time.ts';
import {
  chooseJournal,
  type Forms,
  type Print,
  printerOf,
  type SourceColumn,
  sourceColumn,
  withDeployment,
  withJournals,
} from './listing.ts';
import { mergeByTime } from './merge.ts';
import { nothingText } from './nothing.ts';
import {
  boundsOf,
  byOption,
  journalOption,
  lastOptions,
  lookNotes,
  problemWith,
  rangeOptions,
  searchFilter,
  searchNames,
  searchOptions,
  timeNotes,
} from './options.ts';
import { hasEvent, type JournalSource, type JournalSources } from './source.ts';

const count = (help: string, max: number) => flagOption('COUNT', help, (value) => integer(value, 1, max));

const eventsOptions = {
  data: journalOption,
  ...searchOptions,
  ...rangeOptions,
  by: byOption('time (recorded) or event_time (happened): for the order, the range and --last'),
  limit: count('stop after this many events', Number.MAX_SAFE_INTEGER),
  last: count('only this many of the newest events', limits.lastEventsMax),
  follow: switchOption('then show events as they are recorded, until it is interrupted; the folder need not exist yet'),
  ...lastOptions,
  retryFor: { ...lastOptions.retryFor, help: `${lastOptions.retryFor.help}; --follow always does` },
};

type EventsOptions = ValuesOf<typeof eventsOptions>;

export const events = defineCommand(
  {
    summary: 'show what was recorded',
    about:
      'Shows the events of a journal, oldest first: a table on a terminal, the lines of the journal byte for byte into a pipe.\n' +
      'Locks nothing: it can run while a service writes the folder, and on a copy of it. An event is shown if it matches all\n' +
      'given filters.',
    notes: [
      'Examples:',
      '  assetlog events ./assetlog-data --last 20',
      '  assetlog events --url https://assets.example/prod --token-file token.txt --follow',
      '  assetlog events --key warehouse/orders --type check --failed --since 7d',
      '  assetlog events --follow --since 0s | jq -c .metadata',
      '',
      timeNotes,
      lookNotes,
      '  With --last, or a filter but times and seq, only the shown events are verified. To verify all: assetlog verify',
    ],
    operands: folderOperand,
    options: eventsOptions,
  },
  showEvents,
);

async function showEvents(
  given: EventsOptions,
  output: Output,
  operands: readonly string[],
  env: Environment,
  args: readonly string[],
): Promise<ExitCode> {
  const wrong = problemWith(given, operands[0]);
  if (wrong !== undefined) return refuse(output, wrong);
  const values = await chooseJournal(given, env, output);
  const problem = typeof values === 'string' ? values : problemWithEvents(values);
  if (typeof values === 'string' || problem !== undefined) return refuse(output, `${problem}`);
  const interrupted = new AbortController();
  if (values.follow) {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());
  }
  const follow = values.follow ? interrupted.signal : undefined;
  const act = (sources: JournalSources) => listEvents(sources, values, args, output, follow);
  return withJournals(values, output, follow, act);
}

/** @returns the options that cannot be combined */
function problemWithEvents({ passed, failed, follow, by, url, last = 0 }: EventsOptions): string | undefined {
  if (passed !== undefined && failed !== undefined) return 'use one of --passed and --failed';
  if (follow && by === 'event_time') return '--follow shows events as they are recorded; leave out --by event_time';
  if (url === '' || last <= limits.readEventsMax) return undefined;
  return `with --url, --last is at most ${limits.readEventsMax}; use --after-seq or --since`;
}

function filterOf(values: EventsOptions): Filter {
  return { ...searchFilter(values), ...boundsOf(values) };
}

/** @returns an exit code; undefined if everything was read */
async function listEvents(
  sources: JournalSources,
  values: EventsOptions,
  args: readonly string[],
  output: Output,
  follow: AbortSignal | undefined,
): Promise<ExitCode | undefined> {
  const { data, since, until, by, last } = values;
  if (sources.all.length > limits.mergedJournalsMax) {
    const names = sources.all.map(({ deployment = '' }) => ({ name: deployment }));
    return refuse(output, `at most ${limits.mergedJournalsMax} deployments can be merged; ${askForOne(data, names)}`);
  }
  const filter = filterOf(values);
  const source = await sourceColumn(values, output.stdout, sources.all);
  const print = printerOf(values, output.stdout, formsBy(by, sources.kind === 'hosted', source));
  const pages = linesOf(sources, filter, by === 'time' ? last : undefined, follow);
  const range = { since, until, last, bytesMax: limits.sortBytesMax };
  let outcome: 'some' | 'none';
  try {
    const ordered = by === 'time' ? pages : sortedByEventTime(pages, range);
    outcome = await printAll(ordered, print, values.limit, follow);
  } catch (error) {
    if (!(error instanceof TooManyToSort)) throw error;
    return refuse(output, error.message);
  }
  if (outcome === 'none') {
    const filters = [...searchNames, 'since', 'until'] as const;
    const isFound = (some: EventsOptions) => hasEvent(sources.all, some, filterOf(some));
    output.complain(await nothingText({ what: 'events', values, filters, args, isFound }));
  }
  return undefined;
}

/** Prints pages of lines. @returns `none` if the pages ended without a line; never while following */
async function printAll(
  pages: AsyncIterable<readonly Line[]>,
  print: Print<Line>,
  limit: number | undefined,
  follow: AbortSignal | undefined,
): Promise<'some' | 'none'> {
  let left = limit ?? Number.POSITIVE_INFINITY;
  let isEmpty = follow === undefined;
  if (!(await print([]))) return 'some';
  for await (const page of pages) {
    const chosen = page.slice(0, left);
    left -= chosen.length;
    isEmpty &&= chosen.length === 0;
    if (!(await print(chosen)) || left === 0 || follow?.aborted) return 'some';
  }
  return isEmpty ? 'none' : 'some';
}

/** @returns the matching lines, ordered by time: either all lines, or the last lines of all sources together */
async function* linesOf(
  { kind, all, added }: JournalSources,
  filter: Filter,
  last: number | undefined,
  follow: AbortSignal | undefined,
): AsyncGenerator<readonly Line[]> {
  const starts = new Map<JournalSource, number>();
  if (last !== undefined) {
    const newest = await newestOf(all, last, filter, starts);
    if (newest.some(({ line }) => line.isDropped)) {
      for (const { source, line } of newest.toReversed()) starts.set(source, line.seq - 1);
    } else {
      yield newest.map(({ line }) => line);
      if (follow === undefined) return;
    }
  }
  const filterFor = (source: JournalSource) => ({ ...filter, afterSeq: starts.get(source) ?? filter.afterSeq });
  const [only] = all;
  if (kind === 'journal' && only !== undefined) {
    return yield* only.read(filterFor(only), follow && { signal: follow }, follow === undefined);
  }
  let left = limits.mergedJournalsMax - all.length;
  const addedUpToMax = async () => {
    const fresh = (await added()).slice(0, left);
    left -= fresh.length;
    return fresh;
  };
  yield* mergeByTime({ sources: all, filterOf: filterFor, follow, added: addedUpToMax, followMs: limits.followMs });
}

/** A line that might be among the last ones. */
interface Candidate {
  readonly source: JournalSource;
  readonly line: Line;
  /** The time of the line, or the earlier time of a later line if the clock was set back, so that the times of a journal are in order. */
  readonly time: string;
}

/** later than any time */
async function newestOf(
  sources: readonly JournalSource[],
  count: number,
  filter: Filter,
  lastSeqs: Map<JournalSource, number>,
): Promise<readonly Candidate[]> {
  let newest: Candidate[] = [];
  for (const source of sources) {
    const lines = await source.newest(count, filter);
    lastSeqs.set(source, lines.at(-1)?.seq ?? filter.afterSeq ?? 0);
    let time = '~'; // later than any time
    const own = lines.toReversed().map((line) => {
      if (line.time < time) time = line.time;
      line.deployment = source.deployment ?? '';
      return { source, line, time };
    });
    newest = [...newest, ...own.reverse()];
    newest = newest.sort((a, b) => (a.time < b.time ? -1 : a.time === b.time ? 0 : 1)).slice(-count);
    const kept = newest.map(({ line }) => line);
    dropLarge(kept, limits.lastBytesMax);
  }
  return newest;
}

/** @param by the time that the table shows, and that orders it */
function formsBy(by: By, isHosted: boolean, source: SourceColumn): Forms<Line> {
  const forms: Forms<Line> = {
    columns: [
      { title: 'seq', whole: 3 },
      { title: by === 'time' ? 'time (UTC)' : 'event time (UTC)', whole: 19 },
      { title: 'event', whole: 15 },
      ...source.columns,
      { title: 'asset key', shownPart: 'end' }, // keys differ in their last parts
      { title: 'partition' },
      { title: 'what it says' },
    ],
    row: ({ event, metadata }) => [
      String(event.seq),
      secondOf(by === 'time' ? event.time : happenedAt(event)),
      outcomeOf(event),
      ...source.cells(deviceOf(event)),
      shownKey(event.asset_key),
      event.partition ?? '',
      detailsOf(event, metadata),
    ],
    header: [
      ...['seq', 'time', 'type', 'asset_key', 'partition', 'check_name', 'passed', 'severity', 'data_version'],
      ...['description', 'metadata', 'id', 'event_time', 'idempotency_key', 'source', 'from', 'recorded', 'by'],
    ],
    record: ({ event, metadata }) => [
      event.seq,
      event.time,
      event.type,
      keyText(event.asset_key),
      event.partition,
      event.check_name,
      event.passed,
      event.severity,
      event.tags?.data_version,
      event.description,
      metadata,
      event.id,
      event.event_time,
      event.idempotency_key,
      source.nameOf(deviceOf(event)),
      event.from && JSON.stringify(event.from),
      event.recorded,
      event.by,
    ],
    json: bytesOf,
  };
  return isHosted
    ? withDeployment(forms, DEPLOYMENT_COLUMN, ({ deployment }) => deployment, jsonWithDeployment)
    : forms;
}

/** The index of the column in the table, after the columns that are never truncated. */
const DEPLOYMENT_COLUMN = 3;

function jsonWithDeployment(rows: readonly Line[]): Buffer {
  const pieces = rows.flatMap(({ deployment, bytes, start, end }) => [
    Buffer.from(`{"deployment":${JSON.stringify(deployment)},`),
    bytes.subarray(start + 1, end), // the line of the journal after its opening brace, byte for byte
    NEWLINE,
  ]);
  return Buffer.concat(pieces);
}

/** @returns the type of the event, and for a check its result, in capitals if it failed: `FAILED (ERROR)` */
function outcomeOf({ type, passed, severity }: Recorded): string {
  if (passed === undefined) return findEndpoint(endpoints, type)?.name ?? type;
  return passed ? 'check passed' : `FAILED (${severity})`;
}

function detailsOf({ check_name, tags, description, by, erased }: Recorded, metadata: string | undefined): string {
  const version = tags && `version ${tags.data_version}`;
  return [check_name, version, description, by && `by ${by}`, metadata, erased && `erased ${erased}`]
    .filter((word) => word !== undefined)
    .join('  ');
}

const NEWLINE = Buffer.from('\n');
