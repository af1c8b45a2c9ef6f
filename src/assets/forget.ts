/**
 * Forgets assets because an operator asked for it: `assetlog assets forget`. Beside a service the command leaves in the file
 * `assets.forget` what is to be forgotten. The service takes it up, and removes the file when the state is written without it.
 */

import { readObject } from '../config/json-file.ts';
import { hasPrefix } from '../event/asset-key.ts';
import { type Disk, describe } from '../journal/disk.ts';
import { RequestFile } from '../journal/request-file.ts';
import type { Notices } from '../telemetry/log.ts';
import { type Asset, isStale, keyOf } from './asset-state.ts';

/** What is to be forgotten: one asset, or those under a key that had no event for a time. */
export type Forget =
  | { readonly key: readonly string[] }
  | { readonly key_prefix: readonly string[]; readonly before_ms: number };

export type IsForgotten = (asset: Asset) => boolean;

const FORGET_FILE = 'assets.forget';
/** The longest key, with escapes. */
const FORGET_BYTES_MAX = 64 * 1024;

/** With a `Forget` as JSON. */
export const forgetFile = new RequestFile(FORGET_FILE, FORGET_BYTES_MAX);

/** @returns a test of an asset */
export function forgetTest(forget: Forget): IsForgotten {
  if ('key' in forget) {
    const { key } = forget;
    return (asset) => keyOf(asset).length === key.length && hasPrefix(keyOf(asset), key);
  }
  const { key_prefix, before_ms } = forget;
  return (asset) => hasPrefix(keyOf(asset), key_prefix) && isStale(asset, before_ms);
}

/**
 * For the service, now and then for each open journal, one call at a time. Never rejects.
 * @param forget forgets assets durably. @returns how many they were
 */
export async function takeForget(
  disk: Disk,
  notices: Notices,
  forget: (isForgotten: IsForgotten) => Promise<number>,
): Promise<void> {
  try {
    const assets = await forgetFile.take(disk, async (text) => {
      const asked = readObject(text) as Forget | undefined;
      if (asked === undefined) throw new Error(`${FORGET_FILE} is not JSON of assetlog`);
      return forget(forgetTest(asked));
    });
    if (assets !== undefined) notices.info('assets were forgotten', { folder: disk.folder, assets });
  } catch (error) {
    notices.warn('assets could not be forgotten', { folder: disk.folder, problem: describe(error as Error) });
  }
}
