/** The options of `events` and `assets`, and the notes of their help. */

import { limits } from '../../config/limits.ts';
import {
  booleanOption,
  flagOption,
  integer,
  matching,
  type Option,
  type Options,
  oneOf,
  switchOption,
  text,
  type ValuesOf,
  withAnyText,
} from '../../config/options.ts';
import { readKey, readKeyStart } from '../../event/asset-key.ts';
import { type Event, type Severity, severities } from '../../event/event.ts';
import { type By, sortKeyOf } from '../../event/event-time.ts';
import { lineTimeFrom, readMoment, timeAt } from '../../event/moment.ts';
import { endpoints } from '../../event/parameters.ts';
import {
  allSearches,
  type Bounds,
  type Filter,
  type OptionName,
  readEventType,
  type Search,
  type SourceFilter,
} from '../../event/search.ts';
import { readTextFilter, type TextFilter } from '../../event/text-filter.ts';
import { ID } from '../../journal/line/uuid.ts';
import { folderOption } from '../cli/data-folder.ts';
import { readingOptions, type ServiceOptions } from '../cli/service-options.ts';

/** Empty unless a folder is given: see `chooseJournal`. */
export const journalOption: Option<string> = { ...folderOption, initial: '', standard: folderOption.initial };

const formatOptions = {
  json: switchOption('JSON lines, which is the default into a pipe or a file'),
  table: switchOption('a table, which is the default on a terminal'),
  csv: switchOption('CSV with a header (RFC 4180)'),
};
export type FormatOptions = ValuesOf<typeof formatOptions>;

export const lastOptions = { ...formatOptions, ...readingOptions };

/** @returns the options that cannot be combined */
export function problemWith(
  { json, table, csv, url }: FormatOptions & Pick<ServiceOptions, 'url'>,
  folder: string | undefined,
): string | undefined {
  if (Number(json) + Number(table) + Number(csv) > 1) return 'use one of --json, --table and --csv';
  return url !== '' && folder !== undefined ? 'give a folder or --url, not both' : undefined;
}

/** The bounds of a time range in UTC, with all digits that were given. */
export const rangeOptions = {
  since: timeOption('only events of this time or later: 2026-11-20, 2026-11-20T15:00, or 2h for the last two hours'),
  until: timeOption('only events before this time'),
};
export type TimeRange = ValuesOf<typeof rangeOptions>;

export const byOption = (help: string): Option<By> => ({
  argument: 'TIME',
  help,
  choices: orders,
  initial: 'time',
  flagOnly: true,
  parse: (word) => oneOf(orders, word, 'is not a time of an event; use time or event_time'),
});

/** @returns the bounds of the events to read: none if `event_time` counts, since that can be any time before the recording */
export function boundsOf({ by, since, until }: TimeRange & { readonly by: By }): Bounds {
  return by === 'time' ? { since: since && lineTimeFrom(since), until: until && lineTimeFrom(until) } : {};
}

/** @returns a test for whether a sort key of `sortKeyOf` is in the range */
export function rangeTest({ since, until }: TimeRange): (sortKey: string) => boolean {
  const from = since === undefined ? '' : sortKeyOf(since);
  const before = until === undefined ? undefined : sortKeyOf(until);
  return (sortKey) => sortKey >= from && (before === undefined || sortKey < before);
}

export const keyOption = (help: string): Option<readonly string[] | undefined> =>
  withAnyText(flagOption<readonly string[]>('KEY', help, (text) => readKey([text])));

export const keyStartOption = (help: string): Option<readonly string[] | undefined> =>
  withAnyText(flagOption<readonly string[]>('KEY', help, readKeyStart));

/** A name also matches other ids, which are known only when a journal is read. */
export const sourceOption = (help: string): Option<SourceFilter | undefined> =>
  flagOption('SOURCE', help, (text) => ({ text, has: (id) => id === text }));

/** The values of the options; undefined if an option is not given. */
export type SearchOptions = { readonly [Name in OptionName]: unknown };

const types = endpoints.map(({ name }) => name);

/** The options, in the order of the help. */
export const searchOptions = Object.fromEntries(allSearches.flatMap(optionsOf)) as Options<SearchOptions>;
export const searchNames = Object.keys(searchOptions) as OptionName[];

/** @returns the members of the filter without its bounds. At most one of an option and its opposite is given. */
export function searchFilter(values: SearchOptions): Filter {
  const given: Readonly<Record<string, unknown>> = values;
  const members = allSearches.map(({ member, option = '', opposite }) => {
    const denied = opposite && given[opposite.option];
    return [member, denied === undefined ? given[option] : !denied];
  });
  return Object.fromEntries(members.filter(([, value]) => value !== undefined));
}

/** Lines of the help below the options of `events`. */
export const timeNotes: readonly string[] = [
  'Times without a zone are UTC, as in the journal; a duration (500ms, 30s, 15m, 2h, 7d) counts back from now.',
  'With --since and --until, a segment outside of the range is not read, and not checked.',
  'With --by event_time an event without an event_time counts by its time, and each segment is read.',
];

/** Lines of the help below the options. */
export const lookNotes: readonly string[] = [
  'On a terminal, control characters in reported text are shown as \\u001b, also in JSON. In CSV, text that starts like a',
  'formula (= + - @) gets an apostrophe before it, also after a semicolon, a tab or a line break inside.',
  '',
  'Keys:',
  '  warehouse/orders has two parts. A key with a slash in a part is written as a JSON array: \'["warehouse","a/b"]\'.',
  '',
  'Deployments:',
  '  In the data folder it shows all of them: a column for the deployment, and in JSON a first member',
  '  "deployment" in each line. The folder of one deployment, FOLDER/NAME, is shown like any other journal.',
  '',
  'Exit codes:',
  '  0 read, 2 flags or no journal there, 3 the journal is damaged: file, line and byte are reported on standard error,',
  '  and the lines after the damage that verify are shown; 5 it cannot be read or printed; with --url also 1 the service',
  '  refuses, 75 it was unavailable',
];

const orders: readonly By[] = ['time', 'event_time'];

function timeOption(help: string): Option<string | undefined> {
  return flagOption('TIME', help, (word) => timeAt(readMoment(word), Date.now()));
}

function optionsOf({ kind, option, what = '', help = what, opposite }: Search): [string, unknown][] {
  if (option === undefined) return [];
  if (kind === 'key' || kind === 'key prefix') return [[option, keyOption(help)]];
  if (kind === 'key start') return [[option, keyStartOption(help)]];
  if (kind === 'source') return [[option, sourceOption(help)]];
  if (kind === 'contained text') return [[option, withAnyText(flagOption('TEXT', help, readText))]];
  if (kind === 'type') return [[option, { ...flagOption('TYPE', help, readType), choices: types }]];
  if (kind === 'severity') return [[option, { ...flagOption('LEVEL', help, readSeverity), choices: severities }]];
  if (kind === 'id') return [[option, flagOption('ID', help, readId)]];
  if (kind === 'seq') return [[option, flagOption('SEQ', help, (word) => integer(word, 0, Number.MAX_SAFE_INTEGER))]];
  if (opposite === undefined) return [[option, text('NAME', help)]];
  return [
    [option, booleanOption(help)],
    [opposite.option, booleanOption(opposite.help)],
  ];
}

function readText(text: string): TextFilter {
  return readTextFilter(text, limits.searchCharactersMax);
}

function readType(word: string): Event['type'] {
  const type = readEventType(word);
  if (type === undefined) throw new Error(`is not a type; use one of ${types.join(', ')}`);
  return type;
}

/** Ignores upper and lower case, like `assetlog report`. */
function readSeverity(word: string): Severity {
  return oneOf(severities, word.toUpperCase(), `is not a severity; use ${severities.join(' or ')}`);
}

/** Used as `parse`. @throws Error for a text that is not the id of an event */
export function readId(text: string): string {
  return matching(text, ID, 'is not the id of an event, such as 01a1fb95-ce62-7e59-9364-610bf5613940');
}
