/**
 * The journal: events in, durable lines out, acknowledged only then.
 *
 * Group commit without a timer: one batch is on its way to the disk, and what arrives meanwhile is the next one. A batch
 * is one write and one sync. Its callers hear of it after the sync, in the order in which they came.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import type { Event } from '../event/event.ts';
import type { Notices } from '../telemetry/log.ts';
import { type JournalFigures, Metrics } from '../telemetry/metrics.ts';
import { rememberCleanStop } from './clean-stop.ts';
import { type Disk, describe, isFull, SyncError } from './disk.ts';
import { encodeBatch, encodeMembers, lineBytesMax, type Place, packMembers, type Room, SEQ_MAX } from './record.ts';
import { NoSpaceError, recover, type Segment } from './recovery.ts';
import { type Retain, Retention } from './retention.ts';
import { segmentName } from './segments.ts';

/** Called once for each appended event; `failure` says why it was not recorded, and is undefined when it is durable. */
export type Done = (failure: string | undefined) => void;

export interface JournalOptions {
  readonly disk: Disk;
  readonly notices: Notices;
  readonly segmentBytes: number;
  readonly retain?: Retain;
  readonly limits: Limits;
  /** Looks whether the folder is still locked, and throws when it is not; see `Lock.checkHeld`. Without it the folder is private. */
  readonly checkHeld?: (() => void) | undefined;
  /** Shared by journals whose events wait in the same memory. */
  readonly backlog?: Backlog;
  /** How long, from now on, reports are queued until the journal is open. By default they are refused until then. */
  readonly openWaitMs?: number;
  /** Called when the journal is open and when a batch is durable, with the seq of the next line: those before it are there. */
  readonly onRecorded?: ((nextSeq: number) => void) | undefined;
  /** Shared by all journals of the service. */
  readonly metrics?: Metrics;
  /** Called when the last event that waited has been recorded or refused. */
  readonly onIdle?: () => void;
  /** Called once when the disk failed in a way that only a restart can mend; everybody has been answered by then. */
  readonly onFailed: (error: Error) => void;
}

/** The memory of the events that wait for a disk, about. */
export interface Backlog {
  bytes: number;
}

type State =
  | { readonly kind: 'starting'; readonly reason: string; readonly queueing: boolean }
  | { readonly kind: 'open'; readonly segment: Segment; readonly trouble?: Trouble }
  | { readonly kind: 'closed'; readonly reason: string }
  /** What is on the disk can not be known any more. */
  | { readonly kind: 'failed'; readonly reason: string; readonly error: Error; readonly nextSeq: number };

interface Trouble {
  /**
   * `refusing`: the last write failed, the next may succeed, so reports are tried. `silent`: it does not come to an end.
   * `used up`: the last seq is taken.
   */
  readonly kind: 'refusing' | 'silent' | 'used up';
  readonly reason: string;
}

interface Waiting {
  readonly members: string | Buffer;
  /** The memory that it takes while it waits, about. */
  readonly heldBytes: number;
  readonly done: Done;
}

interface Committing {
  readonly batch: readonly Waiting[];
  /** With why the batch was not recorded, or undefined once it is durable. */
  readonly committed: Promise<string | undefined>;
}

export class Journal implements JournalFigures {
  readonly #options: JournalOptions;
  #state: State;
  /** Of all journals that share it. */
  readonly #backlog: Backlog;
  readonly #metrics: Metrics;
  readonly #checkHeld: () => void;
  readonly #retention: Retention;
  #queue: Waiting[] = [];
  /** Of those in the queue and in the batch that is on its way. */
  #waitingBytes = 0;
  readonly #room: Room = { bytes: Buffer.alloc(0) };
  /** The batches on their way; undefined while the disk is idle. */
  #running: Promise<void> | undefined;
  #probing: NodeJS.Timeout | undefined;
  readonly #openTimeout: NodeJS.Timeout | undefined;
  /** When it was last logged that reports could not be encoded. */
  #notEncodedAtMs = Number.NEGATIVE_INFINITY;
  /** How many it has, the one that is written to among them. */
  files = 0;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#backlog = options.backlog ?? { bytes: 0 };
    this.#metrics = options.metrics ?? new Metrics();
    this.#checkHeld = options.checkHeld ?? (() => {});
    this.#retention = new Retention(options, this);
    const { openWaitMs } = options;
    this.#state = { kind: 'starting', reason: OPENING, queueing: openWaitMs !== undefined };
    if (openWaitMs !== undefined) this.#openTimeout = setTimeout(() => this.#refuseUntilOpen(), openWaitMs).unref();
  }

  /**
   * Recovers what is in the folder, which is locked. On a full disk it waits for the space that this takes, or for `close`;
   * what retention may remove is removed first.
   * @throws DamagedError, or the error of a system call
   */
  async open(): Promise<void> {
    const { disk, notices, limits } = this.#options;
    for (let pauseMs = limits.openRetryMs; ; pauseMs = Math.min(2 * pauseMs, limits.openRetryMsMax)) {
      let neededBytes: number | undefined;
      try {
        const { files, ...segment } = await recover(disk, notices, limits, this.#checkHeld);
        if (this.#closed) return await segment.file.close();
        return this.#opened(segment, files);
      } catch (error) {
        if (error instanceof NoSpaceError) neededBytes = error.neededBytes;
        else if (!isFull(error as NodeJS.ErrnoException)) throw error;
        if (this.#closed) return;
        const reason = 'the disk is full; the service waits for space to open its journal';
        if (this.trouble !== reason) notices.error(reason, { problem: describe(error as Error) });
        this.#refuseUntilOpen(reason);
      }
      if (!(await this.#retention.makeSpace())) await this.#pause(pauseMs, neededBytes);
      if (this.#closed) return;
    }
  }

  #opened(segment: Segment, files: number): void {
    clearTimeout(this.#openTimeout);
    this.files = files;
    this.#options.notices.info('journal open', { file: segment.file.name, next_seq: segment.place.seq });
    this.#continueAt(segment);
    this.#metrics.journals.add(this);
    this.#retention.start();
    if (this.#queue.length > 0) this.#running ??= this.#run();
  }

  /** Waits before the next attempt to open; a `close` or enough free space ends it early. */
  async #pause(pauseMs: number, neededBytes = Number.POSITIVE_INFINITY): Promise<void> {
    const { disk, limits } = this.#options;
    for (const endMs = performance.now() + pauseMs; performance.now() < endMs; ) {
      await sleep(limits.probeMs);
      if (this.#closed || (await disk.space()).usableBytes >= neededBytes) return;
    }
  }

  /** @param reason why the journal is not open yet, for the reports that are refused because of it */
  explainDelay(reason = OPENING): void {
    if (this.#state.kind === 'starting') this.#state = { ...this.#state, reason };
  }

  /** Why nothing can be recorded now, or undefined. */
  get trouble(): string | undefined {
    const state = this.#state;
    if (state.kind === 'open') return state.trouble?.reason;
    return state.kind === 'starting' && state.queueing ? undefined : state.reason;
  }

  /** While it is open. */
  get lastSeq(): number {
    return (this.#state as OpenState).segment.place.seq - 1;
  }

  /** The seq of the next line: those before it are durable, later bytes of a file may be taken back. Undefined before it is open. */
  get nextSeq(): number | undefined {
    const state = this.#state;
    if (state.kind === 'open') return state.segment.place.seq;
    return state.kind === 'failed' ? state.nextSeq : undefined;
  }

  get queueBytes(): number {
    return this.#waitingBytes;
  }

  /** Why an event of so many bytes could not even wait for the disk, or undefined. */
  refusal(bytes: number): string | undefined {
    if (!this.#queueing) return this.trouble;
    return overload(bytes, this.#waitingBytes, this.#backlog, this.#options.limits);
  }

  /**
   * @param bodyBytes of the report: strings that were cut out of it hold all of it in memory
   * @param done called at once where the event can not even wait for the disk
   */
  append(event: Event, bodyBytes: number, done: Done): void {
    const { heldBodyBytesMax, queueEventBytes } = this.#options.limits;
    let members: string | Buffer;
    try {
      const text = encodeMembers(event);
      members = bodyBytes <= heldBodyBytesMax ? text : packMembers(text);
    } catch (error) {
      done(this.#notEncoded(error as Error));
      return;
    }
    const heldBytes = typeof members === 'string' ? 2 * (bodyBytes + members.length) : members.length;
    const refusal = this.refusal(heldBytes);
    if (refusal !== undefined) {
      done(refusal);
      return;
    }
    this.#queue.push({ members, heldBytes: heldBytes + queueEventBytes, done });
    this.#hold(heldBytes + queueEventBytes);
    if (this.#state.kind === 'open') this.#running ??= this.#run();
  }

  /**
   * Gives up: the folder is not locked any more. For the time in which nothing is written; a batch that is on its way looks
   * itself. May be called again.
   */
  abandon(error: Error): void {
    if (this.#state.kind !== 'open' || this.#running !== undefined) return;
    this.#fail(error);
    this.#safely(this.#options.onFailed, error);
  }

  /**
   * Finishes what was taken, and leaves the folder as a start likes to find it. Nobody may append any more.
   * @param reason what the reports are refused with that wait for the journal to be opened, and those to come
   */
  async close(reason = 'the service is stopping'): Promise<void> {
    clearTimeout(this.#openTimeout);
    if (this.#state.kind === 'starting') {
      this.#state = { kind: 'closed', reason };
      this.#refuseQueue(reason);
      return;
    }
    await this.#running;
    clearInterval(this.#probing);
    await this.#retention.stop();
    const state = this.#state;
    if (state.kind === 'failed') return;
    this.#metrics.journals.delete(this);
    this.#state = { kind: 'closed', reason };
    if (state.kind !== 'open') return;
    const { segment } = state;
    try {
      await segment.file.close();
      this.#checkHeld(); // the note would be about the file of another process
      await rememberCleanStop(this.#options.disk, { ...segment, file: segment.file.name });
    } catch (error) {
      this.#options.notices.warn('the stop could not be noted; the next start will rewrite the last file', {
        problem: (error as Error).message,
      });
    }
  }

  get #closed(): boolean {
    return this.#state.kind === 'closed';
  }

  /** Whether reports are queued: not if nothing is known about when the queue would move again. */
  get #queueing(): boolean {
    const state = this.#state;
    if (state.kind === 'open') return state.trouble === undefined || state.trouble.kind === 'refusing';
    return state.kind === 'starting' && state.queueing;
  }

  #refuseUntilOpen(reason?: string): void {
    if (this.#state.kind !== 'starting') return;
    this.#state = { kind: 'starting', reason: reason ?? this.#state.reason, queueing: false };
    this.#refuseQueue(this.#state.reason);
  }

  /** Of a journal that is not open: no batch is on its way. */
  #refuseQueue(reason: string): void {
    for (const { done, heldBytes } of this.#queue.splice(0)) {
      this.#hold(-heldBytes);
      this.#safely(done, reason);
    }
    this.#safely(this.#options.onIdle);
  }

  #hold(bytes: number): void {
    this.#waitingBytes += bytes;
    this.#backlog.bytes += bytes;
  }

  /** Commits batch after batch until nobody waits; without any, tries whether the disk takes a write. Never rejects. */
  async #run(): Promise<void> {
    // What arrives in the same turn of the event loop shares the first batch.
    await new Promise((resolve) => setImmediate(resolve));
    let next: Committing | undefined = this.#beginBatch();
    while (next !== undefined) {
      const { batch, committed }: Committing = next;
      const failure = await committed;
      next = this.#beginNext(); // the disk works while the replies leave
      for (const { done, heldBytes } of batch) {
        this.#hold(-heldBytes);
        this.#safely(done, failure);
      }
      next ??= this.#beginNext();
    }
    this.#running = undefined;
    const state = this.#state;
    if (state.kind === 'failed') this.#safely(this.#options.onFailed, state.error);
    else this.#safely(this.#options.onIdle);
  }

  #beginNext(): Committing | undefined {
    return this.#queue.length > 0 ? this.#beginBatch() : undefined;
  }

  #beginBatch(): Committing {
    const batch = this.#takeBatch();
    return { batch, committed: this.#commit(batch) };
  }

  #takeBatch(): Waiting[] {
    const { batchBytesMax } = this.#options.limits;
    const countMax = this.#state.kind === 'open' ? SEQ_MAX + 1 - this.#state.segment.place.seq : 0;
    let bytes = 0;
    let count = 0;
    for (const { members } of this.#queue) {
      bytes += lineBytesMax(members);
      if (count > 0 && (bytes > batchBytesMax || count === countMax)) break;
      count += 1;
    }
    const rest = this.#queue.splice(count);
    const batch = this.#queue;
    this.#queue = rest;
    return batch;
  }

  /** @returns why the batch was not recorded, or undefined once it is durable */
  async #commit(batch: readonly Waiting[]): Promise<string | undefined> {
    if (this.#state.kind !== 'open' || this.#state.trouble?.kind === 'used up') return this.trouble;
    const silent = setTimeout(() => this.#silent(), this.#options.limits.diskAnswerMs).unref();
    try {
      if (this.#state.segment.bytes >= this.#options.segmentBytes) await this.#rotate(this.#state.segment);
      const { segment } = this.#state;
      const startedMs = performance.now();
      const after = batch.length > 0 ? await appendBatch(segment, batch, this.#room) : await tryWrite(segment);
      this.#checkHeld(); // after the sync and before the replies, see `Lock.checkHeld`
      if (batch.length > 0)
        this.#metrics.wrote(batch.length, after.bytes - segment.bytes, performance.now() - startedMs);
      this.#taken(after);
      return undefined;
    } catch (error) {
      if (error instanceof NotEncoded) return this.#notEncoded(error);
      return error instanceof NotWritten ? this.#refuse(error) : this.#fail(error as Error);
    } finally {
      clearTimeout(silent);
    }
  }

  /** Begins the next file. Its first batch may be acknowledged: the directory entry is durable when this resolves. */
  async #rotate(full: Segment): Promise<void> {
    const { disk, notices } = this.#options;
    const seq = full.place.seq;
    checkUntouched(full); // the folder may be another one by now
    this.#checkHeld();
    const file = await disk.createLog(segmentName(seq)).catch((error: Error) => {
      throw error instanceof SyncError ? error : new NotWritten(describe(error));
    });
    this.#state = { ...(this.#state as OpenState), segment: { file, bytes: 0, place: { seq, crc: 0 } } };
    this.files += 1;
    await full.file.close();
    notices.info('journal file closed', { file: full.file.name, next: file.name });
    this.#retention.run();
  }

  /** The disk is as it was before: the client may try again, and so do we. */
  #refuse(error: NotWritten): string {
    const reason = 'the disk refuses writes; send the report again later';
    const { segment, trouble } = this.#state as OpenState;
    if (trouble?.kind !== 'refusing') {
      this.#options.notices.error('the disk refuses writes; reports get 503 until it takes one', {
        problem: error.message,
      });
      clearInterval(this.#probing);
      this.#probing = setInterval(() => {
        this.#running ??= this.#run();
      }, this.#options.limits.probeMs).unref();
    }
    this.#state = { kind: 'open', segment, trouble: { kind: 'refusing', reason } };
    return reason;
  }

  /** Nothing was written, and the disk had no part in it: the next report may be smaller, or find the memory. */
  #notEncoded({ message }: Error): string {
    const now = performance.now();
    if (now - this.#notEncodedAtMs >= this.#options.limits.notAcceptedNoticeMs) {
      this.#notEncodedAtMs = now;
      this.#options.notices.error('reports could not be encoded and get 503; is memory short?', { problem: message });
    }
    return 'the service is short of memory; send the report again later';
  }

  /** Whoever waits still waits: it may yet be recorded. Nobody else is let in. */
  #silent(): void {
    const seconds = this.#options.limits.diskAnswerMs / 1000;
    const reason = `the disk has not answered for ${seconds} s; send the report again later`;
    this.#options.notices.error('the disk does not answer; further reports get 503 until it does', { seconds });
    this.#state = { ...(this.#state as OpenState), trouble: { kind: 'silent', reason } };
  }

  #taken(segment: Segment): void {
    if ((this.#state as OpenState).trouble !== undefined) {
      clearInterval(this.#probing);
      this.#options.notices.info('the disk takes writes again');
    }
    this.#continueAt(segment);
  }

  #continueAt(segment: Segment): void {
    const { notices, onRecorded } = this.#options;
    const usedUp = segment.place.seq > SEQ_MAX;
    this.#state = usedUp ? { kind: 'open', segment, trouble: USED_UP } : { kind: 'open', segment };
    if (usedUp) notices.error(USED_UP.reason);
    this.#safely(onRecorded, segment.place.seq);
  }

  /** What a caller does with an answer can not change what is on the disk, nor keep the answer from the others. */
  #safely<Values extends unknown[]>(callback: ((...values: Values) => void) | undefined, ...values: Values): void {
    try {
      callback?.(...values);
    } catch (error) {
      this.#options.notices.error('a callback of the journal failed; this is a defect of the service', {
        problem: String((error as Error)?.stack ?? error),
      });
    }
  }

  #fail(error: Error): string {
    const { segment } = this.#state as OpenState;
    clearInterval(this.#probing); // else each attempt would tell of the failure again
    segment.file.close().catch(() => {}); // it is given up already
    void this.#retention.stop();
    const reason = 'the disk failed; send the report again when the service is back';
    this.#metrics.journals.delete(this);
    this.#state = { kind: 'failed', reason, error, nextSeq: segment.place.seq };
    return reason;
  }
}

type OpenState = Extract<State, { kind: 'open' }>;

const USED_UP: Trouble = {
  kind: 'used up',
  reason: `the journal is full: its last event has seq ${SEQ_MAX}, the largest there is; give the service a new --data folder`,
};

const OPENING = 'the journal is being opened';

/** @returns why an event of so many bytes more could not wait for the disk, or undefined */
export function overload(bytes: number, waitingBytes: number, backlog: Backlog, limits: Limits): string | undefined {
  const { queueBytesMax, backlogBytesMax, queueEventBytes } = limits;
  const more = bytes + queueEventBytes;
  if (waitingBytes + more <= queueBytesMax && backlog.bytes + more <= backlogBytesMax) return undefined;
  return 'the disk does not keep up: too many reports are waiting for it';
}

/** A write did not happen, and nothing of it is left: the only failure of a disk after which the journal continues. */
class NotWritten extends Error {}

/** There are no bytes to write: the memory for them could not be allocated. */
class NotEncoded extends Error {}

/** What `tryWrite` writes: zeros hold no newline, so a crash leaves nothing but a torn end. */
const PROBE = Buffer.alloc(4096);

/**
 * Appends one batch to the segment, durably.
 * @throws NotEncoded, NotWritten, or another error after which nobody knows what is on the disk
 */
async function appendBatch(segment: Segment, batch: readonly Waiting[], room: Room): Promise<Segment> {
  const members = batch.map((waiting) => waiting.members);
  const { bytes, place } = encodeOrGiveUp(members, segment.place, room);
  const after = { file: segment.file, bytes: segment.bytes + bytes.length, place };
  // Before, since a write behind a cut would hide it; after, since nobody may be told 200 for a file that is gone.
  checkUntouched(segment);
  await append(segment, bytes);
  checkUntouched(after);
  return after;
}

/** @throws NotEncoded */
function encodeOrGiveUp(members: readonly (string | Buffer)[], place: Place, room: Room) {
  try {
    return encodeBatch(members, place, new Date(), room);
  } catch (error) {
    throw new NotEncoded((error as Error).message, { cause: error });
  }
}

/** @throws when the file is not as we left it: what else is gone only a start can find out */
function checkUntouched({ file, bytes }: Segment): void {
  const size = file.sizeInFolder();
  if (size === bytes) return;
  throw new Error(
    size === undefined
      ? `${file.name} was removed or replaced by another program`
      : `${file.name} has ${size} bytes instead of ${bytes}: another program changed it`,
  );
}

/** Whether the disk takes a write again, with nothing to record. @throws as `appendBatch` */
async function tryWrite(segment: Segment): Promise<Segment> {
  await append(segment, PROBE);
  await segment.file.truncate(segment.bytes);
  return segment;
}

/** All of the bytes, durably, or none: after a failed or short write the file is cut back to its last good length. */
async function append({ file, bytes: end }: Segment, bytes: Buffer): Promise<void> {
  let problem: string;
  try {
    const written = await file.append(bytes, end);
    if (written === bytes.length) return;
    problem = `only ${written} of ${bytes.length} bytes were written`;
  } catch (error) {
    if (error instanceof SyncError) throw error;
    problem = describe(error as Error);
  }
  await file.truncate(end);
  throw new NotWritten(problem);
}
