/**
 * Sends one journal to one destination. The journal is the queue, one request is in flight, and every step is a state:
 *
 *     starting → asking → idle → sending → settling → idle …    only one that can be asked: a hub, an engine
 *                 ↑        ↑       ├→ suspect → settling        a plain upstream: is it this event, or an outage?
 *                 └────────┴───────┴→ waiting, stopped          backoff, or an operator has to do something; then again
 *
 * A step that fails is repeated after a pause. `settling` makes durable what an answer means: of its writes, only the one that
 * failed and those after it are repeated.
 */

import { describe } from '../../journal/disk.ts';
import { kindsWith } from '../destinations/kinds.ts';
import { LettersFullError } from '../ledger/letters.ts';
import type { SeqRange } from '../position.ts';
import { AskedSending, stopForAck } from './asked.ts';
import { lineAt } from './backlog.ts';
import { Outbox, type OutboxParts } from './outbox.ts';
import { PlainSending } from './plain.ts';
import { ASKING, type BlockedState, IDLE, type Settling, STARTING, type State, stop } from './states.ts';
import { type DestinationStatus, type ShownState, statusOf } from './status.ts';

export interface SenderParts extends OutboxParts {
  /** Finds out under which id the destination knows the journal: before each opening. @throws the error of a system call */
  readonly identify?: () => Promise<void>;
  /** Called when `status` begins to say something else, but not for each event. */
  readonly onChange?: (() => void) | undefined;
}

/** One journal and one destination: `new Sender(parts).start()`. */
export class Sender {
  readonly #parts: SenderParts;
  readonly #outbox: Outbox;
  readonly #asked: AskedSending;
  readonly #plain: PlainSending;
  #running: Promise<void> = Promise.resolve();
  #state: State = STARTING;
  /** What is wrong; undefined while events pass. */
  #trouble: BlockedState | undefined;
  readonly #reported = new Set<string>();
  #since = new Date().toISOString();
  #lastError: string | null = null;
  /** When the present pause ends, if it is because of a trouble. */
  #nextTry: string | null = null;
  /** The first event that was not settled at the start. */
  #oldest: { readonly seq: number; readonly time: string } | undefined;

  constructor(parts: SenderParts) {
    this.#parts = parts;
    this.#outbox = new Outbox(parts, (isFirst) => {
      this.#recovered();
      if (isFirst) this.#changed();
    });
    this.#asked = new AskedSending(this.#outbox);
    this.#plain = new PlainSending(this.#outbox);
  }

  /** @param lastSuccess time of the last event that was taken before this start; null if it is not known */
  beganAfter(lastSuccess: string | null): void {
    this.#outbox.lastSuccess = lastSuccess;
  }

  /** Begins to send once the journal is readable. */
  start(): void {
    this.#running = this.#run();
  }

  /**
   * Ends a wait: a stopped sender tries again at once.
   * @param asks whether a hub that has all events is asked again, as it can name another way of them
   */
  tryNow(asks = false): void {
    const { kind } = this.#state;
    this.#outbox.refusals = 0;
    if (kind === 'waiting' || kind === 'stopped' || (asks && kind === 'idle')) this.#outbox.wake();
  }

  get outcomes(): Outbox['outcomes'] {
    return this.#outbox.outcomes;
  }

  get answers(): Outbox['answers'] {
    return this.#outbox.answers;
  }

  /** @returns how long a request beside the sender has to wait, so that all requests together keep to `ratePerSecond` */
  turnMs(): number {
    return this.#outbox.pace.turnMs();
  }

  /** Like `Outbox.removed`. */
  removed(gone: SeqRange, reason: string): void {
    this.#outbox.removed(gone, reason);
  }

  /** Reads no file. */
  status(): DestinationStatus {
    const { settings, deployment, ledger, lastSuccess, lastSeq } = this.#outbox;
    const { name, to } = settings;
    const { seq } = ledger;
    const { kind } = ledger.value;
    const last_seq = Math.max(lastSeq, seq);
    const state = this.#trouble ?? this.#state;
    return statusOf({
      name,
      deployment: deployment ?? null,
      to,
      kind,
      state: shownAs(state),
      why: state.kind === 'stopped' ? state.why : null,
      reason: 'reason' in state ? state.reason : this.#outbox.unanswered,
      since: this.#since,
      next_try: this.#trouble === undefined ? null : this.#nextTry,
      seq,
      last_seq,
      oldest: last_seq === seq ? undefined : this.#oldestTime(),
      letters: ledger.letters,
      last_success: lastSuccess,
      last_error: this.#lastError,
    });
  }

  /** Stops after the request in flight, which has `forwardStopMs` to end. Never rejects. */
  close(): Promise<void> {
    return this.#outbox.close(this.#running, () => {
      const next = 'next' in this.#state ? this.#state.next : this.#state;
      return next.kind !== 'settling';
    });
  }

  /** @returns the time of the first event that is not settled; undefined if it is not known */
  #oldestTime(): string | undefined {
    const { backlog, ledger } = this.#outbox;
    const head = backlog.head(0);
    const loaded = head?.kind === 'lines' ? head.lines[0]?.event.time : undefined;
    return loaded ?? (this.#oldest?.seq === ledger.value.seq + 1 ? this.#oldest.time : undefined);
  }

  async #run(): Promise<void> {
    // A stop still settles the last answer.
    while (!this.#outbox.isClosing || this.#state.kind === 'settling') {
      const state = this.#state;
      const next = await this.#step(state).catch((error: Error) => this.#failed(error, state));
      this.#state = next;
      if (this.#outbox.isClosing) continue;
      if (state.kind === 'asking' && next.kind === 'idle') this.#changed();
      if ('reason' in next && next.kind !== state.kind) this.#report(next);
    }
  }

  async #step(state: State): Promise<State> {
    switch (state.kind) {
      case 'starting':
        return this.#begin();
      case 'asking':
        return this.#asked.ask();
      case 'idle':
        return this.#next();
      case 'sending':
        return this.#outbox.traits.truth === 'destination' ? this.#asked.send() : this.#plain.send();
      case 'settling':
        return this.#settle(state);
      case 'suspect':
        return this.#plain.lookFurther(state);
      case 'waiting':
        return this.#pause(state.waitMs, state.next);
      case 'stopped':
        return this.#pause(this.#stopMs(state), state.next);
    }
  }

  #failed(error: Error, state: State): State {
    if (error instanceof LettersFullError) return stop('dead letters', error.message, state);
    return this.#outbox.waiting({ reason: describe(error) }, state);
  }

  async #pause(ms: number, next: State): Promise<State> {
    await this.#outbox.pause(ms);
    this.#nextTry = null;
    return next;
  }

  async #begin(): Promise<State> {
    const outbox = this.#outbox;
    const progress = outbox.journal.progress();
    if ((await progress.durable()).kind === 'unsaid') {
      await progress.more(outbox.journal.signal);
      return STARTING;
    }
    try {
      await this.#parts.identify?.();
    } catch (error) {
      const again = `it is tried again every ${outbox.limits.forwardCheckMs / 1000} s`;
      return stop(null, `${describe(error as Error)}; ${again}`, STARTING);
    }
    if (outbox.isClosing) return STARTING;
    await outbox.open();
    if (!kindsWith(outbox.settings.to).includes(outbox.ledger.kind)) return stopAtOtherKind(outbox);
    if (outbox.ack !== undefined && outbox.traits.truth === 'cursor') return stopForAck(outbox.settings);
    const { seq } = outbox.ledger.value;
    await outbox.backlog.moveTo(seq);
    const oldest = outbox.lastSeq > seq ? await lineAt(outbox.journal, seq + 1) : undefined;
    this.#oldest = oldest && { seq: seq + 1, time: oldest.event.time };
    outbox.openDestination();
    return outbox.traits.truth === 'destination' ? ASKING : this.#plain.begin();
  }

  async #next(): Promise<State> {
    const outbox = this.#outbox;
    const head = outbox.backlog.head(0);
    if (head === undefined) {
      await outbox.saveIdle();
      if (Math.max(outbox.ledger.value.seq, outbox.ledger.namedSeq) >= outbox.lastSeq) this.#recovered();
      this.#changed();
      return (await outbox.isQuiet()) ? ASKING : IDLE;
    }
    switch (head.kind) {
      case 'lines':
        return { kind: 'sending' };
      case 'gap':
      case 'unwanted':
        return outbox.passOthers(() => IDLE);
      case 'damage':
        await outbox.backlog.moveTo(outbox.ledger.value.seq); // it is read again, since it might have been repaired
        return stop('damage', head.reason, IDLE);
      case 'another journal':
        return STARTING;
    }
  }

  async #settle(state: Settling): Promise<State> {
    const [write, ...writes] = state.writes;
    if (write === undefined) return state.finish();
    await write();
    const trouble = this.#trouble;
    if (trouble !== undefined && 'next' in trouble && trouble.next === state) this.#recovered();
    return { ...state, writes };
  }

  /** Logs what is wrong, once until events pass again. */
  #report(trouble: BlockedState): void {
    const { kind, reason } = trouble;
    if (this.#trouble === undefined) this.#since = new Date().toISOString();
    this.#trouble = trouble;
    this.#lastError = reason;
    const waitMs = kind === 'waiting' ? trouble.waitMs : this.#stopMs(trouble);
    this.#nextTry = kind === 'suspect' ? null : new Date(Date.now() + waitMs).toISOString();
    this.#changed();
    const name = kind === 'stopped' ? (trouble.why ?? reason) : kind;
    if (this.#reported.has(name)) return;
    this.#reported.add(name);
    if (name === reason) this.#outbox.notices.warn('forwarding cannot begin', { reason });
    else this.#outbox.notices.warn(messages[kind], { reason, ...this.#progress() });
  }

  #stopMs(state: State): number {
    const { forwardCheckMs, forwardStoppedMs } = this.#outbox.limits;
    return 'why' in state && state.why === null ? forwardCheckMs : forwardStoppedMs;
  }

  #recovered(): void {
    if (this.#trouble === undefined) return;
    this.#trouble = undefined;
    this.#reported.clear();
    this.#outbox.notices.info('events are forwarded again', { ...this.#progress(), since: this.#since });
    this.#since = new Date().toISOString();
    this.#changed();
  }

  /** For the log. */
  #progress(): { readonly seq: number; readonly lag: number } {
    const { ledger, lastSeq } = this.#outbox;
    const { seq } = ledger.value;
    return { seq, lag: Math.max(0, lastSeq - seq) };
  }

  #changed(): void {
    this.#parts.onChange?.();
  }
}

/** A cursor says nothing of a destination of another kind, which has none of the events. */
function stopAtOtherKind({ settings, ledger }: Outbox): State {
  const { name, to } = settings;
  const reason = `${name} has had events as a destination of the kind ${ledger.kind}, and ${to} is of another one; give it a name of its own`;
  return stop('not understood', reason, STARTING);
}

const messages = {
  waiting: 'events cannot be forwarded now',
  suspect: 'an event is in doubt: the next one shows whether it is an outage',
  stopped: 'forwarding is stopped',
};

function shownAs({ kind }: State): ShownState {
  if (kind === 'starting') return 'asking';
  return kind === 'settling' ? 'sending' : kind;
}
