/** One destination of one journal: its sender, its state file, and the retries that an operator asks for. */

import type { OpenClient } from '../../client/connection.ts';
import { Mutex } from '../../config/mutex.ts';
import { describe } from '../../journal/disk.ts';
import { NotRemovableError } from '../../journal/hooks.ts';
import type { Destination, Opening } from '../destinations/destination.ts';
import { type KindTraits, kindOf, traitsOf } from '../destinations/kinds.ts';
import type { SeqRange } from '../position.ts';
import type { Deployment } from '../settings.ts';
import { readBegin, readVia, type Through, writeVia } from '../source.ts';
import { LOST, type OutboxParts } from './outbox.ts';
import { retryName, takeRetry } from './retry.ts';
import { Sender } from './sender.ts';
import { type DestinationStatus, readState, type WrittenStatus, writeState, writtenOf } from './status.ts';

export interface LinkOptions extends Omit<OutboxParts, 'open' | 'nowSeq' | 'beginSeq'> {
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
  readonly sender: Sender;
  #hasBegun = false;
  /** The id of the journal, once it is known. */
  #source = '';
  /** The first event of the journal under its id. */
  #beginSeq = 1;
  #destination: Destination | undefined;
  #written = { text: '', state: '', atMs: Number.NEGATIVE_INFINITY };
  /** For the state file. */
  readonly #mutex = new Mutex();
  readonly #closing = new AbortController();
  #checking: Promise<void> = Promise.resolve();
  #retrying: Promise<void> | undefined;

  constructor(options: LinkOptions) {
    this.options = options;
    const { progress, disk, ack } = options;
    // What is recorded while the cursor is being made counts as well.
    const madeSeq = progress.nextSeq(disk.folder);
    this.sender = new Sender({
      ...options,
      identify: () => this.#identify(),
      open: (kind) => {
        this.#destination = traitsOf[kind].open(this.#opening);
        return this.#destination;
      },
      onChange: () => {
        void this.#write(false);
        ack?.setStopped(this.status.state === 'stopped');
      },
      nowSeq: () => madeSeq ?? progress.openedSeq(disk.folder),
      beginSeq: () => this.#beginSeq,
    });
  }

  /** Until the destination has answered, of the kind as which it is asked. */
  get #traits(): KindTraits {
    return traitsOf[this.status.kind ?? kindOf(this.options.settings.to, 'destination')];
  }

  get #opening(): Opening {
    const { settings, deployment, sourceName, through, limits, openClient } = this.options;
    const own = { deployment, source: this.#source, sourceName, beginSeq: this.#beginSeq };
    return { ...settings, ...own, through, limits, openClient, onVia: this.#onVia };
  }

  /** Durable before an event is sent: it might come back by the hub after a crash, before the hub is heard again. */
  readonly #onVia = async (via: readonly string[]): Promise<void> => {
    if (`${via}` === `${this.via}`) return;
    await writeVia(this.options.disk, this.options.settings.name, via);
    this.via = via;
  };

  get status(): DestinationStatus {
    return this.sender.status();
  }

  /** Finds out before the journal is opened what must not be removed from it, and what its events reach. */
  async readFloor(): Promise<void> {
    const { disk, settings, ledger } = this.options;
    if (this.#hasBegun) return;
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
      this.sender.removed(found.lacked, reason);
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
    this.sender.tryNow(true);
  }

  /** Ends after the request in flight, which has `limits.forwardStopMs`. Never rejects. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#checking;
    await Promise.all([this.sender.close(), this.#retrying]);
    this.options.ack?.reset();
    await this.#write(true);
  }

  async #check(names: readonly string[]): Promise<void> {
    const { settings, ledger } = this.options;
    if (!this.#hasBegun) await this.#begin();
    // It might wait for another token or CA.
    else if (this.status.state === 'stopped' && (await this.#destination?.haveFilesChanged(this.#closing.signal)))
      this.sender.tryNow();
    const isAsked = ledger.letters !== undefined && names.includes(retryName(settings.name));
    if (this.#source !== '' && isAsked) this.#retrying ??= this.#retry();
    await this.#write(false);
  }

  /** Sends dead letters again, beside the sender and the checks. Never rejects. */
  async #retry(): Promise<void> {
    const { sender } = this;
    const { settings, disk, limits, notices, ledger } = this.options;
    const { name } = settings;
    const open = () => this.#traits.openForRetry(this.#opening);
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
    const { settings, disk, limits } = this.options;
    // Before it is written. It is a hint, so that an error delays nothing.
    const written = await readState(disk, settings.name, limits).catch(() => undefined);
    this.sender.beganAfter(timeIn(written));
    this.#hasBegun = true;
    if (!this.#closing.signal.aborted) this.sender.start();
  }

  async #identify(): Promise<void> {
    const { disk, source } = this.options;
    const id = await source();
    this.#beginSeq = await readBegin(disk, id);
    this.#source = id;
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
