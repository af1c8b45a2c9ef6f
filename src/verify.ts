/** Reads the whole journal and says what is in it and what is wrong with it. Changes nothing, and may run beside a service. */

import type { Disk } from './disk.ts';
import { readTime } from './event.ts';
import { type Finding, findingsIn, findingsOfNone, joinFindings, type Position, positionOfLast } from './recovery.ts';
import { type Contents, contentsOf, lastLine, type Scan, type SegmentName, scanSegment } from './scan.ts';

export interface Verdict extends Contents {
  readonly segments: readonly VerifiedSegment[];
  /** Everything wrong, in order; of each file the first thing. Those that are to be `cut` do not make a journal damaged. */
  readonly findings: readonly Finding[];
  /** Of all files, whatever they hold. */
  readonly bytes: number;
  /** Those whose lines check out; behind a bad line nothing in its file does. */
  readonly events: number;
  /** Undefined where there is no good line at all. */
  readonly first: Moment | undefined;
  readonly last: Moment | undefined;
}

export interface VerifiedSegment extends SegmentName {
  readonly bytes: number;
  readonly scan: Scan;
}

/** One event, and when it was recorded, as it stands in the line. */
export interface Moment {
  readonly seq: number;
  readonly time: string | undefined;
}

/**
 * @param onProgress called for each chunk with how many bytes have been read, of how many
 * @throws the error of a system call
 */
export async function verify(
  disk: Disk,
  onProgress: (read: number, total: number) => void = () => {},
): Promise<Verdict> {
  const names = await disk.list();
  const contents = contentsOf(names);
  const position = positionOfLast(names);
  const found = await verifyContents(disk, contents, position, onProgress).catch((error: Error) => error);
  if ('findings' in found && found.findings.length === 0) return found;
  // A service may have started or removed old files meanwhile; then what is left is the journal.
  const namesNow = await disk.list();
  const isSame = contentsOf(namesNow).removedLast === contents.removedLast && positionOfLast(namesNow) === position;
  if (!isSame) return verify(disk, onProgress);
  if (found instanceof Error) throw found;
  return found;
}

async function verifyContents(
  disk: Disk,
  contents: Contents,
  position: Position,
  onProgress: (read: number, total: number) => void,
): Promise<Verdict> {
  const { segments: names, gone } = contents;
  const sizes = await Promise.all(names.map(({ name }) => disk.size(name)));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  let read = 0;
  async function* counted(name: string): AsyncIterable<Buffer> {
    for await (const chunk of disk.read(name)) {
      yield chunk;
      read += chunk.length;
      onProgress(read, Math.max(read, total));
    }
  }

  const segments: VerifiedSegment[] = [];
  const findings = findingsOfNone(contents);
  let expected: number | undefined = 1;
  for (const [index, segment] of names.entries()) {
    // Behind a damaged file nobody knows what is due; that it is damaged says enough.
    if (expected !== undefined) findings.push(...joinFindings(segment, expected, gone));
    const before = read;
    const scan = await scanSegment(counted(segment.name), segment.firstSeq);
    const wrong = findingsIn(segment, scan, index === names.length - 1 ? position : 'earlier');
    findings.push(...wrong);
    segments.push({ ...segment, bytes: read - before, scan });
    expected = wrong.length === 0 ? scan.place.seq : undefined;
  }

  const filled = segments.filter(({ scan }) => scan.lines > 0);
  return {
    ...contents,
    segments,
    findings,
    bytes: read,
    events: segments.reduce((sum, { scan }) => sum + scan.lines, 0),
    first: await firstMoment(disk, filled[0]),
    last: await lastMoment(disk, filled.at(-1)),
  };
}

async function firstMoment(disk: Disk, segment: VerifiedSegment | undefined): Promise<Moment | undefined> {
  if (segment === undefined) return undefined;
  const head: Buffer[] = [];
  for await (const chunk of disk.read(segment.name, 0, HEAD_BYTES)) head.push(chunk);
  return { seq: segment.firstSeq, time: readTime(Buffer.concat(head)) };
}

async function lastMoment(disk: Disk, segment: VerifiedSegment | undefined): Promise<Moment | undefined> {
  if (segment === undefined) return undefined;
  const { bytes, place } = segment.scan;
  const found = await lastLine(disk, segment.name, bytes);
  return { seq: place.seq - 1, time: found && readTime(found.line) };
}

/** Enough of a line to hold its time. */
const HEAD_BYTES = 256;
