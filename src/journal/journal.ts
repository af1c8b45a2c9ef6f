/**
 * The journal: events in, durable lines out. An event is acknowledged only when its line is durable.
 *
 * Group commit: while one batch is written, arriving events form the next batch. The only timer is the one of `--commit-delay`
 * (`Queue`). A batch is one write and one sync. Its callbacks run after the sync, in the order of arrival.
 */

import type { Event } from '../event/event.ts';
import { type ConflictHandling, type Done, type RecordResult, recorded, refused } from '../event/record-result.ts';
import { atMostEvery } from '../telemetry/log.ts';
import { type JournalFigures, Metrics } from '../telemetry/metrics.ts';
import { appendBatch, checkUntouched, explainFailure, freshLines, NotEncoded, NotWritten, tryWrite } from './append.ts';
import { Clock } from './clock.ts';
import { describe, lacksDescriptors, SyncError } from './disk.ts';
import { Followers, logThrown } from './follower.ts';
import { KeyedReports } from './keys/idempotency.ts';
import { JournalKeys } from './keys/keys.ts';
import { type EncodeBuffer, SEQ_MAX } from './line/record.ts';
import { type Measured, measure } from './measure.ts';
import { markCleanStop } from './open/clean-stop.ts';
import { openWithSpace } from './open/opening.ts';
import type { Segment } from './open/recovery.ts';
import type { JournalOptions } from './options.ts';
import { Queue } from './queue.ts';
import type { QueuedBytes, QueueEntry } from './queue-entry.ts';
import { encodeEvents, explainOversize, overload } from './queue-entry.ts';
import { Retention } from './retention.ts';
import { segmentName } from './segments.ts';
import { type Batch, type Committing, type JournalState, NOT_OPEN_YET, type OpenState, USED_UP } from './state.ts';

/**
 * The writer of one journal. `open` recovers the journal, `append` queues events, `close` writes the queued events. Failures of
 * the disk are not thrown: they are results of `append`, and passed to `onFailed`.
 */
export class Journal implements JournalFigures {
  readonly #options: JournalOptions;
  #state: JournalState;
  /** The waiting bytes of all journals that share the backlog. */
  readonly #backlog: QueuedBytes;
  readonly #metrics: Metrics;
  readonly #checkHeld: () => void;
  readonly #retention: Retention;
  readonly #followers: Followers;
  readonly #clock: Clock;
  /** The idempotency keys, and the reports with keys; both undefined if keys are not looked up. */
  readonly #keys: JournalKeys | undefined;
  readonly #keyed: KeyedReports | undefined;
  readonly #queue: Queue;
  /** Memory of the events in the queue and in the batch that is being written. */
  #waitingBytes = 0;
  readonly #encodeBuffer: EncodeBuffer = { bytes: Buffer.alloc(0) };
  /** The run of batches that is being written; undefined while the disk is idle. */
  #running: Promise<void> | undefined;
  #probeTimer: NodeJS.Timeout | undefined;
  /** A failed sync of retention, or a Defect of the keys. The journal then fails at once, or after the batch that is being written. */
  #failure: Error | undefined;
  readonly #openTimeout: NodeJS.Timeout | undefined;
  readonly #shouldLog: (reason: string) => boolean;
  /** Number of journal files, including the newest; 0 before the journal is open. */
  files = 0;
  /** Size of all files except the newest; undefined before `measure`. */
  closedBytes: number | undefined;
  #lastMs: number | undefined;

  /** Starts the timer of `options.openWaitMs`; reads nothing before `open`. */
  constructor(options: JournalOptions) {
    this.#options = options;
    this.#backlog = options.backlog ?? { bytes: 0 };
    this.#metrics = options.metrics ?? new Metrics();
    this.#checkHeld = () => {
      if (this.#failure !== undefined) throw this.#failure;
      options.checkHeld?.();
    };
    const onFailed = (error: Error) => {
      this.#failure = error;
      this.abandon(error);
    };
    this.#shouldLog = atMostEvery(options.limits.notAcceptedNoticeMs);
    this.#clock = new Clock(options.notices, options.limits);
    const { keyMemory: memory, hashKey: hash, openWaitMs, ...rest } = options;
    this.#keys = memory && new JournalKeys({ ...rest, memory, hash, onDefect: onFailed });
    this.#keyed = this.#keys && this.#createKeyedReports(this.#keys);
    const { followers = [] } = options;
    this.#followers = new Followers(this.#keys ? [this.#keys, ...followers] : followers, options.notices);
    this.#retention = new Retention({ ...options, followers: this.#followers }, this, onFailed, this.#runNow);
    this.#queue = new Queue(options, () => this.#runIfDue());
    this.#state = { kind: 'starting', reason: NOT_OPEN_YET, isQueueing: openWaitMs !== undefined };
    if (openWaitMs !== undefined) this.#openTimeout = setTimeout(() => this.#refuseUntilOpen(), openWaitMs).unref();
  }

  /**
   * Recovers the journal in the folder. The caller has locked the folder. On a full disk it applies retention first, and then
   * waits for enough free space or for `close`.
   * @throws DamagedError, or the error of a system call
   */
  async open(): Promise<void> {
    const { disk, notices, limits } = this.#options;
    const recovered = await openWithSpace({
      disk,
      notices,
      limits,
      keys: this.#keys,
      retention: this.#retention,
      checkHeld: this.#checkHeld,
      isClosed: () => this.#isClosed,
      failedSync: () => this.#failure,
      onFull: (error) => {
        const reason = 'the disk is full; the service waits for space to open its journal';
        if (this.trouble !== reason) notices.error(reason, { problem: describe(error) });
        this.#refuseUntilOpen(reason);
      },
    }).finally(() => (this.#isClosed ? this.#keys?.close() : undefined)); // `close` ran before the keys were loaded
    if (recovered === undefined) return;
    const { files, ...segment } = recovered;
    if (this.#retention.limits.maxBytes !== undefined) {
      const measured = await measure(disk, limits).catch((error) =>
        segment.file.close().then(() => Promise.reject(error)),
      );
      this.closedBytes = measured.closedBytes;
    }
    if (this.#isClosed) return await segment.file.close();
    this.#opened(segment, files);
  }

  #opened(segment: Segment, files: number): void {
    clearTimeout(this.#openTimeout);
    this.files = files;
    this.#options.notices.info('journal open', { file: segment.file.name, next_seq: segment.chain.seq });
    this.#continueAt(segment);
    this.#metrics.journals.add(this);
    this.#followers.tell('opened', segment.chain.seq - 1);
    this.#retention.start();
    const refusal = this.#retention.refusal ?? this.#excess(0);
    if (refusal !== undefined) this.#refuseQueue(refusal);
    this.#keyed?.opened();
    this.#runIfDue();
  }

  /** Sets the reason that is given to reports until the journal opens; has no effect once it is open. */
  explainDelay(reason = NOT_OPEN_YET): void {
    if (this.#state.kind === 'starting') this.#state = { ...this.#state, reason };
  }

  /** Why nothing can be recorded now, as a sentence for the client; undefined if events can be recorded. */
  get trouble(): string | undefined {
    const state = this.#state;
    if (state.kind === 'open') {
      const { queueEventBytes } = this.#options.limits; // a journal without space for a small report is full
      return state.trouble?.reason ?? this.#retention.refusal ?? this.#excess(queueEventBytes);
    }
    return state.kind === 'starting' && state.isQueueing ? undefined : state.reason;
  }

  /** The seq of the last durable line; 0 in a new journal. Valid only while the journal is open. */
  get lastSeq(): number {
    return (this.#state as OpenState).segment.chain.seq - 1;
  }

  /** The seq of the next line; all earlier lines are durable. Undefined until the journal is open. */
  get nextSeq(): number | undefined {
    const state = this.#state;
    if (state.kind === 'open') return state.segment.chain.seq;
    return state.kind === 'failed' ? state.nextSeq : undefined;
  }

  /** Approximate memory of the waiting events, in bytes. */
  get queueBytes(): number {
    return this.#waitingBytes;
  }

  /**
   * Reads the sizes of the files and the time of the last line once; afterwards the journal keeps both up to date.
   * @returns the figures of an open journal. @throws the error of a system call
   */
  async measure(): Promise<Pick<Measured, 'bytes' | 'lastMs'>> {
    const { disk, limits } = this.#options;
    const nameOfFiles = () => `${this.files} ${(this.#state as OpenState).segment.file.name}`;
    for (let before = ''; this.closedBytes === undefined && this.#state.kind === 'open'; ) {
      before = nameOfFiles();
      const { closedBytes, lastMs } = await measure(disk, limits);
      if (before !== nameOfFiles()) continue; // a file was created or removed in the meantime
      this.closedBytes = closedBytes;
      this.#lastMs ??= lastMs;
    }
    return { bytes: this.#bytes, lastMs: this.#lastMs };
  }

  /** Size of all files; before `measure` the size of the newest file. */
  get #bytes(): number {
    const newest = this.#state.kind === 'open' ? this.#state.segment.bytes : 0;
    return (this.closedBytes ?? 0) + newest;
  }

  /** Runs retention at once, for a disk with less free space than `Retain.keepFree`. Never rejects. */
  async makeSpace(): Promise<void> {
    await this.#retention.makeSpace();
  }

  /**
   * Why an event with `bytes` of memory cannot be queued, as a sentence for the client; undefined if it can be queued.
   */
  refusal(bytes: number): string | undefined {
    if (!this.#isQueueing) return this.trouble;
    const excess = this.#retention.refusal ?? this.#excess(bytes);
    return excess ?? overload(bytes, this.#waitingBytes, this.#backlog, this.#options.limits);
  }

  /**
   * Why an event would not fit in the journal's share of the backlog, even if nothing else were waiting; undefined if it fits, or
   * there is no share.
   */
  #excess(bytes: number): string | undefined {
    const { maxBytes } = this.#retention.limits;
    if (maxBytes === undefined || this.closedBytes === undefined) return undefined;
    if (this.#bytes + this.#waitingBytes + bytes + this.#options.limits.queueEventBytes <= maxBytes) return undefined;
    return `the journal of this deployment is full: its maxBytes is ${maxBytes}; its operator can raise that`;
  }

  /**
   * Queues events for the next batch, as one entry: they get consecutive seqs in one write, and all are recorded or none. An
   * entry that is larger than `limits.batchBytesMax` is written alone.
   * @param events at least one
   * @param done called before `append` returns if the events cannot be queued
   * @param onConflict whether the other events are recorded if the idempotency keys of some belong to different events
   */
  append(events: readonly Event[], done: Done, onConflict: ConflictHandling = 'refuse all'): void {
    const { limits } = this.#options;
    const encoded = encodeEvents(events, limits);
    // Checked before the temporary reasons: a client that is asked to retry would retry forever.
    const excess = explainOversize(events.length, encoded, limits);
    if (excess !== undefined) {
      done({ kind: 'too large', reason: excess });
      return;
    }
    const refusal = this.refusal(encoded.heldBytes);
    if (refusal !== undefined) {
      done(refused(refusal));
      return;
    }
    const { lines, lineBytes, ids } = encoded;
    const heldBytes = encoded.heldBytes + limits.queueEventBytes;
    const keys = encoded.hasKey ? this.#keys?.hashAll(events) : undefined;
    if (keys === undefined) this.#enqueue({ lines, lineBytes, heldBytes, done, ids, keys, joined: undefined });
    else this.#keyed?.admit({ lines, lineBytes, heldBytes, done, ids, keys, joined: undefined }, onConflict);
  }

  #enqueue(entry: QueueEntry): void {
    this.#queue.push(entry);
    this.#hold(entry.heldBytes);
    this.#runIfDue();
  }

  #runIfDue(): void {
    if (this.#queue.isDue && this.#state.kind !== 'starting') this.#running ??= this.#run();
  }

  readonly #runNow = (): void => {
    if (this.#seqsLeft > 0) this.#running ??= this.#run();
  };

  /** Ends the pause of `--commit-delay`, because the service stops or another journal waits for this one. */
  hurry(): void {
    this.#queue.hurry();
  }

  /** The reports that are queued only after their idempotency keys were looked up. */
  #createKeyedReports(keys: JournalKeys): KeyedReports {
    const { disk, limits, notices } = this.#options;
    return new KeyedReports({
      disk,
      limits,
      notices,
      keys,
      queue: (entry) => {
        const refusal = this.#isQueueing ? undefined : this.trouble; // the state might have changed during the lookup
        if (refusal === undefined) this.#enqueue(entry);
        else this.#finish(entry, refused(refusal));
      },
      hold: (bytes) => {
        this.#hold(bytes);
        if (bytes < 0 && this.#waitingBytes === 0 && this.#running === undefined)
          this.#callSafely(this.#options.onIdle);
      },
      answer: (done, ...result) => this.#callSafely(done, ...result),
      onReplayed: (count) => {
        this.#metrics.replays += count;
      },
    });
  }

  /**
   * Fails the journal, because the folder is no longer locked or a sync of retention failed. Has no effect while batches are being
   * written: they check for both. Events in a pause are refused.
   */
  abandon(error: Error): void {
    if (this.#state.kind !== 'open' || this.#running !== undefined) return;
    this.#failure ??= error;
    this.hurry();
    if (this.#running !== undefined) return; // the run refuses the events of a pause
    this.#fail(error);
    this.#callSafely(this.#options.onFailed, error);
  }

  /**
   * Writes all queued events, closes the file and marks the stop as clean. If the journal is not open yet, the queued events are
   * refused instead.
   * @param reason given to the refused reports, and to all later reports
   */
  async close(reason = 'the service is stopping'): Promise<void> {
    clearTimeout(this.#openTimeout);
    if (this.#state.kind === 'starting') {
      this.#state = { kind: 'closed', reason };
      this.#refuseQueue(reason);
      await this.#keys?.close();
      return;
    }
    await this.#keyed?.settled(); // queues more events
    this.hurry();
    await this.#retention.stop();
    await this.#running;
    clearInterval(this.#probeTimer);
    await this.#keys?.close();
    const state = this.#state;
    if (state.kind === 'failed') return;
    this.#metrics.journals.delete(this);
    this.#state = { kind: 'closed', reason };
    if (state.kind !== 'open') return;
    const { segment } = state;
    try {
      await segment.file.close();
      this.#checkHeld(); // without the lock the marker would describe a file of another process
      await this.#followers.closing(segment.chain.seq - 1);
      await markCleanStop(this.#options.disk, { ...segment, file: segment.file.name });
    } catch (error) {
      this.#options.notices.warn('the stop could not be marked as clean; the next start will rewrite the last file', {
        problem: (error as Error).message,
      });
    }
  }

  get #isClosed(): boolean {
    return this.#state.kind === 'closed';
  }

  /** Whether reports are queued: only if the queue will be written soon. */
  get #isQueueing(): boolean {
    const state = this.#state;
    if (state.kind === 'open') return state.trouble === undefined || state.trouble.kind === 'refusing';
    return state.kind === 'starting' && state.isQueueing;
  }

  #refuseUntilOpen(reason?: string): void {
    if (this.#state.kind !== 'starting') return;
    this.#state = { kind: 'starting', reason: reason ?? this.#state.reason, isQueueing: false };
    this.#refuseQueue(this.#state.reason);
  }

  /** Refuses all queued events of a journal that is not open, so no batch is being written. */
  #refuseQueue(reason: string): void {
    for (const entry of this.#queue.drain()) {
      this.#hold(-entry.heldBytes);
      this.#finish(entry, refused(reason));
    }
    this.#keyed?.refuseEarly(reason);
    this.#callSafely(this.#options.onIdle);
  }

  #hold(bytes: number): void {
    this.#waitingBytes += bytes;
    this.#backlog.bytes += bytes;
  }

  /**
   * Commits batches until the queue is empty. If the queue is empty when it starts, makes a test write instead. Never rejects.
   */
  async #run(): Promise<void> {
    // Events that arrive in the same iteration of the event loop share the first batch.
    await new Promise((resolve) => setImmediate(resolve));
    let next: Committing | undefined = this.#startBatch();
    while (next !== undefined) {
      const { batch, committed }: Committing = next;
      const result = await committed;
      let seq = (this.nextSeq ?? 1) - batch.lines.length;
      next = this.#startNext(); // the next write overlaps with sending the replies
      for (const entry of batch.entries) {
        this.#hold(-entry.heldBytes);
        this.#finish(entry, result, seq);
        seq += entry.lines.length;
      }
      next ??= this.#startNext();
    }
    this.#running = undefined;
    if (this.#failure !== undefined && this.#state.kind === 'open') this.#fail(this.#failure);
    const state = this.#state;
    if (state.kind === 'failed') this.#callSafely(this.#options.onFailed, state.error);
    else this.#callSafely(this.#options.onIdle);
  }

  /**
   * Passes the result to an entry and to the reports that joined it, and releases the keys of the entry.
   * @param first the seq of the entry's first line, if it is recorded
   */
  #finish({ lines, keys, done, joined }: QueueEntry, result: RecordResult, first = 0): void {
    const last = first + lines.length - 1;
    if (keys !== undefined) this.#keyed?.release(keys);
    this.#callSafely(done, result, first, last);
    if (joined !== undefined) for (const joinedDone of joined) this.#callSafely(joinedDone, result, first, last);
  }

  #startNext(): Committing | undefined {
    if (this.#failure !== undefined || this.#state.kind !== 'open') this.hurry(); // the events in a pause are refused now
    return this.#queue.isDue ? this.#startBatch() : undefined;
  }

  #startBatch(): Committing {
    const batch = this.#queue.take(this.#options.limits.batchBytesMax, this.#seqsLeft);
    return { batch, committed: this.#commit(batch) };
  }

  /** Number of seqs up to SEQ_MAX; 0 unless the journal is open. */
  get #seqsLeft(): number {
    return this.#state.kind === 'open' ? SEQ_MAX + 1 - this.#state.segment.chain.seq : 0;
  }

  async #commit(batch: Batch): Promise<RecordResult> {
    const { lines, entries } = batch;
    if (this.#state.kind !== 'open') return refused(this.#state.reason);
    if (lines.length > this.#seqsLeft) return refused(USED_UP.reason);
    const { segmentBytes } = this.#options;
    const stallTimer = setTimeout(() => this.#stall(), this.#options.limits.diskAnswerMs).unref();
    try {
      const { bytes, file } = this.#state.segment;
      if (bytes >= this.#retention.closeAtBytes(segmentBytes, file.name)) await this.#rotate(this.#state.segment);
      if (this.#failure !== undefined) throw this.#failure; // retention might have failed during the rotation
      const { segment } = this.#state;
      const startedMs = performance.now();
      const time = this.#clock.read();
      const after =
        lines.length > 0 ? await appendBatch(segment, batch, time, this.#encodeBuffer) : await tryWrite(segment);
      this.#checkHeld(); // after the sync and before the replies, see `Lock.checkHeld`
      if (lines.length > 0)
        this.#metrics.wrote(lines.length, after.bytes - segment.bytes, performance.now() - startedMs);
      if (lines.length > 0) this.#lastMs = time.getTime();
      this.#continueAfterWrite(after);
      const fresh = freshLines(this.#encodeBuffer, after, segment.bytes);
      this.#followers.tell('committed', { entries, lines, time, before: segment, after, fresh });
      return recorded;
    } catch (error) {
      if (error instanceof NotEncoded) return this.#refuseUnencoded(error);
      return error instanceof NotWritten ? this.#refuse(error) : this.#fail(error as Error);
    } finally {
      clearTimeout(stallTimer);
    }
  }

  /** Creates the next file. Its directory entry is durable when this resolves, so its first batch may be acknowledged. */
  async #rotate(full: Segment): Promise<void> {
    const { disk, notices } = this.#options;
    const seq = full.chain.seq;
    checkUntouched(full); // another program might have replaced the folder
    this.#checkHeld();
    const file = await disk.createLog(segmentName(seq)).catch((error: Error) => {
      if (lacksDescriptors(error)) this.#callSafely(this.#options.onNoDescriptor);
      throw error instanceof SyncError ? error : new NotWritten(describe(error));
    });
    this.#state = { ...(this.#state as OpenState), segment: { file, bytes: 0, chain: { seq, crc: 0 } } };
    this.files += 1;
    if (this.closedBytes !== undefined) this.closedBytes += full.bytes;
    await full.file.close();
    notices.info('segment closed', { file: full.file.name, next: file.name });
    this.#followers.tell('rotated', full);
    this.#retention.run();
  }

  /** The disk is unchanged, so the client may retry. The journal makes a test write every `limits.probeMs`. */
  #refuse(error: NotWritten): RecordResult {
    const reason = 'the disk refuses writes; send the report again later';
    const { segment, trouble } = this.#state as OpenState;
    if (trouble?.kind !== 'refusing') {
      this.#options.notices.error('the disk refuses writes; reports get 503 until a write succeeds', {
        problem: error.message,
      });
      clearInterval(this.#probeTimer);
      this.#probeTimer = setInterval(this.#runNow, this.#options.limits.probeMs).unref();
    }
    this.#state = { kind: 'open', segment, trouble: { kind: 'refusing', reason } };
    this.#callSafely(this.#options.onRefused);
    return refused(reason);
  }

  /** Nothing was written, and the disk did not fail. A smaller report might succeed, or a later attempt with more free memory. */
  #refuseUnencoded({ message }: Error): RecordResult {
    if (this.#shouldLog('not encoded')) {
      this.#options.notices.error('reports could not be encoded and get 503; is memory short?', { problem: message });
    }
    return refused('the service is short of memory; send the report again later');
  }

  /** The write has stalled. Queued reports keep waiting, since they might still be recorded; new reports are refused. */
  #stall(): void {
    const seconds = this.#options.limits.diskAnswerMs / 1000;
    const reason = `the disk has not answered for ${seconds} s; send the report again later`;
    this.#options.notices.error('the disk does not answer; further reports get 503 until it does', { seconds });
    this.#state = { ...(this.#state as OpenState), trouble: { kind: 'stalled', reason } };
  }

  #continueAfterWrite(segment: Segment): void {
    if ((this.#state as OpenState).trouble !== undefined) {
      clearInterval(this.#probeTimer);
      this.#options.notices.info('writes to the disk succeed again');
    }
    this.#continueAt(segment);
  }

  #continueAt(segment: Segment): void {
    const isUsedUp = segment.chain.seq > SEQ_MAX;
    this.#state = isUsedUp ? { kind: 'open', segment, trouble: USED_UP } : { kind: 'open', segment };
    if (isUsedUp) this.#options.notices.error(USED_UP.reason);
  }

  /** Runs a callback. An exception is only logged. */
  #callSafely<Values extends unknown[]>(callback: ((...values: Values) => void) | undefined, ...values: Values): void {
    try {
      callback?.(...values);
    } catch (error) {
      logThrown(error, this.#options.notices);
    }
  }

  #fail(error: Error): RecordResult {
    const { segment } = this.#state as OpenState;
    clearInterval(this.#probeTimer); // otherwise each probe would report the failure again
    segment.file.close().catch(() => {}); // the journal has already failed
    void this.#retention.stop();
    const reason = explainFailure(error);
    this.#metrics.journals.delete(this);
    this.#state = { kind: 'failed', reason, error, nextSeq: segment.chain.seq };
    return refused(reason);
  }
}
