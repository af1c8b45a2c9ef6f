/**
 * Sends to a plain upstream, one event in each request. The upstream cannot be asked which events it has, so an event whose request
 * failed might have arrived. Such an event is in doubt, and is sent again only as often as its destination allows; a hook gets it
 * again until a time limit.
 */

import type { Line } from '../../journal/look/reading.ts';
import type { Sent } from '../destinations/destination.ts';
import { onlyKindOf } from '../destinations/kinds.ts';
import type { Step } from '../ledger/ledger.ts';
import type { Outcome } from '../ledger/letter.ts';
import { hasSameEvent, stopAtFork, stopAtLostCursor } from './fork.ts';
import type { Sender } from './sender.ts';
import { IDLE, OPENING, type State, type Suspect, settle, stop } from './states.ts';

type InDoubt = Extract<Sent, { kind: 'in doubt' }>;

export class PlainSending {
  readonly #sender: Sender;
  /** Number of requests that left the first event in doubt. */
  #tries = 0;
  /**
   * Since when all answers for the first event have been failures, by the monotonic clock; undefined if the last one was
   * not.
   */
  #failingMs: number | undefined;

  constructor(sender: Sender) {
    this.#sender = sender;
  }

  /** Only the cursor shows how far the upstream is, so the cursor must belong to this journal. */
  async begin(): Promise<State> {
    const { ledger, lastSeq } = this.#sender;
    const { value, lostReason } = ledger;
    const { seq, id } = value;
    if (lostReason !== undefined) return stopAtLostCursor(this.#sender, lostReason, OPENING);
    if (seq <= lastSeq && (seq === 0 || id === null || (await hasSameEvent(this.#sender, value)))) return IDLE;
    const problem = `event ${seq} was sent, and this journal, which ends with ${lastSeq}, does not have it`;
    return stopAtFork(this.#sender, problem, id, OPENING);
  }

  async send(): Promise<State> {
    const { settings, backlog, traits, limits, ledger, notices, traffic } = this.#sender;
    const head = backlog.head(traits.requestBytesMax(limits));
    if (head?.kind !== 'lines') return IDLE;
    const [line] = head.lines as [Line];
    if (ledger.doubts.has(line.seq) && settings.inDoubt === 'once') return this.#giveUp(line);
    if (traits.sends?.(line.event, limits) === false) {
      notices.rated.warn(
        'an event has passed too many hooks and is not posted; check whether the hooks post in a circle',
        { seq: line.seq },
      );
      return this.#giveUp(line);
    }
    const sent = await this.#sender.request({ lines: [line], lost: undefined });
    if (sent.kind !== 'in doubt' || sent.status === undefined) this.#failingMs = undefined;
    if (sent.kind !== 'in doubt' || sent.isFinal) return this.#settle(line, sent);
    this.#tries += 1;
    this.#doubt(line, sent);
    if (traits.passesFailed) return this.#failed(line, sent);
    return this.#tries < limits.forwardTriesMax || settings.inDoubt === 'once'
      ? traffic.waiting(sent, IDLE)
      : { kind: 'suspect', reason: sent.reason, wasLast: false };
  }

  /**
   * Gives up an event after failures were the only answers for long. A missing answer means an outage, in which no event is
   * given up.
   */
  #failed(line: Line, sent: InDoubt): State {
    const { limits, traffic } = this.#sender;
    const nowMs = performance.now();
    if (sent.status !== undefined) this.#failingMs ??= nowMs;
    return nowMs - (this.#failingMs ?? nowMs) < limits.hookFailingMs ? traffic.waiting(sent, IDLE) : this.#giveUp(line);
  }

  /** Applies an answer that is final or leaves no doubt. */
  async #settle(line: Line, sent: Sent): Promise<State> {
    const { ledger, traffic } = this.#sender;
    const doubt = ledger.doubts.get(line.seq);
    switch (sent.kind) {
      case 'recorded':
        return this.#settled({ kind: 'recorded', lines: [line], letter: takenAfter(doubt) });
      case 'refused': {
        const state = this.#sender.refused(sent, line, refusalOf(sent, doubt));
        if (state.kind !== 'settling') return state;
        traffic.pace.succeeded();
        this.#passes();
        return state;
      }
      case 'in doubt':
        traffic.pace.succeeded();
        this.#doubt(line, sent); // so that the event counts as being sent if the service stops before its dead letter is written
        return this.#giveUp(line);
      case 'stopped':
        return { ...sent, next: await this.#untilTaken() };
      default:
        return traffic.waiting(sent, await this.#untilTaken());
    }
  }

  /**
   * A proxy's page looks like the answer of a plain upstream, so the destination is asked again until it has accepted an event.
   */
  async #untilTaken(): Promise<State> {
    const { ledger, settings } = this.#sender;
    const isCertain = onlyKindOf(settings.to) !== undefined;
    if (ledger.value.id !== null || ledger.doubts.size > 0 || isCertain) return IDLE;
    await ledger.decideKind(undefined);
    return OPENING;
  }

  /**
   * The first event was in doubt too often. If the upstream answers the request for the next one, the doubt concerns the event;
   * otherwise it is an outage.
   */
  async lookFurther(state: Suspect): Promise<State> {
    const { backlog, limits, lastSeq, traffic } = this.#sender;
    const head = backlog.head(0);
    if (head?.kind !== 'lines') return IDLE;
    const [line] = head.lines as [Line];
    this.#tries = limits.forwardTriesMax - 1; // after an outage, one try before looking further again
    const wasLast = state.wasLast || lastSeq === line.seq;
    const { between, next } = backlog.nextAfter(line.seq);
    if (next === undefined) {
      await backlog.more();
      return { ...state, wasLast };
    }
    if (wasLast) return IDLE; // while there was nothing else to send, the outage might have ended
    if (next.kind === 'another journal') return OPENING;
    if (next.kind === 'damage') return stop('damage', next.reason, state);
    const [second] = next.lines as [Line];
    const sent = await this.#sender.request({ lines: [second], lost: undefined });
    if (sent.kind === 'in doubt' && !sent.isFinal) {
      this.#doubt(second, sent);
      return traffic.waiting(sent, IDLE);
    }
    if (sent.kind !== 'recorded' && sent.kind !== 'refused' && sent.kind !== 'in doubt')
      return this.#settle(second, sent);
    this.#passes();
    return settle([this.#givenUp(line), ...between], await this.#settle(second, sent));
  }

  #doubt({ seq }: Line, { status, reason }: InDoubt): void {
    this.#sender.ledger.doubts.set(seq, { outcome: 'in doubt', became: 'given up', status, reason });
  }

  #giveUp(line: Line): State {
    return this.#settled(this.#givenUp(line));
  }

  /** An event that was never sent needs no dead letter. */
  #givenUp(line: Line): Step {
    const outcome = this.#sender.ledger.doubts.get(line.seq);
    return outcome === undefined ? { kind: 'unwanted', last: line } : { kind: 'given up', line, outcome };
  }

  #settled(step: Step): State {
    this.#passes();
    return settle([step]);
  }

  /** The next event becomes the first one. */
  #passes(): void {
    this.#tries = 0;
    this.#failingMs = undefined;
  }
}

/** Used for an event that the upstream accepted at a later try. */
function takenAfter(doubt: Outcome | undefined): Outcome | undefined {
  return doubt && { ...doubt, became: 'taken' };
}

function refusalOf({ status, reason }: Extract<Sent, { kind: 'refused' }>, doubt: Outcome | undefined): Outcome {
  if (doubt === undefined) return { outcome: 'refused', status, reason };
  return { ...doubt, status, reason: `${reason}; an earlier request may have been recorded: ${doubt.reason}` };
}
