/** A journal as its readers show it. */

import assert from 'node:assert/strict';
import { limits } from '../../src/config/limits.ts';
import type { Filter } from '../../src/event/search.ts';
import type { ReadableDisk } from '../../src/journal/disk.ts';
import type { Durable } from '../../src/journal/lock/protocol.ts';
import { readJournal } from '../../src/journal/look/reader.ts';
import type { Line, Reading, Remark } from '../../src/journal/look/reading.ts';
import type { Progress } from '../../src/journal/progress.ts';
import { diskWith, type Files } from './segments.ts';
import { pollProgress } from './standard-limits.ts';

/** A reader that waits looks again soon. */
export const readerLimits = { ...limits, followMs: 5 };

/** @param durable what the writer says; by default there is none */
export function progressOf(durable: () => Durable = () => ({ kind: 'unsaid' })): Progress {
  return { ...pollProgress(''), durable: async () => durable() };
}

export interface Seen {
  readonly lines: Line[];
  readonly seqs: number[];
  readonly texts: string[];
  readonly remarks: Remark[];
}

export async function readLines(
  disk: ReadableDisk,
  filter: Filter = {},
  { progress = progressOf(), ...how }: Partial<Pick<Reading, 'progress' | 'isSearch' | 'seek'>> = {},
): Promise<Seen> {
  const lines: Line[] = [];
  const remarks: Remark[] = [];
  const reading = { ...how, filter, progress, limits: readerLimits };
  for await (const page of readJournal(disk, reading, (remark) => remarks.push(remark))) lines.push(...page);
  for (const { event, seq } of lines) assert.equal(event.seq, seq);
  return { lines, seqs: lines.map(({ seq }) => seq), texts: lines.map(({ text }) => text), remarks };
}

/** @returns a disk with these files, and how many bytes were read of it */
export function countedDisk(files: Files) {
  const disk = diskWith(files);
  const counted = { bytes: 0 };
  const read: ReadableDisk['read'] = async function* (...part) {
    for await (const chunk of disk.read(...part)) {
      counted.bytes += chunk.length;
      yield chunk;
    }
  };
  return {
    counted,
    disk: { folder: disk.folder, list: () => disk.list(), size: (name: string) => disk.size(name), read },
  };
}
