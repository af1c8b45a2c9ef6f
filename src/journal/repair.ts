/**
 * Makes a damaged journal startable. Every good line stays, with its seq, id and time; where lines are lost, the journal goes
 * on in a new file behind them, and an empty file named for them says that they are. Each damaged file is kept, whole, in a
 * folder beside the journal. Whatever step is the last one: a repair that is begun again loses nothing.
 */

import type { Limits } from '../config/limits.ts';
import { forgetCleanStop } from './clean-stop.ts';
import { copyFile, type Disk, FileWindow, writeFile } from './disk.ts';
import { LineCutter, type TakeLine } from './lines.ts';
import { rechain } from './record.ts';
import { type Finding, findingsIn, type Kind } from './recovery.ts';
import { type SalvageLimits, type Stretch, salvage } from './salvage.ts';
import { afterGone, type GoneRange, goneName, segmentName } from './segments.ts';
import type { Verdict, VerifiedSegment } from './verify.ts';

export interface Plan {
  /** The damaged files, which are taken out of the journal. */
  readonly files: readonly DamagedFile[];
  /** The files that are written, each with consecutive lines. */
  readonly runs: readonly Run[];
  /** Whether the marker of the last clean stop is removed: it describes the journal before the repair. */
  readonly forgetsStop: boolean;
  /** Events that are not in the journal any more and that no earlier repair accounts for. */
  readonly lost: readonly GoneRange[];
}

export interface DamagedFile {
  readonly name: string;
  /** The first thing wrong with it. */
  readonly finding: Finding;
  readonly bytes: number;
  /** Good lines that stay in the journal. */
  readonly kept: number;
  /** Of those: seqs of lines that nothing proves, since the line before them is lost; the first of them, and how many. */
  readonly unproved: readonly number[];
  readonly unprovedLines: number;
  /** Of the kept lines: those that ended in CR LF, and are written with LF. */
  readonly carriageReturns: number;
  /** What does not stay: the first places in the file, how many there are, and their bytes. */
  readonly removed: readonly { readonly byte: number; readonly bytes: number }[];
  readonly removedPlaces: number;
  readonly removedBytes: number;
}

export interface Run {
  readonly firstSeq: number;
  readonly lines: number;
  /** In the order of their seqs. */
  readonly stretches: readonly Stretch[];
}

export type RepairLimits = SalvageLimits & Pick<Limits, 'repairListMax'>;

const WRITE_BYTES = 1024 * 1024;
/** Of a file that is not yet in place. */
const UNFINISHED = '.repair';

/**
 * Reads the damaged files and decides what to do. Changes nothing. Memory does not grow with the files, only with how many
 * places are damaged.
 * @param verdict of the journal, whose folder is locked since before
 * @returns a plan, with nothing in it where a start would go well
 * @throws Error for a file with too many damaged places, or the error of a system call
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
    const own = await takeNew(new FileWindow(disk, segment.name), found.stretches, taken);
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
  const end = endOf(pieces, known, lastStop?.end?.place.seq ?? 0, badAfter);
  for (const segment of whole.filter(({ firstSeq, scan }) => scan.lines === 0 && firstSeq < end.next)) {
    // It was the last, and will not be any more.
    const [finding] = findingsIn(segment, segment.scan, 'earlier') as [Finding];
    files.push({ name: segment.name, finding, bytes: segment.bytes, ...accountFor([], segment.bytes, 0) });
  }
  return withEnd({ files, runs, lost: [], forgetsStop: lastStop !== undefined }, pieces, known, end);
}

/** @returns a name for the folder of the damaged files that is not there yet, also without a clock */
export function sideName(names: readonly string[], now: Date): string {
  const name = `damaged-${now.toISOString().replaceAll(/[-:]|\.\d+/g, '')}`;
  let free = name;
  for (let number = 2; names.includes(free); number += 1) free = `${name}-${number}`;
  return free;
}

/**
 * Does what the plan says.
 * @param side the name of the folder for the damaged files
 * @param report what a reader of that folder should know
 * @throws the error of a system call; the repair can then be begun again
 */
export async function carryOut(
  disk: Disk,
  { files, runs, lost, forgetsStop }: Plan,
  side: string,
  report: string,
): Promise<void> {
  for (const name of await disk.list()) if (name.endsWith(UNFINISHED)) await disk.remove(name);
  if (files.length > 0) {
    await disk.createFolder(side);
    for (const { name } of files) await copyFile(disk, name, `${side}/${name}`);
    await writeFile(disk, `${side}/repair.json`, [Buffer.from(report)]);
  }
  for (const run of runs) await writeFile(disk, segmentName(run.firstSeq) + UNFINISHED, encodeRun(disk, run));
  for (const range of lost) await (await disk.create(goneName(range, 'lost'))).close();
  // From the last to the first: what a file gives up to a later one is in place before the file is replaced.
  for (const { firstSeq } of runs.toReversed()) {
    await disk.rename(segmentName(firstSeq) + UNFINISHED, segmentName(firstSeq));
    await disk.syncFolder();
  }
  const replaced = new Set(runs.map(({ firstSeq }) => segmentName(firstSeq)));
  for (const { name } of files) if (!replaced.has(name)) await disk.remove(name);
  await disk.syncFolder();
  if (forgetsStop) await forgetCleanStop(disk); // last: until then a repair that is begun again knows the end of the journal
}

/** Kinds of findings about files whose lines are all good: what is wrong is what is not there. */
const WITHOUT_BAD_LINES: ReadonlySet<Kind> = new Set(['missing file', 'other end than at the stop']);

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
  /** Events that were there before it, after all that the journal still has. */
  readonly lost: GoneRange | undefined;
}

/**
 * No new event gets the seq of a line that was once there.
 * @param pieces what the journal will hold, in order
 * @param stopSeq the next seq at the last clean stop, 0 if it is not known
 * @param badAfter how many bad lines come after the last good one, which counts if the stop does not say more
 */
function endOf(pieces: readonly SeqPiece[], known: readonly GoneRange[], stopSeq: number, badAfter: number): End {
  const last = pieces.reduce((end, { next }) => Math.max(end, next), 1);
  const due = afterGone(last, known);
  const next = last <= stopSeq ? Math.max(due, stopSeq) : due + badAfter;
  const lost = next > due ? { first: due, last: next - 1 } : undefined;
  const inNewFile = pieces.length === 0 || lost !== undefined || last < stopSeq;
  return inNewFile ? { next, inNewFile, lost } : { next: last, inNewFile, lost };
}

/** Accounts for every seq that is missing, and makes the journal continue after all that it ever held. */
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

/** The seq behind its good lines. */
function nextOf({ scan }: VerifiedSegment): number {
  return scan.place.seq;
}

/** Seqs, as ranges in order. */
class SeqSet {
  readonly #ranges: GoneRange[] = [];

  /** @returns the parts of the range that were not in the set before */
  add(first: number, last: number): GoneRange[] {
    if (first > last) return [];
    const added: GoneRange[] = [];
    const from = this.#firstThatReaches(first - 1);
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

  #firstThatReaches(seq: number): number {
    let [low, high] = [0, this.#ranges.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#ranges[middle]!.last < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #join(from: number, to: number, first: number, last: number): GoneRange {
    return { first: Math.min(first, this.#ranges[from]!.first), last: Math.max(last, this.#ranges[to]!.last) };
  }
}

/** @returns those lines of the stretches that are not taken yet, which are taken now */
async function takeNew(file: FileWindow, stretches: readonly Stretch[], taken: SeqSet): Promise<Stretch[]> {
  const kept: Stretch[] = [];
  for (const stretch of stretches) {
    const parts = taken.add(stretch.firstSeq, stretch.lastSeq);
    if (parts.length === 0) continue;
    const isAll = parts[0]?.first === stretch.firstSeq && parts[0].last === stretch.lastSeq;
    if (isAll) kept.push(stretch);
    else for (const part of await partsOf(file, stretch, parts)) kept.push(part);
  }
  return kept;
}

/** Finds where in a stretch some of its lines are. @param seqs of these lines, in order */
async function partsOf(file: FileWindow, stretch: Stretch, seqs: readonly GoneRange[]): Promise<Stretch[]> {
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
  for await (const _ of cutLines(file, stretch, take));
  return parts;
}

/** Hands over the lines of a stretch, and yields after each chunk of them. */
async function* cutLines(file: FileWindow, { start, end, carriageReturns }: Stretch, take: TakeLine): AsyncGenerator {
  const cutter = new LineCutter(take);
  for await (const chunk of file.chunks(start, end)) {
    cutter.push(chunk);
    yield;
  }
  cutter.push(carriageReturns ? CR_LF : NEWLINE); // of the last line, whatever is in its place
  yield;
}

/** @param stretches in the order of their seqs */
function runsOf(stretches: readonly Stretch[]): Run[] {
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

/** @param kept the stretches of a file that stay in the journal */
function accountFor(kept: readonly Stretch[], bytes: number, listMax: number) {
  const removed: { byte: number; bytes: number }[] = [];
  const unproved: number[] = [];
  const sums = { kept: 0, unprovedLines: 0, carriageReturns: 0, removedPlaces: 0, removedBytes: 0 };
  let byte = 0;
  const remove = (to: number) => {
    if (to <= byte) return;
    sums.removedPlaces += 1;
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

/** The lines of a run, each with the crc that it has after the one that is now before it. */
async function* encodeRun(disk: Disk, { stretches }: Run): AsyncGenerator<Buffer> {
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
    const chunks = isInOrder ? wholeChunks(file, stretch, add) : cutLines(file, stretch, rechained);
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

/** Hands over the bytes of a stretch as they are, and yields after each chunk of them. */
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
