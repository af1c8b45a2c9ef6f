/** Reads the whole journal and reports its content and all damage. Changes nothing, and can run while a service writes. */

import { isDeepStrictEqual } from 'node:util';
import type { Limits } from '../../config/limits.ts';
import { type Disk, unlessAbsent } from '../disk.ts';
import { counted } from '../file-io.ts';
import { isErased } from '../line/erased.ts';
import { readTime } from '../line/members.ts';
import { type LastStop, readLastStop } from '../open/clean-stop.ts';
import { type Finding, findingsIn, findingsInLast, findJoinFlaws, findMissingFiles } from '../open/recovery.ts';
import { lastLine, type Scan, scanSegment } from '../open/scan.ts';
import { type BadRange, walkSegment } from '../open/walk.ts';
import { afterGone, type Contents, contentsOf, type GoneRange, type SegmentName } from '../segments.ts';

/** What `verify` found in a journal. */
export interface Verdict extends Contents {
  readonly segments: readonly VerifiedSegment[];
  readonly lastStop: LastStop;
  /**
   * All findings, in order, but only the first in each file. Findings with the decision `truncate` do not make a journal damaged.
   */
  readonly findings: readonly Finding[];
  /** Size of all journal files, valid or not. */
  readonly bytes: number;
  /** Number of lines before the first bad one of their file. */
  readonly events: number;
  /** Number of all valid lines, including those after a bad line of their file, and number of all bad lines. */
  readonly goodLines: number;
  readonly badLines: number;
  /** Number of valid lines before the first bad one of their file whose event was erased. */
  readonly erasedLines: number;
  /** Ranges of bad lines: the first ranges, and the number of ranges. */
  readonly badRanges: readonly BadRange[];
  readonly badRangesCount: number;
  /** Undefined if there is no valid line. */
  readonly first: DatedSeq | undefined;
  readonly last: DatedSeq | undefined;
}

/** A file that was read completely. */
export interface VerifiedSegment extends SegmentName {
  /** Size of the file, valid or not. */
  readonly bytes: number;
  readonly scan: Scan;
  /** The time of its first line, as the line has it in text. */
  readonly firstTime: string | undefined;
  /** Number of lines in `scan` whose event was erased. */
  readonly erased: number;
}

/** An event's seq, and the time at which it was recorded, as text from its line. */
export interface DatedSeq {
  readonly seq: number;
  readonly time: string | undefined;
}

/** @param read number of bytes read so far, of `total`; the total can grow while a service writes */
export type OnProgress = (read: number, total: number) => void;

/**
 * Reads each file once, and a damaged file again from its first bad line on. Files that the retention of a running service
 * removes during the run are not counted.
 * @throws the error of a system call
 */
export async function verify(disk: Disk, limits: Limits, onProgress: OnProgress = () => {}): Promise<Verdict> {
  let names = await disk.list(true);
  let lastStop = await readLastStop(disk, names);
  let { read, vanished } = await readSegments(disk, contentsOf(names).segments, limits, onProgress);
  for (let look = 1; ; look += 1) {
    const namesNow = await disk.list();
    const lastStopNow = await readLastStop(disk, namesNow);
    const now = contentsOf(namesNow);
    const namesLeft = new Set(now.segments.map(({ name }) => name));
    const isRemoved = ({ firstSeq }: SegmentName) => afterGone(firstSeq, now.removed) > firstSeq;
    const isLeft = (segment: SegmentName) => !isRemoved(segment) || namesLeft.has(segment.name);
    // The newest file that was read always counts, so that a verdict covers at least one file.
    const left = read.filter((segment, index) => isLeft(segment) || index === read.length - 1);
    const unexplained = vanished.find((segment) => !isRemoved(segment));
    const joined = findingsBetween(left, now, lastStop, limits);
    // A service that started or stopped in the meantime wrote to the last file, so its position is unknown and it is read
    // again.
    const isRead = (left.length > 0 || now.segments.length === 0) && isDeepStrictEqual(lastStop, lastStopNow);
    // A listing is not a snapshot: it might miss the marker of retention, which the next listing includes.
    const isStable = unexplained === undefined && isRead && joined.every(({ kind }) => kind !== 'missing file');
    if (isStable || look === limits.verifyListingsMax) {
      if (unexplained !== undefined) throw unexplained.error;
      return verdictOf(disk, now, { segments: left, lastStop }, joined, limits);
    }
    if (isRead) continue;
    names = namesNow;
    lastStop = lastStopNow;
    ({ read, vanished } = await readSegments(disk, now.segments, limits, onProgress));
  }
}

interface Vanished extends SegmentName {
  readonly error: Error;
}

async function readSegments(
  disk: Disk,
  names: readonly SegmentName[],
  limits: Limits,
  onProgress: OnProgress,
): Promise<{ read: VerifiedSegment[]; vanished: Vanished[] }> {
  const sizes = await Promise.all(names.map(({ name }) => disk.size(name).catch(unlessAbsent(0))));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  let bytesBefore = 0;
  const read: VerifiedSegment[] = [];
  const vanished: Vanished[] = [];
  for (const segment of names) {
    let bytes = 0;
    const chunks = counted(disk.read(segment.name), (fileBytes) => {
      bytes = fileBytes;
      onProgress(bytesBefore + bytes, Math.max(bytesBefore + bytes, total));
    });
    let firstTime: string | undefined;
    let erased = 0;
    try {
      const scan = await scanSegment(chunks, segment.firstSeq, limits, (line, start, end, seq) => {
        if (seq === segment.firstSeq) firstTime = readTime(line.subarray(start));
        erased += Number(isErased(line, start, end));
      });
      read.push({ ...segment, bytes, scan, firstTime, erased });
    } catch (error) {
      vanished.push(unlessAbsent({ ...segment, error: error as Error })(error as Error));
    }
    bytesBefore += bytes;
  }
  return { read, vanished };
}

/** The findings in each of the files and between them, in the order of the files. */
function findingsBetween(
  segments: readonly VerifiedSegment[],
  contents: Contents,
  lastStop: LastStop,
  limits: Limits,
): Finding[] {
  const findings = findMissingFiles(contents, lastStop?.end);
  let expected: number | undefined = 1;
  for (const [index, segment] of segments.entries()) {
    // After a damaged file the expected seq is unknown; the finding of that file is sufficient.
    if (expected !== undefined) findings.push(...findJoinFlaws(segment, expected, contents));
    const isLast = index === segments.length - 1;
    const { scan } = segment;
    const wrong = isLast
      ? findingsInLast(segment, scan, lastStop, contents, limits)
      : findingsIn(segment, scan, 'earlier', limits);
    findings.push(...wrong);
    expected = wrong.length === 0 ? scan.chain.seq : undefined;
  }
  return findings;
}

async function verdictOf(
  disk: Disk,
  contents: Contents,
  { segments, lastStop }: Pick<Verdict, 'segments' | 'lastStop'>,
  findings: readonly Finding[],
  limits: Limits,
): Promise<Verdict> {
  const events = segments.reduce((sum, { scan }) => sum + scan.lines, 0);
  const account = { goodLines: events, badLines: 0, badRanges: [] as BadRange[], badRangesCount: 0 };
  for (const segment of segments) {
    const isDamaged = findings.some(({ file, decision }) => file === segment.name && decision === 'refuse');
    if (segment.scan.flaw === undefined || !isDamaged) continue;
    let goodLines = 0;
    const onGood = () => {
      goodLines += 1;
    };
    const onBad = (range: BadRange) => {
      account.badRangesCount += 1;
      account.badLines += range.lines;
      if (account.badRanges.length < limits.damageReportsMax) account.badRanges.push(range);
    };
    await walkSegment(disk, segment.name, segment.scan, limits, onGood, onBad).catch(unlessAbsent(0));
    account.goodLines += goodLines;
  }
  const filled = segments.filter(({ scan }) => scan.lines > 0);
  const first = filled[0] && { seq: filled[0].firstSeq, time: filled[0].firstTime };
  const bytes = segments.reduce((sum, segment) => sum + segment.bytes, 0);
  const erasedLines = segments.reduce((sum, { erased }) => sum + erased, 0);
  const last = await lastSeq(disk, filled.at(-1), limits);
  const lost = contents.lost.flatMap((range) => withoutHeld(range, segments));
  return { ...contents, segments, lost, lastStop, findings, bytes, events, erasedLines, ...account, first, last };
}

/**
 * @returns the parts of a range that was reported as lost in which no file has events: a file can have been restored
 * since then
 */
function withoutHeld({ first, last }: GoneRange, segments: readonly VerifiedSegment[]): GoneRange[] {
  const parts: GoneRange[] = [];
  let next = first;
  for (const { firstSeq, scan } of segments) {
    if (firstSeq > last || scan.chain.seq <= next) continue;
    if (firstSeq > next) parts.push({ first: next, last: firstSeq - 1 });
    next = scan.chain.seq;
  }
  return next <= last ? [...parts, { first: next, last }] : parts;
}

async function lastSeq(
  disk: Disk,
  segment: VerifiedSegment | undefined,
  limits: Limits,
): Promise<DatedSeq | undefined> {
  if (segment === undefined) return undefined;
  const { bytes, chain } = segment.scan;
  const found = await lastLine(disk, segment.name, bytes, limits).catch(unlessAbsent(undefined));
  return { seq: chain.seq - 1, time: found && readTime(found.line) };
}
