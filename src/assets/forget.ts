/** The assets whose state `assetlog assets forget` ends. */

import { hasPrefix } from '../event/asset-key.ts';
import { type Asset, keyOf } from './asset-state.ts';
import { silentMs } from './place.ts';

/** What must be forgotten: one asset, or all assets under a key that had no event for a time. */
export type Forget =
  | { readonly key: readonly string[] }
  | { readonly key_prefix: readonly string[]; readonly before_ms: number };

export type IsForgotten = (asset: Asset) => boolean;

/** @returns a test of an asset */
export function forgetTest(forget: Forget): IsForgotten {
  if ('key' in forget) {
    const { key } = forget;
    return (asset) => keyOf(asset).length === key.length && hasPrefix(keyOf(asset), key);
  }
  const { key_prefix, before_ms } = forget;
  const nowMs = Date.now();
  return (asset) => hasPrefix(keyOf(asset), key_prefix) && silentMs(asset.aliveMs, nowMs) >= nowMs - before_ms;
}
