/**
 * Sends to a plain upstream: one event in a request. The upstream cannot be asked what it has, so an event whose request failed
 * might be there. Such an event is in doubt, and is sent again only as often as its destination allows; to a hook until time is up.
 */

import type { Line } from '../../journal/look/reading.ts';
import type { Sent } from '../destinations/destination.ts';
import { onlyKindOf } from '../destinations/kinds.ts';
import type { Outcome } from '../ledger/letter.ts';
import { hasEvent, stopAtFork, stopAtLostCursor } from './fork.ts';
import type { Outbox } from './outbox.ts';
import { IDLE, STARTING, type State, type Suspect, stop, type Write } from './states.ts';

type InDoubt = Extract<Sent, { kind: 'in doubt' }>;

export class PlainSending {
  readonly #outbox: Outbox;
  /** Requests that left the first event in doubt. */
  #tries = 0;
  /** Since when all answers for the first event are failures; undefined if the last one was none. Of the monotonic clock. */
  #failingMs: number | undefined;

  constructor(outbox: Outbox) {
    this.#outbox = outbox;
  }

  /** Only the cursor says how far the upstream is, so the cursor has to be about this journal. */
  async begin(): Promise<State> {
    const outbox = this.#outbox;
    const { ledger, lastSeq } = outbox;
    const { value, lostReason, kind } = ledger;
    const { seq, id } = value;
    if (lostReason !== undefined) return stopAtLostCursor(outbox, lostReason, STARTING);
    ledger.value = { ...value, kind }; // of a new hook, only its scheme says it
    if (seq <= lastSeq && (seq === 0 || id === null || (await hasEvent(outbox, value)))) return IDLE;
    const problem = `event ${seq} was sent, and this journal, which ends with ${lastSeq}, does not have it`;
    return stopAtFork(outbox, problem, id, STARTING);
  }

  async send(): Promise<State> {
    const outbox = this.#outbox;
    const { inDoubt } = outbox.settings;
    const head = outbox.backlog.head(outbox.traits.requestBytesMax(outbox.limits));
    if (head?.kind !== 'lines') return IDLE;
    const [line] = head.lines as [Line];
    const doubt = outbox.ledger.doubts.get(line.seq);
    if (doubt !== undefined && inDoubt === 'once') return this.#settled(line, doubt, () => IDLE);
    if (outbox.traits.sends?.(line.event, outbox.limits) === false) {
      const { seq } = line;
      outbox.notices.rated.warn('an event has passed too many hooks and is not posted: is there a circle?', { seq });
      return this.#settled(line, doubt, () => IDLE);
    }
    const sent = await outbox.request({ lines: [line], lost: undefined });
    if (sent.kind !== 'in doubt' || sent.status === undefined) this.#failingMs = undefined;
    if (sent.kind !== 'in doubt' || sent.isFinal) return this.#settle(line, sent);
    this.#tries += 1;
    this.#doubt(line, sent);
    if (outbox.traits.passesFailed) return this.#failed(line, sent);
    return this.#tries < outbox.limits.forwardTriesMax || inDoubt === 'once'
      ? outbox.waiting(sent, IDLE)
      : { kind: 'suspect', reason: sent.reason, wasLast: false };
  }

  /** Gives an event up that was answered with failures for long. Without an answer it is an outage, which gives nothing up. */
  #failed(line: Line, sent: InDoubt): State {
    const { ledger, limits } = this.#outbox;
    const nowMs = performance.now();
    if (sent.status !== undefined) this.#failingMs ??= nowMs;
    return nowMs - (this.#failingMs ?? nowMs) < limits.hookFailingMs
      ? this.#outbox.waiting(sent, IDLE)
      : this.#settled(line, ledger.doubts.get(line.seq), () => IDLE);
  }

  /** What an answer means that leaves no doubt, or is final. */
  async #settle(line: Line, sent: Sent): Promise<State> {
    const outbox = this.#outbox;
    const doubt = outbox.ledger.doubts.get(line.seq);
    switch (sent.kind) {
      case 'recorded': {
        const confirm = () => outbox.ledger.confirmed({ first: line.seq, last: line.seq });
        const taken = () => {
          outbox.taken([line]);
          return IDLE;
        };
        return this.#settled(line, takenAfter(doubt), taken, [confirm]);
      }
      case 'refused':
        if (outbox.isOneRefusalTooMany) return outbox.tooManyRefusals(line, sent.reason);
        outbox.refusals += 1;
        outbox.pace.succeeded();
        return this.#settled(line, refusalOf(sent, doubt), () => IDLE);
      case 'in doubt':
        outbox.pace.succeeded();
        this.#doubt(line, sent); // so that a stop before its dead letter leaves it as being sent
        return this.#settled(line, outbox.ledger.doubts.get(line.seq), () => IDLE);
      case 'stopped':
        return { ...sent, next: await this.#untilTaken() };
      default:
        return outbox.waiting(sent, await this.#untilTaken());
    }
  }

  /** A proxy's page looks like the answer of a plain upstream. So the destination is asked again until it has taken an event. */
  async #untilTaken(): Promise<State> {
    const outbox = this.#outbox;
    const isCertain = onlyKindOf(outbox.settings.to) !== undefined;
    const { ledger } = outbox;
    if (ledger.value.id !== null || ledger.doubts.size > 0 || isCertain) return IDLE;
    ledger.value = { ...ledger.value, kind: undefined };
    await ledger.saveSettled();
    return STARTING;
  }

  /**
   * The first event was in doubt too often. If the upstream answers to the next one, the doubt is about the event; otherwise it is
   * an outage.
   */
  async lookFurther(state: Suspect): Promise<State> {
    const outbox = this.#outbox;
    const head = outbox.backlog.head(0);
    if (head?.kind !== 'lines') return IDLE;
    const [line] = head.lines as [Line];
    this.#tries = outbox.limits.forwardTriesMax - 1; // after an outage, once before looking further again
    const wasLast = state.wasLast || outbox.lastSeq === line.seq;
    const next = outbox.backlog.nextAfter(line.seq);
    if (next === undefined) {
      await outbox.backlog.more();
      return { ...state, wasLast };
    }
    if (wasLast) return IDLE; // while there was nothing else to send, the outage might have ended
    if (next.kind === 'another journal') return STARTING;
    if (next.kind === 'damage') return stop('damage', next.reason, state);
    const [second] = next.lines as [Line];
    const sent = await outbox.request({ lines: [second], lost: undefined });
    if (sent.kind === 'in doubt' && !sent.isFinal) {
      this.#doubt(second, sent);
      return outbox.waiting(sent, IDLE);
    }
    if (sent.kind !== 'recorded' && sent.kind !== 'refused' && sent.kind !== 'in doubt')
      return this.#settle(second, sent);
    const settle = () => outbox.passOthers(() => this.#settle(second, sent));
    return this.#settled(line, outbox.ledger.doubts.get(line.seq), settle);
  }

  #doubt({ seq }: Line, { status, reason }: InDoubt): void {
    this.#outbox.ledger.doubts.set(seq, { outcome: 'in doubt', became: 'given up', status, reason });
  }

  /** The dead letter of an event is durable before the event is passed. */
  #settled(line: Line, result: Outcome | undefined, finish: () => State | Promise<State>, writes: Write[] = []): State {
    const outbox = this.#outbox;
    const addLetter = (outcome: Outcome) => () => outbox.addLetter(line, outcome);
    return {
      kind: 'settling',
      writes: result === undefined ? writes : [...writes, addLetter(result)],
      finish: () => {
        this.#tries = 0;
        this.#failingMs = undefined;
        outbox.passTo({ seq: line.seq, id: line.event.id });
        const { ledger } = outbox;
        const sending = ledger.doubts.size > 0 ? Math.max(...ledger.doubts.keys()) : undefined;
        ledger.value = { ...ledger.value, sending };
        return finish();
      },
    };
  }
}

/** For an event that the upstream took at a later try. */
function takenAfter(doubt: Outcome | undefined): Outcome | undefined {
  return doubt && { ...doubt, became: 'taken' };
}

function refusalOf({ status, reason }: Extract<Sent, { kind: 'refused' }>, doubt: Outcome | undefined): Outcome {
  if (doubt === undefined) return { outcome: 'refused', status, reason };
  return { ...doubt, status, reason: `${reason}; an earlier request may have been recorded: ${doubt.reason}` };
}
