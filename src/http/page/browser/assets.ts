/** The view of the assets: their last materializations and the states of their checks. */

import { pageLimits } from '../../../config/limits.ts';
import { addressOf, hashOf } from './address.ts';
import { type Content, element } from './dom.ts';
import { type PolledOptions, PolledView } from './polled.ts';
import { badge, cell, counted, renderKey, renderTime, shortTime, table } from './view.ts';

/** The latest event of a kind. */
interface Latest {
  readonly count: number;
  readonly seq: number;
  readonly time: string;
  readonly partition?: string;
  readonly data_version?: string;
  /** Whether retention removed the event. */
  readonly removed?: boolean;
}

interface Check extends Latest {
  readonly check_name: string;
  readonly passed: boolean;
  readonly severity: string;
  /** Whether the latest result without a partition, or the latest result of any partition, is a failure. */
  readonly failing: boolean;
  readonly failing_severity?: string;
  /** Since when the check has this state, and for how many consecutive results; absent if unknown. */
  readonly since?: string;
  readonly in_a_row?: number;
  readonly failed_partitions?: readonly { readonly partition: string }[];
  readonly failed_partitions_beyond?: number;
}

/** An asset in the reply of `/assets`. */
export interface Asset {
  /** When its last event happened. */
  readonly alive?: string;
  readonly asset_key: readonly string[];
  readonly materialization?: Latest;
  readonly observation?: Latest;
  /** The latest result of any check. */
  readonly check?: Latest;
  readonly checks: readonly Check[];
}

type Shared = Pick<PolledOptions<Asset>, 'service' | 'onChange' | 'open' | 'detail'>;

export function assetsView(shared: Shared): PolledView<Asset> {
  return new PolledView<Asset>({
    ...shared,
    columns: {
      what: 'checks',
      key: 'asset key',
      time: 'materialized (UTC)',
      partition: 'partition',
      says: 'failed checks',
    },
    label: 'Assets',
    noun: 'asset',
    pathFor: ({ key_prefix, failed }) => {
      const query = new URLSearchParams({ limit: String(pageLimits.readLimit), sort: 'state' });
      if (key_prefix !== '') query.set('key_begins_with', key_prefix);
      if (failed !== '') query.set('failing', 'true');
      return `assets?${query}`;
    },
    itemsIn: ({ assets = [] }) => assets,
    idOf: ({ asset_key }) => JSON.stringify(asset_key),
    cells,
  });
}

function cells({ asset_key, materialization, observation, check, checks }: Asset): Node[] {
  const failed = checks.filter(({ failing }) => failing);
  const last = materialization ?? observation ?? check;
  const what = materialization ? '' : observation ? 'observed ' : 'checked ';
  return [
    cell('what', state(checks)),
    cell('key', renderKey(asset_key)),
    cell('time', last === undefined ? '' : what + shortTime(last.time)),
    cell('partition', last?.partition ?? ''),
    cell('says', failed.map(({ check_name }) => check_name).join(', ')),
  ];
}

/** @returns a summary of the states of all checks */
function state(checks: readonly Check[]): Content {
  const failed = checks.filter(({ failing }) => failing);
  if (checks.length === 0) return element('span', { class: 'none' }, 'no checks');
  if (failed.length === 0) return badge('good', `${checks.length} passed`);
  const isError = failed.some(({ failing_severity }) => failing_severity !== 'WARN');
  return badge(isError ? 'bad' : 'warn', `${failed.length} of ${checks.length} failed`);
}

/** @returns the latest events of an asset, with their titles */
export function latestOfKinds({ materialization, observation }: Asset): Content[] {
  return [...latest('Last materialization', materialization), ...latest('Last observation', observation)];
}

function latest(title: string, event: Latest | undefined): Content[] {
  if (event === undefined) return [];
  const { count, time, partition, data_version } = event;
  return [
    element('h3', {}, title),
    table([
      ['time', renderTime(time)],
      ['event', eventLink(event)],
      ['partition', partition],
      ['data_version', data_version],
      ['of this kind', counted(count, 'event')],
    ]),
  ];
}

/** @returns the state of a check, since when it holds, and a link to its last result */
export function checkState(check: Check): HTMLElement {
  const { failing, failing_severity = '', time, count, since, in_a_row = 0 } = check;
  const shown = failing
    ? badge(failing_severity === 'WARN' ? 'warn' : 'bad', `failed (${failing_severity.toLowerCase()})`)
    : badge('good', 'passed');
  const inARow =
    since === undefined ? [] : [in_a_row > 1 ? `, ${in_a_row} in a row since ` : ', since ', renderTime(since)];
  const all = `, ${counted(count, 'result')}`;
  return element('span', {}, shown, ' ', renderTime(time), partitionsOf(check), ', ', eventLink(check), ...inARow, all);
}

/** @returns the failing partitions, sorted by name and limited in number */
function partitionsOf({ failed_partitions = [], failed_partitions_beyond = 0 }: Check): string {
  const shown = failed_partitions.slice(0, PARTITIONS_SHOWN).map(({ partition }) => partition);
  const more = failed_partitions.length - shown.length + failed_partitions_beyond;
  if (shown.length + more === 0) return '';
  return `, partitions ${shown.join(', ')}${more === 0 ? '' : ` and ${more} more`}`;
}

const PARTITIONS_SHOWN = 5;

function eventLink({ seq, removed }: Latest): HTMLElement {
  if (removed) return element('span', {}, `seq ${seq}, removed`);
  return element('a', { href: hashOf(addressOf('events', { open: String(seq) })) }, `seq ${seq}`);
}
