/** `assetlog events`: shows the recorded events of a journal, one line each. */

import { options } from '../config/config.ts';
import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import { integer, type Option } from '../config/options.ts';
import { keyText } from '../event/asset-key.ts';
import type { Event } from '../event/event.ts';
import { endpoints, findEndpoint } from '../event/parameters.ts';
import type { Disk } from '../journal/disk.ts';
import type { Filter } from '../journal/filter.ts';
import type { Line } from '../journal/reader.ts';
import type { Recorded } from '../journal/record.ts';
import { contentsOf } from '../journal/segments.ts';
import { defineCommand, type Output } from './command.ts';
import {
  type FormatOptions,
  type Forms,
  formatOptions,
  keyOption,
  lookAt,
  lookNotes,
  printerOf,
  type Read,
  switchOption,
} from './listing.ts';

interface EventsOptions extends FormatOptions {
  readonly data: string;
  readonly key: readonly string[] | undefined;
  readonly keyPrefix: readonly string[] | undefined;
  readonly type: Event['type'] | undefined;
  readonly check: string | undefined;
  readonly passed: boolean;
  readonly failed: boolean;
  readonly partition: string | undefined;
  readonly since: string | undefined;
  readonly until: string | undefined;
  readonly afterSeq: number;
  readonly limit: number | undefined;
  readonly last: number | undefined;
  readonly follow: boolean;
}

const text = (argument: string, help: string): Option<string | undefined> => ({
  argument,
  help,
  initial: undefined,
  flagOnly: true,
  parse: (value) => value,
});

const time = (help: string): Option<string | undefined> => ({ ...text('TIME', help), parse: readMoment });

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

/** The command `assetlog events`. */
export const events = defineCommand<EventsOptions>(
  {
    summary: 'show what was recorded',
    about:
      'Shows the events of a journal, oldest first: a table on a terminal, the lines of the journal byte for byte into a pipe.\n' +
      'Takes no lock: it may run beside the service that writes the folder, and on a copy of it. An event is shown if it\n' +
      'matches all filters that are given.',
    options: {
      data: { ...options.data, help: 'folder of the journal; in hosted mode that of a deployment, FOLDER/NAME' },
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
      since: time('only events of this time or later: 2026-11-20, 2026-11-20T15:00, or 2h for the last two hours'),
      until: time('only events before this time'),
      afterSeq: count('SEQ', 'only events after this one', 0, 0, Number.MAX_SAFE_INTEGER),
      limit: count('COUNT', 'stop after so many', undefined, 1, Number.MAX_SAFE_INTEGER),
      last: count('COUNT', 'only the newest so many', undefined, 1, LAST_MAX),
      follow: switchOption(
        'then show events as they are recorded, until it is interrupted; the folder need not exist yet',
      ),
      ...formatOptions,
    },
    notes: [
      'Examples:',
      '  assetlog events --last 20',
      '  assetlog events --key warehouse/orders --type check --failed --since 7d',
      '  assetlog events --follow --since 0s | jq -c .metadata',
      '',
      'Times without a zone are UTC, as in the journal; a duration (500ms, 30s, 15m, 2h, 7d) counts back from now.',
      'With --since and --until, a file that begins and ends outside of them is skipped, and not checked.',
      ...lookNotes,
    ],
  },
  showEvents,
);

async function showEvents(values: EventsOptions, output: Output): Promise<ExitCode> {
  const { data, passed, failed, follow, last, limit = Number.POSITIVE_INFINITY, since, until, afterSeq } = values;
  const print = printerOf(values, output.page, forms);
  if (print === undefined || (passed && failed)) {
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
    since,
    until,
  };
  const interrupted = new AbortController();
  if (follow) for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());

  return lookAt(data, output, follow, async (disk, read) => {
    const from = last === undefined ? afterSeq : await seqBeforeLast(disk, last, filter, read);
    let left = limit;
    if (!(await print([]))) return;
    for await (const lines of read({ ...filter, afterSeq: from }, follow ? interrupted.signal : undefined)) {
      const chosen = lines.slice(0, left);
      left -= chosen.length;
      if (!(await print(chosen)) || left === 0 || interrupted.signal.aborted) return;
    }
  });
}

/**
 * Reads the segments from the newest to the oldest until enough events match. In a large journal that is often the newest alone.
 * @returns the seq before the first of the last `count` events that match
 */
async function seqBeforeLast(disk: Disk, count: number, filter: Filter, read: Read): Promise<number> {
  const { afterSeq = 0 } = filter;
  const { segments } = contentsOf(await disk.list().catch(() => [])); // the next read reports it, or waits for the folder
  let found: number[] = [];
  let untilSeq = Number.POSITIVE_INFINITY;
  for (const { firstSeq } of segments.toReversed()) {
    if (found.length >= count || untilSeq <= afterSeq) break;
    let here: number[] = [];
    for await (const lines of read({ ...filter, afterSeq: Math.max(afterSeq, firstSeq - 1), untilSeq })) {
      here.push(...lines.map(({ seq }) => seq));
      if (here.length > 2 * count) here = here.slice(-count);
    }
    found = [...here, ...found].slice(-count);
    untilSeq = firstSeq - 1;
  }
  return (found[0] ?? afterSeq + 1) - 1;
}

const forms: Forms<Line> = {
  columns: [
    { title: 'seq', whole: 3 },
    { title: 'time (UTC)', whole: 19 },
    { title: 'event', whole: 15 },
    { title: 'asset key', kept: 'end' }, // the last parts of keys tell them apart
    { title: 'partition' },
    { title: 'what it says' },
  ],
  row: ({ event, metadata }) => [
    String(event.seq),
    event.time.slice(0, 19).replace('T', ' '),
    outcomeOf(event),
    keyText(event.asset_key),
    event.partition ?? '',
    whatItSays(event, metadata),
  ],
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
  ],
  json: asRecorded,
};

/** @returns the type of the event, and for a check its result, in capitals if it failed: `FAILED (ERROR)` */
function outcomeOf({ type, passed, severity }: Recorded): string {
  if (passed === undefined) return findEndpoint(endpoints, type)?.name ?? type;
  return passed ? 'check passed' : `FAILED (${severity})`;
}

function whatItSays({ check_name, tags, description }: Recorded, metadata: string | undefined): string {
  const version = tags && `version ${tags.data_version}`;
  return [check_name, version, description, metadata].filter((word) => word !== undefined).join('  ');
}

/** @returns the lines byte for byte as in the journal. Lines that are adjacent in memory are taken as one slice. */
function asRecorded(lines: readonly Line[]): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at < lines.length; ) {
    const { bytes, start } = lines[at]!;
    let { end } = lines[at]!;
    for (at += 1; lines[at]?.bytes === bytes && lines[at]?.start === end + 1; at += 1) end = lines[at]!.end;
    pieces.push(bytes.subarray(start, end), NEWLINE);
  }
  return Buffer.concat(pieces);
}

const NEWLINE = Buffer.from('\n');

function readType(word: string): Event['type'] {
  const endpoint = findEndpoint(endpoints, word);
  if (endpoint === undefined) throw new Error(`is not a type; use one of ${kinds.join(', ')}`);
  return endpoint.type;
}

/**
 * @param word a time such as `2026-11-20T15:00`, or a duration such as `2h`, which counts back from now
 * @returns the time as a journal line has it, such as `2026-11-20T15:00:00.000Z`
 * @throws Error for any other text
 */
function readMoment(word: string): string {
  const [, amount, unit = ''] = /^([0-9]{1,9})(ms|s|m|h|d)$/.exec(word) ?? [];
  const ms = amount === undefined ? momentMs(word) : Date.now() - Number(amount) * (UNITS_MS[unit] ?? Number.NaN);
  if (!(ms >= 0 && ms < YEAR_10000_MS)) {
    throw new Error('is not a time such as 2026-11-20, 2026-11-20T15:04:05Z, or 2h for two hours ago');
  }
  return new Date(ms).toISOString();
}

function momentMs(word: string): number {
  const [, date, clock = 'T00:00', zone = 'Z'] =
    /^(\d{4}-\d\d-\d\d)([T ]\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)?(Z|[+-]\d\d:\d\d)?$/.exec(word) ?? [];
  // Date.parse turns February 30 into March 2.
  const real = date !== undefined && new Date(`${date}T00:00Z`).getUTCDate() === Number(date.slice(8));
  return real ? Date.parse(`${date}${clock.replace(' ', 'T')}${zone}`) : Number.NaN;
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const YEAR_10000_MS = 253_402_300_800_000;
