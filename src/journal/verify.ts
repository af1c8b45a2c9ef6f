/** Reads the whole journal and reports its content and all damage. Changes nothing, and may run while a service writes. */

import { isDeepStrictEqual } from 'node:util';
import { type Limits, limits as standardLimits } from '../config/limits.ts';
import { type LastStop, readLastStop } from './clean-stop.ts';
import { type Disk, unlessAbsent } from './disk.ts';
import { LineCutter } from './lines.ts';
import { checkLine, readForm, readTime } from './record.ts';
import { endFindings, type Finding, findingsIn, findingsOfNone, joinFindings, positionOfLast } from './recovery.ts';
import { Resync } from './resync.ts';
import { lastLine, type Scan, scanSegment } from './scan.ts';
import { type Contents, contentsOf, type SegmentName } from './segments.ts';

/** What `verify` found in a journal: `{ segments, findings: [], bytes: 1210, events: 4, goodLines: 4, badLines: 0, … }`. */
export interface Verdict extends Contents {
  readonly segments: readonly VerifiedSegment[];
  readonly lastStop: LastStop;
  /** All findings, in order; only the first of each file. Findings with the decision `truncate` do not make a journal damaged. */
  readonly findings: readonly Finding[];
  /** Size of all journal files, valid or not. */
  readonly bytes: number;
  /** Lines before the first bad one of their file. */
  readonly events: number;
  /** Number of all valid lines, also after a bad one of their file, and number of all bad lines. */
  readonly goodLines: number;
  readonly badLines: number;
  /** Ranges of bad lines: the first of them, and how many there are. */
  readonly badRanges: readonly BadRange[];
  readonly badRangesCount: number;
  /** Undefined if there is no valid line. */
  readonly first: Moment | undefined;
  readonly last: Moment | undefined;
}

/** One file that was read whole. Example: `{ name, firstSeq: 1, bytes: 1210, scan, firstTime: '2026-11-20T15:19:45.266Z' }`. */
export interface VerifiedSegment extends SegmentName {
  /** Size of the file, valid or not. */
  readonly bytes: number;
  readonly scan: Scan;
  /** The time of its first line, as text of the line. */
  readonly firstTime: string | undefined;
}

/** A range of adjacent bad lines: lines 2 to 4 are `{ file, line: 2, byte: 305, problem: 'its crc is …', lines: 3 }`. */
export interface BadRange {
  readonly file: string;
  /** Of the first bad line: its number, from 1, and its first byte, from 0. */
  readonly line: number;
  readonly byte: number;
  /** What is wrong with the first bad line. */
  readonly problem: string;
  /** Number of bad lines; 0 if only a seq is not the expected one. */
  readonly lines: number;
}

/** One event, and the time at which it was recorded, as text of its line: `{ seq: 7, time: '2026-11-20T15:19:45.266Z' }`. */
export interface Moment {
  readonly seq: number;
  readonly time: string | undefined;
}

/**
 * How many listings of the folder are compared, and how many bad ranges are listed:
 * `{ verifyListingsMax: 20, damageReportsMax: 20 }`.
 */
export type VerifyLimits = Pick<Limits, 'verifyListingsMax' | 'damageReportsMax'>;
/**
 * @param read bytes that were read so far, of `total`; the total may grow while a service writes. Example:
 *   `(read, total) => show(read / total)`.
 */
export type OnProgress = (read: number, total: number) => void;

/**
 * Reads each file once, and a damaged one again from its first bad line on. The retention of a running service may remove files
 * meanwhile: these are not counted. In an empty folder, `findings` is `[]` and `events` is `0`.
 * @param onProgress called for each chunk with the number of bytes read so far, and the total
 * @throws the error of a system call
 */
export async function verify(
  disk: Disk,
  onProgress: OnProgress = () => {},
  limits: VerifyLimits = standardLimits,
): Promise<Verdict> {
  let names = await disk.list();
  let lastStop = await readLastStop(disk, names);
  let { read, vanished } = await readSegments(disk, contentsOf(names).segments, onProgress);
  for (let look = 1; ; look += 1) {
    const namesNow = await disk.list();
    const lastStopNow = await readLastStop(disk, namesNow);
    const now = contentsOf(namesNow);
    const namesLeft = new Set(now.segments.map(({ name }) => name));
    const isLeft = ({ name, firstSeq }: SegmentName) => firstSeq > now.removedLast || namesLeft.has(name);
    // The newest file that was read always counts, so that a verdict is about at least one file.
    const left = read.filter((segment, index) => isLeft(segment) || index === read.length - 1);
    const unexplained = vanished.find(({ firstSeq }) => firstSeq > now.removedLast);
    const joined = findingsBetween(left, now, lastStop);
    // A service that started or stopped meanwhile wrote to the last file, so its position is unknown and it is read again.
    const isRead = (left.length > 0 || now.segments.length === 0) && isDeepStrictEqual(lastStop, lastStopNow);
    // A listing is no snapshot: it may miss the marker of retention, and the next one has it.
    const isStable = unexplained === undefined && isRead && joined.every(({ kind }) => kind !== 'missing file');
    if (isStable || look === limits.verifyListingsMax) {
      if (unexplained !== undefined) throw unexplained.error;
      return verdictOf(disk, now, { segments: left, lastStop }, joined, limits);
    }
    if (isRead) continue;
    names = namesNow;
    lastStop = lastStopNow;
    ({ read, vanished } = await readSegments(disk, now.segments, onProgress));
  }
}

interface Vanished extends SegmentName {
  readonly error: Error;
}

async function readSegments(
  disk: Disk,
  names: readonly SegmentName[],
  onProgress: OnProgress,
): Promise<{ read: VerifiedSegment[]; vanished: Vanished[] }> {
  const sizes = await Promise.all(names.map(({ name }) => disk.size(name).catch(unlessAbsent(0))));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  let readBytes = 0;
  const read: VerifiedSegment[] = [];
  const vanished: Vanished[] = [];
  for (const segment of names) {
    const before = readBytes;
    let head: Buffer | undefined;
    const counted = async function* (): AsyncIterable<Buffer> {
      for await (const chunk of disk.read(segment.name)) {
        head ??= Buffer.from(chunk.subarray(0, HEAD_BYTES));
        yield chunk;
        readBytes += chunk.length;
        onProgress(readBytes, Math.max(readBytes, total));
      }
    };
    try {
      const scan = await scanSegment(counted(), segment.firstSeq);
      const firstTime = head && readTime(head);
      read.push({ ...segment, bytes: readBytes - before, scan, firstTime });
    } catch (error) {
      vanished.push(unlessAbsent({ ...segment, error: error as Error })(error as Error));
    }
  }
  return { read, vanished };
}

/** The findings in each of the files and between them, in the order of the files. */
function findingsBetween(segments: readonly VerifiedSegment[], contents: Contents, lastStop: LastStop): Finding[] {
  const findings = findingsOfNone(contents, lastStop?.end);
  let expected: number | undefined = 1;
  for (const [index, segment] of segments.entries()) {
    // After a damaged file the expected seq is unknown; the finding of that file is sufficient.
    if (expected !== undefined) findings.push(...joinFindings(segment, expected, contents.gone));
    const isLast = index === segments.length - 1;
    const position = isLast ? positionOfLast(lastStop, segment.scan) : 'earlier';
    const wrong = findingsIn(segment, segment.scan, position);
    findings.push(...wrong);
    if (isLast) findings.push(...endFindings(segment, segment.scan, lastStop));
    expected = wrong.length === 0 ? segment.scan.chain.seq : undefined;
  }
  return findings;
}

async function verdictOf(
  disk: Disk,
  contents: Contents,
  { segments, lastStop }: Pick<Verdict, 'segments' | 'lastStop'>,
  findings: readonly Finding[],
  { damageReportsMax }: VerifyLimits,
): Promise<Verdict> {
  const events = segments.reduce((sum, { scan }) => sum + scan.lines, 0);
  const account = { goodLines: events, badLines: 0, badRanges: [] as BadRange[], badRangesCount: 0 };
  for (const segment of segments) {
    const isDamaged = findings.some(({ file, decision }) => file === segment.name && decision === 'refuse');
    if (segment.scan.flaw === undefined || !isDamaged) continue;
    const rest = new RestOfFile(segment, (range) => {
      account.badRangesCount += 1;
      account.badLines += range.lines;
      if (account.badRanges.length < damageReportsMax) account.badRanges.push(range);
    });
    account.goodLines += await rest.read(disk).catch(unlessAbsent(0));
  }
  const filled = segments.filter(({ scan }) => scan.lines > 0);
  const first = filled[0] && { seq: filled[0].firstSeq, time: filled[0].firstTime };
  const bytes = segments.reduce((sum, segment) => sum + segment.bytes, 0);
  const last = await lastMoment(disk, filled.at(-1));
  return { ...contents, segments, lastStop, findings, bytes, events, ...account, first, last };
}

/** Reads a damaged file from its first bad line on. A later line is valid if its crc is seeded with that of an earlier one. */
class RestOfFile {
  readonly #segment: VerifiedSegment;
  readonly #onBadRange: (range: BadRange) => void;
  #chain: Scan['chain'];
  #line: number;
  #byte: number;
  #good = 0;
  #bad: { range: BadRange; resync: Resync } | undefined;

  constructor(segment: VerifiedSegment, onBadRange: (range: BadRange) => void) {
    this.#segment = segment;
    this.#onBadRange = onBadRange;
    this.#chain = segment.scan.chain;
    this.#line = segment.scan.lines + 1;
    this.#byte = segment.scan.bytes;
  }

  /** @returns the number of valid lines */
  async read(disk: Disk): Promise<number> {
    const start = this.#byte;
    const cutter = new LineCutter((bytes, from, to, lineEnd) => {
      this.#take(bytes, from, to);
      this.#byte = start + lineEnd + 1;
      this.#line += 1;
    });
    for await (const chunk of disk.read(this.#segment.name, start)) cutter.push(chunk);
    if (cutter.carriedBytes > 0) this.#addBad(this.#bad ?? this.#badHere('it ends without a newline'));
    if (this.#bad !== undefined) this.#onBadRange(this.#bad.range);
    return this.#good;
  }

  #take(bytes: Buffer, start: number, end: number): void {
    if (this.#bad === undefined) {
      const check = checkLine(bytes, start, end, this.#chain);
      if (check.kind === 'good') {
        this.#chain = check.chain;
        this.#good += 1;
        return;
      }
      this.#bad = this.#badHere(check.problem);
    }
    const form = readForm(bytes, start, end);
    if (form !== undefined && this.#bad.resync.continuesWith(bytes, form)) {
      this.#onBadRange(this.#bad.range);
      this.#bad = undefined;
      this.#chain = { seq: form.seq + 1, crc: form.crc };
      this.#good += 1;
      return;
    }
    this.#bad.resync.pass(bytes, start, end, form);
    this.#addBad(this.#bad);
  }

  #badHere(problem: string): { range: BadRange; resync: Resync } {
    const range = { file: this.#segment.name, line: this.#line, byte: this.#byte, problem, lines: 0 };
    return { range, resync: new Resync(this.#chain, this.#byte === 0) };
  }

  #addBad({ range, resync }: { range: BadRange; resync: Resync }): void {
    this.#bad = { range: { ...range, lines: range.lines + 1 }, resync };
  }
}

async function lastMoment(disk: Disk, segment: VerifiedSegment | undefined): Promise<Moment | undefined> {
  if (segment === undefined) return undefined;
  const { bytes, chain } = segment.scan;
  const found = await lastLine(disk, segment.name, bytes).catch(unlessAbsent(undefined));
  return { seq: chain.seq - 1, time: found && readTime(found.line) };
}

/** Bytes at the beginning of a line that include its time. */
const HEAD_BYTES = 256;
