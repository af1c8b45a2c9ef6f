/** Which events a reader asks for. */

import type { Event } from '../event/event.ts';
import { packMembers, quote, quoteAll, type Recorded } from './record.ts';

/** What a reader looks for. */
export interface Wanted {
  readonly type?: Event['type'] | undefined;
  readonly assetKey?: readonly string[] | undefined;
  /** The first parts of the key. */
  readonly keyPrefix?: readonly string[] | undefined;
  readonly partition?: string | undefined;
  readonly checkName?: string | undefined;
  readonly passed?: boolean | undefined;
}

/**
 * @returns bytes that each wanted line holds, those that few others hold; undefined where nothing is asked for. Text in
 * metadata may hold them as well: see `isWanted`
 */
export function traceOf({ type, assetKey, keyPrefix, partition, checkName, passed }: Wanted): Buffer | undefined {
  if (partition !== undefined) return packMembers(`"partition":${quote(partition)}`);
  if (checkName !== undefined) return packMembers(`"check_name":${quote(checkName)}`);
  if (assetKey !== undefined) return packMembers(`"asset_key":${quoteAll(assetKey)}`);
  if (keyPrefix !== undefined) return packMembers(`"asset_key":${quoteAll(keyPrefix).slice(0, -1)}`);
  if (passed !== undefined) return packMembers(`"passed":${passed}`);
  return type && packMembers(`"type":"${type}"`);
}

export function isWanted(
  event: Recorded,
  { type, assetKey, keyPrefix, partition, checkName, passed }: Wanted,
): boolean {
  const { asset_key } = event;
  return (
    (type === undefined || event.type === type) &&
    (assetKey === undefined || (asset_key.length === assetKey.length && beginsWith(asset_key, assetKey))) &&
    (keyPrefix === undefined || beginsWith(asset_key, keyPrefix)) &&
    (partition === undefined || event.partition === partition) &&
    (checkName === undefined || event.check_name === checkName) &&
    (passed === undefined || event.passed === passed)
  );
}

function beginsWith(key: readonly string[], parts: readonly string[]): boolean {
  return parts.every((part, index) => key[index] === part);
}
