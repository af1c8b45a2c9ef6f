/** `assetlog asset`: shows one asset over time, like the page: its checks, materializations by day and numbers. */

import type { AssetJson } from '../../assets/asset-json.ts';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { historyLimits } from '../../config/limits.ts';
import { flagOption, type ValuesOf, withAnyText } from '../../config/options.ts';
import { keyNotes, keyText, otherSpelling, readKey, shownKey } from '../../event/asset-key.ts';
import { ageOf } from '../../event/moment.ts';
import type { Filter } from '../../event/search.ts';
import {
  type CheckSeries,
  checkSeriesOf,
  type Day,
  daysOf,
  History,
  type NumberSeries,
  numbersOf,
} from '../../history/history.ts';
import { placeOn } from '../../history/scale.ts';
import { daysSentence, sinceText } from '../../history/words.ts';
import type { Line } from '../../journal/look/reading.ts';
import { numbered, printable, shellWord } from '../../telemetry/printable.ts';
import { defineCommand, type Environment, type Output, refuse, type Stdout } from '../cli/command.ts';
import { askForOne } from '../cli/data-folder.ts';
import { type Column, secondOf, Table } from '../cli/table.ts';
import { failureAsText, findAsset } from './assets.ts';
import { chooseJournal, withJournals } from './listing.ts';
import { journalOption, lastOptions, problemWith } from './options.ts';
import type { JournalSource, JournalSources } from './source.ts';

const { csv: _, json, table, ...readingOptions } = lastOptions;

const assetOptions = {
  data: { ...journalOption, help: 'folder of the journal; with deployments FOLDER/NAME for one' },
  partition: withAnyText(flagOption<string>('PARTITION', 'only events of this partition', String)),
  json: { ...json, help: '{"asset":…,"events":[…]}, which is the default into a pipe or a file' },
  table: { ...table, help: 'text, which is the default on a terminal' },
  ...readingOptions,
};

type AssetOptions = ValuesOf<typeof assetOptions>;

export const asset = defineCommand(
  {
    summary: 'show one asset over time: its checks, its days and its numbers',
    about:
      `Shows the state of an asset, and what its newest ${historyLimits.events.toLocaleString('en')} events say over time: since when each check holds, with a\n` +
      'strip of its results, the materializations of each day of the last five weeks, and each member of its metadata that is a\n' +
      'number as a line of blocks. The newest is on the right. Locks nothing, like assetlog events.',
    notes: [
      'Examples:',
      '  assetlog asset warehouse/orders',
      '  assetlog asset warehouse/orders --partition 2026-11-20',
      "  assetlog asset warehouse/orders --json | jq '.events[-1].metadata'",
      '',
      'In JSON the asset is in the form of GET /assets, and the events are the lines of the journal, oldest first.',
      '',
      ...keyNotes,
      '',
      'Exit codes:',
      '  0 shown, 1 no asset has the key, 2 flags or no journal there, 3 the journal is damaged, 5 it cannot be read or',
      '  printed; with --url also 1 the service refuses, 75 it was unavailable',
    ],
    operands: { max: 100, text: 'KEY' },
    options: assetOptions,
  },
  showAsset,
);

async function showAsset(
  given: AssetOptions,
  output: Output,
  words: readonly string[],
  env: Environment,
): Promise<ExitCode> {
  if (words.length === 0)
    return refuse(output, 'give the KEY of an asset, such as warehouse/orders; assetlog assets lists all');
  let key: readonly string[];
  try {
    key = readKey(words);
  } catch (error) {
    return refuse(output, `${JSON.stringify(words.join(' '))} ${(error as Error).message}`);
  }
  const values = problemWith({ ...given, csv: false }, undefined) ?? (await chooseJournal(given, env, output));
  if (typeof values === 'string') return refuse(output, values);
  return withJournals(values, output, undefined, (sources) => showIn(sources, key, values, output));
}

async function showIn(
  { all }: JournalSources,
  key: readonly string[],
  { data, partition, json, table }: AssetOptions,
  output: Output,
): Promise<ExitCode | undefined> {
  const [journal, ...others] = all;
  if (journal === undefined || others.length > 0) {
    const names = all.map(({ deployment = '' }) => ({ name: deployment }));
    return refuse(output, askForOne(data, names));
  }
  const found = await findAsset(journal, key);
  if (found === undefined) {
    const other = otherSpelling(keyText(key));
    const isOther = other !== undefined && (await findAsset(journal, readKey([other]))) !== undefined;
    output.complain(
      `no asset has the key ${shownKey(key)}; ${isOther ? `run: assetlog asset ${shellWord(other)}` : 'assetlog assets lists all'}`,
    );
    return exitCodes.refused;
  }
  const lines = newestLines(journal, { assetKey: key, partition });
  const { stdout } = output;
  if (json || (stdout.columns === undefined && !table)) return printJson(found, lines, stdout);
  const history = new History();
  for await (const page of lines) history.add(page.map(({ text }) => text));
  await stdout.write(textOf(found, history, stdout.columns, partition));
  return undefined;
}

/** Yields the newest lines that match, in order. */
async function* newestLines(journal: JournalSource, filter: Filter): AsyncGenerator<readonly Line[]> {
  const newest = await journal.newest(historyLimits.events, filter);
  const [first] = newest;
  if (first === undefined) return;
  if (newest.some(({ isDropped }) => isDropped))
    yield* journal.read({ ...filter, afterSeq: first.seq - 1 }, undefined, true);
  else yield newest;
}

async function printJson(
  found: AssetJson,
  lines: AsyncIterable<readonly Line[]>,
  { columns, write }: Stdout,
): Promise<undefined> {
  const print = (text: string) => write(columns === undefined ? text : printable(text));
  let before = `{"asset":${JSON.stringify(found)},"events":[`;
  for await (const page of lines) {
    if (page.length === 0) continue;
    if (!(await print(before + page.map(({ text }) => text).join()))) return;
    before = ',';
  }
  await write(`${before === ',' ? '' : before}]}\n`);
}

function textOf(found: AssetJson, history: History, width: number | undefined, partition: string | undefined): string {
  const hasAll = !history.isFull;
  const { events } = history;
  const days = daysOf(events, Date.now(), history.knownFromMs(hasAll));
  const numbers = numbersOf(events);
  const rest = numbers.slice(historyLimits.numbers).map(({ name }) => name);
  const parts = [
    `${shownKey(found.asset_key)}${partition === undefined ? '' : `, partition ${printable(partition)}`}\n`,
    tableOf(LATEST, latestRows(found), width),
    titled(
      'Checks: · passed, ! warning, █ failed',
      tableOf(CHECKS, checkRows(found, checkSeriesOf(events), hasAll, partition), width),
    ),
    titled(daysSentence(days), `${daysText(days)}\n`),
    titled('Numbers', tableOf(NUMBERS, numbers.slice(0, historyLimits.numbers).map(numberRow), width)),
    rest.length === 0
      ? ''
      : `and ${numbered(rest.length, 'more number')}: ${printable(rest.slice(0, NAMES_MAX).join(', '))}\n`,
    `\nof ${hasAll ? '' : 'the newest '}${numbered(events.length, 'event')}\n`,
  ];
  return parts.join('');
}

function titled(title: string, text: string): string {
  return text === '' ? '' : `\n${title}\n${text}`;
}

function tableOf(columns: readonly Column[], rows: readonly (readonly string[])[], width: number | undefined): string {
  return new Table(columns, width).print(rows);
}

const LATEST: readonly Column[] = [
  { title: 'last', whole: 15 },
  { title: 'time (UTC)', whole: 19 },
  { title: 'age', whole: 7 },
  { title: 'seq', whole: 3 },
  { title: 'count', whole: 5 },
  { title: 'partition' },
  { title: 'version' },
];

function latestRows({ materialization, observation, check }: AssetJson): string[][] {
  return Object.entries({ materialization, observation, check }).flatMap(([kind, one]) => {
    if (one === undefined) return [];
    const { time, seq, count, partition = '', data_version = '' } = one;
    return [[kind, secondOf(time), ageOf(time), String(seq), String(count), partition, data_version]];
  });
}

const CHECKS: readonly Column[] = [
  { title: 'check', shownPart: 'end' },
  { title: 'state' },
  { title: 'newest results', whole: 40 },
  { title: 'in a row', whole: 8 },
  { title: 'since', whole: 23 },
];

/** @returns the checks of the asset; with a partition only checks that have a result for it */
function checkRows(
  found: AssetJson,
  all: readonly CheckSeries[],
  hasAll: boolean,
  partition: string | undefined,
): string[][] {
  const series = new Map(all.map((one) => [one.name, one]));
  const names = partition === undefined ? found.checks.map(({ check_name }) => check_name) : [];
  return [...new Set([...names, ...series.keys()])].map((name) => {
    const state = found.checks.find(({ check_name }) => check_name === name);
    const one = series.get(name);
    const strip = one?.results.slice(-BLOCKS).map(({ outcome = 'failed' }) => RESULTS[outcome]) ?? [];
    const failing = state?.failing ? `FAILED ${failureAsText(state).slice(name.length + 1)}` : 'passed';
    const holds = one === undefined ? [] : [String(one.inARow), sinceText(one, hasAll)];
    return [name, partition === undefined ? failing : '', strip.join(''), ...holds];
  });
}

const RESULTS = { passed: '·', warning: '!', failed: '█' } as const;

const NUMBERS: readonly Column[] = [
  { title: 'number', shownPart: 'end' },
  { title: 'newest values', whole: 40 },
  { title: 'last' },
  { title: 'lowest' },
  { title: 'highest' },
];

/** The extent covers the values that the page draws. */
function numberRow({ name, points, last, lowest, highest }: NumberSeries): string[] {
  const shown = points.slice(-BLOCKS);
  const values = shown.flatMap(({ value = [] }) => value);
  const extent = { low: Math.min(...values), high: Math.max(...values) };
  const blocks = shown.map(({ value }) => (value === undefined ? ' ' : blockAt(placeOn(extent, value))));
  return [name, blocks.join(''), last, lowest, highest];
}

/** @returns a block for each day, `·` for a day without events, and a space for a day that was not read */
function daysText(days: readonly Day[]): string {
  const most = Math.max(1, ...days.map(({ count }) => count));
  return days.map(({ count, isKnown }) => (count > 0 ? blockAt(count / most) : isKnown ? '·' : ' ')).join('');
}

/** @param place from 0 to 1 */
function blockAt(place: number): string {
  return '▁▂▃▄▅▆▇█'.charAt(Math.round(place * 7));
}

/** The number of blocks in a line. */
const BLOCKS = 40;
/** The most names of further numbers. */
const NAMES_MAX = 20;
