/**
 * A journal for each deployment. It is opened by the first report and closed when none has come for a while, so thousands of
 * deployments cost nothing while they are idle. What goes wrong with one does not touch the others.
 */

import type { Limits } from '../config/limits.ts';
import type { Event } from '../event/event.ts';
import { type Disk, isFull } from '../journal/disk.ts';
import { type Backlog, type Done, Journal, overload } from '../journal/journal.ts';
import { InUseError, type Lock, lockFolder } from '../journal/lock.ts';
import { DamagedError } from '../journal/recovery.ts';
import type { Retain } from '../journal/retention.ts';
import type { Notices } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';

export interface HostedOptions {
  /** What the paths of all deployments are under. */
  readonly pathPrefix: string;
  /** The disk of a deployment's folder. */
  readonly openDisk: (name: string) => Disk;
  /** As `JournalOptions.onRecorded`, with the folder of the journal. */
  readonly onRecorded?: ((folder: string, nextSeq: number) => void) | undefined;
  readonly segmentBytes: number;
  /** Of each journal. */
  readonly retain: Retain;
  readonly limits: Limits;
  readonly metrics: Metrics;
  readonly notices: Notices;
}

type State =
  | { readonly kind: 'idle' }
  /** For its turn to be opened; reports are queued in the journal. */
  | { readonly kind: 'waiting'; readonly journal: Journal }
  /** Reports are queued in the journal. `opened` resolves with no lock if the journal could not be opened. */
  | { readonly kind: 'opening'; readonly journal: Journal; readonly opened: Promise<Lock | undefined> }
  | { readonly kind: 'open'; readonly journal: Journal; readonly lock: Lock }
  /** Reports that arrive meanwhile are queued in `next`, which is opened after it. */
  | { readonly kind: 'closing'; readonly closed: Promise<void>; readonly next: Journal | undefined }
  /** The next report after `againMs` opens it again, as a restart would. */
  | { readonly kind: 'failed'; readonly reason: string; readonly againMs: number };

export class Hosted {
  readonly #shared: Shared;
  readonly #deployments = new Map<string, HostedJournal>();
  readonly #sweeping: NodeJS.Timeout;

  constructor(options: HostedOptions) {
    this.#shared = { ...options, backlog: { bytes: 0 }, slots: new Slots(options.limits.openJournalsMax) };
    this.#sweeping = setInterval(() => this.#closeIdle(), options.limits.idleJournalMs / 2).unref();
  }

  /** @param name of a deployment that there is; nobody else may choose a folder */
  journalOf(name: string): HostedJournal {
    let journal = this.#deployments.get(name);
    if (journal === undefined) {
      journal = new HostedJournal(name, this.#shared);
      this.#deployments.set(name, journal);
    }
    return journal;
  }

  /** The deployments that can not record now, and why. */
  troubles(): ReadonlyMap<string, string> {
    const troubles = new Map<string, string>();
    for (const [name, { trouble }] of this.#deployments) if (trouble !== undefined) troubles.set(name, trouble);
    return troubles;
  }

  /** Closes the journals of deployments that there are no more, once what they took is on the disk. */
  keepOnly(isThere: (name: string) => boolean): void {
    for (const [name, journal] of this.#deployments) {
      if (!isThere(name)) void journal.retire().then(() => this.#deployments.delete(name));
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeping);
    await Promise.all([...this.#deployments.values()].map((journal) => journal.close()));
  }

  #closeIdle(): void {
    const beforeMs = performance.now() - this.#shared.limits.idleJournalMs;
    for (const journal of this.#deployments.values()) if (journal.lastUsedMs < beforeMs) void journal.close();
  }
}

/**
 * Which journals may hold file descriptors: from before they are opened until they are closed. Only so many may at a time. The
 * others wait in the order in which they asked, and for each of them the least recently used idle journal is closed.
 */
class Slots {
  readonly #max: number;
  readonly #held = new Set<HostedJournal>();
  readonly #waiting = new Set<HostedJournal>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Opens the journal now, or in its turn. */
  request(journal: HostedJournal): void {
    if (this.#held.size < this.#max) {
      this.#held.add(journal);
      journal.open();
      return;
    }
    this.#waiting.add(journal);
    this.closeIdle();
  }

  withdraw(journal: HostedJournal): void {
    this.#waiting.delete(journal);
  }

  /** Of a journal that holds no descriptor any more. */
  release(journal: HostedJournal): void {
    this.#held.delete(journal);
    for (const next of this.#waiting) {
      if (this.#held.size >= this.#max) return;
      this.#waiting.delete(next);
      if (next.isBusy) this.request(next);
      else void next.close(); // its reports were refused while it waited
    }
  }

  /** Closes as many idle journals as others wait for, less those that are being closed already. */
  closeIdle(): void {
    let missing = this.#waiting.size;
    if (missing === 0) return;
    for (const { isClosing } of this.#held) if (isClosing) missing -= 1;
    for (; missing > 0; missing -= 1) {
      const unused = this.#leastRecentlyUsed();
      if (unused === undefined) return; // all are busy: the first that is not any more calls this again
      void unused.close();
    }
  }

  /** Of those that are idle. */
  #leastRecentlyUsed(): HostedJournal | undefined {
    let found: HostedJournal | undefined;
    for (const journal of this.#held) {
      if (journal.isClosing || journal.isBusy) continue;
      if (found === undefined || journal.lastUsedMs < found.lastUsedMs) found = journal;
    }
    return found;
  }
}

/** What the journals of all deployments have in common. */
interface Shared extends HostedOptions {
  readonly backlog: Backlog;
  readonly slots: Slots;
}

const RETIRED = 'this deployment is being closed; send the report again later';

/** The journal of one deployment, open or not. */
export class HostedJournal {
  readonly #options: Shared;
  readonly #notices: Notices;
  readonly #disk: Disk;
  #state: State = { kind: 'idle' };
  /** Of the journal that is open, or was last. */
  #lock: Lock | undefined;
  #retired = false;
  /** Of the paths that lead here. */
  readonly prefix: string;
  lastUsedMs = performance.now();

  constructor(name: string, options: Shared) {
    this.#options = options;
    this.#notices = options.notices.with({ deployment: name });
    this.#disk = options.openDisk(name);
    this.prefix = `${options.pathPrefix}/${name}`;
  }

  /** Whether reports wait for it to be opened or for the disk. */
  get isBusy(): boolean {
    return (journalIn(this.#state)?.queueBytes ?? 0) > 0;
  }

  get isClosing(): boolean {
    return this.#state.kind === 'closing';
  }

  /** Why reports can not be recorded now, or undefined: also if no report has opened the journal yet. */
  get trouble(): string | undefined {
    const state = this.#state;
    return state.kind === 'failed' ? state.reason : journalIn(state)?.trouble;
  }

  /** As `Journal.refusal`. */
  refusal(bytes: number): string | undefined {
    const { backlog, limits } = this.#options;
    const journal = journalIn(this.#state);
    if (journal !== undefined) return journal.refusal(bytes);
    return this.#refused ?? overload(bytes, 0, backlog, limits);
  }

  /** As `Journal.append`; the first report opens the journal and is queued meanwhile. */
  append(event: Event, bodyBytes: number, done: Done): void {
    this.lastUsedMs = performance.now();
    const journal = journalIn(this.#state);
    const refusal = journal === undefined ? this.#refused : undefined;
    if (refusal !== undefined) done(refusal);
    else (journal ?? this.#begin()).append(event, bodyBytes, done);
  }

  /** As `close`, for good: what still refers to this journal can not open it again. */
  async retire(): Promise<void> {
    this.#retired = true;
    await this.close(RETIRED);
  }

  /** For `Slots`, which calls it once there is a slot. */
  open(): void {
    const { journal } = this.#state as WaitingState;
    journal.explainDelay();
    this.#state = { kind: 'opening', journal, opened: this.#lockAndOpen(journal) };
  }

  /** Never rejects. @param reason what reports are refused with that wait for the journal to be opened */
  async close(reason?: string): Promise<void> {
    const state = this.#state;
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
    const closed = this.#close(state.journal, state.kind === 'open' ? state.lock : state.opened, reason);
    this.#state = { kind: 'closing', closed, next: undefined };
    return closed;
  }

  /** Why no report may open the journal now. */
  get #refused(): string | undefined {
    const state = this.#state;
    if (this.#retired) return RETIRED;
    return state.kind === 'failed' && performance.now() < state.againMs ? state.reason : undefined;
  }

  /** @returns a journal that queues reports until it is open */
  #begin(): Journal {
    const { segmentBytes, retain, limits, metrics, backlog, slots } = this.#options;
    const journal = new Journal({
      ...{ disk: this.#disk, notices: this.#notices, segmentBytes, retain, limits, backlog, metrics },
      onRecorded: this.#options.onRecorded?.bind(undefined, this.#disk.folder),
      checkHeld: () => this.#lock?.checkHeld(),
      onIdle: () => slots.closeIdle(),
      onFailed: (error) => void this.#fail(error, journal, this.#state.kind === 'open' ? this.#state.lock : undefined),
      openWaitMs: limits.openWaitMs,
    });
    if (this.#state.kind === 'closing') this.#state = { ...this.#state, next: journal };
    else this.#wait(journal);
    return journal;
  }

  #wait(journal: Journal): void {
    const { slots, limits } = this.#options;
    journal.explainDelay(`all ${limits.openJournalsMax} journals that may be open at a time are busy`);
    this.#state = { kind: 'waiting', journal };
    slots.request(this);
  }

  /** Never rejects. */
  async #lockAndOpen(journal: Journal): Promise<Lock | undefined> {
    let lock: Lock | undefined;
    try {
      await this.#disk.prepare();
      lock = await lockFolder(this.#disk.folder, this.#options.limits);
      this.#lock = lock;
      lock.shareDurable(() => journal.nextSeq);
      lock.watch(this.#options.limits.lockCheckMs, (error) => journal.abandon(error));
      await journal.open();
    } catch (error) {
      await this.#fail(error as Error, journal, lock);
      return undefined;
    }
    if (this.#state.kind === 'opening') this.#state = { kind: 'open', journal, lock };
    return lock;
  }

  /** Never rejects. */
  async #close(journal: Journal, opened: Lock | Promise<Lock | undefined>, reason?: string): Promise<void> {
    await journal.close(reason);
    const lock = await opened;
    await lock?.release();
    const { next } = this.#state as ClosingState;
    this.#state = { kind: 'idle' };
    this.#options.slots.release(this);
    if (next !== undefined) this.#wait(next);
  }

  /** Reports get 503 until a later one opens the journal again, as a restart would. Never rejects. */
  async #fail(error: Error, journal: Journal, lock: Lock | undefined): Promise<void> {
    this.#notices.error(
      'the journal of a deployment is out of order; its reports get 503 until it can be opened again',
      { problem: error.message },
    );
    await lock?.release();
    if (journalIn(this.#state) !== journal) return; // it is being closed
    const reason = `the journal of this deployment can not be written: ${publicReason(error)}`;
    this.#state = { kind: 'failed', reason, againMs: performance.now() + this.#options.limits.reopenMs };
    this.#options.slots.release(this);
    await journal.close(reason);
  }
}

type WaitingState = Extract<State, { kind: 'waiting' }>;
type ClosingState = Extract<State, { kind: 'closing' }>;

/** @returns the journal that takes reports, at once or when it is open */
function journalIn(state: State): Journal | undefined {
  if (state.kind === 'closing') return state.next;
  return state.kind === 'idle' || state.kind === 'failed' ? undefined : state.journal;
}

/** Clients are strangers: they are not told paths. */
function publicReason(error: Error): string {
  if (error instanceof DamagedError) return 'it is damaged';
  if (isFull(error)) return 'the disk is full';
  return error instanceof InUseError ? 'another process writes to it' : 'the disk failed';
}
