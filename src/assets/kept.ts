/** Reads the state of the assets of a journal from its file, and from the lines after it. */

import type { Limits } from '../config/limits.ts';
import type { ReadableDisk } from '../journal/disk.ts';
import { unlessAbsent } from '../journal/disk.ts';
import { markOf, reportedOf, timeOf } from '../journal/line/members.ts';
import type { LineMark } from '../journal/line/record.ts';
import { readJournal } from '../journal/look/reader.ts';
import type { Line, Remark } from '../journal/look/reading.ts';
import { seekLine } from '../journal/look/seek.ts';
import { lastLine } from '../journal/open/scan.ts';
import type { Progress } from '../journal/progress.ts';
import { afterGone, type Contents, contentsOf, type GoneRange, STATE_FILE } from '../journal/segments.ts';
import { createNotices, type Notices } from '../telemetry/log.ts';
import { AssetStates } from './asset-state.ts';
import { type Kept, readState, type Saved } from './state-file.ts';

export interface Loading {
  readonly disk: ReadableDisk;
  /** @returns states without an asset */
  readonly newStates: () => AssetStates;
  readonly notices: Notices;
  readonly limits: Limits;
}

/** The way in which a command reads the state of a folder. It logs nothing: a service logs the problems of the file. */
export function loadingOf(disk: ReadableDisk, limits: Limits): Loading {
  const notices = createNotices('error', false, () => {});
  return { disk, limits, notices, newStates: () => new AssetStates({ limits }) };
}

/**
 * Reads the file. If it is missing, incomplete, or from another journal, the state starts with the first line of the
 * journal.
 * @throws the error of a system call that reads the journal
 */
export async function loadKept(loading: Loading): Promise<{ readonly kept: Kept; readonly saved: Saved | undefined }> {
  const { disk, newStates, notices, limits } = loading;
  const states = newStates();
  const found = await readState(disk, states, limits).catch((error: Error) => {
    notices.warn('the state of the assets cannot be read; it is rebuilt from the events', {
      problem: error.message,
    });
    return undefined;
  });
  const names = await disk.list().catch(unlessAbsent<string[]>([]));
  const contents = contentsOf(names);
  if (found !== undefined && (await isOfJournal(loading, found.kept.end, contents))) {
    noteUnseen(loading, found.kept, contents);
    if (found.broken > 0)
      notices.warn('the state of some assets is broken; it starts again with their next events', {
        assets: found.broken,
      });
    return found;
  }
  states.drop();
  if (names.includes(STATE_FILE)) {
    const problem =
      found === undefined
        ? 'it is incomplete'
        : `it ends with event ${found.kept.end.seq}, which is not the same in the journal`;
    notices.warn('the state of the assets is rebuilt from the events', { file: STATE_FILE, problem });
  }
  const seq = contents.clearedSeq;
  const kept = { states: newStates(), seq, end: { seq, id: '', crc: '' }, sinceSeq: seq + 1, unseen: [] };
  return { kept, saved: undefined };
}

/** Whether the last line of a state is in the journal, or was removed by retention. @throws the error of a system call */
export async function isOfJournal(
  loading: Pick<Loading, 'disk' | 'limits'>,
  end: LineMark,
  contents: Contents,
): Promise<boolean> {
  if (end.seq <= contents.clearedSeq) return true;
  const line = await findLine(loading, end.seq, contents);
  return line?.id === end.id && line.crc === end.crc;
}

/** @returns undefined if the journal does not have the line. @throws the error of a system call */
async function findLine(
  { disk, limits }: Pick<Loading, 'disk' | 'limits'>,
  seq: number,
  { segments }: Contents,
): Promise<LineMark | undefined> {
  const segment = segments.findLast(({ firstSeq }) => firstSeq <= seq);
  if (segment === undefined) return undefined;
  const size = await disk.size(segment.name).catch(unlessAbsent(0));
  const found = await seekLine(disk, segment.name, size, seq, limits).catch(unlessAbsent(undefined));
  const last = found && (await lastLine(disk, segment.name, found.bytes, limits).catch(unlessAbsent(undefined)));
  return last && markOf(last.line, 0, last.line.length, last.seq);
}

/**
 * After a repair the last line of the state can have another crc, because lines before it are gone. The state is kept, since it has
 * the events of these lines.
 * @returns the state with the current crc, to be written; undefined if that is not necessary, or the line is gone too
 * @throws the error of a system call
 */
export async function rebound(loading: Loading): Promise<Kept | undefined> {
  const found = await boundState(loading);
  return found?.isOther ? found.kept : undefined;
}

/**
 * @returns the state in the file with the current crc of its last line, and whether that crc has changed; undefined if there is no
 * file,
 *   or if the journal does not have that line and retention did not remove it
 * @throws the error of a system call
 */
export async function boundState(
  loading: Loading,
): Promise<{ readonly kept: Kept; readonly isOther: boolean } | undefined> {
  const { disk, newStates, limits } = loading;
  const found = await readState(disk, newStates(), limits);
  if (found === undefined) return undefined;
  const { kept } = found;
  const contents = await contentsIn(disk);
  if (kept.end.seq <= contents.clearedSeq) return { kept, isOther: false };
  const line = await findLine(loading, kept.end.seq, contents);
  return line?.id === kept.end.id ? { kept: { ...kept, end: line }, isOther: line.crc !== kept.end.crc } : undefined;
}

/** @throws the error of a system call, except for a missing folder */
export async function contentsIn(disk: Pick<ReadableDisk, 'list'>): Promise<Contents> {
  return contentsOf(await disk.list().catch(unlessAbsent<string[]>([])));
}

/** Reports the events that retention removed before the state had read them. */
export function noteUnseen({ notices }: Pick<Loading, 'notices'>, kept: Kept, { clearedSeq }: Contents): void {
  if (clearedSeq <= kept.seq) return;
  const range = { first: kept.seq + 1, last: clearedSeq };
  notices.warn('the state of the assets lacks events that retention removed', {
    first_seq: range.first,
    last_seq: range.last,
  });
  passUnseen(kept, range);
  if (kept.end.seq < clearedSeq) kept.end = { seq: clearedSeq, id: '', crc: '' };
}

/** Records events that the state will never have, because their lines are gone. */
export function passUnseen(kept: Kept, range: GoneRange): void {
  kept.unseen = [...kept.unseen, range].slice(-UNSEEN_MAX);
  kept.seq = range.last;
}

export interface Folding {
  readonly disk: ReadableDisk;
  readonly progress: Progress;
  readonly limits: Limits;
  readonly untilSeq: number;
  /** Ends the reading. */
  readonly signal: AbortSignal;
  readonly onRemark: (remark: Remark) => void;
  /** Called after each part of the lines. */
  readonly onLines: (lines: readonly Line[]) => void;
}

/** Adds the lines after the state. @throws the error of a system call */
export async function foldLines(kept: Kept, folding: Folding): Promise<void> {
  const { disk, progress, limits, untilSeq, signal, onRemark, onLines } = folding;
  const once = AbortSignal.abort();
  const reading = { filter: { afterSeq: kept.seq, untilSeq }, seek: true, follow: once, progress, limits };
  for await (const lines of readJournal(disk, reading, onRemark)) {
    if (signal.aborted) return;
    if (lines.length === 0) continue;
    takeLines(kept, lines);
    onLines(lines);
  }
  // A repair might not have found the last events, and there is no later line yet that shows this.
  const last = Math.min(afterGone(kept.seq + 1, (await contentsIn(disk)).lost) - 1, untilSeq);
  if (last > kept.seq) passUnseen(kept, { first: kept.seq + 1, last });
}

function takeLines(kept: Kept, lines: readonly Line[]): void {
  let [time, timeMs] = ['', 0];
  for (const { bytes, start, end, seq } of lines) {
    const text = timeOf(bytes, start, seq);
    if (text !== time) [time, timeMs] = [text, Date.parse(text)]; // the lines of a batch have the same time
    // Either retention removed them before a backup, and a restored folder has the events before them, or a repair did not find
    // them.
    if (seq > kept.seq + 1) passUnseen(kept, { first: kept.seq + 1, last: seq - 1 });
    kept.seq = seq;
    kept.states.take(seq, timeMs, reportedOf(bytes, start, end, seq));
  }
  const last = lines.at(-1)!;
  if (last.seq >= kept.end.seq) kept.end = markOf(last.bytes, last.start, last.end, last.seq);
}

/**
 * Reads the state of the assets of a journal independently of other readings, even while a service writes the journal.
 * @param onRemark called with the remarks about the lines
 * @returns the state, and the first event that the journal still has
 * @throws the error of a system call
 */
export async function readKept(
  loading: Loading,
  progress: Progress,
  onRemark: (remark: Remark) => void,
): Promise<{ readonly kept: Kept; readonly firstSeq: number }> {
  const { disk, limits } = loading;
  const never = new AbortController().signal;
  for (let listings = 1; ; listings += 1) {
    const { kept } = await loadKept(loading);
    const beganSeq = kept.seq;
    const remarks: Remark[] = [];
    const all = { untilSeq: Number.POSITIVE_INFINITY, signal: never, onLines: () => {} };
    await foldLines(kept, { disk, progress, limits, ...all, onRemark: (remark) => remarks.push(remark) });
    const { segments, clearedSeq } = await contentsIn(disk);
    // The service has written a state that includes the events removed since then.
    if (clearedSeq > beganSeq && listings < limits.verifyListingsMax) continue;
    for (const remark of remarks) onRemark(remark);
    return { kept, firstSeq: segments[0]?.firstSeq ?? clearedSeq + 1 };
  }
}

/** The most ranges of unseen events that are listed; older ones are left out. */
const UNSEEN_MAX = 100;
