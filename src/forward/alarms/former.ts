/**
 * What version 0.3 posted to a hook. That version had a cursor and a file of stale assets. Both files are kept to allow a downgrade; this
 * module is removed in version 0.5.
 */

import type { Limits } from '../../config/limits.ts';
import { BETWEEN_PARTS } from '../../event/asset-key.ts';
import type { ReadableDisk } from '../../journal/disk.ts';
import { readSmall } from '../../journal/file-io.ts';
import { readCursor } from '../ledger/cursor.ts';
import type { ToldAlarm } from './alarm.ts';

export interface Former {
  /** The last event that the hook had. */
  readonly seq: number;
  /** The stale assets that were posted to it. */
  readonly stale: readonly ToldAlarm[];
}

/**
 * @param name of the destination
 * @returns undefined if there is no cursor, or it is lost; the hook then counts as new
 * @throws the error of a system call
 */
export async function readFormer(
  disk: ReadableDisk,
  name: string,
  { alarmBytesMax }: Limits,
): Promise<Former | undefined> {
  const cursor = await readCursor(disk, name);
  if (cursor.kind !== 'found') return undefined;
  const text = `${(await readSmall(disk, `forward-${name}.stale`, alarmBytesMax)) ?? ''}`;
  const lines = text.split('\n').filter((line) => STALE_LINE.test(line));
  return { seq: cursor.value.seq, stale: lines.map((line) => staleIn(JSON.parse(line))) };
}

function staleIn({ asset_key, seq, since }: { asset_key: string[]; seq: number; since: string }): ToldAlarm {
  const subject = { asset: asset_key.join(BETWEEN_PARTS), check: undefined, partition: undefined };
  return { on: 'stale', ...subject, severity: undefined, sinceMs: Date.parse(since), sinceSeq: seq, posted: since };
}

/** A complete line of an asset that was posted. */
const STALE_LINE = /^\{"asset_key":.*,"posted":true\}$/;
