/**
 * Repairs a damaged journal so that a service can start on it. Every valid line stays, with its seq, id and time. After lost
 * lines the journal continues in a new file, and an empty marker file is named after their seqs. Each damaged file is kept,
 * whole, in a subfolder. A repair may be interrupted at any step: running it again loses nothing.
 */

import type { Limits } from '../../config/limits.ts';
import type { Disk } from '../disk.ts';
import { copyFile, FileWindow, writeFile } from '../file-io.ts';
import { firstIndex } from '../first-index.ts';
import { rechain } from '../line/chain.ts';
import { LineCutter, type TakeLine } from '../line/lines.ts';
import { type SalvageLimits, type Stretch, salvage } from '../line/salvage.ts';
import { forgetCleanStop } from '../open/clean-stop.ts';
import { type Finding, type FindingKind, findingsIn } from '../open/recovery.ts';
import { afterGone, type GoneRange, goneName, segmentName } from '../segments.ts';
import type { Verdict, VerifiedSegment } from './verify.ts';

/** What a repair does. Without files, runs and lost events it does nothing. */
export interface Plan {
  /** The damaged files, which are moved out of the journal. */
  readonly files: readonly DamagedFile[];
  /** The files that are written, each with consecutive lines. */
  readonly runs: readonly SeqRun[];
  /** Whether the marker of the last clean stop is removed: it describes the journal before the repair. */
  readonly forgetsStop: boolean;
  /** Events that are not in the journal any more and that no earlier repair accounts for. */
  readonly lost: readonly GoneRange[];
}

/** One file that a repair moves out of the journal, and what it keeps of it. Bytes count from 0. */
export interface DamagedFile {
  readonly name: string;
  /** The first finding in it. */
  readonly finding: Finding;
  readonly bytes: number;
  /** Number of valid lines that stay in the journal. */
  readonly kept: number;
  /** Kept lines whose crc can not be verified, since the previous line is lost: the first of their seqs, and their number. */
  readonly unproved: readonly number[];
  readonly unprovedLines: number;
  /** Number of kept lines that ended in CR LF, and are written with LF. */
  readonly carriageReturns: number;
  /** The byte ranges that are not kept: the first of them, how many there are, and their total bytes. */
  readonly removed: readonly { readonly byte: number; readonly bytes: number }[];
  readonly removedRanges: number;
  readonly removedBytes: number;
}

/** Consecutive events that a repair writes as one file. */
export interface SeqRun {
  readonly firstSeq: number;
  readonly lines: number;
  /** In the order of their seqs. */
  readonly stretches: readonly Stretch[];
}

/** The limits of a salvage, bytes of an interrupted write, and how many removed ranges and unproved lines are listed. */
export type RepairLimits = SalvageLimits & Pick<Limits, 'tornBytesMax' | 'repairListMax'>;

const WRITE_BYTES = 1024 * 1024;
/** Suffix of a file that is not complete yet. */
const UNFINISHED = '.repair';

/**
 * Reads the damaged files and decides what to do. Changes nothing. Memory depends only on the number of damaged ranges, not on
 * the size of the files.
 * @param verdict of the journal, whose folder must have been locked before `verify` read it
 * @returns a plan, which is empty if a start would succeed
 * @throws Error for a file with too many damaged ranges, or the error of a system call
 */
export async function planRepair(
  disk: Disk,
  { segments, gone: known, findings, lastStop }: Verdict,
  limits: RepairLimits,
): Promise<Plan> {
  const refused = new Map<string, Finding>();
  for (const finding of findings) {
    if (finding.decision === 'refuse' && !WITHOUT_BAD_LINES.has(finding.kind) && !refused.has(finding.file)) {
      refused.set(finding.file, finding);
    }
  }
  const whole = segments.filter(({ name }) => !refused.has(name));
  const taken = new SeqSet();
  for (const segment of whole) taken.add(segment.firstSeq, nextOf(segment) - 1);
  const kept: Stretch[] = [];
  const files: DamagedFile[] = [];
  let badAfter = 0;
  for (const [index, segment] of segments.entries()) {
    const finding = refused.get(segment.name);
    if (finding === undefined) continue;
    const found = await salvage(disk, segment, segments[index + 1]?.firstSeq, limits);
    const own = await takeNew(new FileWindow(disk, segment.name), found.stretches, taken, limits);
    for (const stretch of own) kept.push(stretch);
    badAfter = index === segments.length - 1 ? found.badAfter : 0;
    const account = accountFor(own, segment.bytes, limits.repairListMax);
    files.push({ name: segment.name, finding, bytes: segment.bytes, ...account });
  }
  const runs = runsOf(kept.sort((a, b) => a.firstSeq - b.firstSeq));
  const pieces = [
    ...whole.map((segment) => ({ first: segment.firstSeq, next: nextOf(segment) })),
    ...runs.map(({ firstSeq, lines }) => ({ first: firstSeq, next: firstSeq + lines })),
  ].sort((a, b) => a.first - b.first || a.next - b.next);
  const end = endOf(pieces, known, lastStop?.end?.chain.seq ?? 0, badAfter);
  for (const segment of whole.filter(({ firstSeq, scan }) => scan.lines === 0 && firstSeq < end.next)) {
    // The last file gets a successor, so it is checked as an earlier one.
    const [finding] = findingsIn(segment, segment.scan, 'earlier', limits) as [Finding];
    files.push({ name: segment.name, finding, bytes: segment.bytes, ...accountFor([], segment.bytes, 0) });
  }
  return withEnd({ files, runs, lost: [], forgetsStop: lastStop !== undefined }, pieces, known, end);
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
  limits: LineLimits,
): Promise<void> {
  for (const name of await disk.list()) if (name.endsWith(UNFINISHED)) await disk.remove(name);
  if (files.length > 0) {
    await disk.createFolder(side);
    for (const { name } of files) await copyFile(disk, name, `${side}/${name}`);
    await writeFile(disk, `${side}/repair.json`, [Buffer.from(report)]);
  }
  for (const run of runs) await writeFile(disk, segmentName(run.firstSeq) + UNFINISHED, encodeRun(disk, run, limits));
  for (const range of lost) await (await disk.create(goneName(range, 'lost'))).close();
  // From the last file to the first: lines that move to a later file are durable there before their old file is replaced.
  for (const { firstSeq } of runs.toReversed()) {
    await disk.rename(segmentName(firstSeq) + UNFINISHED, segmentName(firstSeq));
    await disk.syncFolder();
  }
  const replaced = new Set(runs.map(({ firstSeq }) => segmentName(firstSeq)));
  for (const { name } of files) if (!replaced.has(name)) await disk.remove(name);
  await disk.syncFolder();
  if (forgetsStop) await forgetCleanStop(disk); // last: until then a repair that is run again knows the end of the journal
}

/** Kinds of findings about files whose lines are all valid: other lines are missing. */
const WITHOUT_BAD_LINES: ReadonlySet<FindingKind> = new Set(['missing file', 'other end than at the stop']);

type LineLimits = Pick<Limits, 'lineBytesMax'>;

/** Consecutive seqs that the journal will hold. */
interface SeqPiece {
  readonly first: number;
  readonly next: number;
}

/** Where the journal continues. */
interface End {
  /** The seq of the next event. */
  readonly next: number;
  /** Whether a new file begins there. */
  readonly inNewFile: boolean;
  /** Lost events between the last line that the journal still has and `next`. */
  readonly lost: GoneRange | undefined;
}

/**
 * Finds where the journal continues, so that no new event gets the seq of an earlier line.
 * @param pieces what the journal will contain, in order
 * @param stopSeq the next seq at the last clean stop, 0 if unknown
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

/** A set of seqs, as sorted ranges. */
class SeqSet {
  readonly #ranges: GoneRange[] = [];

  /** @returns the parts of the range that were not in the set before */
  add(first: number, last: number): GoneRange[] {
    if (first > last) return [];
    const added: GoneRange[] = [];
    const from = firstIndex(this.#ranges, (range) => range.last >= first - 1);
    let to = from;
    let next = first;
    for (; to < this.#ranges.length && this.#ranges[to]!.first <= last + 1; to += 1) {
      const range = this.#ranges[to]!;
      if (range.first > next) added.push({ first: next, last: range.first - 1 });
      next = Math.max(next, range.last + 1);
    }
    if (next <= last) added.push({ first: next, last });
    const joined = to === from ? { first, last } : this.#join(from, to - 1, first, last);
    this.#ranges.splice(from, to - from, joined);
    return added;
  }

  #join(from: number, to: number, first: number, last: number): GoneRange {
    return { first: Math.min(first, this.#ranges[from]!.first), last: Math.max(last, this.#ranges[to]!.last) };
  }
}

/** Adds the lines of the stretches to `taken`. @returns the stretches of the lines that were not in it before */
async function takeNew(
  file: FileWindow,
  stretches: readonly Stretch[],
  taken: SeqSet,
  limits: LineLimits,
): Promise<Stretch[]> {
  const kept: Stretch[] = [];
  for (const stretch of stretches) {
    const parts = taken.add(stretch.firstSeq, stretch.lastSeq);
    if (parts.length === 0) continue;
    const isAll = parts[0]?.first === stretch.firstSeq && parts[0].last === stretch.lastSeq;
    if (isAll) kept.push(stretch);
    else for (const part of await partsOf(file, stretch, parts, limits)) kept.push(part);
  }
  return kept;
}

/** Finds where in a stretch some of its lines are. @param seqs of these lines, in order */
async function partsOf(
  file: FileWindow,
  stretch: Stretch,
  seqs: readonly GoneRange[],
  limits: LineLimits,
): Promise<Stretch[]> {
  const parts: Stretch[] = [];
  let [seq, lineStart, start] = [stretch.firstSeq, stretch.start, stretch.start];
  const take: TakeLine = (_bytes, _start, _end, lineEnd) => {
    const range = seqs[parts.length];
    if (seq === range?.first) start = lineStart;
    if (seq === range?.last) {
      const end = stretch.start + lineEnd - (stretch.carriageReturns ? 1 : 0);
      parts.push({ ...stretch, start, end, firstSeq: range.first, lastSeq: range.last, crcs: undefined });
    }
    seq += 1;
    lineStart = stretch.start + lineEnd + 1;
  };
  for await (const _ of cutLines(file, stretch, take, limits));
  return parts;
}

/** Passes the lines of a stretch to `take`, and yields after each chunk of them. */
async function* cutLines(
  file: FileWindow,
  { start, end, carriageReturns }: Stretch,
  take: TakeLine,
  { lineBytesMax }: LineLimits,
): AsyncGenerator {
  const cutter = new LineCutter(take, lineBytesMax);
  for await (const chunk of file.chunks(start, end)) {
    cutter.push(chunk);
    yield;
  }
  cutter.push(carriageReturns ? CR_LF : NEWLINE); // ends the last line, whose newline may be damaged
  yield;
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

/** Counts what is kept and what is removed of a file. @param kept the stretches of the file that stay in the journal */
function accountFor(kept: readonly Stretch[], bytes: number, listMax: number) {
  const removed: { byte: number; bytes: number }[] = [];
  const unproved: number[] = [];
  const sums = { kept: 0, unprovedLines: 0, carriageReturns: 0, removedRanges: 0, removedBytes: 0 };
  let byte = 0;
  const remove = (to: number) => {
    if (to <= byte) return;
    sums.removedRanges += 1;
    sums.removedBytes += to - byte;
    if (removed.length < listMax) removed.push({ byte, bytes: to - byte });
  };
  for (const { start, end, firstSeq, lastSeq, ...stretch } of [...kept].sort((a, b) => a.start - b.start)) {
    const lines = lastSeq - firstSeq + 1;
    sums.kept += lines;
    if (stretch.carriageReturns) sums.carriageReturns += lines;
    if (stretch.unproved) {
      sums.unprovedLines += 1;
      if (unproved.length < listMax) unproved.push(firstSeq);
    }
    remove(start);
    byte = end + (stretch.carriageReturns ? 2 : 1); // and its newline
  }
  remove(bytes);
  return { ...sums, unproved, removed };
}

/** Encodes the lines of a run, each with a crc that is seeded with that of its new previous line. */
async function* encodeRun(disk: Disk, { stretches }: SeqRun, limits: LineLimits): AsyncGenerator<Buffer> {
  let crc = 0;
  let waiting: Buffer[] = [];
  let waitingBytes = 0;
  const add = (bytes: Buffer) => {
    waiting.push(bytes);
    waitingBytes += bytes.length;
  };
  let file: FileWindow | undefined;
  let name = '';
  for (const stretch of stretches) {
    if (file === undefined || name !== stretch.file) file = new FileWindow(disk, stretch.file);
    name = stretch.file;
    const isInOrder = stretch.crcs?.before === crc && !stretch.carriageReturns;
    const rechained = (bytes: Buffer, start: number, end: number) => {
      const line = Buffer.allocUnsafe(end - start + 1);
      const length = bytes.copy(line, 0, start, end) - (stretch.carriageReturns ? 1 : 0);
      crc = rechain(line, 0, length, crc);
      line[length] = LINE_FEED;
      add(line.subarray(0, length + 1));
    };
    const chunks = isInOrder ? wholeChunks(file, stretch, add) : cutLines(file, stretch, rechained, limits);
    for await (const _ of chunks) {
      if (waitingBytes < WRITE_BYTES) continue;
      yield Buffer.concat(waiting);
      waiting = [];
      waitingBytes = 0;
    }
    if (isInOrder) crc = stretch.crcs.last;
  }
  yield Buffer.concat(waiting);
}

/** Passes the unchanged bytes of a stretch to `add`, and yields after each chunk of them. */
async function* wholeChunks(file: FileWindow, { start, end }: Stretch, add: (bytes: Buffer) => void): AsyncGenerator {
  for await (const chunk of file.chunks(start, end)) {
    add(chunk);
    yield;
  }
  add(NEWLINE);
}

const LINE_FEED = 0x0a;
const NEWLINE = Buffer.from('\n');
const CR_LF = Buffer.from('\r\n');
