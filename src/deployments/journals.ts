/**
 * Hosted mode: one journal for each deployment. The first report opens it, and an idle timeout (`limits.idleJournalMs`) closes
 * it, so thousands of idle deployments hold no file descriptors. A failure of one journal does not affect the others.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { Defect } from '../config/defect.ts';
import type { Limits } from '../config/limits.ts';
import type { Event } from '../event/event.ts';
import { type ConflictHandling, type Done, refused } from '../event/record-result.ts';
import { type Disk, isFull, isMissingPath, lacksDescriptors } from '../journal/disk.ts';
import { Journal } from '../journal/journal.ts';
import type { KeyMemory } from '../journal/keys/memory.ts';
import { InUseError, type Lock, type LockFolder, type LockRota } from '../journal/lock/lock.ts';
import type { Door } from '../journal/lock/protocol.ts';
import { type Measured, measure } from '../journal/measure.ts';
import { DamagedError } from '../journal/open/recovery.ts';
import type { JournalOptions } from '../journal/options.ts';
import { overload, type QueuedBytes } from '../journal/queue-entry.ts';
import type { Retain } from '../journal/retention.ts';
import { atMostEvery, type Notices } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/** Options for the journals of all deployments. */
export interface DeploymentJournalsOptions {
  /** @returns the disk of a deployment's folder */
  readonly openDisk: (name: string) => Disk;
  /** Takes the lock of the folder of a journal before it is opened. */
  readonly lockFolder: LockFolder;
  readonly locks: LockRota;
  /** See `RecordedJournals.answerOf`. */
  readonly answerOf: (deployment: string) => Door['answer'];
  /** Called before each opening of a journal, when its folder is locked. */
  readonly beforeOpening?: (deployment: string) => Promise<void>;
  /** Size in bytes at which a journal file is closed: see `segmentBytesOf`. */
  readonly segmentBytes: number;
  /** @returns the current retention of a deployment's journal */
  readonly retainOf: (name: string) => Retain;
  /** See `JournalOptions`. */
  readonly commitDelayMs?: (() => number) | undefined;
  readonly limits: Limits;
  readonly metrics: Metrics;
  /** The idempotency keys of all journals together; undefined if they have no effect. */
  readonly keyMemory?: KeyMemory | undefined;
  readonly notices: Notices;
  /** Called after a Defect of a journal: the service must end. */
  readonly onDefect: (error: Error) => void;
  /**
   * Called when the journal of a removed deployment is closed, since its folder can have another journal when the name is used
   * again.
   */
  readonly onRemoved?: ((name: string) => void) | undefined;
  /** @returns the followers of a deployment's journal. Called before each opening of the journal. */
  readonly followingOf?: ((name: string) => Pick<JournalOptions, 'followers' | 'heldBack' | 'onRefused'>) | undefined;
}

type LifeCycle =
  | { readonly kind: 'idle' }
  /** The journal waits for a slot (see `Slots`) before it is opened. Reports are queued in the journal. */
  | { readonly kind: 'waiting'; readonly journal: Journal }
  /** Reports are queued in the journal. `opened` resolves when the attempt to open it has succeeded or failed. */
  | { readonly kind: 'opening'; readonly journal: Journal; readonly opened: Promise<void> }
  | { readonly kind: 'open'; readonly journal: Journal }
  /** Reports that arrive during the close are queued in `next`, which is opened after the close. */
  | { readonly kind: 'closing'; readonly closed: Promise<void>; readonly next: Journal | undefined }
  /** The next report after `againMs` (monotonic clock) opens the journal again, with the same recovery as after a restart. */
  | { readonly kind: 'failed'; readonly reason: string; readonly againMs: number };

export class DeploymentJournals {
  readonly #shared: Shared;
  readonly #deployments = new Map<string, DeploymentJournal>();
  readonly #sweeping: NodeJS.Timeout;
  #makingSpace = false;

  constructor(options: DeploymentJournalsOptions) {
    const { openJournalsMax, notAcceptedNoticeMs } = options.limits;
    const [slots, mayLog] = [new Slots(openJournalsMax), atMostEvery(notAcceptedNoticeMs)];
    this.#shared = { ...options, backlog: { bytes: 0 }, slots, mayLog };
    this.#sweeping = setInterval(() => this.#closeIdle(), options.limits.idleJournalMs / 2).unref();
  }

  /**
   * @param name the name of an existing deployment. It names a folder, so it must not be a string that a client chose.
   * @returns the same object each time, until the deployment is removed
   */
  journalOf(name: string): DeploymentJournal {
    let journal = this.#deployments.get(name);
    if (journal === undefined) {
      journal = new DeploymentJournal(name, this.#shared);
      this.#deployments.set(name, journal);
    }
    return journal;
  }

  /** @returns the deployments that currently cannot record, with the reasons */
  troubles(): ReadonlyMap<string, string> {
    const troubles = new Map<string, string>();
    for (const [name, { trouble }] of this.#deployments) if (trouble !== undefined) troubles.set(name, trouble);
    return troubles;
  }

  /** Measures journals, one after the other; a journal that cannot be read keeps its figures. Never rejects. */
  async measure(names: readonly string[]): Promise<void> {
    for (const name of names) await this.journalOf(name).measure();
  }

  /**
   * Closes the journals of deployments that were removed, after the reports they had accepted are durable.
   * @param isThere whether a deployment still exists
   */
  keepOnly(isThere: (name: string) => boolean): void {
    const retire = async (name: string, journal: DeploymentJournal) => {
      await journal.retire();
      if (this.#deployments.delete(name)) this.#shared.onRemoved?.(name);
    };
    for (const [name, journal] of this.#deployments) if (!isThere(name)) void retire(name, journal);
  }

  /**
   * Removes the oldest closed files while the disk has less free space than `Retain.keepFree`, first from the open journal with the
   * most files, then from the others. Never rejects.
   */
  async makeSpace(): Promise<void> {
    if (this.#makingSpace) return;
    this.#makingSpace = true;
    const journals = [...this.#deployments.values()].sort((a, b) => b.files - a.files);
    for (const journal of journals) await journal.makeSpace();
    this.#makingSpace = false;
  }

  /** Ends the pause of `--commit-delay` in each journal. */
  hurry(): void {
    for (const journal of this.#deployments.values()) journal.hurry();
  }

  /** Resolves when each journal has written its queued reports and is unlocked. Never rejects. */
  async close(): Promise<void> {
    clearInterval(this.#sweeping);
    await Promise.all([...this.#deployments.values()].map((journal) => journal.close()));
  }

  #closeIdle(): void {
    const beforeMs = performance.now() - this.#shared.limits.idleJournalMs;
    for (const journal of this.#deployments.values()) {
      if (journal.lastUsedMs < beforeMs && !journal.isBusy) void journal.close();
    }
  }
}

/**
 * Limits how many journals hold file descriptors at a time. A journal holds a slot from before it is opened until it is closed.
 * Further journals wait in the order of their requests. For each of them the least recently used idle journal is closed.
 */
class Slots {
  readonly #max: number;
  readonly #held = new Set<DeploymentJournal>();
  readonly #waiting = new Set<DeploymentJournal>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Opens the journal when a slot is free. */
  request(journal: DeploymentJournal): void {
    if (this.#held.size < this.#max) {
      this.#held.add(journal);
      journal.open();
      return;
    }
    this.#waiting.add(journal);
    this.closeIdle();
  }

  withdraw(journal: DeploymentJournal): void {
    this.#waiting.delete(journal);
  }

  /** Frees the slot of a journal that no longer holds a descriptor. */
  release(journal: DeploymentJournal): void {
    this.#held.delete(journal);
    for (const next of this.#waiting) {
      if (this.#held.size >= this.#max) return;
      this.#waiting.delete(next);
      if (next.isBusy) this.request(next);
      else void next.close(); // its reports were refused while it was waiting for a slot
    }
  }

  /**
   * Closes one idle journal for each journal that waits for a slot, minus the journals that are already being closed.
   */
  closeIdle(): void {
    let missing = this.#waiting.size;
    if (missing === 0) return;
    for (const { isClosing } of this.#held) if (isClosing) missing -= 1;
    for (; missing > 0; missing -= 1) {
      if (this.closeOne() === undefined) {
        for (const journal of this.#held) journal.hurry();
        return; // all are busy: the first journal to become idle calls this again
      }
    }
  }

  /** Closes the least recently used idle journal. @returns undefined if all are busy or closing */
  closeOne(): Promise<void> | undefined {
    return this.#leastRecentlyUsed()?.close();
  }

  /** @returns the least recently used of the idle journals, or undefined if all are busy or closing */
  #leastRecentlyUsed(): DeploymentJournal | undefined {
    let found: DeploymentJournal | undefined;
    for (const journal of this.#held) {
      if (journal.isClosing || journal.isBusy) continue;
      if (found === undefined || journal.lastUsedMs < found.lastUsedMs) found = journal;
    }
    return found;
  }
}

/** The options and the state that all journals share. */
interface Shared extends DeploymentJournalsOptions {
  readonly backlog: QueuedBytes;
  readonly slots: Slots;
  readonly mayLog: (reason: string) => boolean;
}

const NOTHING = { bytes: 0, lastMs: undefined };
/** The most looks at one journal: while it is being closed, while it is idle, and while it is being opened. */
const OPENINGS_MAX = 5;
const RETIRED = 'this deployment is being closed; send the report again later';
const NO_DESCRIPTOR = 'no file descriptor is free to open the journal; send the report again later';

/** The journal of one deployment, whether it is open or not. `LifeCycle` lists its states. */
export class DeploymentJournal {
  readonly #options: Shared;
  readonly #name: string;
  readonly #notices: Notices;
  readonly #disk: Disk;
  /** From `begin` or `wake` until the attempt to open the journal has ended. */
  #isAwaited = false;
  #state: LifeCycle = { kind: 'idle' };
  /** The lock of the journal that is opening or open, or that was last open. Releasing it again has no effect. */
  #lock: Lock | undefined;
  #retired = false;
  readonly deployment: string;
  /** The last result of `measure`. */
  measured: Pick<Measured, 'bytes' | 'lastMs'> | undefined;
  /** When the last report arrived, or the object was created: `performance.now()`. */
  lastUsedMs = performance.now();

  constructor(name: string, options: Shared) {
    this.#name = name;
    this.#options = options;
    this.#notices = options.notices.with({ deployment: name });
    this.#disk = options.openDisk(name);
    this.deployment = name;
  }

  /** Whether reports are queued, or a pipe or a hub waits for the journal to open. */
  get isBusy(): boolean {
    return this.#isAwaited || this.#state.kind === 'opening' || (journalIn(this.#state)?.queueBytes ?? 0) > 0;
  }

  /** Whether no journal is open, being opened or being closed, and the last one has not failed. */
  get isIdle(): boolean {
    return this.#state.kind === 'idle';
  }

  /** Whether the journal is being closed, for example because it was idle for `limits.idleJournalMs`. */
  get isClosing(): boolean {
    return this.#state.kind === 'closing';
  }

  /** Why reports cannot be recorded now; undefined if they can, and before a report has opened the journal. */
  get trouble(): string | undefined {
    const state = this.#state;
    return state.kind === 'failed' ? state.reason : journalIn(state)?.trouble;
  }

  /** Like `Journal.refusal`, but also if no journal is open. */
  refusal(bytes: number): string | undefined {
    const { backlog, limits } = this.#options;
    const journal = journalIn(this.#state);
    if (journal !== undefined) return journal.refusal(bytes);
    return this.#refused ?? overload(bytes, 0, backlog, limits);
  }

  /** Opens the journal like a report, unless it is open, being opened, or cannot be opened now: see `refusal`. */
  begin(): void {
    this.lastUsedMs = performance.now();
    if (this.#refused === undefined) this.#beginAwaited();
  }

  /** Like `Journal.append`. The first report opens the journal, and is queued until it is open. */
  append(events: readonly Event[], done: Done, onConflict?: ConflictHandling): void {
    this.lastUsedMs = performance.now();
    const journal = journalIn(this.#state);
    const refusal = journal === undefined ? this.#refused : undefined;
    if (refusal !== undefined) done(refused(refusal));
    else (journal ?? this.#begin()).append(events, done, onConflict);
  }

  /**
   * Opens the journal like a report does, for a pipe that needs its durable end. Its followers are notified when the journal is
   * open. An open journal is kept open for another `limits.idleJournalMs`, unless its slot is needed. After a failure the journal
   * is opened again after `limits.forwardStoppedMs` (60 s), or by a report.
   */
  wake(): void {
    const state = this.#state;
    const nowMs = performance.now();
    this.lastUsedMs = nowMs;
    if (this.#refused !== undefined) return;
    if (state.kind === 'failed' && nowMs < state.againMs + this.#options.limits.forwardStoppedMs) return;
    this.#beginAwaited();
  }

  /**
   * Sets `measured`: reads it from the disk once, and then derives it from the writes while the journal is open. Never
   * rejects.
   */
  async measure(): Promise<void> {
    const state = this.#state;
    try {
      if (state.kind === 'open') this.measured = await state.journal.measure();
      else if (this.isIdle) this.measured ??= await measure(this.#disk, this.#options.limits);
    } catch (error) {
      if (isMissingPath(error as Error)) this.measured = NOTHING; // no report has created the folder yet
    }
  }

  /** Like `Journal.hurry`. */
  hurry(): void {
    journalIn(this.#state)?.hurry();
  }

  /** Number of journal files; 0 unless the journal is open. */
  get files(): number {
    return this.#state.kind === 'open' ? this.#state.journal.files : 0;
  }

  /** Like `Journal.makeSpace`. A journal that is not open is left unchanged, since it might not be locked. */
  async makeSpace(): Promise<void> {
    if (this.#state.kind === 'open') await this.#state.journal.makeSpace();
  }

  /** Like `close`, but permanent: a request that still holds this object cannot reopen the journal. */
  async retire(): Promise<void> {
    this.#retired = true;
    await this.close(RETIRED);
  }

  /** Called by `Slots` when this journal has a slot. */
  open(): void {
    const { journal } = this.#state as Waiting;
    journal.explainDelay();
    this.#state = { kind: 'opening', journal, opened: this.#lockAndOpen(journal) };
  }

  /**
   * Never rejects.
   * @param reason the error of reports that wait for the journal to open
   */
  async close(reason?: string): Promise<void> {
    const state = this.#state;
    this.#isAwaited = false;
    if (state.kind === 'idle' || state.kind === 'failed') return;
    if (state.kind === 'closing') {
      this.#state = { ...state, next: undefined };
      await state.next?.close(reason);
      return state.closed;
    }
    if (state.kind === 'waiting') {
      this.#options.slots.withdraw(this);
      this.#state = { kind: 'idle' };
      return state.journal.close(reason);
    }
    const closed = this.#close(state, reason);
    this.#state = { kind: 'closing', closed, next: undefined };
    return closed;
  }

  /** Why reports cannot open the journal now; undefined if they can. */
  get #refused(): string | undefined {
    const state = this.#state;
    if (this.#retired) return RETIRED;
    return state.kind === 'failed' && performance.now() < state.againMs ? state.reason : undefined;
  }

  /** Opens the journal for a caller that waits for it without a report in its queue. */
  #beginAwaited(): void {
    if (journalIn(this.#state) === undefined) this.#begin();
    if (this.#state.kind !== 'open') this.#isAwaited = true;
  }

  /**
   * Closes the open journal, runs `act` on its folder, which stays locked, and opens it again. Reports that arrive in the meantime
   * wait for that.
   * @throws Error if the journal is not open, or the errors of `act`
   */
  async whileClosed<Result>(act: () => Promise<Result>): Promise<Result> {
    const { journal: old } = await this.#whenOpen();
    const journal = this.#create();
    const acting = old.close().then(act);
    const opened = acting
      .catch(() => {}) // the error goes to the caller
      .then(() => journal.open())
      .then(
        () => this.#opened(journal),
        (error: Error) => this.#fail(error, journal),
      );
    this.#state = { kind: 'opening', journal, opened };
    return acting;
  }

  /** Opens the journal like a report does, if it is not open. @throws Error if it cannot be opened now */
  async #whenOpen(): Promise<Open> {
    for (let tries = 0; tries < OPENINGS_MAX; tries += 1) {
      const state = this.#state;
      if (state.kind === 'open') return state;
      this.begin();
      if (state.kind === 'opening') await state.opened;
      if (state.kind === 'closing') await state.closed;
    }
    throw new Error(this.trouble ?? 'its journal is not open');
  }

  #opened(journal: Journal): void {
    if (this.#state.kind === 'opening') this.#state = { kind: 'open', journal };
    this.#isAwaited = false;
    this.#options.slots.closeIdle();
  }

  /** @returns a journal that queues reports until it is open */
  #begin(): Journal {
    const journal = this.#create();
    if (this.#state.kind === 'closing') this.#state = { ...this.#state, next: journal };
    else this.#wait(journal);
    return journal;
  }

  #create(): Journal {
    const { segmentBytes, retainOf, commitDelayMs, limits, metrics, backlog, slots } = this.#options;
    const journal = new Journal({
      disk: this.#disk,
      notices: this.#notices,
      segmentBytes,
      retain: () => retainOf(this.#name),
      commitDelayMs,
      limits,
      backlog,
      metrics,
      keyMemory: this.#options.keyMemory,
      ...this.#options.followingOf?.(this.#name),
      checkHeld: () => this.#lock?.checkHeld(),
      onIdle: () => slots.closeIdle(),
      onNoDescriptor: () => void slots.closeOne(),
      onFailed: (error) => void this.#fail(error, journal),
      openWaitMs: limits.openWaitMs,
    });
    return journal;
  }

  #wait(journal: Journal): void {
    const { slots, limits } = this.#options;
    journal.explainDelay(`all ${limits.openJournalsMax} journals that may be open at a time are busy`);
    this.#state = { kind: 'waiting', journal };
    slots.request(this);
  }

  /** Tries again while no file descriptor is free. Never rejects. */
  async #lockAndOpen(journal: Journal): Promise<void> {
    for (let error = await this.#tryToOpen(journal); error !== undefined; error = await this.#tryToOpen(journal)) {
      if (!lacksDescriptors(error)) return this.#fail(error, journal);
      await this.#lock?.release();
      journal.explainDelay(NO_DESCRIPTOR);
      if (this.#options.mayLog(NO_DESCRIPTOR)) {
        this.#notices.warn('no file descriptor is free to open a journal; an idle one is closed', {
          problem: error.message,
        });
      }
      await (this.#options.slots.closeOne() ?? sleep(this.#options.limits.probeMs));
      if (this.#state.kind !== 'opening') return; // the journal is being closed
    }
    this.#opened(journal);
  }

  /** @returns why the journal could not be locked or opened. Never rejects. */
  async #tryToOpen(journal: Journal): Promise<Error | undefined> {
    try {
      await this.#disk.prepare();
      const { lockFolder, limits, locks, answerOf } = this.#options;
      const lock = await lockFolder(this.#disk.folder, limits);
      this.#lock = lock;
      lock.open({ nextSeq: () => journalIn(this.#state)?.nextSeq, answer: answerOf(this.#name) });
      lock.watch(locks, (error) => journalIn(this.#state)?.abandon(error));
      await this.#options.beforeOpening?.(this.#name);
      await journal.open();
      return undefined;
    } catch (error) {
      return error as Error;
    }
  }

  /** Never rejects. */
  async #close(state: Opening | Open, reason?: string): Promise<void> {
    await state.journal.close(reason);
    this.measured = undefined; // all waiting events are written
    if (state.kind === 'opening') await state.opened;
    await this.#lock?.release();
    const { next } = this.#state as Closing;
    this.#state = { kind: 'idle' };
    this.#options.slots.release(this);
    if (next !== undefined) this.#wait(next);
  }

  /** Reports get 503 for `limits.reopenMs`; the next one after that opens the journal again. Never rejects. */
  async #fail(error: Error, journal: Journal): Promise<void> {
    this.#notices.error('the journal of a deployment failed; its reports get 503 until it can be opened again', {
      problem: error.message,
    });
    if (error instanceof Defect) this.#options.onDefect(error);
    this.#isAwaited = false;
    await this.#lock?.release();
    if (journalIn(this.#state) !== journal) return; // the journal is being closed
    const reason = `the journal of this deployment cannot be written: ${publicReason(error)}`;
    this.#state = { kind: 'failed', reason, againMs: performance.now() + this.#options.limits.reopenMs };
    this.#options.slots.release(this);
    await journal.close(reason);
  }
}

type Waiting = Extract<LifeCycle, { kind: 'waiting' }>;
type Opening = Extract<LifeCycle, { kind: 'opening' }>;
type Open = Extract<LifeCycle, { kind: 'open' }>;
type Closing = Extract<LifeCycle, { kind: 'closing' }>;

/** @returns the journal that accepts reports or queues them until it is open; undefined if there is none */
function journalIn(state: LifeCycle): Journal | undefined {
  if (state.kind === 'closing') return state.next;
  return state.kind === 'idle' || state.kind === 'failed' ? undefined : state.journal;
}

/** Only the kind of failure, since the message of a system error has paths of the server, which clients must not see. */
function publicReason(error: Error): string {
  if (error instanceof DamagedError) return 'it is damaged';
  if (isFull(error)) return 'the disk is full';
  return error instanceof InUseError ? 'another process writes to it' : 'the disk failed';
}
