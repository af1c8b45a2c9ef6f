/** Finds the events that are to be erased. */

import type { Limits } from '../../config/limits.ts';
import type { Filter } from '../../event/search.ts';
import { type ReadableDisk, unlessAbsent } from '../disk.ts';
import { erasedLine } from '../line/erased.ts';
import { readJournal } from '../look/reader.ts';
import { Line } from '../look/reading.ts';
import { DamagedError, findingsIn } from '../open/recovery.ts';
import { scanSegment } from '../open/scan.ts';
import type { Progress } from '../progress.ts';
import { contentsOf } from '../segments.ts';
import { SeqSet } from './order.ts';

export interface Selection {
  readonly seqs: SeqSet;
  /** The first of them, as they are in the journal. */
  readonly first: readonly Line[];
}

/** The events cannot be selected. Its message says what to do. */
export class NotSelectedError extends Error {
  /** Whether the journal is damaged. */
  readonly isDamaged: boolean;

  constructor(problem: string, isDamaged: boolean) {
    super(problem);
    this.isDamaged = isDamaged;
  }
}

/**
 * @param filters an event is selected if it matches any of them, and is not erased yet
 * @param all see `Erasure.all`
 * @throws NotSelectedError, DamagedError, LinkError, or the error of a system call
 */
export async function select(
  disk: ReadableDisk,
  progress: Progress,
  filters: readonly Filter[],
  all: boolean,
  limits: Limits,
): Promise<Selection> {
  // The events behind a link would look lost, and their texts would stay.
  const names = await disk.list(true).catch(unlessAbsent(undefined));
  if (names === undefined) return { seqs: SeqSet.of([]), first: [] }; // nothing was recorded yet
  const seqs: number[] = [];
  const first = new Map<number, Line>();
  for (const filter of filters) {
    const reading = { filter, isSearch: true, progress, limits };
    const pages = readJournal(disk, reading, ({ kind, text }) => {
      if (kind === 'damage')
        throw new NotSelectedError(`${text}; run assetlog repair, then select the events again`, true);
    });
    for await (const lines of pages) {
      for (const { bytes, start, end, seq } of lines) {
        if (erasedLine(bytes, start, end, { time: '', all }) === undefined) continue;
        seqs.push(seq);
        if (first.size < FIRST_MAX)
          first.set(seq, new Line(Buffer.from(bytes.subarray(start, end)), 0, end - start, seq));
      }
      if (seqs.length > limits.eraseEventsMax)
        throw new NotSelectedError(
          `over ${limits.eraseEventsMax} events match; erase fewer at a time, such as with --until-seq`,
          false,
        );
    }
  }
  const found = { seqs: SeqSet.of(seqs), first: [...first.values()] };
  await checkSegments(disk, found.seqs, limits);
  return found;
}

/** A segment with a bad line is not rewritten. @throws DamagedError */
async function checkSegments(disk: ReadableDisk, seqs: SeqSet, limits: Limits): Promise<void> {
  const { segments } = contentsOf(await disk.list());
  for (const [index, segment] of segments.slice(0, -1).entries()) {
    if (!seqs.hasIn(segment.firstSeq, segments[index + 1]!.firstSeq - 1)) continue;
    const scan = await scanSegment(disk.read(segment.name), segment.firstSeq, limits);
    const [finding] = findingsIn(segment, scan, 'earlier', limits);
    if (finding !== undefined) throw new DamagedError(disk.folder, finding);
  }
}

/** Lines that are shown. */
const FIRST_MAX = 10;
