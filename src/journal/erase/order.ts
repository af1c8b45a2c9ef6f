/**
 * What is being erased, durably: while the folder has the file `.erase`, some files may have texts of these events and others not. Who
 * takes the lock of the folder next finishes it. It has no text of an event.
 *
 *     {"time":"…","all":false,"seqs":[[4,4],[7,9]],"crc":"9ae0daaf"}
 */

import type { Disk, ReadableDisk } from '../disk.ts';
import { clearName, readSmall, replaceDurably } from '../file-io.ts';
import { findFirstIndex } from '../first-index.ts';
import type { Erasure } from '../line/erased.ts';
import { sealedFile, unsealedFile } from '../sealed.ts';

/** Some seqs of a journal. */
export class SeqSet {
  /** In order, and not adjacent: the first and the last seq, both inclusive. */
  readonly ranges: readonly (readonly [first: number, last: number])[];

  constructor(ranges: SeqSet['ranges']) {
    this.ranges = ranges;
  }

  /** @param seqs in any order, also more than once */
  static of(seqs: readonly number[]): SeqSet {
    const ranges: [number, number][] = [];
    for (const seq of seqs.toSorted((a, b) => a - b)) {
      const last = ranges.at(-1);
      if (last !== undefined && seq <= last[1] + 1) last[1] = seq;
      else ranges.push([seq, seq]);
    }
    return new SeqSet(ranges);
  }

  get size(): number {
    return this.ranges.reduce((sum, [first, last]) => sum + last + 1 - first, 0);
  }

  has(seq: number): boolean {
    return this.hasIn(seq, seq);
  }

  /** Whether a seq from `first` to `last`, both inclusive, is among them. */
  hasIn(first: number, last: number): boolean {
    const found = this.ranges[findFirstIndex(this.ranges, (range) => range[1] >= first)];
    return found !== undefined && found[0] <= last;
  }
}

export interface EraseOrder extends Erasure {
  readonly seqs: SeqSet;
}

/** Name of the file with the order. */
export const ORDER_FILE = '.erase';

/** @returns undefined if nothing is being erased. @throws the error of a system call */
export async function readOrder(disk: ReadableDisk): Promise<EraseOrder | undefined> {
  const bytes = await readSmall(disk, ORDER_FILE, BYTES_MAX);
  const text = bytes && unsealedFile(bytes); // it was written to another name, so it is whole
  if (text === undefined) return undefined;
  const { seqs, ...erasure } = JSON.parse(text);
  return { ...erasure, seqs: new SeqSet(seqs) };
}

/** @throws the error of a system call, after which there is no order, or a whole one */
export async function writeOrder(disk: Disk, { time, all, seqs }: EraseOrder): Promise<void> {
  const text = JSON.stringify({ time, all, seqs: seqs.ranges });
  await replaceDurably(disk, ORDER_FILE, [sealedFile(text.slice(0, -1))]);
}

/** Call when all files are without the texts. @throws the error of a system call */
export async function removeOrder(disk: Disk): Promise<void> {
  await clearName(disk, ORDER_FILE);
  await disk.syncFolder();
}

/** Name of the file with the first seqs of the segments that were rewritten: a backup copies them again. */
export const ANEW_FILE = 'erased.json';

/** @returns the first seqs of the segments that an erase has ever rewritten. @throws the error of a system call */
export async function readAnew(disk: ReadableDisk): Promise<ReadonlySet<number>> {
  const bytes = await readSmall(disk, ANEW_FILE, BYTES_MAX);
  const text = bytes && unsealedFile(bytes);
  return new Set(text === undefined ? [] : JSON.parse(text).segments);
}

/** Adds to these, durably. @param there the first seqs of all segments that the journal has: others are left out */
export async function addAnew(disk: Disk, firstSeqs: readonly number[], there: readonly number[]): Promise<void> {
  const all = new Set([...(await readAnew(disk)), ...firstSeqs]);
  const segments = there.filter((firstSeq) => all.has(firstSeq));
  await replaceDurably(disk, ANEW_FILE, [sealedFile(`{"segments":${JSON.stringify(segments)}`)]);
}

/** More than either file has: the ranges of `eraseEventsMax` events take up to 36 bytes each. */
const BYTES_MAX = 64 * 1024 * 1024;
