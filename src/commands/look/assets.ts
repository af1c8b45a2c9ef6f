/** `assetlog assets`: shows the state of each asset in a journal, with its latest events and its checks. */

import type { AssetJson, CheckJson, LatestJson } from '../../assets/asset-json.ts';
import { pagesOf } from '../../assets/asset-state.ts';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { flagOf, flagOption, type ValuesOf } from '../../config/options.ts';
import { BETWEEN_PARTS, keyText, shownKey } from '../../event/asset-key.ts';
import { durationMs } from '../../event/moment.ts';
import { searches } from '../../event/search.ts';
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
import { journalOption, keyOption, keyStartOption, lastOptions, lookNotes, problemWith } from './options.ts';
import type { JournalSource, JournalSources } from './source.ts';

const FORGET = 'forget';
/** The options that exclude assets. */
const FILTERS = ['key', 'keyPrefix', 'keyBeginsWith', 'failing', 'stale'] as const;
const FORGET_FILTERS: readonly string[] = ['keyPrefix', 'stale'];

/** An asset, with its deployment if the data folder has several. */
interface Row extends AssetJson {
  readonly deployment?: string;
}

const assetsOptions = {
  data: journalOption,
  key: keyOption('only this asset'),
  keyPrefix: keyOption('only assets whose key starts with these parts'),
  keyBeginsWith: keyStartOption(searches.keyStart.what),
  failing: flagOption('', 'only assets with a failing check, and of their checks only these', () => true),
  stale: flagOption(
    'DURATION',
    'only assets without an event for this long, such as 26h; exits with 1 if there is one',
    (word) => {
      if (durationMs(word) === undefined) throw new Error('is not a duration such as 30m, 26h or 2d');
      return word;
    },
  ),
  ...lastOptions,
};

type AssetsOptions = ValuesOf<typeof assetsOptions>;

export const assets = defineCommand(
  {
    summary: 'show the latest events and the state of the checks of each asset',
    about:
      'Shows for each asset, ordered by key, the number of events of each kind, the latest of each, and the state of its\n' +
      'checks. The state goes by when things happened: event_time, or when a device recorded them, or when they arrived; a\n' +
      'time that cannot be right counts as the arrival. A check fails while its latest result without a partition is a failure,\n' +
      'or the latest one of any partition; a pass without a partition ends all. Reads the state of a service, with events that\n' +
      'retention removed too. Locks nothing, like assetlog events. forget ends the state of an asset that is gone for good,\n' +
      'beside a service or without one: KEY, or --key-prefix with --stale. Its events stay.',
    notes: [
      'Examples:',
      '  assetlog assets --failing',
      '  assetlog assets --key-prefix warehouse --csv',
      '  assetlog assets --stale 26h || echo a load is missing',
      '  assetlog assets forget --key-prefix tmp --stale 90d',
      '',
      lookNotes,
      '  with --stale also 1: an asset is stale, or no asset has the key',
    ],
    operands: { ...folderOperand, max: 2, text: '[FOLDER] | forget [KEY]', actions: [FORGET] },
    options: assetsOptions,
    goneOptions: {
      '--by': 'the state goes by when things happened',
      '--since': 'use assetlog events --since',
      '--until': 'use assetlog events --until',
      '--source': 'use assetlog events --source',
    },
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
    if (name !== undefined) return refuse(output, `forget does not accept --${flagOf(name)}; leave it out`);
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

/** @returns whether an asset was listed, or the requested keys have no asset in any state */
async function listAssets(
  { kind, all }: JournalSources,
  values: AssetsOptions,
  args: readonly string[],
  output: Output,
): Promise<boolean> {
  const source = await sourceColumn(values, output.stdout, all);
  const print = printerOf(values, output.stdout, formsOf(kind === 'hosted', source));
  let count = 0;
  if (!(await print([]))) return false;
  for await (const page of assetsIn(all, values)) {
    count += page.length;
    if (!(await print(page))) break;
  }
  if (count > 0) return true;
  const isFound = (some: AssetsOptions) => hasAsset(assetsIn(all, some));
  output.complain(await nothingText({ what: 'assets', values, filters: FILTERS, args, isFound }));
  return values.stale !== undefined && (await isKeyUnknown(all, values));
}

/** @returns the matching assets, from the states that services keep */
function assetsIn(
  sources: readonly JournalSource[],
  { key, keyPrefix, keyBeginsWith, failing, stale }: AssetsOptions,
): AsyncGenerator<readonly Row[]> {
  const inOne = (journal: JournalSource) =>
    key === undefined
      ? journal.assets({ keyPrefix, keyBeginsWith, failing, stale })
      : onlyKey(journal.assets({ keyPrefix: key, keyBeginsWith, failing, stale }), key, keyPrefix);
  const [only, ...others] = sources;
  return only?.deployment === undefined && others.length === 0 ? inOne(only!) : ofDeployments(sources, inOne);
}

/** @returns the assets of all deployments, ordered by key */
async function* ofDeployments(
  sources: readonly JournalSource[],
  inOne: (journal: JournalSource) => AsyncGenerator<readonly AssetJson[]>,
): AsyncGenerator<readonly Row[]> {
  const found: (readonly [order: string, row: Row])[] = [];
  for (const source of sources) {
    const { deployment = '' } = source;
    for await (const page of inOne(source))
      for (const asset of page)
        found.push([[...asset.asset_key, '', deployment].join(BETWEEN_PARTS), { deployment, ...asset }]);
  }
  found.sort(([a], [b]) => (a < b ? -1 : 1));
  yield* pagesOf(found.map(([, row]) => row));
}

/** @returns the asset with a key; undefined if the journal has none */
export async function findAsset(journal: JournalSource, key: readonly string[]): Promise<AssetJson | undefined> {
  for await (const [found] of onlyKey(journal.assets({ keyPrefix: key }), key)) return found;
  return undefined;
}

/** The first of the assets whose keys start with `key` is the asset with that key, if it exists. */
async function* onlyKey(
  pages: AsyncGenerator<readonly AssetJson[]>,
  key: readonly string[],
  keyPrefix: readonly string[] = [],
): AsyncGenerator<readonly AssetJson[]> {
  for await (const [first] of pages) {
    if (first === undefined) continue;
    const { asset_key } = first;
    if (asset_key.length === key.length && keyPrefix.every((part, at) => asset_key[at] === part)) yield [first];
    return;
  }
}

/** @returns whether no asset has the requested key, in whatever state */
async function isKeyUnknown(sources: readonly JournalSource[], values: AssetsOptions): Promise<boolean> {
  if ((values.key ?? values.keyPrefix ?? values.keyBeginsWith) === undefined) return false;
  return !(await hasAsset(assetsIn(sources, { ...values, failing: undefined, stale: undefined })));
}

async function hasAsset(pages: AsyncGenerator<readonly AssetJson[]>): Promise<boolean> {
  for await (const page of pages) if (page.length > 0) return true;
  return false;
}

function formsOf(isHosted: boolean, source: SourceColumn): Forms<Row> {
  const forms: Forms<Row> = {
    columns: [
      { title: 'checks', whole: 8 },
      ...source.columns,
      { title: 'asset key', shownPart: 'end' }, // keys differ in their last parts
      { title: 'materialized (UTC)', whole: 18 },
      { title: 'observed (UTC)', whole: 14 },
      { title: 'failed checks' },
    ],
    row: (asset) => [
      outcomeOf(asset),
      ...source.cells(latestOf(asset)?.source),
      shownKey(asset.asset_key),
      whenAndHowOften(asset.materialization),
      whenAndHowOften(asset.observation),
      failingIn(asset).map(failureAsText).join(', '),
    ],
    header: [
      'asset_key',
      ...['materialization', 'observation', 'check'].flatMap((kind) => LATEST_COLUMNS.map((one) => `${kind}_${one}`)),
      ...['checks_passed', 'checks_failed', 'failed'],
      ...['materialization_source', 'observation_source', 'check_source', 'alive'],
    ].filter((column) => column !== 'check_data_version'),
    record: (asset) => {
      const { materialization, observation, check, checks } = asset;
      const failing = failingIn(asset).map(({ check_name }) => check_name);
      return [
        keyText(asset.asset_key),
        ...cellsOf(materialization),
        ...cellsOf(observation),
        ...cellsOf(check).slice(0, -1),
        checks.length - failing.length,
        failing.length,
        failing.length === 0 ? undefined : JSON.stringify(failing),
        ...[materialization, observation, check].map((kind) => source.nameOf(kind?.source)),
        asset.alive,
      ];
    },
    json: jsonLines,
  };
  return isHosted ? withDeployment(forms, 1, ({ deployment = '' }) => deployment, jsonLines) : forms;
}

const LATEST_COLUMNS = ['count', 'seq', 'time', 'partition', 'data_version'];

function cellsOf(kind: LatestJson | undefined): (string | number | undefined)[] {
  return [kind?.count ?? 0, kind?.seq, kind?.time, kind?.partition, kind?.data_version];
}

/** @returns the event of any kind that arrived last */
function latestOf({ materialization, observation, check }: AssetJson): LatestJson | undefined {
  const all = [materialization, observation, check].filter((one) => one !== undefined);
  return all.sort((a, b) => b.seq - a.seq)[0];
}

function whenAndHowOften(kind: LatestJson | undefined): string {
  return kind === undefined ? '' : `${minuteOf(kind.time)} ×${kind.count}`;
}

/** @returns the number of checks, or of the failing ones in capitals: `2 passed`, `1 FAILED of 3`; empty without checks */
function outcomeOf(asset: AssetJson): string {
  const count = asset.checks.length;
  const failed = failingIn(asset).length;
  if (failed === 0) return count === 0 ? '' : `${count} passed`;
  return failed === count ? `${failed} FAILED` : `${failed} FAILED of ${count}`;
}

/** An older service says only whether the latest result passed. */
function failingIn({ checks }: AssetJson): readonly CheckJson[] {
  return checks.filter(({ failing, passed }) => failing ?? !passed);
}

/** @returns a failing check with the first of its failed partitions: `no_nulls (ERROR) 2026-11-26 and 2 more` */
export function failureAsText(check: CheckJson): string {
  const { check_name, severity, failing_severity = severity, failed_partitions: [first, ...others] = [] } = check;
  const more = others.length + (check.failed_partitions_beyond ?? 0);
  const partition = first === undefined ? '' : ` ${first.partition}`;
  return `${check_name} (${failing_severity})${partition}${more === 0 ? '' : ` and ${more} more`}`;
}
