/** Destinations that answer as a script says, and a pipe to one of them on a disk that can lose its power. */

import assert from 'node:assert/strict';
import { type Limits, limits as standardLimits } from '../../src/config/limits.ts';
import { Acks } from '../../src/forward/acks.ts';
import type { Asked, Batch, Destination, Sent } from '../../src/forward/destinations/destination.ts';
import { type DestinationKind, traitsOf } from '../../src/forward/destinations/kinds.ts';
import { Cursor, type CursorValue, cursorName, readCursor } from '../../src/forward/ledger/cursor.ts';
import { Ledger } from '../../src/forward/ledger/ledger.ts';
import type { DeadLetter } from '../../src/forward/ledger/letter.ts';
import { DeadLetters, readDeadLetters } from '../../src/forward/ledger/letters.ts';
import { Pipe, type PipeOptions } from '../../src/forward/pipe/pipe.ts';
import { type RetryResult, takeRetry } from '../../src/forward/pipe/retry.ts';
import { type DestinationStatus, type WrittenStatus, writeState } from '../../src/forward/pipe/status.ts';
import type { DestinationSettings } from '../../src/forward/settings.ts';
import type { Disk } from '../../src/journal/disk.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { contentsOf, goneName, segmentName } from '../../src/journal/segments.ts';
import { createNotices, type Notices } from '../../src/telemetry/log.ts';
import { SOURCE } from '../support/forwarding.ts';
import { diskWith, segment } from '../support/segments.ts';
import type { SimulatedDisk } from '../support/simulated-disk.ts';
import { eventually } from '../support/tools.ts';

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

/** What a destination does with a request, such as `record`; `lost` records it and its answer does not arrive. */
export type Answer = 'record' | 'lost' | Asked['kind'] | Exclude<Sent['kind'], 'recorded'> | 'final';

type Answering = (what: 'ask' | 'send', seq: number) => Answer | Promise<Answer>;

/** What has happened so far: events as the destination got them. */
export class Model implements Destination {
  readonly kind: DestinationKind;
  /** Seqs in the order in which they were recorded, each as often as it was. */
  recorded: number[] = [];
  /** Seqs of the first lines of all requests. */
  requests: number[] = [];
  /** Seqs of the last lines of all requests. */
  ends: number[] = [];
  asked = 0;
  /** Lines of the largest request. */
  largest = 0;
  /** Of the last line that a hub has. */
  seq = 0;
  id: string | null = null;
  lost: number[] = [];
  answer: Answering;
  afterMs: number | undefined;
  signals: AbortSignal[] = [];

  constructor(kind: DestinationKind, answer: Answering = () => 'record') {
    this.kind = kind;
    this.answer = answer;
  }

  /** Of a plain upstream, as long as it is taken for a hub. */
  async ask(): Promise<Asked> {
    this.asked += 1;
    const answer = await this.answer('ask', 0);
    if (answer === 'again') return { kind: 'again', reason: 'scripted', afterMs: this.afterMs };
    if (answer === 'stopped') return { kind: 'stopped', why: 'turned away', reason: 'scripted' };
    if (this.kind === 'api' || answer === 'no hub') return { kind: 'no hub' };
    return { kind: 'at', seq: this.seq, id: this.id };
  }

  async send(batch: Batch, signal: AbortSignal): Promise<Sent> {
    this.signals.push(signal);
    const [{ seq, event }] = batch.lines as [(typeof batch.lines)[0]];
    this.requests.push(seq);
    this.ends.push(batch.lines.at(-1)!.seq);
    this.largest = Math.max(this.largest, batch.lines.length);
    const answer = await this.answer('send', seq);
    switch (answer) {
      case 'record':
        return traitsOf[this.kind].truth === 'destination' ? this.#takeAll(batch) : this.#take(seq, event.id);
      case 'lost':
        if (traitsOf[this.kind].truth === 'destination') this.#takeAll(batch);
        else this.#take(seq, event.id);
        return { kind: 'in doubt', reason: 'sent no complete reply', isFinal: false };
      case 'final':
        this.#take(seq, event.id);
        return { kind: 'in doubt', status: 500, reason: 'answers 500', isFinal: true };
      case 'refused':
        return { kind: 'refused', status: 400, reason: 'scripted' };
      case 'in doubt':
        return { kind: 'in doubt', status: 502, reason: 'answers 502', isFinal: false };
      case 'elsewhere':
        return { kind: 'elsewhere', reason: 'scripted' };
      case 'stopped':
        return { kind: 'stopped', why: 'turned away', reason: 'answers 403' };
      default:
        return { kind: 'again', reason: 'answers 503', afterMs: this.afterMs };
    }
  }

  async haveFilesChanged(): Promise<boolean> {
    return false;
  }

  close(): void {}

  #take(seq: number, id: string): Sent {
    this.recorded.push(seq);
    return { kind: 'recorded', seq, id };
  }

  /** As the table of a hub: nothing with a gap that is not named, and nothing twice. An engine hears of no gap. */
  #takeAll({ lines, lost, after }: Batch): Sent {
    const isOther = after !== undefined && after !== this.id;
    if (lines[0]!.seq === this.seq + 1 && isOther) return { kind: 'stopped', why: 'fork', reason: 'scripted' };
    for (const [at, { seq, event }] of lines.entries()) {
      if (seq <= this.seq) continue;
      const isNamed =
        !traitsOf[this.kind].namesLost || (at === 0 && lost?.first === this.seq + 1 && lost.last === seq - 1);
      if (seq > this.seq + 1 && !isNamed) return { kind: 'elsewhere', reason: `has ${this.seq}` };
      for (let gone = this.seq + 1; gone < seq; gone += 1) this.lost.push(gone);
      this.recorded.push(seq);
      this.seq = seq;
      this.id = event.id;
    }
    return { kind: 'recorded', seq: this.seq, id: this.id as string };
  }
}

/** What a destination with a URL of HTTP is opened as. */
export function byKind(models: { readonly hub: Model; readonly api: Model }): (kind: DestinationKind) => Model {
  return (kind) => models[kind as 'hub' | 'api'];
}

export const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, at) => first + at);

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
  await writeState(disk, 'upstream', { state: 'stopped', why, reason: '', since: '', next_try: null, pid: 0, ...to });
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

/** Takes up the retry that an operator asked for, if there is one, as a service does. */
export function takeAsked(
  disk: Disk,
  model: Model,
  signal = new AbortController().signal,
): Promise<RetryResult | undefined> {
  const own = { name: UPSTREAM.name, ledger: ledgerOf(disk), open: () => model, turnMs: () => 0 };
  return takeRetry({ ...own, disk, signal, limits });
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
  readonly assets?: PipeOptions['assets'];
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
  void bench.pipe.check([]);
  return bench;
}

/** A pipe of a journal that ends with `lastSeq`. Nothing is sent before `check`. */
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
    assets,
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
    source,
    openAs,
    assets,
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
    ...{ pipe, ledger: pipe.ledger, disk, progress, log, untilDone },
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
