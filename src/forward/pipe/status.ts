/**
 * How far a destination of a journal is. A pipe computes it from memory. `assetlog forward status` computes it from files alone, since
 * it has to be right even if the service is dead or does not answer. Both gather facts, from which `statusOf` derives a status.
 *
 * The pipe writes the facts that only it knows to `forward-<name>.state` in the folder of the journal. They are hints and are not
 * synced: the cursor and the dead letters record how far the destination is, and which events were given up.
 */

import { readObject } from '../../config/json-file.ts';
import type { Limits } from '../../config/limits.ts';
import { type Disk, describe, type ReadableDisk } from '../../journal/disk.ts';
import { readSmall } from '../../journal/file-io.ts';
import { askDurable, pollProgress } from '../../journal/progress.ts';
import { Mutex } from '../../waiting/mutex.ts';
import type { StopKind } from '../destinations/destination.ts';
import { type DestinationKind, onlyKindOf } from '../destinations/kinds.ts';
import { readFirstSeq, readLastSeq, readLines, readNames } from '../folder.ts';
import { type CursorState, readCursor } from '../ledger/cursor.ts';
import { readLetterStates } from '../ledger/letters.ts';
import { commandText } from './backlog.ts';
import type { Sender } from './sender.ts';

/** All states of a pipe that are shown. */
export const pipeStates = ['asking', 'idle', 'sending', 'suspect', 'waiting', 'stopped'] as const;

export type ShownState = (typeof pipeStates)[number];

/**
 * One destination of one journal: the members of `assetlog forward status --json`, and `why`. Null means unknown, or none. Times are
 * in UTC: `2026-11-20T15:19:45.266Z`.
 */
export interface DestinationStatus {
  readonly name: string;
  readonly deployment: string | null;
  readonly to: string | null;
  /** Null until the URL or an answer of the destination determines it. */
  readonly kind: DestinationKind | null;
  /** `not running` if no service uses the folder; `not forwarded` if the service does not have this destination. */
  readonly state: ShownState | 'not running' | 'not forwarded';
  /** Why it is stopped. */
  readonly why: StopKind | null;
  /** What is wrong, and what to do. */
  readonly reason: string | null;
  /** Since when events pass, wait or are stopped. */
  readonly since: string | null;
  /** Set for a pipe that waits or is stopped. */
  readonly next_try: string | null;
  /**
   * All events up to this one are settled: recorded there, or in the dead letters. Null if the cursor is lost, and for a hook with `on`.
   */
  readonly seq: number | null;
  /** The last event of the journal. */
  readonly last_seq: number;
  /** Null without `seq`. */
  readonly lag_events: number | null;
  /** Age of the first event that is not settled. Null without `seq`. */
  readonly lag_seconds: number | null;
  /** Letters that an operator has to decide about. Null if their file is damaged, or not open yet. */
  readonly dead_letters: number | null;
  /**
   * Events that retention removed before the destination confirmed them, with and without a dead letter. Null in the same cases as
   * `dead_letters`.
   */
  readonly lost_events: number | null;
  /**
   * For a hook with `on`, otherwise null: the alarms that it was sent and that have not ended, the changes that are due and not
   * accepted yet, and the alarms for which there is no space.
   */
  readonly alarms: number | null;
  readonly alarms_waiting: number | null;
  readonly alarms_left_out: number | null;
  /** Time of the last accepted event. */
  readonly last_success: string | null;
  readonly last_error: string | null;
}

type AlarmMember = 'alarms' | 'alarms_waiting' | 'alarms_left_out';

/** The facts from which a status is derived. */
export interface StatusFacts
  extends Omit<
    DestinationStatus,
    'kind' | 'lag_events' | 'lag_seconds' | 'dead_letters' | 'lost_events' | AlarmMember
  > {
  /** Undefined if neither the destination nor its cursor determines it. */
  readonly kind: DestinationKind | null | undefined;
  /** Time of the first event that is not settled; undefined if unknown. */
  readonly oldest: string | undefined;
  /** Undefined if unknown. */
  readonly letters: { readonly open: number; readonly lost: number } | undefined;
  /** Number of events that the destination has not received and that no letter names yet: see `unnamedBefore`. */
  readonly unnamed: number;
  /** Set for a hook with `on`. */
  readonly alarms: Pick<DestinationStatus, AlarmMember> | undefined;
}

/**
 * The number of events that the destination lost and about which no letter exists, since the destination was not reached.
 * The number is too high for a moment if events in memory are still being sent.
 * @param firstSeq the first event of the journal
 * @param seq the last event that is settled or named
 */
export function unnamedBefore(firstSeq: number, seq: number): number {
  return Math.max(0, firstSeq - 1 - seq);
}

/**
 * The destinations of the service that uses a folder, according to the service: `unsaid` if it does not answer. Undefined if
 * there is no service.
 */
export type Served = readonly DestinationStatus[] | 'unsaid' | undefined;

export function statusOf(facts: StatusFacts): DestinationStatus {
  const { name, deployment, to, kind, state, why, reason, since, next_try, seq, last_seq } = facts;
  const { oldest, letters, unnamed, alarms, last_success, last_error } = facts;
  const lag_events = seq === null ? null : Math.max(0, last_seq - seq);
  const oldestMs = lag_events === 0 || oldest === undefined ? Number.POSITIVE_INFINITY : Date.parse(oldest);
  return {
    name,
    deployment,
    to,
    kind: kind ?? onlyKindOf(to ?? '') ?? null,
    state,
    why,
    reason,
    since,
    next_try,
    seq,
    last_seq,
    lag_events,
    lag_seconds: seq === null ? null : Math.max(0, Math.floor((Date.now() - oldestMs) / 1000)),
    dead_letters: letters?.open ?? null,
    lost_events: letters === undefined ? null : letters.lost + unnamed,
    ...(alarms ?? NO_ALARMS),
    last_success,
    last_error,
  };
}

/** For a destination that is not a hook with `on`. */
const NO_ALARMS = { alarms: null, alarms_waiting: null, alarms_left_out: null };

/** The content of the state file: facts that are neither in the journal nor in the cursor nor in the dead letters. */
export type WrittenStatus = Pick<
  DestinationStatus,
  'to' | 'kind' | 'state' | 'why' | 'reason' | 'since' | 'next_try' | 'last_success' | 'last_error'
> &
  // Files of earlier versions lack them.
  Partial<Pick<DestinationStatus, AlarmMember>>;

function writtenOf(status: DestinationStatus): WrittenStatus {
  const { to, kind, state, why, reason, since, next_try, last_success, last_error } = status;
  const { alarms, alarms_waiting, alarms_left_out } = status;
  const counts = alarms === null ? {} : { alarms, alarms_waiting, alarms_left_out };
  return { to, kind, state, why, reason, since, next_try, ...counts, last_success, last_error };
}

/** @returns the name of the state file: `forward-hub.state` for `hub` */
export function stateName(name: string): string {
  return `forward-${name}.state`;
}

/** Replaces the state file of a destination. @throws the error of a system call */
export async function writePipeState(disk: Disk, name: string, written: WrittenStatus): Promise<void> {
  await disk.replace(stateName(name), Buffer.from(`${JSON.stringify(written)}\n`));
}

type StateFileOf = Pick<Sender, 'disk' | 'settings' | 'limits' | 'notices'>;

/** The state file of a destination, as its pipe writes it. */
export class StateFile {
  readonly #sender: StateFileOf;
  readonly #status: () => DestinationStatus;
  readonly #mutex = new Mutex();
  #written = { text: '', state: '', atMs: Number.NEGATIVE_INFINITY };

  constructor(sender: StateFileOf, status: () => DestinationStatus) {
    this.#sender = sender;
    this.#status = status;
  }

  /** @returns the time of the last success before this start; null if unknown. It is only a hint, so an error delays nothing */
  async lastSuccess(): Promise<string | null> {
    const { disk, settings, limits } = this.#sender;
    const written = await readPipeState(disk, settings.name, limits).catch(() => undefined);
    const time: unknown = written?.last_success;
    return typeof time === 'string' && !Number.isNaN(Date.parse(time)) ? time : null;
  }

  /**
   * Writes the state at once if it has changed, and otherwise at most every `forwardStateMs`. Never rejects.
   * @param isLast whether the pipe has ended: the service can continue without the destination
   */
  write(isLast = false): Promise<void> {
    return this.#mutex.run(async () => {
      const { disk, settings, limits, notices } = this.#sender;
      const written = writtenOf(this.#status());
      const { state, reason, last_success } = written;
      const text = JSON.stringify(written);
      if (text === this.#written.text) return;
      const isSoon = performance.now() - this.#written.atMs < limits.forwardStateMs;
      const shown = `${state} ${reason} ${last_success === null}`;
      const before = [shown, shown.replace('sending', 'idle')]; // an active pipe alternates between the two
      if (!isLast && isSoon && before.includes(this.#written.state)) return;
      this.#written = { text, state: shown, atMs: performance.now() };
      try {
        await writePipeState(disk, settings.name, written);
      } catch (error) {
        notices.debug('the state of a destination could not be written', { problem: describe(error as Error) });
      }
    });
  }
}

/**
 * Reads the state file of a destination, while its service runs or not.
 * @returns undefined if it is missing, or damaged by a power cut
 * @throws the error of a system call
 */
export async function readPipeState(
  disk: ReadableDisk,
  name: string,
  { replyBytesMax }: Limits,
): Promise<WrittenStatus | undefined> {
  const bytes = await readSmall(disk, stateName(name), replyBytesMax);
  return bytes === undefined ? undefined : (readObject(bytes.toString()) as WrittenStatus | undefined);
}

/**
 * @param served the answer of the service that uses the folder: `unsaid` if it does not answer, undefined if there is
 * no service
 * @returns the destinations that were ever forwarded to, by name
 * @throws the error of a system call
 */
export async function readStatus(
  disk: ReadableDisk,
  deployment: string | null,
  served: Served,
  limits: Limits,
): Promise<DestinationStatus[]> {
  const durable = await askDurable(pollProgress(disk.folder, limits));
  const last_seq = durable.kind === 'before' ? durable.seq - 1 : await readLastSeq(disk, limits);
  const all: DestinationStatus[] = [];
  for (const name of await readNames(disk)) {
    const now = typeof served === 'object' ? served.find((one) => one.name === name) : undefined;
    // A pipe that has just started does not know its letters yet.
    if (now !== undefined && now.dead_letters !== null) {
      all.push(now);
      continue;
    }
    const written = await readPipeState(disk, name, limits);
    const isHook = written !== undefined && isOfAlarms(written);
    const facts = isHook
      ? alarmFacts(served, name, written)
      : await readFacts(disk, name, served, { written, last_seq, limits });
    all.push(statusOf({ ...facts, name, deployment, last_seq }));
  }
  return all;
}

interface FactsOptions {
  readonly written: WrittenStatus | undefined;
  readonly last_seq: number;
  readonly limits: Limits;
}

async function readFacts(
  disk: ReadableDisk,
  name: string,
  served: Served,
  { written, last_seq, limits }: FactsOptions,
): Promise<Omit<StatusFacts, 'name' | 'deployment' | 'last_seq'>> {
  const cursor = await readCursor(disk, name);
  const letters = await readLetterStates(disk, name, limits).catch(() => undefined);
  const value = cursor.kind === 'found' ? cursor.value : undefined;
  const saved = cursor.kind === 'lost' ? null : (value?.seq ?? 0);
  const seq = saved === null ? null : (letters?.namedAfter(saved) ?? saved); // a hub's cursor passes these events with the next event
  const hasAll = seq === null || seq >= last_seq;
  const shown = shownFacts(served, name, written, hasAll);
  const lost = shown.state === 'stopped' ? undefined : lostCursor(cursor, disk, name);
  return {
    ...shown,
    to: written?.to || value?.to || null,
    kind: value === undefined ? written?.kind : value.kind, // the state file can be older
    reason: [shown.reason ?? [], lost ?? []].flat().join('; ') || null,
    seq,
    oldest: hasAll ? undefined : await readOldest(disk, seq, last_seq, limits),
    letters,
    unnamed: value === undefined ? 0 : unnamedBefore(await readFirstSeq(disk), seq!),
    alarms: undefined,
  };
}

function alarmFacts(
  served: Served,
  name: string,
  written: WrittenStatus,
): Omit<StatusFacts, 'name' | 'deployment' | 'last_seq'> {
  const { to, alarms = null, alarms_waiting = null, alarms_left_out = null } = written;
  const shown = shownFacts(served, name, written, true);
  return { ...WITHOUT_CURSOR, ...shown, to, alarms: { alarms, alarms_waiting, alarms_left_out } };
}

/** Whether the state belongs to a hook with `on`. */
export function isOfAlarms({ alarms }: WrittenStatus): boolean {
  return typeof alarms === 'number';
}

/** The members of the status of a hook with `on` that replace a position and dead letters. */
export const WITHOUT_CURSOR = {
  kind: 'hook',
  seq: null,
  oldest: undefined,
  letters: { open: 0, lost: 0 },
  unnamed: 0,
} as const satisfies Partial<StatusFacts>;

/** @returns what to do about a lost cursor; undefined if the cursor is not lost */
function lostCursor(cursor: CursorState, disk: ReadableDisk, name: string): string | undefined {
  if (cursor.kind !== 'lost') return undefined;
  return `${cursor.reason}; unless it can be asked, ${commandText(disk, `forward from ${name} --seq N`)}`;
}

/**
 * @param hasAll whether the destination is not behind @returns the members of a status that come from the state file
 * and from the service
 */
function shownFacts(
  served: Served,
  name: string,
  written: WrittenStatus | undefined,
  hasAll: boolean,
): Pick<StatusFacts, 'state' | 'why' | 'reason' | 'since' | 'next_try' | 'last_success' | 'last_error'> {
  const { state, reason } = shownState(served, name, written, hasAll);
  const current = state === written?.state ? written : undefined;
  return {
    state,
    why: current?.why ?? null,
    reason,
    since: written?.since ?? null,
    next_try: current?.next_try ?? null,
    last_success: written?.last_success ?? null,
    last_error: written?.last_error ?? null,
  };
}

/** The state file is written at intervals, so it can show idle while events are being sent. */
function shownState(
  served: Served,
  name: string,
  written: WrittenStatus | undefined,
  hasAll: boolean,
): Pick<DestinationStatus, 'state' | 'reason'> {
  if (served === undefined) {
    const before = written?.reason == null ? '' : `; before, ${written.state}: ${written.reason}`;
    return { state: 'not running', reason: `no service uses the folder; start it${before}` };
  }
  const isServed = served === 'unsaid' || served.some((one) => one.name === name);
  if (written === undefined || !isServed)
    return { state: 'not forwarded', reason: 'the service does not have this destination' };
  return written.state === 'idle' && !hasAll ? { ...written, state: 'sending' } : written;
}

/** @returns the time of the first event after `seq` */
async function readOldest(disk: ReadableDisk, seq: number, last: number, limits: Limits): Promise<string | undefined> {
  for await (const { event } of readLines(disk, { first: seq + 1, last }, limits)) return event.time;
  return undefined;
}
