/** The parts that read the journals of a service over HTTP, and the state of their assets. */

import { AllAssets } from '../assets/all-assets.ts';
import { AssetReadings } from '../reading/assets.ts';
import { ReadableJournals } from '../reading/journals.ts';
import type { DataFolder } from './folder.ts';
import type { Setup } from './setup.ts';

export interface ServiceReading {
  readonly journals: ReadableJournals;
  readonly allAssets: AllAssets;
  readonly assets: AssetReadings;
}

export function createReading(setup: Setup, folder: DataFolder): ServiceReading {
  const { config, limits, notices, openDisk, progress, collectGarbage, later } = setup;
  const data = folder.disk.folder;
  const open = (deployment: string) => {
    later.recording?.wake(deployment);
    return later.recording?.troubles().get(deployment);
  };
  const journals = new ReadableJournals({ data, openDisk, progress, open, limits, notices, collectGarbage });
  const allAssets = new AllAssets({
    keys: config.watchAsset,
    isHosted: config.deployments !== '',
    openDisk: (deployment) => folder.diskOf(deployment),
    journalOf: (deployment) => journals.of(deployment),
    nextSeq: (of) => progress.nextSeq(of),
    turn: () => journals.shared.turns.take(),
    notices,
    limits,
  });
  return { journals, allAssets, assets: new AssetReadings({ journals, assets: allAssets, limits }) };
}
