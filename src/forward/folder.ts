/**
 * What the folder of a journal reveals about the journal and its destinations, even if its service is dead or does not answer.
 */

import type { Limits } from '../config/limits.ts';
import type { ReadableDisk } from '../journal/disk.ts';
import { readJournal } from '../journal/look/reader.ts';
import type { Line } from '../journal/look/reading.ts';
import { lastLine } from '../journal/open/scan.ts';
import { AT_REST } from '../journal/progress.ts';
import { contentsOf } from '../journal/segments.ts';
import type { SeqRange } from './position.ts';

/** @returns the sorted names of the destinations that have files in the folder */
export async function readNames(disk: Pick<ReadableDisk, 'list'>): Promise<string[]> {
  const found = (await disk.list()).map((name) => DESTINATION_FILE.exec(name)).filter((match) => match !== null);
  return [...new Set(found.map(([, one, other, dead]) => one ?? other ?? dead ?? ''))].sort();
}

/** @returns the first seq of the journal's first file; 1 if there is no file. @throws the error of a system call */
export async function readFirstSeq(disk: Pick<ReadableDisk, 'list'>): Promise<number> {
  return contentsOf(await disk.list()).segments[0]?.firstSeq ?? 1;
}

/** @returns the seq of the last complete line; 0 if the journal has no events */
export async function readLastSeq(disk: ReadableDisk, limits: Limits): Promise<number> {
  const segment = contentsOf(await disk.list()).segments.at(-1);
  if (segment === undefined) return 0;
  const { name, firstSeq: first } = segment;
  const whole = await lastLine(disk, name, await disk.size(name), limits);
  if (whole !== undefined) return whole.seq;
  let last = first - 1;
  // The file is empty, or ends with a part of a line.
  for await (const { seq } of readLines(disk, { first, last: Number.MAX_SAFE_INTEGER }, limits)) last = seq;
  return last;
}

/** @returns the lines with these seqs that are in the journal */
export async function* readLines(disk: ReadableDisk, { first, last }: SeqRange, limits: Limits): AsyncGenerator<Line> {
  const filter = { afterSeq: first - 1, untilSeq: last };
  for await (const lines of readJournal(disk, { filter, seek: true, progress: AT_REST, limits }, () => {}))
    yield* lines;
}

const DESTINATION_FILE = /^(?:forward-(.+)\.(?:cursor|state)|\.forwarded-(.+)|dead-(.+)\.jsonl)$/;
