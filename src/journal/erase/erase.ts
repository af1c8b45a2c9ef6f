/**
 * Erases events of a journal whose folder is locked, and that no one writes: the texts are gone from each of its files afterwards. The
 * order is durable before the first file changes, so that the next start finishes what a crash interrupts. Each step may be repeated.
 *
 * Only closed segments are rewritten: a newest one with such an event gets a successor first.
 */

import type { Limits } from '../../config/limits.ts';
import type { Notices } from '../../telemetry/log.ts';
import type { Disk } from '../disk.ts';
import { renewSidecar } from '../keys/sidecar.ts';
import { markCleanStop } from '../open/clean-stop.ts';
import { recover } from '../open/recovery.ts';
import { contentsOf, type SegmentName, segmentFirstSeq, segmentName } from '../segments.ts';
import { addAnew, type EraseOrder } from './order.ts';
import { eraseInFile, UNFINISHED } from './rewrite.ts';

export interface EraseParts {
  readonly disk: Disk;
  /** Opens a folder in it. */
  readonly openDisk: (folder: string) => Disk;
  readonly notices: Notices;
  readonly limits: Limits;
  /** Throws if the folder is no longer locked. */
  readonly checkHeld: () => void;
}

/**
 * Erases in the segments, and in the copies of damage that starts and repairs have kept.
 * @param done the first seqs of segments that were rewritten before, to which those of this call are added; if it is given, they are
 *   at most `limits.eraseSegmentsMax`
 * @returns whether these are all
 * @throws DamagedError, or the error of a system call; it may be called again
 */
export async function eraseInJournal(parts: EraseParts, order: EraseOrder, done?: Set<number>): Promise<boolean> {
  const { disk, limits } = parts;
  await removeRests(disk);
  await closeNewest(parts, order);
  const { segments } = contentsOf(await disk.list());
  const touched = segments.flatMap((segment, at): [SegmentName, number][] => {
    const endSeq = segments[at + 1]?.firstSeq;
    return endSeq !== undefined && order.seqs.hasIn(segment.firstSeq, endSeq - 1) ? [[segment, endSeq]] : [];
  });
  // Before the first of them: a backup that copies one twice loses nothing.
  const seqsOf = (some: readonly SegmentName[]) => some.map(({ firstSeq }) => firstSeq);
  await addAnew(disk, seqsOf(touched.map(([segment]) => segment)), seqsOf(segments));
  const left = touched.filter(([{ firstSeq }]) => done?.has(firstSeq) !== true);
  for (const [segment, endSeq] of left.slice(0, done && limits.eraseSegmentsMax)) {
    parts.checkHeld();
    done?.add(segment.firstSeq);
    await eraseInFile(disk, segment.name, segment.firstSeq, order, limits, 'refused');
    await renewSidecar(disk, segment, endSeq, limits);
  }
  if (done !== undefined && left.length > limits.eraseSegmentsMax) return false;
  for (const name of (await disk.list()).filter((name) => DAMAGED.test(name))) await eraseInDamaged(parts, name, order);
  return true;
}

/** Begins the next segment, if the newest one has an event that is to be erased. */
async function closeNewest({ disk, notices, limits, checkHeld }: EraseParts, { seqs }: EraseOrder): Promise<void> {
  const newest = contentsOf(await disk.list()).segments.at(-1);
  if (newest === undefined || !seqs.hasIn(newest.firstSeq, Number.POSITIVE_INFINITY)) return;
  const { file, chain, bytes } = await recover(disk, notices, limits, checkHeld);
  await file.close();
  if (bytes === 0) return;
  const next = segmentName(chain.seq);
  await (await disk.createLog(next)).close();
  await markCleanStop(disk, { file: next, bytes: 0, chain: { seq: chain.seq, crc: 0 } });
}

/** What an interrupted write left might have a part of any event, and no line of it counts. */
async function removeRests(disk: Disk): Promise<void> {
  for (const name of (await disk.list()).filter((name) => REST.test(name))) await disk.remove(name);
  await disk.syncFolder();
}

/** @param side the folder in which a repair has kept damaged segments */
async function eraseInDamaged({ disk, openDisk, limits }: EraseParts, side: string, order: EraseOrder): Promise<void> {
  await disk.size(side); // refuses a link
  const copies = openDisk(`${disk.folder}/${side}`);
  for (const name of await copies.list(true)) {
    const firstSeq = segmentFirstSeq(name);
    if (firstSeq !== undefined) await eraseInFile(copies, name, firstSeq, order, limits, 'left out');
    else if (name.endsWith(UNFINISHED)) await copies.remove(name);
  }
}

const DAMAGED = /^damaged-\d{8}T\d{6}Z(-\d+)?$/;
const REST =
  /^(events-\d{20}\.jsonl\.(torn(-\d+)?|rewrite|repair|erasing)|(events-.*|dead-.*|assets\.state|forward-.*\.alarms)\.(partial|new))$/;
