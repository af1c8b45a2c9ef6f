/** `assetlog events`: shows the recorded events of a journal, one line each. */

import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import { limits } from '../config/limits.ts';
import { integer, text } from '../config/options.ts';
import { keyText } from '../event/asset-key.ts';
import type { Event } from '../event/event.ts';
import { type By, happenedAt } from '../event/event-time.ts';
import { endpoints, findEndpoint } from '../event/parameters.ts';
import type { Filter } from '../journal/filter.ts';
import { bytesOf, type Line } from '../journal/reader.ts';
import type { Recorded } from '../journal/record.ts';
import { type EventTimeRange, type LineParts, sortedByEventTime, TooManyToSort } from './by-event-time.ts';
import { defineCommand, type Output } from './command.ts';
import { askForOne, folderOperand, folderOption } from './data-folder.ts';
import {
  type FormatOptions,
  type Forms,
  formatOptions,
  keyOption,
  lookNotes,
  type Print,
  printerOf,
  switchOption,
} from './listing.ts';
import { type DeploymentLine, mergeByTime } from './merge.ts';
import { eventsMatchingAlone } from './no-match.ts';
import { lookAt, type Position, type Source, type Sources } from './reading.ts';
import { lookAtService } from './remote.ts';
import { FOLDER_AND_URL, readingOptions, type ServiceOptions } from './service-options.ts';
import { byOption, rangeOptions, type TimeRange, timeNotes } from './times.ts';

interface EventsOptions extends FormatOptions, TimeRange, ServiceOptions {
  readonly data: string;
  readonly key: readonly string[] | undefined;
  readonly keyPrefix: readonly string[] | undefined;
  readonly type: Event['type'] | undefined;
  readonly check: string | undefined;
  readonly passed: boolean;
  readonly failed: boolean;
  readonly partition: string | undefined;
  readonly afterSeq: number;
  readonly by: By;
  readonly limit: number | undefined;
  readonly last: number | undefined;
  readonly follow: boolean;
}

const count = <Initial>(argument: string, help: string, initial: Initial, min: number, max: number) => ({
  argument,
  help,
  initial,
  flagOnly: true as const,
  parse: (value: string) => integer(value, min, max),
});

const kinds = endpoints.map(({ name }) => name);

/** The greatest value of `--last`, which keeps the seq of each of these events in memory while it searches. */
const LAST_MAX = 1_000_000;
/** The same for a service. */
const LAST_OF_SERVICE_MAX = 1_000;

/** The command `assetlog events`, as in `assetlog events ./assetlog-data --last 20`. */
export const events = defineCommand<EventsOptions>(
  {
    summary: 'show what was recorded',
    about:
      'Shows the events of a journal, oldest first: a table on a terminal, the lines of the journal byte for byte into a pipe.\n' +
      'Takes no lock: it may run beside the service that writes the folder, and on a copy of it. An event is shown if it\n' +
      'matches all filters that are given.',
    notes: [
      'Examples:',
      '  assetlog events ./assetlog-data --last 20',
      '  assetlog events --url https://assets.example/prod --token-file token.txt --follow',
      '  assetlog events --key warehouse/orders --type check --failed --since 7d',
      '  assetlog events --follow --since 0s | jq -c .metadata',
      '',
      timeNotes,
      lookNotes,
    ],
    operands: folderOperand,
    options: {
      data: folderOption,
      key: keyOption('only events of this asset'),
      keyPrefix: keyOption('only events of assets whose key begins with these parts'),
      type: {
        ...text('TYPE', `only ${kinds.slice(0, -1).join(', ')} or ${kinds.at(-1)}`),
        initial: undefined,
        choices: kinds,
        parse: readType,
      },
      check: text('NAME', 'only results of the check of this name'),
      passed: switchOption('only results of checks that passed'),
      failed: switchOption('only results of checks that failed'),
      partition: text('NAME', 'only events of this partition'),
      ...rangeOptions,
      by: byOption('time (recorded) or event_time (happened): the order, also for --since, --until and --last'),
      afterSeq: count('SEQ', 'only events after this one', 0, 0, Number.MAX_SAFE_INTEGER),
      limit: count('COUNT', 'stop after so many', undefined, 1, Number.MAX_SAFE_INTEGER),
      last: count('COUNT', 'only the newest so many', undefined, 1, LAST_MAX),
      follow: switchOption(
        'then show events as they are recorded, until it is interrupted; the folder need not exist yet',
      ),
      ...formatOptions,
      ...readingOptions,
    },
  },
  showEvents,
);

async function showEvents(values: EventsOptions, output: Output, operands: readonly string[]): Promise<ExitCode> {
  const { data, passed, failed, follow, since, until, afterSeq, by, last } = values;
  const print = printerOf(values, output.page, formsBy(by));
  const printHosted = printerOf(values, output.page, hosted(formsBy(by)));
  if (print === undefined || printHosted === undefined || (passed && failed)) {
    output.complain(print === undefined ? 'use one of --json, --table and --csv' : 'use one of --passed and --failed');
    return exitCodes.configuration;
  }
  const filter: Filter = {
    type: values.type,
    assetKey: values.key,
    keyPrefix: values.keyPrefix,
    partition: values.partition,
    checkName: values.check,
    passed: passed === failed ? undefined : passed,
    afterSeq,
    ...(by === 'time' && { since, until }),
  };
  if (follow && by === 'event_time') {
    output.complain('--follow shows events as they are recorded; leave out --by event_time');
    return exitCodes.configuration;
  }
  const problem = problemWithUrl(values, operands);
  if (problem !== undefined) {
    output.complain(problem);
    return exitCodes.configuration;
  }
  const interrupted = new AbortController();
  if (follow) for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());
  const signal = follow ? interrupted.signal : undefined;

  const act = async (sources: Sources) => {
    if (sources.kind === 'hosted' && sources.all.length > limits.mergedJournalsMax) {
      output.complain(
        `at most ${limits.mergedJournalsMax} deployments can be merged; ${askForOne(
          data,
          sources.all.map(({ deployment = '' }) => ({ name: deployment })),
        )}`,
      );
      return exitCodes.configuration;
    }
    let outcome: 'some' | 'none';
    const lastRecorded = by === 'time' ? last : undefined;
    const range = { since, until, last, bytesMax: limits.sortBytesMax };
    try {
      outcome =
        sources.kind === 'hosted'
          ? await printAll(
              inOrder(by, mergedLines(sources, filter, lastRecorded, signal), hostedLineParts, range),
              printHosted,
              values.limit,
              signal,
            )
          : await printAll(
              inOrder(by, linesOf(sources.all[0]!, filter, lastRecorded, signal), lineParts, range),
              print,
              values.limit,
              signal,
            );
    } catch (error) {
      if (!(error instanceof TooManyToSort)) throw error;
      output.complain(error.message);
      return exitCodes.configuration;
    }
    if (outcome === 'none') {
      const happened = by === 'time' ? { since: undefined, until: undefined } : { since, until };
      output.complain(await eventsMatchingAlone(sources.all, filter, happened, limits));
    }
    return undefined;
  };
  return values.url === '' ? lookAt(data, output, signal, act) : lookAtService(values, output, signal, act);
}

/** @returns what cannot be combined with `--url` */
function problemWithUrl({ url, last = 0 }: EventsOptions, [folder]: readonly string[]): string | undefined {
  if (url === '') return undefined;
  if (folder !== undefined) return FOLDER_AND_URL;
  if (last > LAST_OF_SERVICE_MAX)
    return `with --url, --last is at most ${LAST_OF_SERVICE_MAX}; use --after-seq or --since`;
  return undefined;
}

const lineParts: LineParts<Line> = {
  lineOf: (line) => line,
  deploymentOf: () => '',
  make: (_, line) => line,
};

const hostedLineParts: LineParts<DeploymentLine> = {
  lineOf: ({ line }) => line,
  deploymentOf: ({ deployment }) => deployment,
  make: (deployment, line) => ({ deployment, line }),
};

function inOrder<Thing>(
  by: By,
  pages: AsyncIterable<readonly Thing[]>,
  parts: LineParts<Thing>,
  range: EventTimeRange,
): AsyncIterable<readonly Thing[]> {
  return by === 'time' ? pages : sortedByEventTime(pages, parts, range);
}

/** Prints pages of lines. @returns `none` if the pages ended without a line; never while following */
async function printAll<Thing>(
  pages: AsyncIterable<readonly Thing[]>,
  print: Print<Thing>,
  limit = Number.POSITIVE_INFINITY,
  signal: AbortSignal | undefined,
): Promise<'some' | 'none'> {
  let left = limit;
  let isEmpty = signal === undefined;
  if (!(await print([]))) return 'some';
  for await (const page of pages) {
    const chosen = page.slice(0, left);
    left -= chosen.length;
    isEmpty &&= chosen.length === 0;
    if (!(await print(chosen)) || left === 0 || signal?.aborted) return 'some';
  }
  return isEmpty ? 'none' : 'some';
}

async function* linesOf(
  source: Source,
  filter: Filter,
  last: number | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly Line[]> {
  const afterSeq =
    last === undefined ? filter.afterSeq : ((await startsOfLast([source], last, filter)).get(source) ?? 0);
  yield* source.read({ ...filter, afterSeq }, signal && { signal });
}

async function* mergedLines(
  { all, added }: Sources,
  filter: Filter,
  last: number | undefined,
  follow: AbortSignal | undefined,
): AsyncGenerator<readonly DeploymentLine[]> {
  const starts = last === undefined ? undefined : await startsOfLast(all, last, filter);
  const filterOf = (source: Source) => ({ ...filter, afterSeq: starts?.get(source) ?? filter.afterSeq });
  let left = limits.mergedJournalsMax - all.length;
  const addedUpToMax = async () => {
    const fresh = (await added()).slice(0, left);
    left -= fresh.length;
    return fresh;
  };
  yield* mergeByTime({ sources: all, filterOf, follow, added: addedUpToMax, followMs: limits.followMs });
}

/** A line that may be one of the last ones. */
interface Candidate extends Position {
  readonly source: Source;
}

/** @returns for each source the seq before the first of the last `count` events of all sources that match */
async function startsOfLast(
  sources: readonly Source[],
  count: number,
  filter: Filter,
): Promise<ReadonlyMap<Source, number>> {
  const starts = new Map<Source, number>();
  let newest: Candidate[] = [];
  for (const source of sources) {
    const own = (await source.newest(count, filter)).map((position) => ({ ...position, source }));
    starts.set(source, own.at(-1)?.seq ?? filter.afterSeq ?? 0);
    newest = [...newest, ...own].sort((a, b) => (a.time < b.time ? -1 : a.time === b.time ? 0 : 1)).slice(-count);
  }
  for (const { source, seq } of newest.toReversed()) starts.set(source, seq - 1);
  return starts;
}

/** @returns the forms of events; the table shows the time that their order is by */
function formsBy(by: By): Forms<Line> {
  return {
    ...forms,
    columns: [
      { title: 'seq', whole: 3 },
      { title: by === 'time' ? 'time (UTC)' : 'event time (UTC)', whole: 19 },
      { title: 'event', whole: 15 },
      { title: 'asset key', kept: 'end' }, // keys differ in their last parts
      { title: 'partition' },
      { title: 'what it says' },
    ],
    row: ({ event, metadata }) => [
      String(event.seq),
      (by === 'time' ? event.time : happenedAt(event)).slice(0, 19).replace('T', ' '),
      outcomeOf(event),
      keyText(event.asset_key),
      event.partition ?? '',
      whatItSays(event, metadata),
    ],
  };
}

const forms: Omit<Forms<Line>, 'columns' | 'row'> = {
  header: [
    'seq',
    'time',
    'type',
    'asset_key',
    'partition',
    'check_name',
    'passed',
    'severity',
    'data_version',
    'description',
    'metadata',
    'id',
    'event_time',
    'idempotency_key',
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
  ],
  json: bytesOf,
};

/** The position of the deployment in a table: after the columns that are never cut. */
const DEPLOYMENT_COLUMN = 3;

function hosted(own: Forms<Line>): Forms<DeploymentLine> {
  return {
    columns: own.columns.toSpliced(DEPLOYMENT_COLUMN, 0, { title: 'deployment' }),
    row: ({ deployment, line }) => own.row(line).toSpliced(DEPLOYMENT_COLUMN, 0, deployment),
    header: ['deployment', ...own.header],
    record: ({ deployment, line }) => [deployment, ...own.record(line)],
    json: (lines) =>
      Buffer.concat(
        lines.flatMap(({ deployment, line: { bytes, start, end } }) => [
          Buffer.from(`{"deployment":${JSON.stringify(deployment)},`),
          bytes.subarray(start + 1, end), // the journal's line after its brace, byte for byte
          NEWLINE,
        ]),
      ),
  };
}

/** @returns the type of the event, and for a check its result, in capitals if it failed: `FAILED (ERROR)` */
function outcomeOf({ type, passed, severity }: Recorded): string {
  if (passed === undefined) return findEndpoint(endpoints, type)?.name ?? type;
  return passed ? 'check passed' : `FAILED (${severity})`;
}

function whatItSays({ check_name, tags, description }: Recorded, metadata: string | undefined): string {
  const version = tags && `version ${tags.data_version}`;
  return [check_name, version, description, metadata].filter((word) => word !== undefined).join('  ');
}

const NEWLINE = Buffer.from('\n');

function readType(word: string): Event['type'] {
  const endpoint = findEndpoint(endpoints, word);
  if (endpoint === undefined) throw new Error(`is not a type; use one of ${kinds.join(', ')}`);
  return endpoint.type;
}
