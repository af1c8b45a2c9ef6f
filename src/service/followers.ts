/**
 * The followers of a service's journals, in order. The keys of a journal are always called first.
 *
 * | | keys | progress | assets | hub | destinations |
 * |---|---|---|---|---|---|
 * | opened | – | wakes readers | reads on | remembers the seq | – |
 * | committed | adds, or a Defect | wakes readers | adds | – | – |
 * | rotated | writes a sidecar | – | writes its file if much is new | writes its file | – |
 * | removing | – | – | its file has the events | its file has the events | their cursors are durable |
 * | removed | forgets | – | – | – | say what they lack |
 * | closing | – | – | writes its file | writes its file | – |
 */

import type { AllAssets } from '../assets/all-assets.ts';
import { journalFolder } from '../config/names.ts';
import type { ListenAt } from '../http/socket/listener.ts';
import type { Door } from '../journal/lock/protocol.ts';
import type { JournalOptions } from '../journal/options.ts';
import { doorOf } from './door.ts';
import type { Eraser } from './eraser.ts';
import type { DataFolder } from './folder.ts';
import type { Peers } from './peers.ts';
import { isReadingOn } from './readable.ts';
import type { Setup } from './setup.ts';

/** What a recording passes to its journals, by deployment, which is undefined in local mode. */
export interface RecordedJournals {
  /** The data folder, locked or waiting for space. */
  readonly folder: DataFolder;
  /** Called before each opening of the journal. */
  readonly followingOf: (
    deployment: string | undefined,
  ) => Pick<JournalOptions, 'followers' | 'heldBack' | 'onRefused'>;
  /** Forgets everything about a removed deployment. */
  readonly forget: (deployment: string) => void;
  /** @returns a function that carries out the requests of commands for the journal */
  readonly answerOf: (deployment: string | undefined) => Door['answer'];
  /**
   * Called before each opening of the journal, while its folder is locked. @throws the errors of `finishEraseAtStart`
   */
  readonly finishErase: (deployment: string | undefined) => Promise<void>;
}

/** The state of assets is kept if a client may read it, if an asset is watched, or if a hook might need it. */
export function recordedJournals(
  setup: Setup,
  at: ListenAt,
  folder: DataFolder,
  assets: AllAssets,
  peers: Peers,
  eraser: Eraser,
): RecordedJournals {
  const { config, progress } = setup;
  // A hook with `on` can be added to the file of --forward while the service runs.
  const isNeeded = config.watchAsset.length > 0 || config.forward !== '';
  const isKept = isNeeded || isReadingOn(config, at.kind === 'address' ? at.host : LOOPBACK);
  const folderOf = (deployment: string | undefined) => journalFolder(folder.disk.folder, deployment);
  return {
    folder,
    followingOf: (deployment) => ({
      followers: [
        progress.follow(folderOf(deployment)),
        ...(isKept ? [assets.of(deployment)] : []),
        ...peers.followersOf(deployment),
      ],
      heldBack: () => peers.heldBack(deployment),
      onRefused: () => progress.written(),
    }),
    forget: (deployment) => {
      progress.forget(folderOf(deployment));
      assets.forget(deployment);
    },
    answerOf: doorOf({ setup, folder, assets, peers, eraser }),
    finishErase: (deployment) => eraser.finish(deployment),
  };
}

/** A passed socket might listen on this address. */
const LOOPBACK = '127.0.0.1';
