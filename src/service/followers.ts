/**
 * Who follows the journals of a service, in order; the keys of a journal hear each fact first.
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
import { journalFolder } from '../config/config.ts';
import type { DataFolder } from './folder.ts';
import type { Peers } from './peers.ts';
import type { FollowingOptions } from './recording.ts';
import type { Setup } from './setup.ts';

/**
 * @param assets undefined if no client may read, no asset is watched, and no hook can need them
 * @returns the followers of a journal, by its deployment; undefined in local mode. Call before each opening of the journal
 */
export function followingOf(
  { progress }: Pick<Setup, 'progress'>,
  { disk }: DataFolder,
  assets: AllAssets | undefined,
  peers: Peers,
): (deployment: string | undefined) => FollowingOptions {
  return (deployment) => ({
    followers: [
      progress.follow(journalFolder(disk.folder, deployment)),
      ...(assets === undefined ? [] : [assets.of(deployment)]),
      ...peers.followersOf(deployment),
    ],
    heldBack: () => peers.heldBack(deployment),
    onRefused: () => progress.written(),
  });
}
