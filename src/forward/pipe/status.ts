/** How far the destinations of a journal are, from files alone: so also beside a service that is dead or does not answer. */

import type { Limits } from '../../config/limits.ts';
import type { ReadableDisk } from '../../journal/disk.ts';
import type { Durable, Holder } from '../../journal/lock.ts';
import { readJournal } from '../../journal/look/reader.ts';
import type { Line } from '../../journal/look/reading.ts';
import { lastLine } from '../../journal/open/scan.ts';
import { askDurable, pollProgress } from '../../journal/progress.ts';
import { contentsOf } from '../../journal/segments.ts';
import { onlyKindOf } from '../destinations/kinds.ts';
import { readCursor } from '../ledger/cursor.ts';
import { readLetterStates } from '../ledger/letters.ts';
import type { SeqRange } from '../position.ts';
import { commandText } from './backlog.ts';
import type { SenderStatus } from './sender.ts';
import { type ForwardState, readState } from './state-file.ts';

/** One destination of one journal, as `assetlog forward status --json` prints it. */
export interface DestinationStatus
  extends Pick<SenderStatus, 'name' | 'kind' | 'reason' | 'next_try' | 'last_seq' | 'last_success' | 'last_error'> {
  readonly deployment: string | null;
  readonly to: string | null;
  /** The state of the sender; `not running` if no service has the folder, `not forwarded` if it has not got this destination. */
  readonly state: string;
  readonly since: string | null;
  /** The events up to this one are settled; null if the cursor is lost, and then the two members of the lag too. */
  readonly seq: number | null;
  readonly lag_events: number | null;
  readonly lag_seconds: number | null;
  /** Letters that an operator has to decide about; null if their file is damaged. */
  readonly dead_letters: number | null;
  /** Events that retention removed before the destination confirmed them; null if the file of dead letters is damaged. */
  readonly lost_events: number | null;
}

/**
 * @returns the destinations that were ever forwarded to, by name
 * @throws the error of a system call
 */
export async function readStatus(
  disk: ReadableDisk,
  deployment: string | null,
  running: Holder | undefined,
  limits: Limits,
): Promise<DestinationStatus[]> {
  const durable = await askDurable(pollProgress(disk.folder, limits));
  const last_seq = durable.kind === 'before' ? durable.seq - 1 : await readLastSeq(disk, limits);
  const all: DestinationStatus[] = [];
  for (const name of await readNames(disk)) {
    const cursor = await readCursor(disk, name);
    const written = await readState(disk, name, limits);
    const { to, since, last_success, last_error } = {
      ...UNKNOWN,
      ...('value' in cursor && cursor.value),
      ...written,
    };
    const known = cursor.kind === 'found' ? cursor.value.kind : written?.kind; // the state might be older
    const letters = await readLetterStates(disk, name, limits).catch(() => undefined);
    const saved = cursor.kind === 'found' ? cursor.value.seq : cursor.kind === 'new' ? 0 : null;
    const seq = saved === null ? null : (letters?.namedAfter(saved) ?? saved); // a hub's cursor passes these with the next event
    const lag_events = seq === null ? null : Math.max(0, last_seq - seq);
    const { state, reason } = stateOf(running, written, lag_events);
    const isUnsaid = 'reason' in cursor && state !== 'stopped';
    const lost = isUnsaid
      ? `${cursor.reason}; unless it can be asked, ${commandText({ disk }, `forward from ${name} --seq N`)}`
      : undefined;
    all.push({
      name,
      deployment,
      to: to || null,
      kind: known ?? onlyKindOf(to ?? '') ?? null,
      state,
      reason: [reason ?? [], lost ?? []].flat().join('; ') || null,
      since,
      next_try: state === written?.state ? (written.next_try ?? null) : null,
      seq,
      last_seq,
      lag_events,
      lag_seconds: seq === null ? null : await lagSeconds(disk, seq, last_seq, limits),
      dead_letters: letters?.open ?? null,
      lost_events: letters?.lost ?? null,
      last_success,
      last_error,
    });
  }
  return all;
}

const UNKNOWN = { to: null, since: null, last_success: null, last_error: null };

/** @returns the names of the destinations that the folder has files of, in order */
export async function readNames(disk: Pick<ReadableDisk, 'list'>): Promise<string[]> {
  const found = (await disk.list()).map((name) => DESTINATION_FILE.exec(name)).filter((match) => match !== null);
  return [...new Set(found.map(([, one, other, dead]) => one ?? other ?? dead ?? ''))].sort();
}

/** @returns the seq of the last whole line; 0 of a journal without events */
export async function readLastSeq(disk: ReadableDisk, limits: Limits): Promise<number> {
  const segment = contentsOf(await disk.list()).segments.at(-1);
  if (segment === undefined) return 0;
  const { name, firstSeq: first } = segment;
  const whole = await lastLine(disk, name, await disk.size(name), limits);
  if (whole !== undefined) return whole.seq;
  let last = first - 1;
  // It is empty, or ends with a part of a line.
  for await (const { seq } of readLines(disk, { first, last: Number.MAX_SAFE_INTEGER }, limits)) last = seq;
  return last;
}

/** @returns the lines of these seqs, as far as the journal has them */
export async function* readLines(disk: ReadableDisk, { first, last }: SeqRange, limits: Limits): AsyncGenerator<Line> {
  const progress = { durable: async (): Promise<Durable> => ({ kind: 'unsaid' }), more: async () => {} };
  const filter = { afterSeq: first - 1, untilSeq: last };
  for await (const lines of readJournal(disk, { filter, seek: true, progress, limits }, () => {})) yield* lines;
}

const DESTINATION_FILE = /^(?:forward-(.+)\.(?:cursor|state)|\.forwarded-(.+)|dead-(.+)\.jsonl)$/;

/** @param lag number of events not yet settled. The state file is written at intervals, so it can say idle while events are sent */
function stateOf(
  running: Holder | undefined,
  written: ForwardState | undefined,
  lag: number | null,
): Pick<DestinationStatus, 'state' | 'reason'> {
  if (running === undefined) {
    const before = written?.reason == null ? '' : `; before, ${written.state}: ${written.reason}`;
    return { state: 'not running', reason: `no service has the folder; start it${before}` };
  }
  if (written !== undefined && (running.pid ?? written.pid) === written.pid)
    return written.state === 'idle' && lag ? { ...written, state: 'sending' } : written;
  return { state: 'not forwarded', reason: 'the service does not have this destination' };
}

async function lagSeconds(disk: ReadableDisk, seq: number, lastSeq: number, limits: Limits): Promise<number> {
  if (seq >= lastSeq) return 0;
  for await (const line of readLines(disk, { first: seq + 1, last: lastSeq }, limits)) {
    return Math.max(0, Math.floor((Date.now() - Date.parse(line.event.time)) / 1000));
  }
  return 0;
}
