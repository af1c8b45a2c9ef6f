/**
 * Sends to a destination that can be asked how far it is: a hub, or an engine. Its answer, not the cursor, says what is sent next, so a
 * request may always be repeated.
 */

import type { Line } from '../../journal/look/reading.ts';
import type { GoneRange } from '../../journal/segments.ts';
import type { Position, Sent } from '../destinations/destination.ts';
import { kindOf } from '../destinations/kinds.ts';
import type { Destination } from '../settings.ts';
import { toRun } from './backlog.ts';
import { cursorLost, fork, isOurs } from './fork.ts';
import type { Outbox } from './outbox.ts';
import { ASKING, IDLE, type Settling, STARTING, type State, stop } from './states.ts';

export class ToAsked {
  readonly #outbox: Outbox;
  /** The last event that the destination has. */
  #has: Position = { seq: 0, id: null };
  /** The events of the last request. */
  #sent: GoneRange = { first: 1, last: 0 };
  /** Whether it had no event of the journal when it was asked last, though it had some before. */
  #isEmpty = false;
  /** Whether the destination was at another seq than expected when lines were sent last. */
  #wasElsewhere = false;
  /** How often in a row the destination has answered as no hub does. */
  #strangeAnswers = 0;

  constructor(outbox: Outbox) {
    this.#outbox = outbox;
  }

  async ask(): Promise<State> {
    const outbox = this.#outbox;
    const asked = await outbox.answered(outbox.target.ask(outbox.signal));
    this.#strangeAnswers = asked.kind === 'no hub' ? this.#strangeAnswers + 1 : 0;
    switch (asked.kind) {
      case 'again':
        return outbox.waiting(asked, ASKING);
      case 'stopped':
        return { ...asked, next: ASKING };
      case 'at':
        return this.#continueAt(asked);
      case 'no hub':
        return this.#isNoHub();
    }
  }

  async #isNoHub(): Promise<State> {
    const { value, lostCursor, destination, ack } = this.#outbox;
    const { to } = destination;
    if (ack !== undefined) return noAcknowledgements(destination);
    if (value.kind !== undefined) {
      const reason = `${to} was a hub and does not answer as one any more; check the URL and proxies`;
      return stop('not understood', reason, ASKING);
    }
    if (lostCursor !== undefined) {
      return cursorLost(this.#outbox, lostCursor, ASKING);
    }
    // A page of a proxy looks the same, and a hub takes plain reports for events of its own.
    if (this.#strangeAnswers < 2) return ASKING;
    await this.#outbox.save({ ...value, kind: kindOf(to, false) });
    return STARTING;
  }

  async #continueAt({ seq: hasSeq, id }: Position): Promise<State> {
    const outbox = this.#outbox;
    const { value, lastSeq, destination, notices } = outbox;
    if (hasSeq > lastSeq || (hasSeq > 0 && !(await isOurs(outbox, { seq: hasSeq, id })))) {
      const problem = `${destination.to} has event ${hasSeq} of this journal as ${id}, and this journal, which ends with ${lastSeq}, does not`;
      return fork(outbox, problem, id, ASKING);
    }
    const had = value.seq;
    const seq = await this.#settledAt(hasSeq);
    if (seq < had && value.id !== null) {
      notices.warn('the destination has fewer events than it had: they are sent again', { had, has: hasSeq });
      outbox.namedSeq = Math.min(outbox.namedSeq, seq);
    }
    // It may have taken the last request although its answer was lost.
    if (this.#sent.first <= hasSeq && hasSeq <= this.#sent.last) {
      await outbox.confirmed({ ...this.#sent, last: hasSeq });
    }
    await outbox.unsent.moveTo(seq);
    this.#has = { seq: hasSeq, id };
    const { sending = 0 } = value;
    // With the events before it, a request would have any size.
    const isSentAgain = had <= seq && seq < sending;
    const rest = { kind: outbox.kind, sending: isSentAgain ? sending : undefined };
    await outbox.save({ ...value, ...rest, ...(seq === had ? {} : { seq, id: seq === hasSeq ? id : null }) });
    if (outbox.lostCursor !== undefined) notices.info('the cursor was lost and forwarding continues', { seq: seq + 1 });
    outbox.lostCursor = undefined;
    outbox.pace.reached();
    outbox.ack?.has(seq);
    return IDLE;
  }

  /** @returns the last of the events that the destination needs no more, if it has those up to `hasSeq` */
  async #settledAt(hasSeq: number): Promise<number> {
    const outbox = this.#outbox;
    const { traits } = outbox;
    const { seq: had, id } = outbox.value;
    if (hasSeq > 0) this.#isEmpty = false;
    if (hasSeq >= had) return hasSeq;
    // Those that follow may have dead letters.
    if (hasSeq > 0) return traits.namesLost ? hasSeq : Math.min(had, await outbox.namedAfter(hasSeq));
    // Without an id, an operator or `begin` has said what is next for a destination that does not know the journal. A destination
    // that took an event does not begin `now` a second time.
    if (id === null) return had;
    if (traits.removesOld) {
      this.#warnOfNothing(had);
      return had;
    }
    // It has lost all that it had. What retention removed of that gets a dead letter.
    return Math.min(had, outbox.beginSeq - 1);
  }

  #warnOfNothing(had: number): void {
    const { destination, notices } = this.#outbox;
    if (!this.#isEmpty) {
      const command = toRun(this.#outbox.journal, `forward from ${destination.name} --seq 1`);
      const wayOut = `${command}, before the destination has a later event`;
      notices.warn('the destination has no event of this journal any more', { had, to_send_all_again: wayOut });
    }
    this.#isEmpty = true;
  }

  /** Sends the lines at hand. */
  async send(): Promise<State> {
    const outbox = this.#outbox;
    const bytesMax = outbox.traits.requestBytesMax(outbox.limits);
    const lines = await this.#linesToSend(bytesMax);
    if (lines === undefined) return IDLE;
    const [first, last] = [lines[0]!.seq, lines.at(-1)!.seq];
    const { seq, id } = this.#has;
    const lost = first > seq + 1 ? { first: seq + 1, last: first - 1 } : undefined;
    // A copy may have sent others meanwhile, to a hub that was restored.
    const after = first === seq + 1 && id !== null ? id : undefined;
    this.#sent = { first, last };
    const sending = outbox.request({ lines, lost, after, lastSeq: outbox.lastSeq });
    void outbox.unsent.readAhead(last, outbox.lastSeq, bytesMax);
    return this.#settle(lines, await sending);
  }

  /** @returns undefined if something else comes next */
  async #linesToSend(bytesMax: number): Promise<readonly Line[] | undefined> {
    const { unsent, value, lastSeq } = this.#outbox;
    const { seq, sending = 0 } = value;
    const isSentAgain = sending > seq;
    if (isSentAgain) await unsent.readTo(Math.min(sending, lastSeq));
    const head = unsent.head(isSentAgain ? Number.POSITIVE_INFINITY : bytesMax);
    if (head?.kind !== 'lines') return undefined;
    return isSentAgain ? head.lines.filter((line) => line.seq <= sending) : head.lines;
  }

  #settle(lines: readonly Line[], sent: Sent): State | Promise<State> {
    const outbox = this.#outbox;
    if (sent.kind === 'stopped')
      return sent.why === 'fork' ? fork(outbox, sent.reason, null, ASKING) : { ...sent, next: ASKING };
    if (sent.kind === 'refused') return this.#refused(lines[0]!, sent);
    const isMoved = sent.kind === 'elsewhere' && !this.#wasElsewhere;
    this.#wasElsewhere = sent.kind === 'elsewhere';
    // A stream may have dropped its last event. Nothing is wrong unless the next answer is the same.
    if (isMoved) return ASKING;
    if (sent.kind !== 'recorded') return outbox.waiting(sent, ASKING);
    const taken = lines.findIndex(({ seq }) => seq === sent.seq);
    if (taken === -1) return outbox.waiting({ reason: `it answered with event ${sent.seq}` }, ASKING);
    this.#has = { seq: sent.seq, id: lines[taken]!.event.id };
    outbox.passTo(this.#has);
    outbox.ack?.has(sent.seq);
    return {
      kind: 'settling',
      writes: [() => outbox.confirmed({ first: lines[0]!.seq, last: sent.seq }), () => outbox.saveSettled()],
      finish: () => {
        outbox.taken(lines.slice(0, taken + 1));
        return IDLE;
      },
    };
  }

  #refused(line: Line, sent: Extract<Sent, { kind: 'refused' }>): State | Settling {
    const outbox = this.#outbox;
    if (outbox.isOneRefusalTooMany) return outbox.tooManyRefusals(line, sent.reason);
    const { status, reason } = sent;
    const isNew = line.seq > outbox.namedSeq;
    return {
      kind: 'settling',
      writes: isNew ? [() => outbox.addLetter(line, { outcome: 'refused', status, reason })] : [],
      finish: () => {
        outbox.refusals += 1;
        outbox.passLost({ seq: line.seq, id: line.event.id });
        outbox.ack?.lacks({ first: line.seq, last: line.seq });
        return IDLE;
      },
    };
  }
}

/** @returns the state of a sender that replies wait for, and whose destination cannot be asked */
export function noAcknowledgements({ name, to }: Destination): State {
  const reason = `${to} does not say which events it has, as a hub does, and --ack ${name} needs that; check the URL, or give --ack a hub, with a name that no plain destination has had`;
  return stop('not understood', reason, STARTING);
}
