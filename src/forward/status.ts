/** How far the destinations of a journal are, from files alone: so also beside a service that is dead or does not answer. */

import { limits } from '../config/limits.ts';
import type { ReadableDisk } from '../journal/disk.ts';
import type { Durable } from '../journal/lock.ts';
import { type Line, readJournal } from '../journal/reader.ts';
import { lastLine } from '../journal/scan.ts';
import { contentsOf, type GoneRange } from '../journal/segments.ts';
import { readCursor } from './cursor.ts';
import { isOpen, readLetterStates } from './open-letters.ts';
import { readState } from './state-file.ts';
import type { TargetKind } from './target.ts';

/** One destination of one journal, as `assetlog forward status --json` prints it. */
export interface DestinationStatus {
  readonly name: string;
  readonly deployment: string | null;
  readonly to: string | null;
  /** Null until the destination has answered. */
  readonly kind: TargetKind | null;
  /** That of the forwarder; `not running` if no service has the folder, `not forwarded` if it has not got this destination. */
  readonly state: string;
  /** What is wrong, and what to do. */
  readonly reason: string | null;
  readonly since: string | null;
  /** The events up to this one are dealt with; null if the cursor is lost, and then the two members of the lag too. */
  readonly seq: number | null;
  /** The last event of the journal. */
  readonly last_seq: number;
  readonly lag_events: number | null;
  /** Age of the oldest event that is not dealt with. */
  readonly lag_seconds: number | null;
  /** Letters that an operator has to decide about; null if their file is damaged. */
  readonly dead_letters: number | null;
  readonly last_success: string | null;
  readonly last_error: string | null;
}

/** The process that has the folder of a journal, or of all deployments: `{ pid: 4711, durable: { kind: 'before', seq: 8 } }`. */
export interface Running {
  /** Undefined if it does not answer. */
  readonly pid: number | undefined;
  readonly durable: Durable;
}

/**
 * @param running undefined if no process has the folder
 * @param onDamage called with a sentence about a file with dead letters that can not be read
 * @returns the destinations that were ever forwarded to, by name
 * @throws the error of a system call
 */
export async function readStatus(
  disk: ReadableDisk,
  deployment: string | null,
  running: Running | undefined,
  onDamage: (problem: string) => void,
): Promise<DestinationStatus[]> {
  const { durable } = running ?? {};
  const lastSeq = durable?.kind === 'before' ? durable.seq - 1 : await readLastSeq(disk);
  const all: DestinationStatus[] = [];
  for (const name of await readNames(disk)) {
    const [cursor, written] = [await readCursor(disk, name), await readState(disk, name, limits)];
    const { to, kind, seq } = cursor.kind === 'found' ? cursor.value : { to: null, kind: undefined, seq: 0 };
    const isKnown = cursor.kind !== 'lost';
    const { state, reason } = stateOf(disk, running, written);
    const lost = isKnown
      ? null
      : `${cursor.reason}; a hub is asked for it, for another destination give the next event with assetlog forward from ${name} --seq N`;
    all.push({
      name,
      deployment,
      to: written?.to ?? to,
      kind: written?.kind ?? kind ?? null,
      state,
      reason: reason ?? lost,
      since: written?.since ?? null,
      seq: isKnown ? seq : null,
      last_seq: lastSeq,
      lag_events: isKnown ? Math.max(0, lastSeq - seq) : null,
      lag_seconds: isKnown ? await lagSeconds(disk, seq, lastSeq) : null,
      dead_letters: await countOpen(disk, name, onDamage),
      last_success: written?.last_success ?? null,
      last_error: written?.last_error ?? null,
    });
  }
  return all;
}

/** @returns the names of the destinations that the folder has files of, in order: `['dagster', 'hub']` */
export async function readNames(disk: Pick<ReadableDisk, 'list'>): Promise<string[]> {
  const found = (await disk.list()).map((name) => DESTINATION_FILE.exec(name)).filter((match) => match !== null);
  return [...new Set(found.map(([, one, other, dead]) => one ?? other ?? dead ?? ''))].sort();
}

/** @returns the last whole line's seq, from the end of the last file: `53`; 0 of a journal without events */
export async function readLastSeq(disk: ReadableDisk): Promise<number> {
  const last = contentsOf(await disk.list()).segments.at(-1);
  if (last === undefined) return 0;
  const bytes = await disk.size(last.name);
  const whole =
    (await lastLine(disk, last.name, bytes)) ??
    (await lastLine(disk, last.name, await wholeBytes(disk, last.name, bytes)));
  return whole?.seq ?? last.firstSeq - 1;
}

/** @returns the lines of these seqs, as far as the journal has them */
export async function* readLines(disk: ReadableDisk, { first, last }: GoneRange): AsyncGenerator<Line> {
  const progress = { durable: async (): Promise<Durable> => ({ kind: 'unsaid' }), more: async () => {} };
  const filter = { afterSeq: first - 1, untilSeq: last };
  for await (const lines of readJournal(disk, { filter, seek: true, progress, limits }, () => {})) yield* lines;
}

const DESTINATION_FILE = /^(?:forward-(.+)\.(?:cursor|state)|\.forwarded-(.+)|dead-(.+)\.jsonl)$/;

/** A crash or a write that is under way leaves a part of a line at the end. */
async function wholeBytes(disk: ReadableDisk, name: string, bytes: number): Promise<number> {
  const start = Math.max(0, bytes - limits.lineBytesMax);
  const chunks: Buffer[] = [];
  for await (const chunk of disk.read(name, start, bytes)) chunks.push(chunk);
  return start + Buffer.concat(chunks).lastIndexOf('\n') + 1;
}

function stateOf(
  { folder }: ReadableDisk,
  running: Running | undefined,
  written: Awaited<ReturnType<typeof readState>>,
) {
  if (running === undefined) {
    const before = written?.reason == null ? '' : `; before it was ${written.state}: ${written.reason}`;
    return { state: 'not running', reason: `no service runs on ${folder}; start it${before}` };
  }
  if (written === undefined || (running.pid !== undefined && running.pid !== written.pid)) {
    return {
      state: 'not forwarded',
      reason: `the service on ${folder} does not have this destination; give it, or remove its files`,
    };
  }
  return written;
}

async function lagSeconds(disk: ReadableDisk, seq: number, lastSeq: number): Promise<number> {
  if (seq >= lastSeq) return 0;
  for await (const line of readLines(disk, { first: seq + 1, last: lastSeq })) {
    return Math.max(0, Math.floor((Date.now() - Date.parse(line.event.time)) / 1000));
  }
  return 0;
}

async function countOpen(
  disk: ReadableDisk,
  name: string,
  onDamage: (problem: string) => void,
): Promise<number | null> {
  try {
    return [...(await readLetterStates(disk, name)).values()].filter(isOpen).length;
  } catch (error) {
    onDamage((error as Error).message);
    return null;
  }
}
