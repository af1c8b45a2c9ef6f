/**
 * Recovery of a journal at a start: checks the folder and decides by the table `decisions`. It reads the whole last file, but only
 * the last line of each earlier file; `verify.ts` reads everything.
 */

import type { Limits } from '../../config/limits.ts';
import type { Notices } from '../../telemetry/log.ts';
import { shellWord } from '../../telemetry/printable.ts';
import { type Disk, type LogFile, unlessAbsent } from '../disk.ts';
import { LinkError } from '../entry.ts';
import { copyFile } from '../file-io.ts';
import type { ChainPosition } from '../line/record.ts';
import {
  afterGone,
  type Contents,
  contentsOf,
  goneName,
  isMadeAgain,
  isOwnName,
  type SegmentName,
  segmentName,
} from '../segments.ts';
import { CLEAN_STOP, type LastStop, readLastStop, removeCleanStop, type StopEnd } from './clean-stop.ts';
import { type Flaw, lastLine, type OnGoodLine, type Scan, scanSegment } from './scan.ts';

/**
 * `use` the file unchanged · `leave` it alone · `truncate` it and keep the removed bytes in another file · `refuse` to start: no
 * crash explains the finding, so acknowledged events might be lost, and the operator has to decide.
 */
export type RecoveryDecision = 'use' | 'leave' | 'truncate' | 'refuse';

/** A kind of deviation from a valid journal: in one file, or between files. */
export type FindingKind =
  | Flaw
  | 'long bad end'
  | 'empty file'
  | 'missing file'
  | 'overlapping file'
  | 'other end than at the stop'
  | 'foreign file';

/** The last file of the journal after a crash, the last file after a clean stop, or an earlier file. */
export type SegmentPosition = 'afterCrash' | 'afterStop' | 'earlier';

interface DecisionRow extends Readonly<Record<SegmentPosition, RecoveryDecision>> {
  readonly why: string;
}

/**
 * The decision for each kind in each position, and why. The columns on the left show how `scan.ts` recognises the kind. After a
 * clean stop every line is synced, so no finding can be the result of a crash.
 */
// biome-ignore format: a table, with one row a line
export const decisions: Readonly<Record<FindingKind, DecisionRow>> = {
// where                newline  crc, seq      kind                           a crash     a clean stop  an earlier file
/* end of the file      no       –          */ 'torn end':                    row('truncate', 'refuse', 'refuse', 'a crash interrupts a write anywhere; a file was whole when the next one was created'),
/* end of the file      no       –          */ 'zeros at the end':            row('truncate', 'refuse', 'refuse', 'a power cut kept the new length of the file and lost the bytes: ext4 and XFS read them as zeros'),
/* last line            yes      bad        */ 'bad last line':               row('truncate', 'refuse', 'refuse', 'an interrupted write can reach its newline'),
/* end of the file      either   bad        */ 'long bad end':                row('refuse',   'refuse', 'refuse', 'one of the three above, but longer than one write, and a crash interrupts only one write'),
/* lines after it       yes      bad        */ 'bad line inside':             row('refuse',   'refuse', 'refuse', 'lines follow it, so it was once whole'),
/* beside a line        any      good       */ 'bytes between lines':         row('refuse',   'refuse', 'refuse', 'a program converted the line ends or added bytes; the line itself is good'),
/* any line             yes      seq ahead  */ 'gap':                         row('refuse',   'refuse', 'refuse', 'lines were removed'),
/* any line             yes      seq again  */ 'repeat':                      row('refuse',   'refuse', 'refuse', 'lines were inserted'),
/* lines after it       yes      seq ahead  */ 'swapped lines':               row('refuse',   'refuse', 'refuse', 'the order of the lines was changed'),
/* first line           yes      seq other  */ 'name and first seq disagree': row('refuse',   'refuse', 'refuse', 'the file was renamed, or its first lines are gone'),
/* no line              –        –          */ 'empty file':                  row('use',      'use',    'refuse', 'a crash during a rotation leaves it; the next file is created only after this one has lines'),
/* between files        –        seq ahead  */ 'missing file':                row('refuse',   'refuse', 'refuse', 'the previous file ends too early'),
/* between files        –        seq again  */ 'overlapping file':            row('refuse',   'refuse', 'refuse', 'the previous file already has the same events'),
/* end of the journal   yes      good       */ 'other end than at the stop':  row('use',      'refuse', 'use',    'lines were removed from the end of the journal, or changed there, after the clean stop'),
/* in the folder        –        –          */ 'foreign file':                row('leave',    'leave',  'leave',  'assetlog did not create it'),
};

function row(
  afterCrash: RecoveryDecision,
  afterStop: RecoveryDecision,
  earlier: RecoveryDecision,
  why: string,
): DecisionRow {
  return { afterCrash, afterStop, earlier, why };
}

/** One deviation from a valid journal in the folder. */
export interface Finding {
  readonly kind: FindingKind;
  readonly decision: RecoveryDecision;
  readonly file: string;
  /** The first line after the valid lines, counted from 1, and its first byte, counted from 0. */
  readonly line: number;
  readonly byte: number;
  /** A clause for the operator. */
  readonly problem: string;
}

/** The journal has damage that no crash explains. The message names file, line and byte, and what to do. */
export class DamagedError extends Error {
  readonly finding: Finding;

  constructor(folder: string, finding: Finding) {
    const { file, line, byte, problem } = finding;
    super(
      `the journal is damaged: ${folder}/${file}, line ${line}, byte ${byte}: ${problem}; nothing was changed. ` +
        `assetlog repair --data ${shellWord(folder)} shows how to repair it`,
    );
    this.finding = finding;
  }
}

/** Too little free space to rewrite the last file, which must precede all writes to the journal. Nothing was changed. */
export class NoSpaceError extends Error {
  readonly neededBytes: number;

  constructor(name: string, neededBytes: number, usableBytes: number) {
    super(`no space to copy ${name}: that needs ${neededBytes} bytes, and ${usableBytes} are free`);
    this.neededBytes = neededBytes;
  }
}

/** The file of the next batch. */
export interface Segment {
  readonly file: LogFile;
  /** Length of the file. */
  readonly bytes: number;
  /** The chain position of the next line. */
  readonly chain: ChainPosition;
  /** The id of the last line, if this process wrote it. */
  readonly lastId?: string;
}

/**
 * Removes links that have the name of a file that is created again. Only the link is removed, never its target.
 * @throws LinkError for any other file of a journal that is a link
 */
async function listWithoutLinks(disk: Disk, notices: Notices): Promise<string[]> {
  try {
    return await disk.list(true);
  } catch (error) {
    if (!(error instanceof LinkError)) throw error;
    for (const file of (await disk.list()).filter(isMadeAgain)) {
      const isLink = await disk.size(file).then(
        () => false,
        (problem) => problem instanceof LinkError,
      );
      if (!isLink) continue;
      if (contentsOf([file]).gone.length > 0) await disk.replace(file, Buffer.alloc(0));
      else await disk.remove(file);
      await disk.syncFolder();
      notices.warn('a link was removed that had the name of a file which is created again', {
        folder: disk.folder,
        file,
      });
    }
    return disk.list(true);
  }
}

/** The last segment, which a start found or created. */
export interface Recovered extends Segment {
  /** Number of all journal files. */
  readonly files: number;
}

/**
 * Finds the end of the journal, makes its content durable, and opens the last file for appends. The caller holds the lock. In an
 * empty folder it creates the first file.
 * @param checkHeld throws if the folder is no longer locked
 * @param onGoodLine called with each good line of the last file
 * @throws DamagedError, NoSpaceError, or the error of a system call; in each case it can be called again
 */
export async function recover(
  disk: Disk,
  notices: Notices,
  limits: Limits,
  checkHeld: () => void = () => {},
  onGoodLine?: OnGoodLine,
): Promise<Recovered> {
  const names = await listWithoutLinks(disk, notices);
  const contents = contentsOf(names);
  const lastStop = await readLastStop(disk, names);
  const last = contents.segments.at(-1);
  if (last === undefined) {
    const [missing] = findMissingFiles(contents, lastStop?.end);
    if (missing !== undefined) throw new DamagedError(disk.folder, missing);
    if (names.includes(CLEAN_STOP)) await removeCleanStop(disk);
    return createFirst(disk);
  }

  const scan = await scanSegment(disk.read(last.name), last.firstSeq, limits, onGoodLine);
  const findings = [
    ...foreignFindings(names),
    ...(await findingsBefore(disk, contents, limits)),
    ...findingsInLast(last, scan, lastStop, contents, limits),
  ];
  const refused = findings.find(({ decision }) => decision === 'refuse');
  if (refused !== undefined) throw new DamagedError(disk.folder, refused);
  for (const { file } of findings.filter(({ decision }) => decision === 'leave')) {
    notices.debug('a file that assetlog did not create is ignored', { file });
  }
  const torn = findings.find(({ decision }) => decision === 'truncate');
  // After an unclean stop the page cache might hold bytes that are not on stable storage, since a sync might have failed.
  if (positionOfLast(lastStop, scan) === 'afterCrash') {
    const aside = await rewrite(disk, last.name, scan, limits.openReserveBytes, checkHeld);
    if (torn !== undefined) logTruncated(notices, torn, aside);
  }
  if (names.includes(CLEAN_STOP)) await removeCleanStop(disk);
  return { file: await disk.openLog(last.name), bytes: scan.bytes, chain: scan.chain, files: contents.segments.length };
}

/**
 * @param scan the scan of the last journal file
 * @returns the position of the last journal file: `afterCrash` if there is no marker, or it is stale. A marker is stale if the
 *   journal has lines after the recorded end, as in a copy of the folder that was updated without deleting files
 */
function positionOfLast(lastStop: LastStop, scan: Scan): 'afterCrash' | 'afterStop' {
  if (lastStop === undefined) return 'afterCrash';
  const isStale = lastStop.end !== undefined && scan.chain.seq > lastStop.end.chain.seq;
  return isStale ? 'afterCrash' : 'afterStop';
}

/** @returns the findings about the last file of the journal, including a difference from the end at the last clean stop */
export function findingsInLast(
  segment: SegmentName,
  scan: Scan,
  lastStop: LastStop,
  contents: Contents,
  limits: Limits,
): Finding[] {
  const found = findingsIn(segment, scan, positionOfLast(lastStop, scan), limits);
  const after = contents.renamed.find(({ firstSeq }) => firstSeq >= scan.chain.seq);
  return after === undefined ? [...found, ...endFindings(segment, scan, lastStop)] : [...found, missingFile(after)];
}

/** @returns the difference between the end of the journal and the end at the clean stop; empty if the last file has a flaw */
function endFindings({ name }: SegmentName, scan: Scan, lastStop: LastStop): Finding[] {
  const { lines, bytes, chain, flaw } = scan;
  const end = lastStop?.end;
  if (end === undefined || flaw !== undefined || chain.seq > end.chain.seq) return [];
  const kind = 'other end than at the stop';
  const found = { kind, decision: decisions[kind].afterStop, file: name, line: lines + 1, byte: bytes } as const;
  if (chain.seq < end.chain.seq) {
    const missing = `the events ${chain.seq} to ${end.chain.seq - 1}`;
    return [
      { ...found, problem: `${missing} are missing, which the journal had at the last clean stop, in ${end.file}` },
    ];
  }
  // If the last file has another name, an empty file was created or removed: no event is affected.
  if (name !== end.file || (bytes === end.bytes && chain.crc === end.chain.crc)) return [];
  const problem = `it ends with other lines than at the last clean stop, when it had ${end.bytes} bytes`;
  return [{ ...found, problem }];
}

/** @returns at most one finding about a file that was read completely; none if the file is valid */
export function findingsIn(
  { name }: SegmentName,
  scan: Scan,
  position: SegmentPosition,
  { tornBytesMax }: Limits,
): Finding[] {
  const { flaw, lines, bytes } = scan;
  if (flaw === undefined && lines > 0) return [];
  const at = { file: name, line: lines + 1, byte: bytes };
  if (flaw === undefined) {
    return [{ kind: 'empty file', decision: decisions['empty file'][position], ...at, problem: 'it is empty' }];
  }
  const isEnd = decisions[flaw.kind].afterCrash === 'truncate';
  const tooLong = isEnd && flaw.bytes > tornBytesMax;
  const kind = tooLong ? 'long bad end' : flaw.kind;
  let { problem } = flaw;
  if (tooLong) problem += `, for ${flaw.bytes} bytes, and a crash explains at most ${tornBytesMax}`;
  else if (isEnd && position === 'afterStop') problem += ', although the last stop was clean';
  return [{ kind, decision: decisions[kind][position], ...at, problem }];
}

/**
 * Findings in a folder without journal files, but with markers of missing files. Retention never removes the newest file, and a
 * repair writes a file, so neither leaves only its markers.
 * @param end the end of the journal at the last clean stop, if known
 */
export function findMissingFiles({ segments, renamed, lost, removedLast, gone }: Contents, end?: StopEnd): Finding[] {
  if (segments.length > 0) return [];
  const due = Math.max(0, ...gone.map((range) => range.last)) + 1;
  const other = renamed.find(({ firstSeq }) => firstSeq >= due);
  if (other !== undefined) return [missingFile(other)];
  const kind = 'missing file';
  const found = { kind, decision: decisions[kind].afterCrash, line: 1, byte: 0 } as const;
  if (end !== undefined && end.chain.seq > due) {
    const missing = `the events ${due} to ${end.chain.seq - 1}`;
    return [{ ...found, file: end.file, problem: `all segments are missing: ${missing}` }];
  }
  const last = lost.at(-1);
  const marker = last === undefined ? goneName({ first: 1, last: removedLast }, 'removed') : goneName(last, 'lost');
  if (last === undefined && removedLast === 0) return [];
  return [{ ...found, file: marker, problem: `all segments are missing: the events from ${due} on, if not more` }];
}

/** @returns the finding about a file that exists only under another name */
function missingFile({ name, firstSeq }: SegmentName): Finding {
  const kind = 'missing file';
  const problem = `${segmentName(firstSeq)} is missing, and this file might be it; restore it, for example with gunzip`;
  return { kind, decision: decisions[kind].afterCrash, file: name, line: 1, byte: 0, problem };
}

/**
 * Checks that a file continues where the previous one ends.
 * @param expected the seq after the last line of the previous file; 1 for the first file
 * @returns at most one finding
 */
export function findJoinFlaws(
  { name, firstSeq }: SegmentName,
  expected: number,
  { gone, renamed }: Pick<Contents, 'gone' | 'renamed'>,
): Finding[] {
  const due = afterGone(expected, gone);
  if (expected <= firstSeq && firstSeq <= due) return [];
  const other = renamed.find((file) => due <= file.firstSeq && file.firstSeq < firstSeq);
  if (other !== undefined) return [missingFile(other)];
  const [kind, problem]: [FindingKind, string] =
    firstSeq > due
      ? ['missing file', `the events ${due} to ${firstSeq - 1} before it are missing`]
      : ['overlapping file', `it starts at seq ${firstSeq}, but the file before it continues to ${expected - 1}`];
  return [{ kind, decision: decisions[kind].earlier, file: name, line: 1, byte: 0, problem }];
}

function foreignFindings(names: readonly string[]): Finding[] {
  const kind = 'foreign file';
  return names
    .filter((name) => !isOwnName(name))
    .map((file) => ({ kind, decision: decisions[kind].earlier, file, line: 1, byte: 0, problem: decisions[kind].why }));
}

/** Stops at the first file with a finding, in the file itself or between it and the previous file. */
async function findingsBefore(disk: Disk, contents: Contents, limits: Limits): Promise<Finding[]> {
  let expected = 1;
  let before: SegmentName | undefined;
  for (const segment of contents.segments) {
    if (before !== undefined) {
      const end = await lastLine(disk, before.name, await disk.size(before.name), limits);
      // If the last line is not the expected one, the whole file is read to find the first bad line.
      if (end === undefined || findJoinFlaws(segment, end.seq + 1, contents).length > 0) {
        const scan = await scanSegment(disk.read(before.name), before.firstSeq, limits);
        const found = findingsIn(before, scan, 'earlier', limits);
        if (found.length > 0) return found;
      }
      expected = (end?.seq ?? before.firstSeq) + 1;
    }
    const found = findJoinFlaws(segment, expected, contents);
    if (found.length > 0) return found;
    before = segment;
  }
  return [];
}

async function createFirst(disk: Disk): Promise<Recovered> {
  const file = await disk.createLog(segmentName(1));
  return { file, bytes: 0, chain: { seq: 1, crc: 0 }, files: 1 };
}

/**
 * Replaces a file atomically by a durable copy of its valid lines. Bytes after them are first copied to another file, durably.
 * @returns the name of that other file; undefined if there are none
 */
async function rewrite(
  disk: Disk,
  name: string,
  scan: Scan,
  reserveBytes: number,
  checkHeld: () => void,
): Promise<string | undefined> {
  const fresh = `${name}.rewrite`;
  await disk.remove(fresh).catch(unlessAbsent(undefined)); // left by an interrupted rewrite
  await checkSpace(disk, name, scan.bytes + (scan.flaw?.bytes ?? 0) + reserveBytes);
  await copyFile(disk, name, fresh, 0, scan.bytes);
  let aside: string | undefined;
  try {
    if (scan.flaw !== undefined) aside = await copyAside(disk, name, scan.bytes);
  } catch (error) {
    await disk.remove(fresh); // frees the space of a full disk until the next attempt
    throw error;
  }
  checkHeld(); // without the lock another process might have appended to the file since it was read
  await disk.rename(fresh, name);
  await disk.syncFolder();
  return aside;
}

/** Otherwise each attempt on a full disk would use all free space, which other programs need. */
async function checkSpace(disk: Disk, name: string, neededBytes: number): Promise<void> {
  const { usableBytes = Number.POSITIVE_INFINITY } = (await disk.space()) ?? {};
  if (usableBytes < neededBytes) throw new NoSpaceError(name, neededBytes, usableBytes);
}

/** The message does not mention whether the removed events were acknowledged, since that is unknown. */
function logTruncated(notices: Notices, { file, line, byte, problem }: Finding, kept: string | undefined): void {
  const why = 'the last stop was not clean, and the removed bytes are from an interrupted write';
  notices.warn(`the end of the journal was truncated: ${why}`, { file, line, byte, problem, kept });
}

/** Copies the bytes from `start` to a new file, durably. @returns its name, such as `<name>.torn` or `<name>.torn-2` */
async function copyAside(disk: Disk, name: string, start: number): Promise<string> {
  const names = await disk.list();
  let aside = `${name}.torn`;
  for (let number = 2; names.includes(aside); number += 1) aside = `${name}.torn-${number}`;
  await copyFile(disk, name, aside, start);
  return aside;
}
