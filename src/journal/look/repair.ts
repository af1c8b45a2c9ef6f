/**
 * Repairs a damaged journal so that a service can start on it. Every good line is kept, with its seq, id and time. After
 * lost lines the journal continues in a new file, and an empty marker file is named after their seqs. Each damaged file is
 * kept unchanged in a subfolder. If a repair is interrupted at any step, running it again loses nothing.
 */

import type { Limits } from '../../config/limits.ts';
import type { Disk } from '../disk.ts';
import { copyFile, writeFile } from '../file-io.ts';
import { rechain } from '../line/chain.ts';
import { rewriteLines } from '../line/lines.ts';
import { removeCleanStop } from '../open/clean-stop.ts';
import { type Finding, type FindingKind, findingsIn } from '../open/recovery.ts';
import { type OnWalkedLine, walkSegment } from '../open/walk.ts';
import { afterGone, type GoneRange, goneName, type SegmentName, segmentName } from '../segments.ts';
import type { Verdict, VerifiedSegment } from './verify.ts';

/** What a repair does. A plan without files, runs and lost events does nothing. */
export interface Plan {
  /** The damaged files, which are moved out of the journal. */
  readonly files: readonly DamagedFile[];
  /** The files that are written, each with consecutive lines. */
  readonly runs: readonly SeqRun[];
  /** Whether the marker of the last clean stop is removed: it describes the journal before the repair. */
  readonly forgetsStop: boolean;
  /** Missing events that no earlier repair accounts for. */
  readonly lost: readonly GoneRange[];
  /**
   * Files under another name that might contain events of the journal. The repair would report these events as lost, so it is not
   * carried out.
   */
  readonly renamed: readonly SegmentName[];
}

/** One file that a repair moves out of the journal, and which of its lines are kept. Bytes count from 0. */
export interface DamagedFile {
  readonly name: string;
  /** The first finding in it. */
  readonly finding: Finding;
  readonly bytes: number;
  /** Number of good lines that stay in the journal. */
  readonly kept: number;
  /** The byte ranges that are not kept: the first ranges, the number of ranges, and their total bytes. */
  readonly removed: readonly { readonly byte: number; readonly bytes: number }[];
  readonly removedRanges: number;
  readonly removedBytes: number;
}

/** Consecutive good lines that are adjacent in a file. */
export interface Stretch {
  readonly file: string;
  /** The first byte of the first line, and the byte after the newline of the last one. */
  readonly start: number;
  readonly end: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
}

/** Consecutive events that a repair writes as one file. */
export interface SeqRun {
  readonly firstSeq: number;
  readonly lines: number;
  /** In the order of their seqs. */
  readonly stretches: readonly Stretch[];
}

/** Suffix of a file that is not complete yet. */
const UNFINISHED = '.repair';

/**
 * Reads the damaged files and decides what to do. Changes nothing. Memory depends only on the number of damaged ranges, not on
 * the size of the files.
 * @param verdict the verdict about the journal; its folder must have been locked before `verify` read it
 * @returns a plan, which is empty if a start would succeed
 * @throws Error for a file with too many damaged ranges, or the error of a system call
 */
export async function planRepair(
  disk: Disk,
  { segments, renamed, gone: known, findings, lastStop }: Verdict,
  limits: Limits,
): Promise<Plan> {
  const refused = new Map<string, Finding>();
  for (const finding of findings) {
    if (finding.decision === 'refuse' && !WITHOUT_BAD_LINES.has(finding.kind) && !refused.has(finding.file)) {
      refused.set(finding.file, finding);
    }
  }
  const whole = segments.filter(({ name }) => !refused.has(name));
  const inWhole = whole.map((segment) => ({ firstSeq: segment.firstSeq, lastSeq: nextOf(segment) - 1 }));
  const kept: Stretch[] = [];
  const files: DamagedFile[] = [];
  let badAfter = 0;
  for (const [index, segment] of segments.entries()) {
    const finding = refused.get(segment.name);
    if (finding === undefined) continue;
    const found = await findStretches(disk, segment, [...inWhole, ...kept], limits);
    for (const stretch of found.stretches) kept.push(stretch);
    badAfter = index === segments.length - 1 ? found.badAfter : 0;
    const account = accountFor(found.stretches, segment.bytes, limits.repairListMax);
    files.push({ name: segment.name, finding, bytes: segment.bytes, ...account });
  }
  const runs = runsOf(kept.sort((a, b) => a.firstSeq - b.firstSeq));
  const pieces = [
    ...whole.map((segment) => ({ first: segment.firstSeq, next: nextOf(segment) })),
    ...runs.map(({ firstSeq, lines }) => ({ first: firstSeq, next: firstSeq + lines })),
  ].sort((a, b) => a.first - b.first || a.next - b.next);
  const end = endOf(pieces, known, lastStop?.end?.chain.seq ?? 0, badAfter);
  for (const segment of whole.filter(({ firstSeq, scan }) => scan.lines === 0 && firstSeq < end.next)) {
    // The last file gets a successor, so it is checked like an earlier file.
    const [finding] = findingsIn(segment, segment.scan, 'earlier', limits) as [Finding];
    files.push({ name: segment.name, finding, bytes: segment.bytes, ...accountFor([], segment.bytes, 0) });
  }
  const plan = withEnd({ files, runs, lost: [], renamed: [], forgetsStop: lastStop !== undefined }, pieces, known, end);
  const isMissing = ({ firstSeq }: SegmentName) =>
    firstSeq >= end.next || plan.lost.some(({ first, last }) => first <= firstSeq && firstSeq <= last);
  return { ...plan, renamed: renamed.filter(isMissing) };
}

/**
 * @returns an unused name for the folder of the damaged files: `damaged-20261120T151945Z`, or `damaged-20261120T151945Z-2` if
 *   the clock repeats a time
 */
export function sideName(names: readonly string[], now: Date): string {
  const name = `damaged-${now.toISOString().replaceAll(/[-:]|\.\d+/g, '')}`;
  let free = name;
  for (let number = 2; names.includes(free); number += 1) free = `${name}-${number}`;
  return free;
}

/**
 * Carries out a plan.
 * @param side the name of the folder for the damaged files
 * @param report JSON text, written to `repair.json` in that folder
 * @throws the error of a system call; the repair can then be run again
 */
export async function carryOut(
  disk: Disk,
  { files, runs, lost, forgetsStop }: Plan,
  side: string,
  report: string,
  limits: Limits,
): Promise<void> {
  for (const name of await disk.list()) if (name.endsWith(UNFINISHED)) await disk.remove(name);
  if (files.length > 0) {
    await disk.createFolder(side);
    for (const { name } of files) await copyFile(disk, name, `${side}/${name}`);
    await writeFile(disk, `${side}/repair.json`, [Buffer.from(report)]);
  }
  for (const run of runs) await writeFile(disk, segmentName(run.firstSeq) + UNFINISHED, encodeRun(disk, run, limits));
  for (const range of lost) await (await disk.create(goneName(range, 'lost'))).close();
  // From the last file to the first: a line that moves to a later file is durable there before its old file is replaced.
  for (const { firstSeq } of runs.toReversed()) {
    await disk.rename(segmentName(firstSeq) + UNFINISHED, segmentName(firstSeq));
    await disk.syncFolder();
  }
  const replaced = new Set(runs.map(({ firstSeq }) => segmentName(firstSeq)));
  for (const { name } of files) if (!replaced.has(name)) await disk.remove(name);
  await disk.syncFolder();
  if (forgetsStop) await removeCleanStop(disk); // last, since a repair that is run again needs the end of the journal
}

/** Kinds of findings about files whose lines are all valid, because other lines are missing. */
const WITHOUT_BAD_LINES: ReadonlySet<FindingKind> = new Set(['missing file', 'other end than at the stop']);

/** Consecutive seqs that the journal will hold. */
interface SeqPiece {
  readonly first: number;
  readonly next: number;
}

/** Where the journal continues. */
interface End {
  /** The seq of the next event. */
  readonly next: number;
  /** Whether a new file starts there. */
  readonly inNewFile: boolean;
  /** Lost events between the last line that the journal still has and `next`. */
  readonly lost: GoneRange | undefined;
}

/**
 * Finds where the journal continues, so that no new event gets the seq of an earlier line.
 * @param pieces the future content of the journal, in order
 * @param stopSeq the next seq at the last clean stop; 0 if unknown
 * @param badAfter number of bad lines after the last valid one, which counts only if the valid lines end after `stopSeq`
 */
function endOf(pieces: readonly SeqPiece[], known: readonly GoneRange[], stopSeq: number, badAfter: number): End {
  const last = pieces.reduce((end, { next }) => Math.max(end, next), 1);
  const due = afterGone(last, known);
  const next = last <= stopSeq ? Math.max(due, stopSeq) : due + badAfter;
  const lost = next > due ? { first: due, last: next - 1 } : undefined;
  const inNewFile = pieces.length === 0 || lost !== undefined || last < stopSeq;
  return inNewFile ? { next, inNewFile, lost } : { next: last, inNewFile, lost };
}

/** Adds every missing seq to the plan, and makes the journal continue after all seqs that it ever contained. */
function withEnd(plan: Plan, pieces: readonly SeqPiece[], known: readonly GoneRange[], end: End): Plan {
  const lost: GoneRange[] = [];
  let next = 1;
  for (const piece of pieces) {
    const due = afterGone(next, known);
    if (piece.first > due) lost.push({ first: due, last: piece.first - 1 });
    next = Math.max(next, piece.next);
  }
  if (end.lost !== undefined) lost.push(end.lost);
  if (!end.inNewFile) return { ...plan, lost };
  return { ...plan, lost, runs: [...plan.runs, { firstSeq: end.next, lines: 0, stretches: [] }] };
}

/** The seq after its valid lines. */
function nextOf({ scan }: VerifiedSegment): number {
  return scan.chain.seq;
}

type Seqs = Pick<Stretch, 'firstSeq' | 'lastSeq'>;

/**
 * Finds the good lines of a damaged file.
 * @param elsewhere the events that the journal has in other files, in any order: their lines are left out
 * @returns the stretches, and the number of bad lines after the last good one
 * @throws Error for too many stretches, or the error of a system call
 */
async function findStretches(
  disk: Disk,
  { name, firstSeq }: SegmentName,
  elsewhere: readonly Seqs[],
  limits: Limits,
): Promise<{ stretches: readonly Stretch[]; badAfter: number }> {
  const others = elsewhere.toSorted((a, b) => a.firstSeq - b.firstSeq);
  let at = 0;
  /** @param seq must be larger than in the last call */
  const isElsewhere = (seq: number) => {
    while (at < others.length && others[at]!.lastSeq < seq) at += 1;
    return at < others.length && others[at]!.firstSeq <= seq;
  };
  const stretches: Stretch[] = [];
  const onGood: OnWalkedLine = (_bytes, lineStart, lineEnd, chain, start) => {
    const seq = chain.seq - 1;
    if (isElsewhere(seq)) return;
    const end = start + lineEnd - lineStart + 1;
    const last = stretches.at(-1);
    const isNext = last?.end === start && last.lastSeq + 1 === seq;
    if (isNext) stretches[stretches.length - 1] = { ...last, end, lastSeq: seq };
    else if (stretches.length < limits.stretchesMax)
      stretches.push({ file: name, start, end, firstSeq: seq, lastSeq: seq });
    else
      throw new Error(
        `${name} has over ${limits.stretchesMax} damaged ranges; move it out of the folder and run the repair again`,
      );
  };
  const from = { bytes: 0, lines: 0, chain: { seq: firstSeq, crc: 0 } };
  return { stretches, badAfter: await walkSegment(disk, name, from, limits, onGood, () => {}) };
}

/** @param stretches in the order of their seqs */
function runsOf(stretches: readonly Stretch[]): SeqRun[] {
  const runs: { firstSeq: number; lines: number; stretches: Stretch[] }[] = [];
  for (const stretch of stretches) {
    const run = runs.at(-1);
    const lines = stretch.lastSeq - stretch.firstSeq + 1;
    if (run !== undefined && run.firstSeq + run.lines === stretch.firstSeq) {
      run.lines += lines;
      run.stretches.push(stretch);
    } else {
      runs.push({ firstSeq: stretch.firstSeq, lines, stretches: [stretch] });
    }
  }
  return runs;
}

/**
 * Counts the kept and the removed bytes of a file. @param kept the stretches of the file that are kept, in the order of
 * the file
 */
function accountFor(kept: readonly Stretch[], bytes: number, listMax: number) {
  const removed: { byte: number; bytes: number }[] = [];
  const sums = { kept: 0, removedRanges: 0, removedBytes: 0 };
  let byte = 0;
  const remove = (to: number) => {
    if (to <= byte) return;
    sums.removedRanges += 1;
    sums.removedBytes += to - byte;
    if (removed.length < listMax) removed.push({ byte, bytes: to - byte });
  };
  for (const { start, end, firstSeq, lastSeq } of kept) {
    sums.kept += lastSeq - firstSeq + 1;
    remove(start);
    byte = end;
  }
  remove(bytes);
  return { ...sums, removed };
}

/** Encodes the lines of a run. The crc of each line is seeded with the crc of its new previous line. */
async function* encodeRun(disk: Disk, { stretches }: SeqRun, { lineBytesMax }: Limits): AsyncGenerator<Buffer> {
  let crc = 0;
  const rewrite = (bytes: Buffer, start: number, end: number) => {
    const line = Buffer.concat([bytes.subarray(start, end), NEWLINE]);
    crc = rechain(line, 0, end - start, crc);
    return line;
  };
  for (const { file, start, end } of stretches) yield* rewriteLines(disk.read(file, start, end), lineBytesMax, rewrite);
}

const NEWLINE = Buffer.from('\n');
