/**
 * A pipe connects one journal and one destination. The journal is the queue, one request is in flight, and every step is a state:
 *
 *     opening → asking → idle → sending → settling → idle …    only one that can be asked: a hub, an engine
 *                ↑        ↑       ├→ suspect → settling        a plain upstream: is it this event, or an outage?
 *                │        ├→ lingering → settling              a hub: few events gather for one request
 *                └────────┴───────┴→ waiting, stopped          backoff, or an operator has to do something; then again
 *
 * A step that fails is repeated after a pause. `settling` makes the consequences of an answer durable: if one of its steps fails,
 * only that step and the later ones are repeated.
 */

import { Defect } from '../../config/defect.ts';
import { describe } from '../../journal/disk.ts';
import { type Line, sizeOf } from '../../journal/look/reading.ts';
import { kindsWith } from '../destinations/kinds.ts';
import type { Outcome } from '../ledger/letter.ts';
import { LettersFullError } from '../ledger/letters.ts';
import type { SeqRange } from '../position.ts';
import type { DestinationSettings } from '../settings.ts';
import { AskedSending, stopForAck } from './asked.ts';
import { PlainSending } from './plain.ts';
import { LetterChanges } from './retry.ts';
import { Sender, type SenderOptions } from './sender.ts';
import { ASKING, IDLE, OPENING, type Settling, type State, settle, stop } from './states.ts';
import { type DestinationStatus, StateFile, statusOf, unnamedBefore } from './status.ts';
import { count } from './traffic.ts';
import { TroubleLog } from './trouble.ts';

export interface PipeOptions extends SenderOptions {
  /** Resolves when the pipe that this one replaces has ended, since both write the same files. */
  readonly after?: Promise<void> | undefined;
}

/** Nothing is sent before `begin`. */
export class Pipe {
  readonly sender: Sender;
  /** Changes that an operator makes to dead letters, concurrently with the pipe. */
  readonly letterChanges: LetterChanges;
  /** Number of events by their outcome, since the start: `recorded`, `refused`, `in doubt`. */
  readonly outcomes = new Map<string, number>();
  readonly #options: PipeOptions;
  readonly #asked: AskedSending;
  readonly #plain: PlainSending;
  readonly #stateFile: StateFile;
  readonly #trouble: TroubleLog;
  /**
   * The first event of a new destination that starts with `now`. Events that are recorded while the cursor is being created
   * count too.
   */
  readonly #nowSeq: number | undefined;
  /**
   * The first event of a new destination that starts with `first`, if retention was about to remove it before the cursor was
   * created.
   */
  #firstSeq: number | undefined;

  #running: Promise<void> | undefined;
  #looking: Promise<void> = Promise.resolve();
  #state: State = OPENING;
  /** The first event that was not settled at the start. */
  #oldest: { readonly seq: number; readonly time: string } | undefined;
  /** Time of the last accepted event, also from before this start; null if unknown. */
  #lastSuccess: string | null = null;

  constructor(options: PipeOptions) {
    const { disk, progress } = options;
    const sender = new Sender(options);
    this.#options = options;
    this.sender = sender;
    this.#asked = new AskedSending(sender);
    this.#plain = new PlainSending(sender);
    this.letterChanges = new LetterChanges(sender, () => this.status.state === 'stopped' && this.tryNow());
    this.#stateFile = new StateFile(sender, () => this.status);
    this.#trouble = new TroubleLog(sender, () => this.#changed());
    this.#nowSeq = progress.nextSeq(disk.folder);
  }

  get settings(): DestinationSettings {
    return this.sender.settings;
  }

  /** Does not read a file. */
  get status(): DestinationStatus {
    const { settings, ledger, lastSeq } = this.sender;
    const { name, to } = settings;
    const { seq } = ledger;
    const last_seq = Math.max(lastSeq, seq);
    return statusOf({
      ...this.#trouble.facts(this.#state),
      name,
      deployment: this.#options.deployment ?? null,
      to,
      kind: ledger.value.kind,
      seq,
      last_seq,
      oldest: last_seq === seq ? undefined : this.#oldestTime(),
      letters: ledger.letters,
      unnamed: unnamedBefore(this.#options.firstSeq(), ledger.namedOrSettledSeq),
      alarms: undefined,
      last_success: this.#lastSuccess,
    });
  }

  /** @returns the time of the first event that is not settled; undefined if unknown */
  #oldestTime(): string | undefined {
    const { backlog, ledger } = this.sender;
    const head = backlog.head(0);
    const loaded = head?.kind === 'lines' ? head.lines[0]?.event.time : undefined;
    return loaded ?? (this.#oldest?.seq === ledger.value.seq + 1 ? this.#oldest.time : undefined);
  }

  /** Determines, before the journal is opened, which events must not be removed from it. */
  async readFloor(): Promise<void> {
    if (this.#running !== undefined) return;
    try {
      await this.sender.ledger.readFloor();
    } catch {
      // There is no folder yet, or the pipe will report why it cannot be read. Until then no event is removed.
    }
  }

  /**
   * Like `Follower.removing`: no power cut may undo the record that the destination has the events.
   * @throws the error of a system call
   */
  removing(firstSeq: number): Promise<void> {
    this.#firstSeq ??= firstSeq;
    return this.sender.ledger.makeDurable();
  }

  /**
   * Like `Follower.removed`: reports which of the events the destination has not received. A dead letter names them when the
   * destination is reached.
   */
  removed(gone: SeqRange): void {
    const { ledger, notices } = this.sender;
    const first = Math.max(gone.first, ledger.namedOrSettledSeq + 1);
    if (first <= gone.last) notices.warn(REMOVED, { first, last: gone.last });
  }

  /** Starts to send when the journal is open. Can be called more than once. */
  begin(): void {
    if (!this.sender.traffic.closing.aborted) this.#running ??= this.#run();
  }

  /** Called at intervals while the journal is open, one call at a time. Never rejects. */
  look(): Promise<void> {
    this.#looking = this.sender.traffic.closing.aborted ? Promise.resolve() : this.#look();
    return this.#looking;
  }

  async #look(): Promise<void> {
    const { ledger, traffic, destination } = this.sender;
    // The pipe might wait for another token or CA.
    if (this.status.state === 'stopped' && (await destination?.haveFilesChanged(traffic.closing))) this.tryNow();
    await ledger.saveIfMoved().catch(this.#warnOfCursor);
    await this.#stateFile.write();
  }

  /** Ends a pause: a pipe that waits or is stopped tries again at once, and a hub that has all events is asked. */
  tryNow(): void {
    this.sender.refusals = 0;
    this.sender.traffic.wake();
  }

  /** Ends after the request in flight, which gets `limits.forwardStopMs` to finish. Never rejects. */
  async close(): Promise<void> {
    const { traffic, ledger, backlog, ack } = this.sender;
    const ended = async () => {
      await this.#looking;
      await Promise.all([this.#running, this.letterChanges.ended]);
    };
    await traffic.close(ended());
    this.sender.destination?.close();
    await backlog.moveTo(ledger.value.seq).catch(this.#warnOfCursor);
    const last = 'next' in this.#state ? [this.#state, this.#state.next] : [this.#state];
    const isSettled = last.every(({ kind }) => kind !== 'settling');
    await ledger.close(isSettled).catch(this.#warnOfCursor);
    ack?.reset();
    await this.#stateFile.write(true);
  }

  readonly #warnOfCursor = (error: Error): void => {
    this.sender.notices.rated.warn('the cursor could not be saved', { reason: describe(error) });
  };

  async #run(): Promise<void> {
    const { closing } = this.sender.traffic;
    // During a stop, lingering events are still sent and the last answer is settled.
    while (!closing.aborted || this.#state.kind === 'lingering' || this.#state.kind === 'settling') {
      const state = this.#state;
      const next = await this.#step(state).catch((error: Error) => this.#failed(error, state));
      this.#state = next;
      if (closing.aborted) continue;
      if (state.kind === 'asking' && next.kind === 'idle') this.#changed();
      if ('reason' in next && next.kind !== state.kind) this.#trouble.report(next, this.#waitMs(next));
    }
  }

  async #step(state: State): Promise<State> {
    switch (state.kind) {
      case 'opening':
        return this.#open();
      case 'asking':
        return this.#asked.ask();
      case 'idle':
        return this.#next();
      case 'sending':
        return this.sender.traits.truth === 'destination' ? this.#asked.send() : this.#plain.send();
      case 'lingering':
        return this.#asked.linger();
      case 'settling':
        return this.#settle(state);
      case 'suspect':
        return this.#plain.lookFurther(state);
      case 'waiting':
      case 'stopped':
        await this.sender.traffic.pause(this.#waitMs(state)!);
        this.#trouble.tries();
        if (state.kind === 'stopped' && !ASKS.includes(state.next.kind)) await this.#asked.tell();
        return state.next;
    }
  }

  #failed(error: Error, state: State): State {
    if (error instanceof LettersFullError) return stop('dead letters', error.message, state);
    if (error instanceof Defect) return stop('damage', error.message, state);
    return this.sender.traffic.waiting({ reason: describe(error) }, state);
  }

  /** @returns how long the state lasts; undefined if it lasts until something happens */
  #waitMs(state: State): number | undefined {
    const { forwardCheckMs, forwardStoppedMs } = this.sender.limits;
    if (state.kind === 'stopped') return state.why === null ? forwardCheckMs : forwardStoppedMs;
    return state.kind === 'waiting' ? state.waitMs : undefined;
  }

  async #open(): Promise<State> {
    const { sender } = this;
    const { settings, disk, progress, ledger, backlog, limits, traffic } = sender;
    const { closing } = traffic;
    if ((await progress.durable()).kind === 'unsaid') {
      await progress.more(closing);
      return OPENING;
    }
    await this.#options.after;
    this.#lastSuccess ??= await this.#stateFile.lastSuccess();
    try {
      await sender.findSource();
    } catch (error) {
      const again = `it is tried again every ${limits.forwardCheckMs / 1000} s`;
      return stop(null, `${describe(error as Error)}; ${again}`, OPENING);
    }
    if (closing.aborted) return OPENING;
    const nowSeq = () => this.#nowSeq ?? this.#options.progress.openedSeq(disk.folder) ?? sender.lastSeq + 1;
    await ledger.open(settings, settings.begin === 'now' ? nowSeq : () => this.#firstSeq ?? sender.firstSeq());
    const { kind, traits } = ledger;
    if (!kindsWith(settings.to).includes(kind)) return this.#stopAtOtherKind();
    const { truth } = traits;
    if (sender.ack !== undefined && truth === 'cursor') return stopForAck(settings);
    const { seq } = ledger.value;
    await backlog.moveTo(seq);
    const oldest = sender.lastSeq > seq ? await backlog.lineAt(seq + 1) : undefined;
    this.#oldest = oldest && { seq: seq + 1, time: oldest.event.time };
    sender.open(kind);
    return truth === 'destination' ? ASKING : this.#plain.begin();
  }

  /** A cursor is meaningless for a destination of another kind, which has none of the events. */
  #stopAtOtherKind(): State {
    const { name, to } = this.sender.settings;
    const reason = `${name} was a destination of another kind than ${to}; give it a name of its own`;
    return stop('not understood', reason, OPENING);
  }

  async #next(): Promise<State> {
    const { ledger, backlog, lastSeq } = this.sender;
    const head = backlog.head(0);
    if (head === undefined) {
      await this.#saveIdle();
      if (backlog.head(0) !== undefined) return IDLE; // the save allowed the journal to be read further; no later event might arrive
      if (ledger.namedOrSettledSeq >= lastSeq) this.#trouble.end();
      this.#changed();
      return this.#asked.isShownStopped || (await this.#isQuiet()) ? ASKING : IDLE;
    }
    switch (head.kind) {
      case 'lines':
        return this.#asked.next(head.lines[0]!.seq);
      case 'gap':
      case 'unwanted':
        return settle([head]);
      case 'damage':
        await backlog.moveTo(ledger.value.seq); // read again, since the journal might have been repaired
        return stop('damage', head.reason, IDLE);
      case 'another journal':
        return OPENING;
    }
  }

  /**
   * Unwanted events are not worth a sync each: while all events are unwanted, the cursor is saved about once a second.
   */
  async #saveIdle(): Promise<void> {
    const { ledger, settings, limits, traffic, lastSeq } = this.sender;
    const waitMs = settings.only === undefined ? 0 : ledger.unwantedWaitMs(limits.forwardCheckMs);
    if (waitMs > 0 && ledger.value.seq < lastSeq) return;
    await traffic.pause(waitMs);
    await ledger.save();
  }

  /**
   * Waits for events.
   * @returns whether there was no event for so long that a hub, which lists its sources, needs a sign of life
   * @throws the errors of `Backlog.more`
   */
  async #isQuiet(): Promise<boolean> {
    const { backlog, traits, traffic, limits } = this.sender;
    const more = backlog.more();
    if (traits.isHub) return traffic.isLate(more, limits.forwardIdleMs);
    return more.then(() => false);
  }

  async #settle(state: Settling): Promise<State> {
    const { ledger, backlog, ack } = this.sender;
    const [step, ...steps] = state.steps;
    if (step === undefined) return state.next;
    const { seq } = await ledger.record(step);
    this.#trouble.endIfAt(state);
    backlog.pass(seq);
    if (step.kind === 'recorded') this.#taken(step.lines);
    if (step.kind === 'given up') this.#givenUp(step.outcome);
    if (step.kind === 'given up' || step.kind === 'gap') ack?.lacks(seq);
    return { ...state, steps };
  }

  #givenUp({ outcome, reason }: Outcome): void {
    if (!this.outcomes.has(outcome))
      this.sender.notices.warn('there are new dead letters; this is the first', { outcome, reason });
    count(this.outcomes, outcome);
    if (outcome === 'refused') this.sender.refusals += 1;
  }

  #taken(lines: readonly Line[]): void {
    this.sender.refusals = 0;
    this.sender.traffic.pace.succeeded();
    const isFirst = this.#lastSuccess === null;
    this.#lastSuccess = new Date().toISOString();
    count(this.outcomes, 'recorded', lines.length);
    this.#options.onForwarded?.(sizeOf(lines));
    this.#trouble.end();
    if (isFirst) this.#changed();
  }

  /** Called when `status` changes, but not for each event. */
  #changed(): void {
    void this.#stateFile.write();
    this.sender.ack?.setStopped(this.status.state === 'stopped');
  }
}

/** Log message about events that a destination does not get. */
const REMOVED = 'events are removed that a destination has not confirmed; a dead letter names them when it is reached';
/** The states in which the destination is asked, or is not known yet. */
const ASKS: readonly State['kind'][] = ['asking', 'opening'];
