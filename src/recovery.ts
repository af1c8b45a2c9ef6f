/**
 * What a start finds in the journal's folder, and what it does about it. `decisions` is the table that it runs. A start reads
 * the last file, and of those before it the last line each; `verify.ts` reads everything.
 */

import { copyFile, type Disk, type LogFile } from './disk.ts';
import { type GoneRange, type Place, segmentName } from './event.ts';
import type { Notices } from './notice.ts';
import {
  afterGone,
  type Contents,
  contentsOf,
  type Flaw,
  lastLine,
  type Scan,
  type SegmentName,
  scanSegment,
} from './scan.ts';

/**
 * `use` it as it is · `leave` it alone · `cut` it off and keep its bytes aside · `refuse` to start: no crash explains it, so
 * something that was acknowledged may be gone, and a person has to know.
 */
export type Decision = 'use' | 'leave' | 'cut' | 'refuse';

export type Kind = Flaw | 'empty file' | 'missing file' | 'overlapping file' | 'foreign file';

/** What is done about each kind, in the last file and in an earlier one, and why. */
export const decisions: Readonly<
  Record<Kind, { readonly last: Decision; readonly earlier: Decision; readonly why: string }>
> = {
  'torn end': {
    last: 'cut',
    earlier: 'refuse',
    why: 'a write that a crash interrupted was never acknowledged; a file was whole when the next one was begun',
  },
  'zeros at the end': {
    last: 'cut',
    earlier: 'refuse',
    why: 'a power cut kept the new length of the file and lost the bytes: ext4 and XFS read them as zeros',
  },
  'bad last line': { last: 'cut', earlier: 'refuse', why: 'a torn write that reached its newline' },
  'bad line inside': { last: 'refuse', earlier: 'refuse', why: 'lines follow it, so it was once whole' },
  gap: { last: 'refuse', earlier: 'refuse', why: 'lines were taken out' },
  repeat: { last: 'refuse', earlier: 'refuse', why: 'lines were put in' },
  'swapped lines': { last: 'refuse', earlier: 'refuse', why: 'somebody changed the order' },
  'name and first seq disagree': {
    last: 'refuse',
    earlier: 'refuse',
    why: 'the file was renamed, or its first lines are gone',
  },
  'empty file': {
    last: 'use',
    earlier: 'refuse',
    why: 'a rotation died after it made the file; none goes on to the next before it holds something',
  },
  'missing file': {
    last: 'refuse',
    earlier: 'refuse',
    why: 'the file before it ends too early to be the one before it',
  },
  'overlapping file': { last: 'refuse', earlier: 'refuse', why: 'the file before it holds the same events already' },
  'foreign file': { last: 'leave', earlier: 'leave', why: 'it is not ours' },
};

/** Something in the folder that is not simply good. */
export interface Finding {
  readonly kind: Kind;
  readonly decision: Decision;
  readonly file: string;
  /** Where the good lines end: the number of the line behind them, from 1, and its first byte, from 0. */
  readonly line: number;
  readonly byte: number;
  readonly problem: string;
}

/** The journal holds something that no crash explains. The message says file, line, byte and what to do. */
export class DamagedError extends Error {
  readonly finding: Finding;

  constructor(folder: string, finding: Finding) {
    const { file, line, byte, problem } = finding;
    super(
      `the journal is damaged: ${folder}/${file}, line ${line}, byte ${byte}: ${problem}; nothing was changed. ` +
        `assetlog repair --data ${shellWord(folder)} shows how to mend it`,
    );
    this.finding = finding;
  }
}

/** The segment that the next batch is appended to. */
export interface Segment {
  readonly file: LogFile;
  readonly bytes: number;
  readonly place: Place;
}

/** What a start found or made. */
export interface Recovered extends Segment {
  /** How many the journal has, this one among them. */
  readonly files: number;
}

/**
 * Finds where to go on, makes it safe to do so, and opens the file for it. The folder is locked.
 * @throws DamagedError, or the error of a system call, after which it may be called again
 */
export async function recover(disk: Disk, notices: Notices): Promise<Recovered> {
  const names = await disk.list();
  const contents = contentsOf(names);
  const stoppedCleanly = names.includes(CLEAN_STOP);
  const last = contents.segments.at(-1);
  if (last === undefined) {
    if (stoppedCleanly) await forgetCleanStop(disk);
    return begin(disk, afterGone(1, contents.gone));
  }

  const scan = await scanSegment(disk.read(last.name), last.firstSeq);
  const findings = [...foreignIn(names), ...(await findingsBefore(disk, contents)), ...findingsIn(last, scan, 'last')];
  const refused = findings.find(({ decision }) => decision === 'refuse');
  if (refused !== undefined) throw new DamagedError(disk.folder, refused);
  for (const { file } of findings.filter(({ decision }) => decision === 'leave')) {
    notices.debug('a file that is not ours is left alone', { file });
  }
  const cut = findings.find(({ decision }) => decision === 'cut');
  // After any stop but a clean one the page cache may hold what the disk does not: a sync may have failed before the end.
  if (cut !== undefined || !stoppedCleanly) {
    const aside = await rewrite(disk, last.name, scan, cut !== undefined);
    if (cut !== undefined) tellCut(notices, cut, stoppedCleanly, aside);
  }
  if (stoppedCleanly) await forgetCleanStop(disk);
  return { file: await disk.openLog(last.name), bytes: scan.bytes, place: scan.place, files: contents.segments.length };
}

/** Tells the next start that everything in the folder was synced. Last thing before the lock is released. */
export async function rememberCleanStop(disk: Disk): Promise<void> {
  const file = await disk.create(CLEAN_STOP);
  await file.close();
}

/** @returns what is to be said of a file that was read whole; nothing where all is good */
export function findingsIn({ name }: SegmentName, scan: Scan, which: 'last' | 'earlier'): Finding[] {
  const kind = scan.flaw?.kind ?? (scan.lines === 0 ? 'empty file' : undefined);
  if (kind === undefined) return [];
  const problem = scan.flaw?.problem ?? 'it is empty';
  return [{ kind, decision: decisions[kind][which], file: name, line: scan.lines + 1, byte: scan.bytes, problem }];
}

/**
 * Whether a file goes on where the one before it ends.
 * @param expected the seq behind the last line before it, 1 for the first file
 */
export function joinFindings({ name, firstSeq }: SegmentName, expected: number, gone: readonly GoneRange[]): Finding[] {
  const due = afterGone(expected, gone);
  if (expected <= firstSeq && firstSeq <= due) return [];
  const [kind, problem]: [Kind, string] =
    firstSeq > due
      ? ['missing file', `the events ${due} to ${firstSeq - 1} before it are missing`]
      : ['overlapping file', `it begins with seq ${firstSeq}, but the file before it goes on to ${expected - 1}`];
  return [{ kind, decision: decisions[kind].last, file: name, line: 1, byte: 0, problem }];
}

const CLEAN_STOP = '.stopped-cleanly';
/** What we put into the folder besides the journal itself. */
const OURS =
  /^(\.(un)?lock(ed)?-.*|\.stopped-cleanly|events-[0-9]{20}\.jsonl(\..*)?|events-[0-9-]{41}\.(lost|removed)|damaged-.*)$/;

function foreignIn(names: readonly string[]): Finding[] {
  const kind = 'foreign file';
  return names
    .filter((name) => !OURS.test(name))
    .map((file) => ({ kind, decision: decisions[kind].last, file, line: 1, byte: 0, problem: decisions[kind].why }));
}

/** The first thing wrong before the last file, and with how that joins up. */
async function findingsBefore(disk: Disk, { segments, gone }: Contents): Promise<Finding[]> {
  let expected = 1;
  let before: SegmentName | undefined;
  for (const segment of segments) {
    if (before !== undefined) {
      const end = await lastLine(disk, before.name, await disk.size(before.name));
      // Where the last line can not be what it should be, reading the whole file finds out where it goes wrong.
      if (end === undefined || joinFindings(segment, end.seq + 1, gone).length > 0) {
        const found = findingsIn(before, await scanSegment(disk.read(before.name), before.firstSeq), 'earlier');
        if (found.length > 0) return found;
      }
      expected = (end?.seq ?? before.firstSeq) + 1;
    }
    const found = joinFindings(segment, expected, gone);
    if (found.length > 0) return found;
    before = segment;
  }
  return [];
}

async function begin(disk: Disk, firstSeq: number): Promise<Recovered> {
  const file = await disk.createLog(segmentName(firstSeq));
  return { file, bytes: 0, place: { seq: firstSeq, crc: 0 }, files: 1 };
}

async function forgetCleanStop(disk: Disk): Promise<void> {
  await disk.remove(CLEAN_STOP);
  await disk.syncFolder();
}

/**
 * Replaces a file by a copy of its good lines that is known to be on the disk. What is cut off is first copied to a file
 * beside it, durably.
 * @returns the name of that file
 */
async function rewrite(disk: Disk, name: string, scan: Scan, cut: boolean): Promise<string | undefined> {
  const fresh = `${name}.rewrite`;
  await disk.remove(fresh).catch(unlessAbsent); // a rewrite that was interrupted
  await copyFile(disk, name, fresh, 0, scan.bytes);
  const aside = cut ? await keepAside(disk, name, scan.bytes) : undefined;
  await disk.rename(fresh, name);
  await disk.syncFolder();
  return aside;
}

function tellCut(notices: Notices, cut: Finding, stoppedCleanly: boolean, kept: string | undefined): void {
  const { file, line, byte, problem } = cut;
  const why = stoppedCleanly
    ? 'it is not as a clean stop left it, so it may have been acknowledged'
    : 'a crash left it incomplete, and it was never acknowledged';
  notices.warn(`the end of the journal was cut off: ${why}`, { file, line, byte, problem, kept });
}

/** @returns the name of the file that now holds what is behind `start`, durably */
async function keepAside(disk: Disk, name: string, start: number): Promise<string> {
  const names = await disk.list();
  let aside = `${name}.torn`;
  for (let number = 2; names.includes(aside); number += 1) aside = `${name}.torn-${number}`;
  await copyFile(disk, name, aside, start);
  return aside;
}

function unlessAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}

/** A path or a URL as a person can paste it into a shell. */
export function shellWord(path: string): string {
  return /^[\w./:-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
