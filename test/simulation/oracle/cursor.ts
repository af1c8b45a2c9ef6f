/** How far a destination is, as its cursor says on the disk: two slots of 512 bytes, of which the valid one with the larger number counts. */

import { crc32 } from 'node:zlib';
import type { SimulatedDisk } from '../../support/simulated-disk.ts';

export interface SeenCursor {
  readonly seq: number;
  readonly id: string | null;
  /** The last event that a plain destination may have besides. */
  readonly sending?: number;
}

const SLOT_BYTES = 512;
const END = /,"crc":"([\da-f]{8})"\} *\n?$/;

/** @returns undefined if no slot is valid */
export function cursorIn(bytes: Buffer): SeenCursor | undefined {
  let best: (SeenCursor & { readonly number: number }) | undefined;
  for (let at = 0; at < bytes.length; at += SLOT_BYTES) {
    const slot = bytes.toString('utf8', at, at + SLOT_BYTES);
    const end = END.exec(slot);
    if (end === null || crc32(slot.slice(0, end.index)) !== Number.parseInt(end[1]!, 16)) continue;
    const value = JSON.parse(`${slot.slice(0, end.index)}}`);
    if (best === undefined || value.number > best.number) best = value;
  }
  return best;
}

/** @returns the seq up to which the cursor of a destination is, durably; 0 if there is none */
export function cursorSeq(disk: SimulatedDisk, name: string): number {
  const bytes = disk.durableBytes(`forward-${name}.cursor`);
  return (bytes && cursorIn(bytes)?.seq) ?? 0;
}

/** @returns the same as a start reads it: the process before may have left a later cursor in the cache, which is true as well */
export function readCursorSeq(disk: SimulatedDisk, name: string): number {
  const bytes = disk.bytes(`forward-${name}.cursor`);
  return (bytes && cursorIn(bytes)?.seq) ?? 0;
}
