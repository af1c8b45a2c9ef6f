/** A pipe to a destination, on a disk that can lose its power, and what its folder has. */

import assert from 'node:assert/strict';
import { type Limits, limits as standardLimits } from '../../src/config/limits.ts';
import { Acks } from '../../src/forward/acks.ts';
import type { DestinationKind } from '../../src/forward/destinations/kinds.ts';
import { Cursor, type CursorValue, cursorName, readCursor } from '../../src/forward/ledger/cursor.ts';
import { Ledger } from '../../src/forward/ledger/ledger.ts';
import type { DeadLetter } from '../../src/forward/ledger/letter.ts';
import { DeadLetters, readDeadLetters } from '../../src/forward/ledger/letters.ts';
import { Pipe, type PipeOptions } from '../../src/forward/pipe/pipe.ts';
import { type RetryResult, sendAgain } from '../../src/forward/pipe/retry.ts';
import { type DestinationStatus, type WrittenStatus, writePipeState } from '../../src/forward/pipe/status.ts';
import type { SeqRange } from '../../src/forward/position.ts';
import type { DestinationSettings } from '../../src/forward/settings.ts';
import type { Disk } from '../../src/journal/disk.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { contentsOf, goneName, segmentName } from '../../src/journal/segments.ts';
import { createNotices, type Notices } from '../../src/telemetry/log.ts';
import { SOURCE } from '../support/forwarding.ts';
import { diskWith, segment } from '../support/segments.ts';
import { eventually, upTo } from '../support/tools.ts';
import { Model } from '../world/destination.ts';
import type { SimulatedDisk } from '../world/simulated-disk.ts';

const SILENT = createNotices('error', false, () => {});

/** Waits are as short as they can be. */
export const limits: Limits = {
  ...standardLimits,
  followMs: 1,
  forwardRetryMs: 1,
  forwardRetryMsMax: 1,
  forwardStoppedMs: 1,
  forwardStopMs: 20,
  forwardLingerMs: 0,
};

export const UPSTREAM: DestinationSettings = {
  name: 'upstream',
  to: 'http://127.0.0.1:3000',
  tokenHeader: 'Authorization',
  stamp: false,
  inDoubt: 'again',
  begin: 'first',
  hold: true,
};

/** A journal whose events before `first` were removed by retention. */
export function diskFrom(first: number, count: number): SimulatedDisk {
  return diskWith({ [segmentName(first)]: segment(first, count), ...gone(1, first - 1) });
}

/** What the folder of a journal has in place of events. */
export function gone(first: number, last: number, how: 'removed' | 'lost' = 'removed'): Record<string, Buffer> {
  return { [goneName({ first, last }, how)]: Buffer.alloc(0) };
}

/** @param value names the event of the journal that has its seq, unless it has an id */
export async function saveCursor(
  disk: SimulatedDisk,
  { seq = 0, id = seq === 0 ? null : idOf(disk, seq), ...value }: Partial<CursorValue>,
  name = UPSTREAM.name,
): Promise<void> {
  const { cursor } = await Cursor.open(disk, name);
  await cursor.save({ seq, id, sending: undefined, kind: undefined, to: UPSTREAM.to, ...value });
  await cursor.close();
}

/** @returns what the cursor on the disk says */
export async function cursorOf(disk: Disk, name = UPSTREAM.name): Promise<CursorValue> {
  const state = await readCursor(disk, name);
  assert.ok(state.kind === 'found', JSON.stringify(state));
  return state.value;
}

export async function loseCursor(disk: SimulatedDisk): Promise<void> {
  await saveCursor(disk, { seq: 7, id: 'x' });
  await disk.remove(cursorName(UPSTREAM.name));
}

/** What is shown of a destination that was stopped, as its pipe writes it. */
export async function writeStopped(disk: SimulatedDisk, why: WrittenStatus['why']): Promise<void> {
  const to = { kind: null, to: 'http://x', last_success: null, last_error: null };
  await writePipeState(disk, 'upstream', { state: 'stopped', why, reason: '', since: '', next_try: null, ...to });
}

/** Opens dead letters without a limit. */
export function openLetters(disk: Disk, name = UPSTREAM.name): Promise<DeadLetters> {
  return DeadLetters.open(disk, name, { ...limits, bytesMax: Number.POSITIVE_INFINITY });
}

/** @returns the id of an event in the first file of a journal */
export function idOf(disk: SimulatedDisk, seq: number): string {
  const [segment] = contentsOf(disk.names()).segments;
  return JSON.parse(disk.text(segment!.name).split('\n')[seq - segment!.firstSeq]!).id;
}

/** A hub, or an engine, that has events of the journal up to a seq. */
export function hubAt(
  disk: SimulatedDisk,
  seq: number,
  id = seq === 0 ? null : idOf(disk, seq),
  kind: DestinationKind = 'hub',
): Model {
  return Object.assign(new Model(kind), { seq, id });
}

/** @returns the ledger of a destination, without a limit of its dead letters unless there is one */
export function ledgerOf(
  disk: Disk,
  name = UPSTREAM.name,
  letterBytesMax = Number.POSITIVE_INFINITY,
  notices: Notices = SILENT,
  own: Partial<Limits> = {},
): Ledger {
  return new Ledger({ disk, name, letterBytesMax, limits: { ...limits, ...own }, notices });
}

/** Sends dead letters again, as a service does. */
export function retry(
  disk: Disk,
  model: Model,
  seqs?: SeqRange,
  { signal = new AbortController().signal, gone = new AbortController().signal } = {},
): Promise<RetryResult> {
  const own = { name: UPSTREAM.name, ledger: ledgerOf(disk), open: () => model, turnMs: () => 0 };
  return sendAgain({ ...own, disk, signal, gone, limits }, seqs);
}

export interface Bench {
  readonly pipe: Pipe;
  readonly ledger: Ledger;
  readonly disk: SimulatedDisk;
  readonly progress: OwnProgress;
  /** Log lines, parsed. */
  readonly log: Record<string, unknown>[];
  /** Waits until the pipe is in a state. */
  until(state: string): Promise<void>;
  /** Waits until all events are settled. */
  untilDone(): Promise<void>;
  /** Waits until all events are settled, and stops. */
  finish(): Promise<void>;
}

interface BenchOptions {
  /** Opens the real destination if it is absent. */
  readonly openAs?: PipeOptions['openAs'];
  readonly destination?: Partial<DestinationSettings>;
  readonly limits?: Partial<Limits>;
  readonly journalIsOpen?: boolean;
  readonly ledger?: Ledger;
  readonly source?: () => Promise<string>;
  /** Whether it is the destination of `--ack`. */
  readonly isAwaited?: boolean;
}

/** Starts a pipe of a journal that ends with `lastSeq`. */
export function startPipe(
  disk: SimulatedDisk,
  lastSeq: number,
  openAs: PipeOptions['openAs'],
  options: BenchOptions = {},
): Bench {
  const bench = createPipe(disk, lastSeq, { openAs, ...options });
  bench.pipe.begin();
  return bench;
}

/** A pipe of a journal that ends with `lastSeq`. Nothing is sent before `begin`. */
export function createPipe(
  disk: SimulatedDisk,
  lastSeq: number,
  {
    openAs,
    destination = {},
    limits: own = {},
    journalIsOpen = true,
    ledger,
    source = async () => SOURCE,
    isAwaited = false,
  }: BenchOptions = {},
): Bench {
  const progress = new OwnProgress();
  const log: Record<string, unknown>[] = [];
  const notices = createNotices('info', false, (line) => log.push(JSON.parse(line)));
  const settings = { ...UPSTREAM, ...destination };
  const nextSeq = () => progress.nextSeq(disk.folder);
  const acks = new Acks({ name: settings.name, nextSeq, onAcknowledged: () => {}, limits, notices });
  const pipe = new Pipe({
    deployment: undefined,
    settings,
    disk,
    progress,
    firstSeq: () => contentsOf(disk.names()).segments[0]?.firstSeq ?? 1,
    source,
    openAs,
    ledger: ledger ?? ledgerOf(disk, settings.name, undefined, notices.with({ destination: settings.name }), own),
    notices,
    limits: { ...limits, ...own },
    ack: isAwaited ? acks.of(undefined) : undefined,
  });
  if (journalIsOpen) progress.recorded(disk.folder, lastSeq + 1);
  const waitFor = (what: string, isSo: (status: DestinationStatus) => boolean) =>
    eventually(`${what}; now ${JSON.stringify(pipe.status)}`, () => isSo(pipe.status));
  const untilDone = () => waitFor('all is settled', ({ state, lag_events }) => state === 'idle' && lag_events === 0);
  return {
    ...{ pipe, ledger: pipe.sender.ledger, disk, progress, log, untilDone },
    until: (wanted) => waitFor(`it is ${wanted}`, ({ state }) => state === wanted),
    finish: async () => {
      await untilDone();
      await pipe.close();
    },
  };
}

/** Sends all events of a journal that ends with `lastSeq`, and stops. */
export async function sendAll(...args: Parameters<typeof startPipe>): Promise<Bench> {
  const bench = startPipe(...args);
  await bench.finish();
  return bench;
}

export async function lettersOf(disk: Disk, name = 'upstream'): Promise<DeadLetter[]> {
  const letters: DeadLetter[] = [];
  for await (const letter of readDeadLetters(disk, name, limits)) letters.push(letter);
  return letters;
}

/** @returns the seqs that the letters name */
export function seqsOf(letters: readonly DeadLetter[]): number[] {
  return letters.flatMap(({ line, first, last }) => {
    if (line !== undefined) return [JSON.parse(line).seq as number];
    assert.ok(first !== undefined && last !== undefined);
    return upTo(last, first);
  });
}
