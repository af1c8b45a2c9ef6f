/** `assetlog assets`: shows a summary of each asset in a journal, with its latest events and the state of its checks. */

import { assetJson } from '../../assets/asset-json.ts';
import {
  type Asset,
  AssetStates,
  checksOf,
  deploymentOf,
  failingOf,
  isAskedFor,
  keyOf,
  type Latest,
  latestCheck,
  latestEvent,
  pagesOf,
  recordedAt,
  reportedIn,
  withDeploymentName,
} from '../../assets/asset-state.ts';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits, MIB } from '../../config/limits.ts';
import { flagOf, flagOption, type ValuesOf } from '../../config/options.ts';
import { keyText, shownKey } from '../../event/asset-key.ts';
import { type By, happenedAt, sortKeyOf } from '../../event/event-time.ts';
import { durationMs } from '../../event/moment.ts';
import { type Filter, searches } from '../../event/search.ts';
import type { Line } from '../../journal/look/reading.ts';
import { defineCommand, type Environment, type Output, refuse } from '../cli/command.ts';
import { folderOperand } from '../cli/data-folder.ts';
import { minuteOf } from '../cli/table.ts';
import { forgetAssets } from './forget-assets.ts';
import {
  chooseJournal,
  type Forms,
  jsonLines,
  printerOf,
  type SourceColumn,
  sourceColumn,
  withDeployment,
  withJournals,
} from './listing.ts';
import { nothingText } from './nothing.ts';
import {
  boundsOf,
  byOption,
  journalOption,
  keyOption,
  keyStartOption,
  lastOptions,
  lookNotes,
  problemWith,
  rangeOptions,
  rangeTest,
  sourceOption,
} from './options.ts';
import { hasEvent, type JournalSource, type JournalSources } from './source.ts';

const FORGET = 'forget';
/** The options that leave assets out. */
const FILTERS = ['key', 'keyPrefix', 'keyBeginsWith', 'failing', 'source', 'stale', 'since', 'until'] as const;
const FORGET_FILTERS: readonly string[] = ['keyPrefix', 'stale'];

const assetsOptions = {
  data: journalOption,
  key: keyOption('only this asset'),
  keyPrefix: keyOption('only assets whose key starts with these parts'),
  keyBeginsWith: keyStartOption(searches.keyStart.what),
  failing: flagOption('', 'only assets with a check that failed when it last ran', () => true),
  source: sourceOption(searches.source.what),
  stale: flagOption(
    'DURATION',
    'only assets without an event for this long, such as 26h; exits with 1 if there is one',
    (word) => {
      if (durationMs(word) === undefined) throw new Error('is not a duration such as 30m, 26h or 2d');
      return word;
    },
  ),
  ...rangeOptions,
  by: byOption('time (recorded) or event_time (happened): for the latest event, --since and --until'),
  ...lastOptions,
};

type AssetsOptions = ValuesOf<typeof assetsOptions>;

export const assets = defineCommand(
  {
    summary: 'show the latest events and the state of the checks of each asset',
    about:
      'Shows for each asset, ordered by key, the number of events of each kind, the latest of each, and the state of its\n' +
      'checks: the latest result of each check, in any partition. Reads the state that a service keeps, which has the events\n' +
      'that retention removed too; with --since, --until, --source or --by event_time it reads the events. Needs memory for\n' +
      'each asset and check, not for each event. Locks nothing, like assetlog events. forget ends the state of an asset that\n' +
      'is gone for good, beside a service or without one: KEY, or --key-prefix with --stale. Its events stay.',
    notes: [
      'Examples:',
      '  assetlog assets --failing',
      '  assetlog assets --key-prefix warehouse --csv',
      '  assetlog assets --stale 26h || echo a load is missing',
      '  assetlog assets --by event_time --until 2026-11-20',
      '  assetlog assets forget --key-prefix tmp --stale 90d',
      '',
      lookNotes,
      '  with --stale also 1: an asset is stale, or no asset has the key',
    ],
    operands: { ...folderOperand, max: 2, text: '[FOLDER] | forget [KEY]', actions: [FORGET] },
    options: assetsOptions,
  },
  showAssets,
);

async function showAssets(
  given: AssetsOptions,
  output: Output,
  [folder, ...more]: readonly string[],
  env: Environment,
  args: readonly string[],
): Promise<ExitCode> {
  if (folder === FORGET) {
    const ignored = FILTERS.filter((name) => !FORGET_FILTERS.includes(name) && given[name] !== undefined);
    const [name] = ignored;
    if (name !== undefined) return refuse(output, `forget does not take --${flagOf(name)}; leave it out`);
    return forgetAssets(given, output, more[0]);
  }
  if (more.length > 0) return refuse(output, 'give one folder, or forget KEY');
  const values = problemWith(given, folder) ?? (await chooseJournal(given, env, output));
  if (typeof values === 'string') return refuse(output, values);
  let hasAlarm = false;
  const act = async (sources: JournalSources) => {
    hasAlarm = (await listAssets(sources, values, args, output)) && values.stale !== undefined;
    return undefined;
  };
  const code = await withJournals(values, output, undefined, act);
  return code === exitCodes.done && hasAlarm ? exitCodes.refused : code;
}

/** @returns whether an asset was listed, or the requested keys or source have no asset in any state */
async function listAssets(
  { kind, all }: JournalSources,
  values: AssetsOptions,
  args: readonly string[],
  output: Output,
): Promise<boolean> {
  const { by, source: onlySource, stale } = values;
  const filter = filterOf(values);
  const isInRange = rangeTest(values);
  const print = printerOf(
    values,
    output.stdout,
    formsBy(by, kind === 'hosted', await sourceColumn(values, output.stdout, all)),
  );
  const known = knownAssets(all, values);
  const states = new AssetStates({ by });
  const takeEvents = (lines: readonly Line[], deployment: string | undefined) => {
    for (const { event } of lines) {
      if (by === 'event_time' && !isInRange(sortKeyOf(happenedAt(event)))) continue;
      states.take(event.seq, Date.parse(event.time), reportedIn(event), deployment);
    }
  };
  if (known === undefined) {
    for (const source of all) {
      for await (const lines of source.read(filter)) {
        takeEvents(lines, source.deployment);
        checkMemory(states, values);
      }
    }
  }
  let count = 0;
  if (!(await print([]))) return false;
  for await (const assets of known ?? pagesOf(states.inOrder())) {
    const page = known === undefined ? assets.filter(stateTest(values)) : assets;
    count += page.length;
    if (!(await print(page))) break;
  }
  if (count > 0) return true;
  const isFound = async (some: AssetsOptions) => {
    if (known !== undefined) return hasAsset(knownAssets(all, some)!);
    if ((some.failing ?? some.stale) !== undefined) return undefined;
    return hasEvent(all, some, filterOf(some));
  };
  output.complain(await nothingText({ what: 'assets', values, filters: FILTERS, args, isFound }));
  return (onlySource !== undefined && states.size === 0) || (stale !== undefined && (await isKeyUnknown(all, values)));
}

function filterOf(values: AssetsOptions): Filter {
  const { key, keyPrefix, keyBeginsWith, source } = values;
  return { assetKey: key, keyPrefix, keyStart: keyBeginsWith, source, ...boundsOf(values) };
}

/** @returns a test for the requested state of an asset */
function stateTest({ failing, stale }: Pick<AssetsOptions, 'failing' | 'stale'>): (asset: Asset) => boolean {
  const staleMs = stale === undefined ? undefined : Date.now() - durationMs(stale)!;
  return (asset) => isAskedFor(asset, { failing, staleMs });
}

/** @returns the matching assets from the states that services keep; undefined if events must be read for them */
function knownAssets(
  sources: readonly JournalSource[],
  { by, since, until, key, keyPrefix, keyBeginsWith, failing, stale, source }: AssetsOptions,
): AsyncGenerator<readonly Asset[]> | undefined {
  if (by !== 'time' || (since ?? until ?? source) !== undefined) return undefined;
  const assetsIn = (journal: JournalSource) =>
    key === undefined
      ? journal.assets({ keyPrefix, keyBeginsWith, failing, stale })
      : onlyKey(journal.assets({ keyPrefix: key, keyBeginsWith, failing, stale }), key, keyPrefix);
  const [only, ...others] = sources;
  return only?.deployment === undefined && others.length === 0 ? assetsIn(only!) : ofDeployments(sources, assetsIn);
}

/** @returns the assets of all deployments, ordered by key */
async function* ofDeployments(
  sources: readonly JournalSource[],
  assetsIn: (journal: JournalSource) => AsyncGenerator<readonly Asset[]>,
): AsyncGenerator<readonly Asset[]> {
  const found: Asset[] = [];
  for (const source of sources) {
    for await (const page of assetsIn(source))
      for (const asset of page) found.push(withDeploymentName(asset, source.deployment ?? ''));
  }
  found.sort((a, b) => (a.name < b.name ? -1 : 1));
  yield* pagesOf(found);
}

/** The first of the assets whose keys start with `key` is the asset with that key, if it exists. */
async function* onlyKey(
  pages: AsyncGenerator<readonly Asset[]>,
  key: readonly string[],
  keyPrefix: readonly string[] = [],
): AsyncGenerator<readonly Asset[]> {
  for await (const [first] of pages) {
    if (first === undefined) continue;
    if (keyOf(first).length === key.length && startsWith(first, keyPrefix)) yield [first];
    return;
  }
}

function startsWith(asset: Asset, parts: readonly string[]): boolean {
  return parts.every((part, at) => keyOf(asset)[at] === part);
}

/** @returns whether no asset has the requested key, in any state and at any time */
async function isKeyUnknown(sources: readonly JournalSource[], values: AssetsOptions): Promise<boolean> {
  if ((values.key ?? values.keyPrefix ?? values.keyBeginsWith) === undefined) return false;
  const all = {
    by: 'time',
    failing: undefined,
    stale: undefined,
    since: undefined,
    until: undefined,
    source: undefined,
  } as const;
  return !(await hasAsset(knownAssets(sources, { ...values, ...all })!));
}

async function hasAsset(pages: AsyncGenerator<readonly Asset[]>): Promise<boolean> {
  for await (const page of pages) if (page.length > 0) return true;
  return false;
}

/** @throws Error for more than `assetBytesMax` of states: a service could send assets without end */
function checkMemory({ bytes }: AssetStates, { url }: AssetsOptions): void {
  if (url === '' || bytes <= limits.assetBytesMax) return;
  throw new Error(`its assets need more than ${limits.assetBytesMax / MIB} MiB of memory; give --key or --key-prefix`);
}

/** @param by the time of the latest events that the table shows. By `event_time`, JSON and CSV have it beside the `time`. */
function formsBy(by: By, isHosted: boolean, source: SourceColumn): Forms<Asset> {
  const when = by === 'time' ? 'UTC' : 'event time';
  const forms: Forms<Asset> = {
    columns: [
      { title: 'checks', whole: 8 },
      ...source.columns,
      { title: 'asset key', shownPart: 'end' }, // keys differ in their last parts
      { title: `materialized (${when})`, whole: 18 },
      { title: `observed (${when})`, whole: 14 },
      { title: 'failed checks' },
    ],
    row: (asset) => [
      outcomeOf(asset),
      ...source.cells(latestEvent(asset).source),
      shownKey(keyOf(asset)),
      whenAndHowOften(asset.materialization, by),
      whenAndHowOften(asset.observation, by),
      failedChecksAsText(asset),
    ],
    header: [
      'asset_key',
      ...columnsOf('materialization', by),
      ...columnsOf('observation', by),
      ...columnsOf('check', by).slice(0, -1),
      ...['checks_passed', 'checks_failed', 'failed'],
      ...['materialization_source', 'observation_source', 'check_source'],
    ],
    record: (asset) => {
      const failing = failingOf(asset);
      return [
        keyText(keyOf(asset)),
        ...cellsOf(asset.materialization, by),
        ...cellsOf(asset.observation, by),
        ...cellsOf(latestCheck(asset), by).slice(0, -1),
        (asset.checks?.size ?? 0) - failing.length,
        failing.length,
        failing.length === 0 ? undefined : JSON.stringify(failing),
        ...[asset.materialization, asset.observation, latestCheck(asset)].map((kind) => source.nameOf(kind?.source)),
      ];
    },
    json: (assets) => jsonLines(assets.map((asset) => assetJson(asset, by))),
  };
  if (!isHosted) return forms;
  return withDeployment(forms, 1, deploymentOf, (assets) =>
    jsonLines(assets.map((asset) => ({ deployment: deploymentOf(asset), ...assetJson(asset, by) }))),
  );
}

function whenAndHowOften(kind: Latest | undefined, by: By): string {
  if (kind === undefined) return '';
  return `${minuteOf((by === 'event_time' ? kind.eventTime : undefined) ?? recordedAt(kind))} ×${kind.count}`;
}

/** @returns the number of checks, or of the failed ones, in capitals: `2 passed`, `1 FAILED of 3`; empty without checks */
function outcomeOf(asset: Asset): string {
  const count = asset.checks?.size ?? 0;
  const failed = failingOf(asset).length;
  if (failed === 0) return count === 0 ? '' : `${count} passed`;
  return failed === count ? `${failed} FAILED` : `${failed} FAILED of ${count}`;
}

function failedChecksAsText(asset: Asset): string {
  return checksOf(asset)
    .filter(([, { passed }]) => !passed)
    .map(([name, { severity }]) => `${name} (${severity})`)
    .join(', ');
}

function columnsOf(kind: string, by: By): string[] {
  const times = by === 'time' ? ['time'] : ['time', 'event_time'];
  return ['count', 'seq', ...times, 'partition', 'data_version'].map((column) => `${kind}_${column}`);
}

function cellsOf(kind: Latest | undefined, by: By): (string | number | undefined)[] {
  const times = [kind && recordedAt(kind), ...(by === 'time' ? [] : [kind?.eventTime])];
  return [kind?.count ?? 0, kind?.seq, ...times, kind?.partition, kind?.dataVersion];
}
