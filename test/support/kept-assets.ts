/** A journal on a simulated disk, with the state of its assets as a service keeps it. */

import { AllAssets, type AllAssetsOptions } from '../../src/assets/all-assets.ts';
import { assetJson } from '../../src/assets/asset-json.ts';
import type { FoldedJournal, JournalAssets } from '../../src/assets/journal-assets.ts';
import type { Limits } from '../../src/config/limits.ts';
import type { ReadableDisk } from '../../src/journal/disk.ts';
import type { JournalOptions } from '../../src/journal/options.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import type { SimulatedDisk } from '../world/simulated-disk.ts';
import { createJournal, quickLimits, type TestJournal } from './journal.ts';
import type { PlainEvent } from './plain-event.ts';

export interface KeptJournal extends TestJournal {
  readonly disk: SimulatedDisk;
  readonly all: AllAssets;
  readonly assets: JournalAssets;
  /** The log of the state. */
  readonly log: string[];
  /** @returns the state, after it was read */
  state(): Promise<{ readonly assets: readonly ShownAsset[]; readonly sinceSeq: number; readonly unseen: unknown }>;
}

export interface ShownLatest {
  readonly count: number;
  readonly seq: number;
  readonly partition?: string;
}

export interface ShownAsset {
  readonly asset_key: readonly string[];
  readonly materialization?: ShownLatest;
  readonly observation?: ShownLatest;
  readonly checks: readonly (ShownLatest & { readonly passed: boolean; readonly in_a_row: number })[];
}

export type ReadingOptions = Parameters<FoldedJournal['diskFor']>[0];

export interface KeptOptions extends Partial<Pick<AllAssetsOptions, 'keys'>> {
  readonly journal?: Partial<JournalOptions>;
  readonly limits?: Partial<Limits>;
  /** @returns what the lines are read with in turns, instead of `disk.read` */
  readonly reading?: (disk: SimulatedDisk, options: ReadingOptions) => ReadableDisk['read'];
}

/** Creates a journal that is not open yet. */
export function createKept(
  disk: SimulatedDisk,
  { journal, limits, reading, keys = [] }: KeptOptions = {},
): KeptJournal {
  const progress = new OwnProgress();
  const log: string[] = [];
  const all = new AllAssets({
    keys,
    isHosted: false,
    openDisk: () => disk,
    journalOf: () => ({
      diskFor: (options) => ({
        folder: disk.folder,
        list: () => disk.list(),
        size: (name) => disk.size(name),
        read: reading?.(disk, options) ?? ((...range) => disk.read(...range)),
      }),
      progress: () => progress.of(disk.folder),
      remarks: () => () => {},
    }),
    nextSeq: (folder) => progress.nextSeq(folder),
    turn: async () => {},
    notices: createNotices('debug', false, (line) => log.push(line)),
    limits: { ...quickLimits, assetsSaveMs: 5, ...limits },
  });
  const assets = all.of(undefined);
  const created = createJournal(disk, {
    followers: [progress.follow(disk.folder), assets],
    ...journal,
  });
  return {
    ...created,
    disk,
    all,
    assets,
    log,
    state: async () => {
      await assets.whenCurrent(new AbortController().signal);
      const { states, sinceSeq, unseen } = assets.current!;
      const shown = [...states.inOrder()].map((asset) => assetJson(asset, 0));
      return { assets: JSON.parse(JSON.stringify(shown)), sinceSeq, unseen };
    },
  };
}

export async function openKept(disk: SimulatedDisk, options?: KeptOptions): Promise<KeptJournal> {
  const kept = createKept(disk, options);
  await kept.journal.open();
  return kept;
}

/** An event of each kind in turn. Of the check every third result is a failure. */
export function eventAt(n: number): PlainEvent {
  const assetKey = ['a', `${n % 4}`];
  if (n % 5 === 0)
    return { type: 'AssetCheckEvaluation', assetKey, checkName: 'c', passed: n % 3 > 0, severity: 'WARN' };
  return { type: n % 2 === 0 ? 'AssetMaterialization' : 'AssetObservation', assetKey, partition: `p${n}` };
}

/** @returns how many events the state has counted */
export function countOf(assets: readonly ShownAsset[]): number {
  const counts = assets.flatMap(({ materialization, observation, checks }) => [
    materialization,
    observation,
    ...checks,
  ]);
  return counts.reduce((sum, latest) => sum + (latest?.count ?? 0), 0);
}
