/**
 * The events of one journal on their way to one destination: the unsent ones, the requests, and what is durable about them (the
 * cursor and the dead letters).
 *
 * Order of durability: a dead letter before the cursor that passes its event. If an event that is sent twice is recorded twice, the
 * cursor says that the event is being sent before the event is.
 */

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
import { Cursor, type CursorValue, storedUrl } from '../ledger/cursor.ts';
import type { Outcome } from '../ledger/letter.ts';
import type { DeadLetters } from '../ledger/letters.ts';
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
  /** @returns the dead letters of the destination, which others append to as well. @throws the error of a system call */
  readonly letters: () => Promise<DeadLetters>;
  readonly notices: Notices;
  readonly limits: Limits;
  /** Called with the bytes of lines that were taken. */
  readonly onForwarded?: ((bytes: number) => void) | undefined;
  /** Of the destination of `--ack`: hears what it has. */
  readonly ack?: Ack | undefined;
  /** @returns the first event of a new destination that begins `now`; undefined for the next one that is recorded */
  readonly nowSeq?: () => number | undefined;
  /** The first event of the journal under its id; 1 if it is not given. */
  readonly beginSeq?: number;
  /** Time of the last event that was taken before this start, if it is known. */
  readonly lastSuccess?: string | null;
  /** Ranges that retention named in letters while the cursor was unknown: the destination might have them. */
  readonly namedBlindly?: SeqRange[];
}

export class Outbox {
  readonly settings: DestinationSettings;
  readonly deployment: Deployment;
  readonly limits: Limits;
  readonly notices: Notices;
  readonly pace: Pace;
  readonly journal: BacklogSource;
  readonly backlog: Backlog;
  readonly #parts: OutboxParts;
  readonly #onTaken: (isFirst: boolean) => void;
  /** Ends waits for events, and after `forwardStopMs` the request in flight. */
  readonly #closing = new AbortController();
  readonly #abort = new AbortController();
  readonly #pauses = new Waiters();

  #cursor: Cursor | undefined;
  #letters: DeadLetters | undefined;
  #destination: Destination | undefined;
  #openedKind: DestinationKind | undefined;
  /** Why the cursor is lost; undefined if it is known. */
  lostCursor: string | undefined;
  /** How far the destination is. The file of the cursor might have an earlier value. */
  value: CursorValue;
  #saved: CursorValue | undefined;
  #savedMs = Number.NEGATIVE_INFINITY;
  /** Missing events up to this seq already have dead letters. */
  namedSeq = 0;
  /** Events that the destination might have although they are not settled. */
  readonly doubts = new Map<number, Outcome>();
  /** Events that the destination took, the last ones, and whose letters about their removal might still be open. */
  #taken: SeqRange | undefined;
  /** Refusals since the last event that was taken. */
  refusals = 0;

  /** When the request in flight was sent. */
  #requestMs = Number.POSITIVE_INFINITY;
  lastSuccess: string | null;
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
    this.value = { seq: 0, id: null, sending: undefined, kind: undefined, to: storedUrl(settings.to) };
    this.lastSuccess = parts.lastSuccess ?? null;
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
    return this.#parts.beginSeq ?? 1;
  }

  /** What the cursor on the disk says; undefined until the cursor is known. */
  get saved(): CursorValue | undefined {
    return this.#saved;
  }

  get ack(): Ack | undefined {
    return this.#parts.ack;
  }

  /** @returns as `DeadLetters.namedAfter` */
  namedAfter(seq: number): Promise<number> {
    return this.#letters!.namedAfter(seq);
  }

  get letters(): DeadLetters | undefined {
    return this.#letters;
  }

  /** As the cursor has it; until the destination has answered, the kind as which it is asked. */
  get kind(): DestinationKind {
    return this.value.kind ?? kindOf(this.settings.to, 'destination');
  }

  get traits(): KindTraits {
    return traitsOf[this.kind];
  }

  get destination(): Destination {
    return this.#destination!;
  }

  openDestination(): void {
    if (this.#openedKind === this.kind) return;
    this.#destination?.close();
    this.#destination = this.#parts.open(this.kind);
    this.#openedKind = this.kind;
  }

  /** Opens dead letters and cursor, unless they are open. May be called again after a rejection. */
  async open(): Promise<void> {
    this.#letters ??= await this.#parts.letters();
    if (this.#saved === undefined) await this.#openCursor(this.#letters);
  }

  async #openCursor(letters: DeadLetters): Promise<void> {
    const { disk, settings } = this.#parts;
    const { to } = this.value;
    await this.#cursor?.close();
    this.#cursor = undefined;
    const opened = await Cursor.open(disk, settings.name);
    this.#cursor = opened.cursor;
    this.lostCursor = opened.kind === 'lost' ? opened.reason : undefined;
    if (opened.kind === 'found') {
      const { value } = opened;
      this.namedSeq = await letters.namedAfter(value.seq);
      if (!traitsOf[value.kind ?? this.kind].repeatsBatches) {
        for (let seq = value.seq + 1; seq <= (value.sending ?? 0); seq += 1) this.doubts.set(seq, CRASHED);
      }
      // A cursor that an operator made has no URL.
      if (value.to !== '' && value.to !== to)
        this.notices.info('the destination has another URL and continues', { seq: value.seq, to });
      this.value = { ...value, to };
      this.#saved = value; // last: until then all of this is repeated after an error
      return;
    }
    if (opened.kind === 'lost') return; // also with `begin` at `now`: what the destination lacks is not known
    const nowSeq = () => this.#parts.nowSeq?.() ?? this.lastSeq + 1;
    const seq = settings.begin === 'now' ? nowSeq() : await this.firstSeq();
    await this.save({ ...this.value, seq: seq - 1 });
    this.notices.info('forwarding begins', { to, seq });
  }

  async save(value: CursorValue): Promise<void> {
    if (this.#saved === undefined || !isSame(value, this.#saved)) {
      await this.#cursor?.save(value);
      this.#savedMs = performance.now();
    }
    this.value = this.#saved = value;
  }

  /** Saves the position that the destination reports. Retention waits meanwhile, so that it names no event that the destination has. */
  async saveReported(value: CursorValue): Promise<void> {
    await this.#letters!.exclusive(() => this.save(value));
    const { namedBlindly = [] } = this.#parts;
    for (const { first, last } of namedBlindly) {
      if (first <= value.seq) await this.#letters!.closeTaken({ first, last: Math.min(last, value.seq) });
    }
    namedBlindly.length = 0;
  }

  /**
   * Saves how far the destination is, and closes the letters about events that it has. Still being sent are only events in doubt, and the rest of a
   * request that goes again as it was.
   */
  async saveSettled(): Promise<void> {
    const { sending, ...rest } = this.value;
    const isSending =
      this.doubts.size > 0 || (this.traits.repeatsBatches && sending !== undefined && sending > rest.seq);
    await this.save({ ...rest, sending: isSending ? sending : undefined });
    await this.#closeTaken();
  }

  /** The same when no line is loaded: about once a second while all events are unwanted, which are not worth a sync each. */
  async saveIdle(): Promise<void> {
    if (this.settings.only !== undefined && this.value !== this.#saved && this.#saved?.sending === undefined) {
      const waitMs = this.#savedMs + this.limits.forwardCheckMs - performance.now();
      if (waitMs > 0 && this.value.seq < this.lastSeq) return;
      await this.pause(waitMs);
    }
    await this.saveSettled();
  }

  /** All up to a position is settled: recorded by the destination, in the dead letters, or unwanted. */
  passTo({ seq, id }: Position): void {
    for (const one of this.doubts.keys()) if (one <= seq) this.doubts.delete(one);
    this.backlog.pass(seq);
    this.value = { ...this.value, seq, id };
  }

  /** All up to a position is lost, or was passed before, and the dead letters name what is lost. */
  passLost(position: Position): void {
    this.namedSeq = Math.max(this.namedSeq, position.seq);
    if (this.traits.namesLost)
      this.backlog.pass(position.seq); // the cursor passes it with the next event that is taken
    else this.passTo(position);
  }

  /** Appends a dead letter, durably. */
  async addLetter(line: Line, result: Outcome): Promise<void> {
    await this.#letters!.append({ time: new Date().toISOString(), ...result, line: line.text });
    const { outcome, became, reason } = result;
    if (became === 'taken') return; // it is counted as recorded
    if (!this.outcomes.has(outcome))
      this.notices.warn('there are new dead letters; this is the first', { outcome, reason });
    count(this.outcomes, outcome);
  }

  /** Retention removes events, which dead letters name: only those on their way are still sent. */
  removed({ first, last }: SeqRange, reason: string): void {
    const from = Math.max(first, (this.value.sending ?? 0) + 1);
    if (from <= last) this.backlog.remove({ first: from, last }, reason);
  }

  /**
   * Closes the letters about events that retention removed while they were on their way, or whose removal a power cut undid. Events
   * that follow each other share one letter.
   */
  async confirmed(taken: SeqRange): Promise<void> {
    const isNext = this.#taken !== undefined && this.#taken.last >= taken.first - 1;
    if (!isNext) await this.#closeTaken();
    const { first } = this.#taken ?? taken;
    this.#taken = { first, last: taken.last };
    const isLong = taken.last + 1 - first >= this.limits.forwardTakenMax;
    if (isLong || !this.#letters!.isRemoved(taken.last + 1)) await this.#closeTaken();
  }

  async #closeTaken(): Promise<void> {
    if (this.#taken === undefined) return;
    await this.#letters!.closeTaken(this.#taken);
    this.#taken = undefined;
  }

  /** Retention has named the events before it removed them, unless the service did not have this destination then. */
  passGap({ gone, reason }: Extract<BacklogHead, { kind: 'gap' }>, finish: Settling['finish']): Settling {
    const name = async () => {
      for (const range of await this.#letters!.nameRemoved(gone, reason)) this.notices.warn(LOST, { ...range, reason });
    };
    return {
      kind: 'settling',
      writes: gone.last > this.namedSeq ? [name] : [],
      finish: () => {
        this.passLost({ seq: gone.last, id: null });
        this.ack?.lacks(gone);
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
    // What is there after a crash is known to such a destination alone, or to none.
    const sendingSeq = batch.lines.at(-1)!.seq;
    if (this.traits.repeatsBatches || this.traits.truth === 'cursor')
      await this.save({ ...this.value, sending: Math.max(sendingSeq, ...this.doubts.keys()) });
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
    const warn = (message: string) => (error: Error) => this.notices.warn(message, { reason: describe(error) });
    const save = async () => {
      await this.backlog.moveTo(this.value.seq);
      if (this.#saved === undefined) return;
      await (isSettled() ? this.saveSettled() : this.save({ ...this.value, sending: this.#saved.sending }));
    };
    await save().catch(warn('the cursor could not be saved'));
    await this.#cursor?.close().catch(warn('the cursor could not be closed'));
  }
}

/** Log message about events that a destination does not get. */
export const LOST = 'events are gone that a destination has not confirmed; a dead letter names them';

export function count(counts: Map<string, number>, name: string, more = 1): void {
  counts.set(name, (counts.get(name) ?? 0) + more);
}

const CRASHED: Outcome = {
  outcome: 'in doubt',
  became: 'given up',
  reason: 'it was being sent when the service stopped without a reply; it may be there, once or twice',
};

function isSame(one: CursorValue, other: CursorValue): boolean {
  const textOf = ({ seq, id, sending, kind, to }: CursorValue) => `${[seq, id, sending, kind, to]}`;
  return textOf(one) === textOf(other);
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
