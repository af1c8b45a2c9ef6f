/** One destination of one journal: its sender, its state file, and the retries that an operator asks for. */

import type { OpenClient } from '../../client/connection.ts';
import { Mutex } from '../../config/mutex.ts';
import { describe } from '../../journal/disk.ts';
import { NotRemovableError } from '../../journal/hooks.ts';
import type { Destination, Opening } from '../destinations/destination.ts';
import { type DestinationKind, type KindTraits, kindOf, traitsOf } from '../destinations/kinds.ts';
import type { SeqRange } from '../position.ts';
import type { Deployment } from '../settings.ts';
import { readBegin, readVia, type Through, writeVia } from '../source.ts';
import { LOST, type OutboxParts } from './outbox.ts';
import { retryName, takeRetry } from './retry.ts';
import { Sender } from './sender.ts';
import { type DestinationStatus, readState, statusOf, type WrittenStatus, writeState, writtenOf } from './status.ts';

export interface LinkOptions extends Omit<OutboxParts, 'open' | 'lastSuccess' | 'nowSeq' | 'beginSeq'> {
  /** That of the journal. */
  readonly deployment: Deployment;
  /** @returns the id of the journal, which is made if there is none. @throws the error of a system call */
  readonly source: () => Promise<string>;
  /** Like `Opening.through`. */
  readonly through?: (() => Promise<Through>) | undefined;
  readonly openClient?: OpenClient | undefined;
  /** Like `Opening.sourceName`. */
  readonly sourceName?: string | undefined;
}

/** Nothing is sent before the first `check`. */
export class Link {
  readonly options: LinkOptions;
  /** The ids of the journals that the destination said its events reach, its own first, as the disk has them. */
  via: readonly string[] = [];
  /** The next event when it was made; undefined before the journal was open. */
  readonly #nowSeq: number | undefined;
  #sender: Sender | undefined;
  #source: string | undefined;
  /** The first event of the journal under its id. */
  #beginSeq = 1;
  #destination: Destination | undefined;
  /** Why no sender could be made; undefined if that was not tried, or succeeded. */
  #problem: { readonly reason: string; readonly since: string } | undefined;
  #written = { text: '', state: '', atMs: Number.NEGATIVE_INFINITY };
  /** For the state file. */
  readonly #mutex = new Mutex();
  /** As the state file had it; undefined until it was read. */
  #lastSuccess: string | null | undefined;
  readonly #closing = new AbortController();
  #checking: Promise<void> = Promise.resolve();
  #retrying: Promise<void> | undefined;

  constructor(options: LinkOptions) {
    this.options = options;
    this.#nowSeq = options.progress.nextSeq(options.disk.folder);
  }

  /** Like `Ledger.floorSeq`. */
  get floorSeq(): number {
    return this.options.ledger.floorSeq;
  }

  /** The id of the journal, once there is a sender. */
  get source(): string | undefined {
    return this.#source;
  }

  /** Until the destination has answered, of the kind as which it is asked. */
  get #traits(): KindTraits {
    return traitsOf[this.status.kind ?? kindOf(this.options.settings.to, 'destination')];
  }

  #openingWith(source: string): Opening {
    const { settings, deployment, sourceName, through, limits, openClient } = this.options;
    const own = { deployment, source, sourceName, beginSeq: this.#beginSeq };
    return { ...settings, ...own, through, limits, openClient, onVia: this.#onVia };
  }

  /** Durable before an event is sent: it might come back by the hub after a crash, before the hub is heard again. */
  readonly #onVia = async (via: readonly string[]): Promise<void> => {
    if (`${via}` === `${this.via}`) return;
    await writeVia(this.options.disk, this.options.settings.name, via);
    this.via = via;
  };

  /** Undefined until it could be made. */
  get sender(): Sender | undefined {
    return this.#sender;
  }

  /** Like `DeadLetters.lostTotal`. */
  get lostTotal(): number {
    return this.options.ledger.letters?.lostTotal ?? 0;
  }

  get status(): DestinationStatus {
    if (this.#sender !== undefined) return this.#sender.status();
    const { settings, deployment, disk, progress, ledger } = this.options;
    const { name, to } = settings;
    const { reason = null, since = new Date().toISOString() } = this.#problem ?? {};
    return statusOf({
      name,
      deployment: deployment ?? null,
      to,
      kind: undefined,
      state: reason === null ? 'asking' : 'stopped',
      why: null,
      reason,
      since,
      next_try: null,
      seq: this.floorSeq - 1,
      last_seq: (progress.nextSeq(disk.folder) ?? 1) - 1,
      oldest: undefined,
      letters: ledger.letters,
      last_success: this.#lastSuccess ?? null,
      last_error: reason,
    });
  }

  /** Finds out before the journal is opened what must not be removed from it, and what its events reach. */
  async readFloor(): Promise<void> {
    const { disk, settings, ledger } = this.options;
    try {
      this.via = await readVia(disk, settings.name);
      await ledger.readFloor();
    } catch {
      // There is no folder yet, or the sender will report why it cannot be read. Until then nothing is removed.
    }
  }

  /**
   * Like `JournalHooks.removing`: names in the dead letters what of it the destination has not confirmed.
   * @throws NotRemovableError if that is not possible now
   */
  async removing(gone: SeqRange): Promise<void> {
    const { settings, notices, ledger } = this.options;
    const { name, to } = settings;
    try {
      const reason = `retention removed them, and ${to} had not confirmed them`;
      const found = await ledger.nameRemoved(gone, reason, settings);
      if (found === undefined) return;
      for (const range of found.named) notices.warn(LOST, { destination: name, ...range, reason });
      this.#sender?.removed(found.lacked, reason);
    } catch (error) {
      const problem = describe(error as Error);
      throw new NotRemovableError(
        `the oldest events would be removed, and no dead letter can name them for the destination ${name}: ${problem}`,
      );
    }
  }

  /** Called about once a second, and once at first. Never rejects. */
  check(names: readonly string[]): Promise<void> {
    this.#checking = this.#closing.signal.aborted ? Promise.resolve() : this.#check(names);
    return this.#checking;
  }

  /** A sender that waits or is stopped tries again at once, and one that is idle asks a hub. */
  tryNow(): void {
    this.#problem = undefined;
    this.#sender?.tryNow(true);
  }

  /** Ends after the request in flight, which has `limits.forwardStopMs`. Never rejects. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#checking;
    await Promise.all([this.#sender?.close(), this.#retrying]);
    this.options.ack?.reset();
    await this.#write(true);
  }

  async #check(names: readonly string[]): Promise<void> {
    if (this.#sender === undefined) await this.#begin();
    // It might wait for another token or CA.
    else if (this.status.state === 'stopped' && (await this.#destination?.haveFilesChanged(this.#closing.signal)))
      this.#sender.tryNow();
    const { settings, ledger } = this.options;
    const isAsked = ledger.letters !== undefined && names.includes(retryName(settings.name));
    if (this.#sender !== undefined && isAsked) this.#retrying ??= this.#retry(this.#sender);
    await this.#write(false);
  }

  /** Sends dead letters again, beside the sender and the checks. Never rejects. */
  async #retry(sender: Sender): Promise<void> {
    const { settings, disk, limits, notices, ledger } = this.options;
    const { name } = settings;
    const open = () => this.#traits.openForRetry(this.#openingWith(this.#source!));
    const turnMs = () => sender.turnMs();
    const { signal } = this.#closing;
    try {
      const result = await takeRetry({ disk, name, ledger, open, turnMs, signal, limits });
      if (result !== undefined) {
        const { givenUp, ...counts } = result;
        if (givenUp === undefined) notices.info('dead letters were sent again', { destination: name, ...counts });
        else notices.info('dead letters were given up', { destination: name, count: givenUp });
        if (counts.sent > 0 || givenUp !== undefined) sender.tryNow(); // there is space for others
      }
    } catch (error) {
      const problem = describe(error as Error);
      notices.warn('dead letters could not be sent again or given up', { destination: name, problem });
    }
    this.#retrying = undefined;
  }

  async #begin(): Promise<void> {
    const { settings, disk, progress, source: openSource, limits, notices, ack } = this.options;
    // Before it is written. It is a hint, so that an error delays nothing.
    this.#lastSuccess ??= timeIn(await readState(disk, settings.name, limits).catch(() => undefined));
    try {
      const source = await openSource();
      if (this.#closing.signal.aborted) return;
      this.#source = source;
      this.#beginSeq = await readBegin(disk, source);
      const open = (kind: DestinationKind) => {
        this.#destination = traitsOf[kind].open(this.#openingWith(source));
        return this.#destination;
      };
      const onChange = () => {
        void this.#write(false);
        ack?.setStopped(this.status.state === 'stopped');
      };
      // What is recorded while the cursor is being made counts as well.
      const nowSeq = () => this.#nowSeq ?? progress.openedSeq(disk.folder);
      const own = { open, onChange, nowSeq, beginSeq: this.#beginSeq, lastSuccess: this.#lastSuccess };
      this.#sender = new Sender({ ...this.options, ...own });
      this.#sender.start();
      this.#problem = undefined;
    } catch (error) {
      const reason = `${describe(error as Error)}; it is tried again every ${limits.forwardCheckMs / 1000} s`;
      if (reason === this.#problem?.reason) return;
      this.#problem = { reason, since: new Date().toISOString() };
      notices.warn('forwarding cannot begin', { destination: settings.name, reason });
    }
  }

  /** Writes the state file if the state is another one, or else at most every `limits.forwardStateMs`. */
  #write(isLast: boolean): Promise<void> {
    return this.#mutex.run(async () => {
      const { settings, disk, limits, notices } = this.options;
      // The service can continue without the destination, which then is not forwarded.
      const pid = isLast ? NO_PROCESS : process.pid;
      const written = writtenOf(this.status, pid);
      const { state, reason, last_success } = written;
      const text = JSON.stringify(written);
      if (text === this.#written.text) return;
      const isSoon = performance.now() - this.#written.atMs < limits.forwardStateMs;
      const shown = `${state} ${reason} ${last_success === null}`;
      const before = [shown, shown.replace('sending', 'idle')]; // a sender that works sends now and then
      if (!isLast && isSoon && before.includes(this.#written.state)) return;
      this.#written = { text, state: shown, atMs: performance.now() };
      try {
        await writeState(disk, settings.name, written);
      } catch (error) {
        notices.debug('the state of a destination could not be written', { problem: describe(error as Error) });
      }
    });
  }
}

/** @returns the time of the last success; null if there is none, or what the file has is no time */
function timeIn(written: WrittenStatus | undefined): string | null {
  const time: unknown = written?.last_success;
  return typeof time === 'string' && !Number.isNaN(Date.parse(time)) ? time : null;
}

const NO_PROCESS = 0;
