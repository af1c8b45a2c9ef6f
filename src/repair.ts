/**
 * Makes a damaged journal startable. Every good line stays, with its seq, id and time; where lines are lost, the journal goes
 * on in a new file behind them, and an empty file named for them says that they are. Each damaged file is kept, whole, in a
 * folder beside the journal. Whatever step is the last one: a repair that is begun again loses nothing.
 */

import { copyFile, type Disk, writeFile } from './disk.ts';
import { type GoneRange, goneName, rechain, segmentName } from './event.ts';
import { type Finding, findingsIn } from './recovery.ts';
import { type Salvaged, salvage } from './salvage.ts';
import { afterGone } from './scan.ts';
import type { Verdict, VerifiedSegment } from './verify.ts';

export interface Plan {
  /** The damaged files, which are taken out of the journal. */
  readonly files: readonly DamagedFile[];
  /** The files that are written, each with consecutive lines. */
  readonly runs: readonly Run[];
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
  /** Of those: nothing proves them, since the line before them is lost. */
  readonly unproved: readonly number[];
  /** What does not stay: where it is in the file. */
  readonly removed: readonly { readonly byte: number; readonly bytes: number }[];
}

export interface Run {
  readonly firstSeq: number;
  readonly lines: readonly (Salvaged & { readonly file: string })[];
}

/** Files that are larger are none of ours, and would have to be held in memory. */
const FILE_BYTES_MAX = 2 ** 31;
const WRITE_BYTES = 1024 * 1024;
/** Of a file that is not yet in place. */
const UNFINISHED = '.repair';

/**
 * Reads the damaged files and decides what to do. Changes nothing.
 * @param verdict of the journal, whose folder is locked since before
 * @returns a plan, with nothing in it where a start would go well
 * @throws Error for a file that is too large, or the error of a system call
 */
export async function planRepair(disk: Disk, { segments, gone: known, findings }: Verdict): Promise<Plan> {
  const refused = new Map<string, Finding>();
  for (const finding of findings) {
    if (finding.decision === 'refuse' && finding.kind !== 'missing file' && !refused.has(finding.file)) {
      refused.set(finding.file, finding);
    }
  }
  const whole = segments.filter(({ name }) => !refused.has(name));
  const salvaged = new Map<number, Salvaged & { file: string }>();
  const files: DamagedFile[] = [];
  let badBehind = 0;
  for (const [index, segment] of segments.entries()) {
    const finding = refused.get(segment.name);
    if (finding === undefined) continue;
    const bytes = await readWhole(disk, segment);
    const found = salvage(bytes, segment.firstSeq, segments[index + 1]?.firstSeq);
    const kept = found.lines.filter(({ seq }) => !salvaged.has(seq) && !whole.some((other) => holds(other, seq)));
    for (const line of kept) salvaged.set(line.seq, { ...line, file: segment.name });
    badBehind = index === segments.length - 1 ? found.badBehind : 0;
    files.push({
      name: segment.name,
      finding,
      bytes: bytes.length,
      kept: kept.length,
      unproved: kept.filter(({ unproved }) => unproved).map(({ seq }) => seq),
      removed: gapsBetween(kept, bytes.length),
    });
  }
  const runs = runsOf([...salvaged.values()].sort((a, b) => a.seq - b.seq));
  const end = Math.max(...whole.map(nextOf), ...runs.map(({ firstSeq, lines }) => firstSeq + lines.length));
  for (const segment of whole.filter(({ firstSeq, scan }) => scan.lines === 0 && firstSeq < end)) {
    // It was the last, and will not be any more.
    const [finding] = findingsIn(segment, segment.scan, 'earlier') as [Finding];
    files.push({ name: segment.name, finding, bytes: segment.bytes, kept: 0, unproved: [], removed: [] });
  }
  return withEnd({ files, runs, lost: [] }, whole, known, badBehind);
}

/**
 * Does what the plan says.
 * @param side the name of the folder for the damaged files
 * @param report what a reader of that folder should know
 * @throws the error of a system call; the repair can then be begun again
 */
export async function carryOut(disk: Disk, { files, runs, lost }: Plan, side: string, report: string): Promise<void> {
  for (const name of await disk.list()) if (name.endsWith(UNFINISHED)) await disk.remove(name);
  if (files.length > 0) {
    await disk.createFolder(side);
    for (const { name } of files) await copyFile(disk, name, `${side}/${name}`);
    await writeFile(disk, `${side}/repair.json`, [Buffer.from(report)]);
  }
  const source = lastRead(disk);
  for (const run of runs) await writeFile(disk, segmentName(run.firstSeq) + UNFINISHED, encodeRun(run, source));
  for (const range of lost) await (await disk.create(goneName(range, 'lost'))).close();
  // From the last to the first: what a file gives up to a later one is in place before the file is replaced.
  for (const { firstSeq } of runs.toReversed()) {
    await disk.rename(segmentName(firstSeq) + UNFINISHED, segmentName(firstSeq));
    await disk.syncFolder();
  }
  const replaced = new Set(runs.map(({ firstSeq }) => segmentName(firstSeq)));
  for (const { name } of files) if (!replaced.has(name)) await disk.remove(name);
  await disk.syncFolder();
}

/** Accounts for every seq that is missing, and makes the journal go on behind all that it ever held. */
function withEnd(plan: Plan, whole: readonly VerifiedSegment[], known: readonly GoneRange[], badBehind: number): Plan {
  const pieces = [
    ...whole.map((segment) => ({ first: segment.firstSeq, next: nextOf(segment) })),
    ...plan.runs.map(({ firstSeq, lines }) => ({ first: firstSeq, next: firstSeq + lines.length })),
  ].sort((a, b) => a.first - b.first || a.next - b.next);
  const lost: GoneRange[] = [];
  let next = 1;
  for (const piece of pieces) {
    const due = afterGone(next, known);
    if (piece.first > due) lost.push({ first: due, last: piece.first - 1 });
    next = Math.max(next, piece.next);
  }
  if (badBehind === 0 && pieces.length > 0) return { ...plan, lost };
  next = afterGone(next, known);
  // Nobody gets the seq of a line that once stood here.
  if (badBehind > 0) lost.push({ first: next, last: next + badBehind - 1 });
  return { ...plan, lost, runs: [...plan.runs, { firstSeq: next + badBehind, lines: [] }] };
}

/** The seq behind its good lines. */
function nextOf({ scan }: VerifiedSegment): number {
  return scan.place.seq;
}

function holds(segment: VerifiedSegment, seq: number): boolean {
  return segment.firstSeq <= seq && seq < nextOf(segment);
}

function runsOf<Line extends Salvaged & { file: string }>(lines: readonly Line[]): Run[] {
  const runs: { firstSeq: number; lines: Line[] }[] = [];
  for (const line of lines) {
    const run = runs.at(-1);
    if (run !== undefined && run.firstSeq + run.lines.length === line.seq) run.lines.push(line);
    else runs.push({ firstSeq: line.seq, lines: [line] });
  }
  return runs;
}

/** What of a file is in none of the lines that are kept. */
function gapsBetween(kept: readonly Salvaged[], bytes: number): { byte: number; bytes: number }[] {
  const gaps: { byte: number; bytes: number }[] = [];
  let byte = 0;
  for (const { start, end } of [...kept].sort((a, b) => a.start - b.start)) {
    if (start > byte) gaps.push({ byte, bytes: start - byte });
    byte = end + 1; // and its newline
  }
  if (byte < bytes) gaps.push({ byte, bytes: bytes - byte });
  return gaps;
}

/** The lines of a run, each with the crc that it has behind the one that is now before it. */
async function* encodeRun({ lines }: Run, source: (name: string) => Promise<Buffer>): AsyncIterable<Buffer> {
  let crc = 0;
  let waiting: Buffer[] = [];
  let waitingBytes = 0;
  for (const line of lines) {
    const moved = rechain(await source(line.file), line, crc);
    crc = moved.crc;
    waiting.push(moved.line, NEWLINE);
    waitingBytes += moved.line.length + 1;
    if (waitingBytes < WRITE_BYTES) continue;
    yield Buffer.concat(waiting);
    waiting = [];
    waitingBytes = 0;
  }
  yield Buffer.concat(waiting);
}

const NEWLINE = Buffer.from('\n');

/** Reads whole files, and holds the one that was read last: lines come from one file after the other. */
function lastRead(disk: Disk): (name: string) => Promise<Buffer> {
  let held: { name: string; bytes: Buffer } | undefined;
  return async (name) => {
    if (held?.name !== name) held = { name, bytes: await readAll(disk, name) };
    return held.bytes;
  };
}

async function readWhole(disk: Disk, { name, bytes }: VerifiedSegment): Promise<Buffer> {
  if (bytes > FILE_BYTES_MAX) throw new Error(`${name} has ${bytes} bytes; move it out of the folder and begin again`);
  return readAll(disk, name);
}

async function readAll(disk: Disk, name: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of disk.read(name)) chunks.push(chunk);
  return Buffer.concat(chunks);
}
