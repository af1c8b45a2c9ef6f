/**
 * The parts of a journal and a destination that a pipe uses, and both ways of sending: to a destination that can be asked, and to a plain
 * one.
 */

import type { JournalAssets } from '../../assets/journal-assets.ts';
import type { OpenClient } from '../../client/connection.ts';
import type { Limits } from '../../config/limits.ts';
import type { Disk } from '../../journal/disk.ts';
import type { Line } from '../../journal/look/reading.ts';
import type { OwnProgress, Progress } from '../../journal/progress.ts';
import type { Notices } from '../../telemetry/log.ts';
import type { Ack } from '../acks.ts';
import type { Destination, Opening, Sent, Shipment } from '../destinations/destination.ts';
import { type DestinationKind, type KindTraits, traitsOf } from '../destinations/kinds.ts';
import { readFirstSeq } from '../folder.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Outcome } from '../ledger/letter.ts';
import type { Deployment, DestinationSettings } from '../settings.ts';
import { type Era, readBegin, readEras } from '../source.ts';
import { Backlog } from './backlog.ts';
import { IDLE, type State, settle, stop } from './states.ts';
import { Traffic } from './traffic.ts';

/** The parts that all pipes of a service share. */
export interface ForwardingParts {
  readonly progress: OwnProgress;
  /** See `Opening.sourceName`. */
  readonly sourceName?: string | undefined;
  readonly openClient?: OpenClient | undefined;
  readonly notices: Notices;
  readonly limits: Limits;
  /** Called with the bytes of accepted lines. */
  readonly onForwarded?: ((bytes: number) => void) | undefined;
}

/** The part of a journal's assets that its hooks use. */
export type KnownAssets = Pick<JournalAssets, 'isLive' | 'current' | 'whenCurrent'>;

/** A journal from the point of view of its pipes. */
export interface ForwardedJournal {
  readonly deployment: Deployment;
  /** The folder of the journal. */
  readonly disk: Disk;
  /** @returns the id of the journal, which is created if there is none. @throws the error of a system call */
  readonly source: () => Promise<string>;
  /** The assets of the journal, used only by hooks with `on`. */
  readonly assets?: (() => KnownAssets) | undefined;
}

export interface SenderOptions extends ForwardingParts, ForwardedJournal {
  /** @returns the first seq of the journal's first file; 1 until that is known */
  readonly firstSeq: () => number;
  /** The destination, with a `to` that is specific to the deployment. */
  readonly settings: DestinationSettings;
  /** The ledger of the destination. */
  readonly ledger: Ledger;
  /** Opens the destination; by default in the way of its kind. */
  readonly openAs?: ((kind: DestinationKind, opening: Opening) => Destination) | undefined;
  /** Set for the destination of `--ack`: gets what the destination has. */
  readonly ack?: Ack | undefined;
}

export class Sender {
  readonly settings: DestinationSettings;
  /** The folder of the journal. */
  readonly disk: Disk;
  /** The progress of the journal, for code that waits for events. */
  readonly progress: Progress;
  readonly limits: Limits;
  readonly notices: Notices;
  readonly ledger: Ledger;
  readonly backlog: Backlog;
  readonly traffic: Traffic;
  /** Set for the destination of `--ack`. */
  readonly ack: Ack | undefined;
  /** The id of the journal, once it is known. */
  source = '';
  /** The first event of the journal under its id. */
  beginSeq = 1;
  /** All its ids, the current one last. */
  eras: readonly Era[] = [];
  /** Number of refusals since the last accepted event. */
  refusals = 0;
  /** Why the pipe is stopped, empty if there is no word for the reason; undefined if it is not stopped. */
  stopped: string | undefined;
  readonly #options: SenderOptions;
  #opened: { readonly kind: DestinationKind; readonly destination: Destination } | undefined;

  constructor(options: SenderOptions) {
    const { settings, disk, progress, notices, ledger, limits, ack } = options;
    this.#options = options;
    this.settings = settings;
    this.disk = disk;
    this.progress = progress.of(disk.folder);
    this.notices = notices.with({ destination: settings.name });
    this.ledger = ledger;
    this.ack = ack;
    this.traffic = new Traffic(limits, settings, ack !== undefined);
    this.limits = this.traffic.limits;
    this.backlog = new Backlog({
      disk,
      progress: () => progress.of(disk.folder),
      limits: this.limits,
      only: settings.only,
      signal: this.traffic.closing,
    });
  }

  /** The traits of the destination's kind, as far as it is known. */
  get traits(): KindTraits {
    return this.ledger.traits;
  }

  /** Undefined before the first `open`. */
  get destination(): Destination | undefined {
    return this.#opened?.destination;
  }

  /** The last seq of the journal. */
  get lastSeq(): number {
    return (this.#options.progress.nextSeq(this.disk.folder) ?? 1) - 1;
  }

  /** Fields for the log. */
  get position(): Readonly<Record<string, number>> {
    const { seq } = this.ledger.value;
    return { seq, lag: Math.max(0, this.lastSeq - seq) };
  }

  /** @returns the first seq of the journal's first file. @throws the error of a system call */
  firstSeq(): Promise<number> {
    return readFirstSeq(this.disk);
  }

  /** Resolves when the journal has `count` more events, or the signal aborts. Never rejects. */
  async moreEvents(count: number, signal: AbortSignal): Promise<void> {
    const seq = this.lastSeq + count;
    while (this.lastSeq < seq && !signal.aborted) {
      await this.progress.durable();
      await this.progress.more(signal);
    }
  }

  /** Determines under which id the journal is forwarded. @throws the error of a system call */
  async findSource(): Promise<void> {
    const source = await this.#options.source();
    this.beginSeq = await readBegin(this.disk, source);
    this.eras = await readEras(this.disk, source);
    this.source = source;
  }

  /** Opens the destination, unless it is already open as this kind. */
  open(kind: DestinationKind): void {
    if (this.#opened?.kind === kind) return;
    this.destination?.close();
    const { openAs = (one, opening) => traitsOf[one].open(opening) } = this.#options;
    this.#opened = { kind, destination: openAs(kind, this.#opening) };
  }

  /** @returns the destination with a separate connection, for events that were already sent */
  openForRetry(): Destination {
    const { open, openForRetry = open } = this.traits;
    return openForRetry(this.#opening);
  }

  get #opening(): Opening {
    const { settings, source, beginSeq, eras, limits } = this;
    const { deployment, sourceName, openClient } = this.#options;
    return { ...settings, deployment, source, sourceName, beginSeq, eras, limits, openClient };
  }

  /**
   * Sends when it is the pipe's turn. After a crash the ledger knows what was being sent.
   * @param isLast whether the request is sent although a stop has started. @throws the error of a system call
   */
  request(batch: Shipment, isLast = false): Promise<Sent> {
    return this.traffic.send(this.destination!, batch, () => this.ledger.begin(batch.lines.at(-1)!.seq), isLast);
  }

  /**
   * An event was refused: gives it up, unless there were too many refusals. @param outcome the outcome in its dead
   * letter
   */
  refused(sent: Extract<Sent, { kind: 'refused' }>, line: Line, outcome: Outcome): State {
    const refusals = this.refusals + 1;
    if (this.traits.passesFailed || refusals < this.limits.forwardRefusalsMax)
      return settle([{ kind: 'given up', line, outcome }]);
    const reason = `${refusals} events in a row were refused, the last one is ${line.seq}: ${sent.reason}; if they are wrong, continue with SIGHUP`;
    return stop('refusals', reason, IDLE);
  }
}
