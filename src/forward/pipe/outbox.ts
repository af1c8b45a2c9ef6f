/** The events of one journal on their way to one destination: the backlog, the requests, and what is counted of both. */

import type { Limits } from '../../config/limits.ts';
import { Waiters } from '../../config/waiters.ts';
import { type Disk, describe } from '../../journal/disk.ts';
import { type Line, sizeOf } from '../../journal/look/reading.ts';
import type { OwnProgress } from '../../journal/progress.ts';
import { contentsOf } from '../../journal/segments.ts';
import type { Notices } from '../../telemetry/log.ts';
import type { Ack } from '../acks.ts';
import type { Asked, Batch, Destination, Sent } from '../destinations/destination.ts';
import { type DestinationKind, type KindTraits, kindOf, traitsOf } from '../destinations/kinds.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Outcome } from '../ledger/letter.ts';
import type { Position, SeqRange } from '../position.ts';
import type { Deployment, DestinationSettings } from '../settings.ts';
import { Backlog, type BacklogHead, type BacklogSource } from './backlog.ts';
import { Pace } from './pace.ts';
import { type Failure, IDLE, type Settling, type State, stop } from './states.ts';

export interface OutboxParts {
  /** That of the journal. */
  readonly deployment?: Deployment;
  /** Its `to` is that of the deployment. */
  readonly settings: DestinationSettings;
  /** The folder of the journal. */
  readonly disk: Disk;
  readonly progress: OwnProgress;
  /** Opens the destination as this kind. */
  readonly open: (kind: DestinationKind) => Destination;
  /** Of the destination. */
  readonly ledger: Ledger;
  readonly notices: Notices;
  readonly limits: Limits;
  /** Called with the bytes of lines that were taken. */
  readonly onForwarded?: ((bytes: number) => void) | undefined;
  /** Of the destination of `--ack`: hears what it has. */
  readonly ack?: Ack | undefined;
  /** @returns the first event of a new destination that begins `now`; undefined for the next one that is recorded */
  readonly nowSeq?: () => number | undefined;
  /** The first event of the journal under its id; 1 if it is not given. */
  readonly beginSeq?: () => number;
}

export class Outbox {
  readonly settings: DestinationSettings;
  readonly deployment: Deployment;
  readonly limits: Limits;
  readonly notices: Notices;
  readonly pace: Pace;
  readonly journal: BacklogSource;
  readonly backlog: Backlog;
  readonly ledger: Ledger;
  readonly #parts: OutboxParts;
  readonly #onTaken: (isFirst: boolean) => void;
  /** Ends waits for events, and after `forwardStopMs` the request in flight. */
  readonly #closing = new AbortController();
  readonly #abort = new AbortController();
  readonly #pauses = new Waiters();

  #destination: Destination | undefined;
  #openedKind: DestinationKind | undefined;
  /** Refusals since the last event that was taken. */
  refusals = 0;

  /** When the request in flight was sent. */
  #requestMs = Number.POSITIVE_INFINITY;
  /** Time of the last event that was taken, also before this start; null if it is not known. */
  lastSuccess: string | null = null;
  /** Events by what became of them, since the start: `recorded`, `refused`, `in doubt`. */
  readonly outcomes = new Map<string, number>();
  /** Requests by their answers, since the start: the kinds of `Asked` and `Sent`. */
  readonly answers = new Map<string, number>();

  /** @param onTaken called when the destination took lines. @param isFirst whether it never took any before */
  constructor(parts: OutboxParts, onTaken: (isFirst: boolean) => void) {
    const { settings, disk, progress, notices, limits } = parts;
    this.#parts = parts;
    this.#onTaken = onTaken;
    this.settings = settings;
    this.deployment = parts.deployment;
    this.limits = parts.ack === undefined ? limits : withShortPauses(limits);
    this.notices = notices.with({ destination: settings.name });
    const { isNear, ratePerSecond } = traitsOf[kindOf(settings.to, 'destination')];
    const near = { forwardRetryMsMax: limits.nearRetryMsMax, forwardOutageMs: Number.POSITIVE_INFINITY };
    const pace = { ...this.limits, ...((isNear || parts.ack !== undefined) && near) };
    this.pace = new Pace(pace, settings.ratePerSecond ?? ratePerSecond);
    const { only } = settings;
    this.journal = { disk, progress: () => progress.of(disk.folder), limits, only, signal: this.#closing.signal };
    this.backlog = new Backlog(this.journal);
    this.ledger = parts.ledger;
  }

  get isClosing(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Ends requests when a stop has waited long enough. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The last seq of the journal. */
  get lastSeq(): number {
    return (this.#parts.progress.nextSeq(this.#parts.disk.folder) ?? 1) - 1;
  }

  /** The first event of the journal under its id. */
  get beginSeq(): number {
    return this.#parts.beginSeq?.() ?? 1;
  }

  get ack(): Ack | undefined {
    return this.#parts.ack;
  }

  get traits(): KindTraits {
    return this.ledger.traits;
  }

  get destination(): Destination {
    return this.#destination!;
  }

  openDestination(): void {
    const { kind } = this.ledger;
    if (this.#openedKind === kind) return;
    this.#destination?.close();
    this.#destination = this.#parts.open(kind);
    this.#openedKind = kind;
  }

  /** Opens the ledger, unless it is open. May be called again after a rejection. */
  async open(): Promise<void> {
    const { ledger, settings } = this;
    const nowSeq = () => this.#parts.nowSeq?.() ?? this.lastSeq + 1;
    await ledger.open(settings, settings.begin === 'now' ? nowSeq : () => this.firstSeq(), this.notices);
  }

  /**
   * Saves how far the destination is, when no line is loaded: about once a second while all events are unwanted, which are not worth a
   * sync each.
   */
  async saveIdle(): Promise<void> {
    const { ledger, settings, limits } = this;
    const waitMs = settings.only === undefined ? 0 : ledger.unwantedWaitMs(limits.forwardCheckMs);
    if (waitMs > 0 && ledger.value.seq < this.lastSeq) return;
    await this.pause(waitMs);
    await ledger.saveSettled();
  }

  /** Like `Ledger.passTo`. */
  passTo(position: Position): void {
    this.ledger.passTo(position);
    this.backlog.pass(position.seq);
  }

  /** Like `Ledger.passLost`. */
  passLost(position: Position): void {
    this.ledger.passLost(position);
    this.backlog.pass(position.seq);
  }

  /** Like `Ledger.addLetter`. */
  async addLetter(line: Line, result: Outcome): Promise<void> {
    await this.ledger.addLetter(line, result);
    const { outcome, became, reason } = result;
    if (became === 'taken') return; // it is counted as recorded
    if (!this.outcomes.has(outcome))
      this.notices.warn('there are new dead letters; this is the first', { outcome, reason });
    count(this.outcomes, outcome);
  }

  /** Retention removes events, which dead letters name: only those on their way are still sent. */
  removed({ first, last }: SeqRange, reason: string): void {
    const from = Math.max(first, (this.ledger.value.sending ?? 0) + 1);
    if (from <= last) this.backlog.remove({ first: from, last }, reason);
  }

  /** Passes events that the journal does not have any more: see `Ledger.nameGap`. */
  passGap({ gone, reason }: Extract<BacklogHead, { kind: 'gap' }>, finish: Settling['finish']): Settling {
    const name = async () => {
      for (const range of await this.ledger.nameGap(gone, reason)) this.notices.warn(LOST, { ...range, reason });
    };
    return {
      kind: 'settling',
      writes: gone.last > this.ledger.namedSeq ? [name] : [],
      finish: () => {
        this.passLost({ seq: gone.last, id: null });
        this.ack?.lacks(gone.last);
        return finish();
      },
    };
  }

  /** Passes the gaps and the unwanted events before the next line. */
  passOthers(finish: Settling['finish']): State | Promise<State> {
    const head = this.backlog.head(0);
    if (head?.kind === 'gap') return this.passGap(head, () => this.passOthers(finish));
    if (head?.kind !== 'unwanted') return finish();
    this.passTo({ seq: head.last.seq, id: head.last.event.id });
    return this.passOthers(finish);
  }

  async request(batch: Batch): Promise<Sent> {
    const turn = () => this.pause(this.pace.turnMs());
    await turn();
    if (this.isClosing) return { kind: 'again', reason: 'the service stops' };
    await this.ledger.begin(batch.lines.at(-1)!.seq);
    return this.answered(this.destination.send({ ...batch, turn }, this.signal));
  }

  /** Waits for the answer to a request, and counts it. @throws the error of a system call */
  async answered<Answer extends Asked | Sent>(request: Promise<Answer>): Promise<Answer> {
    this.#requestMs = performance.now();
    const answer = await request.finally(() => {
      this.#requestMs = Number.POSITIVE_INFINITY;
    });
    count(this.answers, answer.kind);
    return answer;
  }

  /** How long a request has not been answered; null if none is in flight, or not for long. */
  get unanswered(): string | null {
    const waitedMs = performance.now() - this.#requestMs;
    return waitedMs < this.limits.forwardSlowMs ? null : `no answer for ${Math.floor(waitedMs / 1000)} s`;
  }

  /** The destination took lines. */
  taken(lines: readonly Line[]): void {
    this.refusals = 0;
    this.pace.succeeded();
    const isFirst = this.lastSuccess === null;
    this.lastSuccess = new Date().toISOString();
    count(this.outcomes, 'recorded', lines.length);
    this.#parts.onForwarded?.(sizeOf(lines));
    this.#onTaken(isFirst);
  }

  get isOneRefusalTooMany(): boolean {
    return !this.traits.passesFailed && this.refusals + 1 >= this.limits.forwardRefusalsMax;
  }

  tooManyRefusals({ seq }: Line, why: string): State {
    const reason = `${this.refusals + 1} events in a row were refused, the last one is ${seq}: ${why}; if they are wrong, continue with SIGHUP`;
    return stop('refusals', reason, IDLE);
  }

  waiting({ reason, afterMs }: Failure, next: State): State {
    return { kind: 'waiting', reason, waitMs: this.pace.failed(afterMs), next };
  }

  /** The first seq of the journal's first file. */
  async firstSeq(): Promise<number> {
    return contentsOf(await this.#parts.disk.list()).segments[0]?.firstSeq ?? 1;
  }

  /**
   * Waits for events.
   * @returns whether there was none for so long that a destination that lists its sources is to hear of this one
   * @throws as `Unsent.more`
   */
  async isQuiet(): Promise<boolean> {
    const more = this.backlog.more().then(() => false);
    if (!this.traits.listsSources) return more;
    const found = new AbortController();
    const late = this.#pauses.wait(found.signal, this.limits.forwardIdleMs).then(() => true);
    return Promise.race([more, late]).finally(() => found.abort());
  }

  /** Waits, until `wake` or `close`. */
  async pause(ms: number): Promise<void> {
    if (ms > 0 && !this.isClosing) await this.#pauses.wait(undefined, ms);
  }

  /** Ends a pause. */
  wake(): void {
    this.#pauses.wake();
  }

  /**
   * @param ended resolves after the request in flight, which has `forwardStopMs` to end
   * @param isSettled asked then: whether what the last answer means is durable. If not, its events stay as being sent
   */
  async close(ended: Promise<void>, isSettled: () => boolean): Promise<void> {
    this.#closing.abort();
    this.wake();
    const late = setTimeout(() => this.#abort.abort(), this.limits.forwardStopMs);
    await ended;
    clearTimeout(late);
    this.#destination?.close();
    const warn = (error: Error) => this.notices.warn('the cursor could not be saved', { reason: describe(error) });
    await this.backlog.moveTo(this.ledger.value.seq).catch(warn);
    await this.ledger.close(isSettled()).catch(warn);
  }
}

/** Log message about events that a destination does not get. */
export const LOST = 'events are gone that a destination has not confirmed; a dead letter names them';

export function count(counts: Map<string, number>, name: string, more = 1): void {
  counts.set(name, (counts.get(name) ?? 0) + more);
}

/** While reports wait for a destination, nothing that it answers pauses them for longer than the 5 s of the handbook. */
function withShortPauses(limits: Limits): Limits {
  const { nearRetryMsMax, forwardRetryMs, forwardStoppedMs } = limits;
  return {
    ...limits,
    forwardRetryAfterMsMax: Math.max(0, nearRetryMsMax - forwardRetryMs), // up to forwardRetryMs is added by chance
    forwardStoppedMs: Math.min(nearRetryMsMax, forwardStoppedMs),
  };
}
