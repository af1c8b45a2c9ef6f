/** `assetlog assets`: shows a summary of each asset in a journal, with its latest events and the state of its checks. */

import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import { keyText } from '../event/asset-key.ts';
import type { Recorded } from '../journal/record.ts';
import { defineCommand, type Output } from './command.ts';
import { folderOperand, folderOption } from './data-folder.ts';
import {
  type FormatOptions,
  type Forms,
  formatOptions,
  keyOption,
  lookNotes,
  printerOf,
  switchOption,
} from './listing.ts';
import { noMatch } from './no-match.ts';
import { lookAt, type Source } from './reading.ts';

interface AssetsOptions extends FormatOptions {
  readonly data: string;
  readonly key: readonly string[] | undefined;
  readonly keyPrefix: readonly string[] | undefined;
  readonly failing: boolean;
}

/** The command `assetlog assets`. */
export const assets = defineCommand<AssetsOptions>(
  {
    summary: 'show the latest events and the state of the checks of each asset',
    about:
      'Shows for each asset, in the order of their keys, how many events of each kind there are, the latest of each, and the\n' +
      'state of its checks, which is the latest result of each check, whatever its partition. Reads the whole journal, and\n' +
      'takes memory for each asset and check, not for each event. Takes no lock, as assetlog events.',
    operands: folderOperand,
    options: {
      data: folderOption,
      key: keyOption('only this asset'),
      keyPrefix: keyOption('only assets whose key begins with these parts'),
      failing: switchOption('only assets with a check that failed when it last ran'),
      ...formatOptions,
    },
    notes: [
      'Examples:',
      '  assetlog assets --failing',
      '  assetlog assets --key-prefix warehouse --csv',
      '',
      ...lookNotes,
    ],
  },
  showAssets,
);

/**
 * The count of the events of one kind, or of one check, and the values of the latest one. Each event overwrites the object in
 * place: the garbage of ten million new objects would take more memory than a million assets.
 */
interface Latest {
  count: number;
  seq: number;
  timeMs: number;
  partition: string | undefined;
  dataVersion: string | undefined;
}

interface Check extends Latest {
  passed: boolean;
  severity: string;
}

/** The state of an asset. It is small, because there may be a million assets. */
interface AssetState {
  materialization: Latest | undefined;
  observation: Latest | undefined;
  /** Checks by name; undefined until the first result of a check. */
  checks: Map<string, Check> | undefined;
}

interface Asset extends AssetState {
  /** The parts of the asset's key, joined by NUL, which no key contains. In hosted mode the deployment follows two NUL. */
  readonly name: string;
}

const BETWEEN_PARTS = '\0';
const BEFORE_DEPLOYMENT = '\0\0';
/** The number of assets that are formatted and printed at a time. */
const PAGE_ASSETS = 1_000;

async function showAssets(values: AssetsOptions, output: Output): Promise<ExitCode> {
  const print = printerOf(values, output.page, forms);
  const printHosted = printerOf(values, output.page, hostedForms);
  if (print === undefined || printHosted === undefined) {
    output.complain('use one of --json, --table and --csv');
    return exitCodes.configuration;
  }
  const filter = { assetKey: values.key, keyPrefix: values.keyPrefix };
  return lookAt(values.data, output, undefined, async ({ kind, all }) => {
    const printPage = kind === 'hosted' ? printHosted : print;
    const found = new Map<string, AssetState>();
    for (const source of all) {
      for await (const lines of source.read(filter)) for (const { event } of lines) note(found, event, source);
    }
    let count = 0;
    if (!(await printPage([]))) return undefined;
    const names = [...found.keys()].sort();
    for (let at = 0; at < names.length; at += PAGE_ASSETS) {
      const page = names
        .slice(at, at + PAGE_ASSETS)
        .map((name): Asset => ({ name, ...(found.get(name) as AssetState) }))
        .filter((asset) => !values.failing || isFailing(asset));
      count += page.length;
      if (!(await printPage(page))) return undefined;
    }
    if (count === 0) output.complain(await assetsMatchingAlone(all, values));
    return undefined;
  });
}

/** @returns the sentence for a result without assets: how many there are, and how many match each filter alone */
async function assetsMatchingAlone(
  sources: readonly Source[],
  { key, keyPrefix, failing }: AssetsOptions,
): Promise<string> {
  const found = new Map<string, AssetState>();
  for (const source of sources) {
    for await (const lines of source.readAgain({})) for (const { event } of lines) note(found, event, source);
  }
  const assets = [...found].map(([name, state]): Asset => ({ name, ...state }));
  const begins = (asset: Asset, parts: readonly string[]) => parts.every((part, at) => keyOf(asset)[at] === part);
  const countOf = (matches: (asset: Asset) => boolean) => assets.filter(matches).length;
  const alone = new Map<string, number>();
  if (key !== undefined) {
    const isKey = (asset: Asset) => keyOf(asset).length === key.length && begins(asset, key);
    alone.set(`key ${keyText(key)}`, countOf(isKey));
  }
  if (keyPrefix !== undefined) {
    alone.set(
      `keys that begin with ${keyText(keyPrefix)}`,
      countOf((asset) => begins(asset, keyPrefix)),
    );
  }
  if (failing) alone.set('with a failing check', countOf(isFailing));
  return noMatch('assets', assets.length, alone);
}

function note(found: Map<string, AssetState>, event: Recorded, { deployment }: Source): void {
  const key = event.asset_key.join(BETWEEN_PARTS);
  const name = deployment === undefined ? key : `${key}${BEFORE_DEPLOYMENT}${deployment}`;
  let asset = found.get(name);
  if (asset === undefined) {
    asset = { materialization: undefined, observation: undefined, checks: undefined };
    found.set(name, asset);
  }
  if (event.type === 'AssetMaterialization') {
    asset.materialization ??= { ...NONE };
    count(asset.materialization, event);
  } else if (event.type === 'AssetObservation') {
    asset.observation ??= { ...NONE };
    count(asset.observation, event);
  } else {
    const { check_name = '', passed = false, severity = '' } = event;
    asset.checks ??= new Map();
    let check = asset.checks.get(check_name);
    if (check === undefined) {
      check = { ...NONE, passed, severity };
      asset.checks.set(check_name, check);
    }
    count(check, event);
    check.passed = passed;
    check.severity = severity;
  }
}

const NONE: Latest = { count: 0, seq: 0, timeMs: 0, partition: undefined, dataVersion: undefined };

function count(latest: Latest, { seq, time, partition, tags }: Recorded): void {
  latest.count += 1;
  latest.seq = seq;
  latest.timeMs = Date.parse(time);
  if (latest.partition !== partition) latest.partition = partition;
  if (latest.dataVersion !== tags?.data_version) latest.dataVersion = tags?.data_version;
}

function timeOf({ timeMs }: Latest): string {
  return new Date(timeMs).toISOString();
}

function keyOf({ name }: Asset): readonly string[] {
  const [key = ''] = name.split(BEFORE_DEPLOYMENT, 1);
  return key.split(BETWEEN_PARTS);
}

function deploymentOf({ name }: Asset): string {
  return name.split(BEFORE_DEPLOYMENT)[1] ?? '';
}

function checksOf({ checks = new Map() }: Asset): [string, Check][] {
  return [...checks].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** @returns the names of the checks whose latest result is a failure */
function failingOf(asset: Asset): string[] {
  return checksOf(asset)
    .filter(([, { passed }]) => !passed)
    .map(([name]) => name);
}

function isFailing(asset: Asset): boolean {
  return failingOf(asset).length > 0;
}

/** @returns the latest result of any check, with the count of the results of all checks; undefined without checks */
function latestCheck(asset: Asset): Latest | undefined {
  const checks = checksOf(asset).map(([, check]) => check);
  if (checks.length === 0) return undefined;
  const newest = checks.reduce((most, check) => (check.seq > most.seq ? check : most));
  return { ...newest, count: checks.reduce((sum, { count }) => sum + count, 0) };
}

const forms: Forms<Asset> = {
  columns: [
    { title: 'checks', whole: 8 },
    { title: 'asset key', kept: 'end' }, // the last parts of keys tell them apart
    { title: 'materialized (UTC)', whole: 18 },
    { title: 'observed (UTC)', whole: 14 },
    { title: 'failed checks' },
  ],
  row: (asset) => [
    outcomeOf(asset),
    keyText(keyOf(asset)),
    whenAndHowOften(asset.materialization),
    whenAndHowOften(asset.observation),
    failedChecksAsText(asset),
  ],
  header: [
    'asset_key',
    ...columnsOf('materialization'),
    ...columnsOf('observation'),
    ...columnsOf('check').slice(0, -1),
    'checks_passed',
    'checks_failed',
    'failed',
  ],
  record: (asset) => {
    const failing = failingOf(asset);
    return [
      keyText(keyOf(asset)),
      ...cellsOf(asset.materialization),
      ...cellsOf(asset.observation),
      ...cellsOf(latestCheck(asset)).slice(0, -1),
      (asset.checks?.size ?? 0) - failing.length,
      failing.length,
      failing.length === 0 ? undefined : JSON.stringify(failing),
    ];
  },
  json: (assets) => assets.map((asset) => `${JSON.stringify(asJson(asset))}\n`).join(''),
};

const hostedForms: Forms<Asset> = {
  columns: forms.columns.toSpliced(1, 0, { title: 'deployment' }),
  row: (asset) => forms.row(asset).toSpliced(1, 0, deploymentOf(asset)),
  header: ['deployment', ...forms.header],
  record: (asset) => [deploymentOf(asset), ...forms.record(asset)],
  json: (assets) =>
    assets.map((asset) => `${JSON.stringify({ deployment: deploymentOf(asset), ...asJson(asset) })}\n`).join(''),
};

function whenAndHowOften(kind: Latest | undefined): string {
  return kind === undefined ? '' : `${timeOf(kind).slice(0, 16).replace('T', ' ')} ×${kind.count}`;
}

/** @returns how many checks there are, and how many failed, in capitals: `2 passed`, `1 FAILED of 3`; empty without checks */
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

function columnsOf(kind: string): string[] {
  return ['count', 'seq', 'time', 'partition', 'data_version'].map((column) => `${kind}_${column}`);
}

function cellsOf(kind: Latest | undefined): (string | number | undefined)[] {
  return [kind?.count ?? 0, kind?.seq, kind && timeOf(kind), kind?.partition, kind?.dataVersion];
}

function asJson(asset: Asset): object {
  return {
    asset_key: keyOf(asset),
    materialization: latestAsJson(asset.materialization),
    observation: latestAsJson(asset.observation),
    check: latestAsJson(latestCheck(asset)),
    checks: checksOf(asset).map(([check_name, check]) => ({
      check_name,
      passed: check.passed,
      severity: check.severity,
      ...latestAsJson(check),
    })),
  };
}

function latestAsJson(kind: Latest | undefined): object | undefined {
  if (kind === undefined) return undefined;
  const { count, seq, partition, dataVersion } = kind;
  return { count, seq, time: timeOf(kind), partition, data_version: dataVersion };
}
