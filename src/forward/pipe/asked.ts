/**
 * Sends to a destination that can be asked how far it is: a hub, or an engine. Its answer, not the cursor, decides what is sent next, so a
 * request can always be repeated.
 */

import type { Line } from '../../journal/look/reading.ts';
import type { Sent } from '../destinations/destination.ts';
import { kindOf } from '../destinations/kinds.ts';
import type { Position, SeqRange } from '../position.ts';
import type { DestinationSettings } from '../settings.ts';
import { commandText } from './backlog.ts';
import { hasEvent, stopAtFork, stopAtLostCursor } from './fork.ts';
import type { Outbox } from './outbox.ts';
import { ASKING, IDLE, type Settling, STARTING, type State, stop } from './states.ts';

export class AskedSending {
  readonly #outbox: Outbox;
  /** What the destination has. */
  #theirs: Position = { seq: 0, id: null };
  /** The events of the last request. */
  #sent: SeqRange = { first: 1, last: 0 };
  /** Whether it had no event of the journal when it was asked last, though it had some before. */
  #isEmpty = false;
  /** Whether the destination was at another seq than expected when lines were sent last. */
  #wasAtOtherSeq = false;
  /** How often in a row the destination has answered as no hub does. */
  #strangeAnswers = 0;

  constructor(outbox: Outbox) {
    this.#outbox = outbox;
  }

  async ask(): Promise<State> {
    const outbox = this.#outbox;
    const asked = await outbox.answered(outbox.destination.ask!(outbox.signal));
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
    const { ledger, settings, ack } = this.#outbox;
    const { value, lostReason } = ledger;
    const { to } = settings;
    if (ack !== undefined) return stopForAck(settings);
    if (value.kind !== undefined) {
      const reason = `${to} was a hub and does not answer as one any more; check the URL and proxies`;
      return stop('not understood', reason, ASKING);
    }
    if (lostReason !== undefined) return stopAtLostCursor(this.#outbox, lostReason, ASKING);
    // A page of a proxy looks the same, and a hub takes plain reports for events of its own.
    if (this.#strangeAnswers < 2) return ASKING;
    await ledger.save({ ...value, kind: kindOf(to, 'cursor') });
    return STARTING;
  }

  async #continueAt(theirs: Position): Promise<State> {
    const outbox = this.#outbox;
    const { ledger, lastSeq, settings, notices } = outbox;
    const { value } = ledger;
    if (theirs.seq > lastSeq || (theirs.seq > 0 && !(await hasEvent(outbox, theirs)))) {
      const problem = `${settings.to} has event ${theirs.seq} of this journal as ${theirs.id}, and this journal, which ends with ${lastSeq}, does not`;
      return stopAtFork(outbox, problem, theirs.id, ASKING);
    }
    const seq = await this.#findSettled(theirs.seq);
    if (seq < value.seq && value.id !== null) {
      const counts = { had: value.seq, has: theirs.seq };
      notices.warn('the destination has fewer events than it had: they are sent again', counts);
      ledger.namedSeq = Math.min(ledger.namedSeq, seq);
    }
    // It might have taken the last request although its answer was lost.
    if (this.#sent.first <= theirs.seq && theirs.seq <= this.#sent.last) {
      await ledger.confirmed({ ...this.#sent, last: theirs.seq });
    }
    await outbox.backlog.moveTo(seq);
    this.#theirs = { seq: theirs.seq, id: theirs.id };
    const { sending = 0 } = value;
    // With the events before it, a request would have any size.
    const isSentAgain = value.seq <= seq && seq < sending;
    const rest = { kind: ledger.kind, sending: isSentAgain ? sending : undefined };
    await ledger.saveReported({
      ...value,
      ...rest,
      ...(seq === value.seq ? {} : { seq, id: seq === theirs.seq ? theirs.id : null }),
    });
    if (ledger.lostReason !== undefined) notices.info('the cursor was lost and forwarding continues', { seq: seq + 1 });
    ledger.lostReason = undefined;
    outbox.pace.reached();
    outbox.ack?.advance(seq);
    return IDLE;
  }

  /** @returns the last event that the destination does not need any more. @param theirSeq the last one that it has */
  async #findSettled(theirSeq: number): Promise<number> {
    const { ledger, traits, beginSeq } = this.#outbox;
    const { seq, id } = ledger.value;
    if (theirSeq > 0) this.#isEmpty = false;
    if (theirSeq >= seq) return theirSeq;
    // Those that follow might have dead letters.
    if (theirSeq > 0) return traits.namesLost ? theirSeq : Math.min(seq, await ledger.namedAfter(theirSeq));
    // Without an id, an operator or `begin` has decided what is next for a destination that does not know the journal. A destination
    // that took an event does not begin `now` a second time.
    if (id === null) return seq;
    if (traits.removesOld) {
      this.#warnOfNothing(seq);
      return seq;
    }
    // It has lost all that it had. What retention removed of that gets a dead letter.
    return Math.min(seq, beginSeq - 1);
  }

  #warnOfNothing(had: number): void {
    const { settings, notices } = this.#outbox;
    if (!this.#isEmpty) {
      const command = commandText(this.#outbox.journal, `forward from ${settings.name} --seq 1`);
      const wayOut = `${command}, before the destination has a later event`;
      notices.warn('the destination has no event of this journal any more', { had, to_send_all_again: wayOut });
    }
    this.#isEmpty = true;
  }

  /** Sends the loaded lines. */
  async send(): Promise<State> {
    const outbox = this.#outbox;
    const bytesMax = outbox.traits.requestBytesMax(outbox.limits);
    const lines = await this.#linesToSend(bytesMax);
    if (lines === undefined) return IDLE;
    const [first, last] = [lines[0]!.seq, lines.at(-1)!.seq];
    const { seq, id } = this.#theirs;
    const lost = first > seq + 1 ? { first: seq + 1, last: first - 1 } : undefined;
    // A copy might have sent others meanwhile, to a hub that was restored.
    const after = first === seq + 1 && id !== null ? id : undefined;
    this.#sent = { first, last };
    const sending = outbox.request({ lines, lost, after, lastSeq: outbox.lastSeq });
    void outbox.backlog.readAhead(last, outbox.lastSeq, bytesMax);
    return this.#settle(lines, await sending);
  }

  /** @returns undefined if something else comes next */
  async #linesToSend(bytesMax: number): Promise<readonly Line[] | undefined> {
    const { backlog, ledger, lastSeq } = this.#outbox;
    const { seq, sending = 0 } = ledger.value;
    const isSentAgain = sending > seq;
    if (isSentAgain) await backlog.readTo(Math.min(sending, lastSeq));
    const head = backlog.head(isSentAgain ? Number.POSITIVE_INFINITY : bytesMax);
    if (head?.kind !== 'lines') return undefined;
    return isSentAgain ? head.lines.filter((line) => line.seq <= sending) : head.lines;
  }

  #settle(lines: readonly Line[], sent: Sent): State | Promise<State> {
    const outbox = this.#outbox;
    const { ledger } = outbox;
    if (sent.kind === 'stopped')
      return sent.why === 'fork' ? stopAtFork(outbox, sent.reason, null, ASKING) : { ...sent, next: ASKING };
    if (sent.kind === 'refused') return this.#refused(lines[0]!, sent);
    const isMoved = sent.kind === 'elsewhere' && !this.#wasAtOtherSeq;
    this.#wasAtOtherSeq = sent.kind === 'elsewhere';
    // A stream might have dropped its last event. Nothing is wrong unless the next answer is the same.
    if (isMoved) return ASKING;
    if (sent.kind !== 'recorded') return outbox.waiting(sent, ASKING);
    const taken = lines.findIndex(({ seq }) => seq === sent.seq);
    if (taken === -1) return outbox.waiting({ reason: `it answered with event ${sent.seq}` }, ASKING);
    this.#theirs = { seq: sent.seq, id: lines[taken]!.event.id };
    outbox.passTo(this.#theirs);
    outbox.ack?.advance(sent.seq);
    return {
      kind: 'settling',
      writes: [() => ledger.confirmed({ first: lines[0]!.seq, last: sent.seq }), () => ledger.saveSettled()],
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
    const isNew = line.seq > outbox.ledger.namedSeq;
    return {
      kind: 'settling',
      writes: isNew ? [() => outbox.addLetter(line, { outcome: 'refused', status, reason })] : [],
      finish: () => {
        outbox.refusals += 1;
        outbox.passLost({ seq: line.seq, id: line.event.id });
        outbox.ack?.lacks(line.seq);
        return IDLE;
      },
    };
  }
}

/** @returns the state with `--ack`, if the destination cannot be asked */
export function stopForAck({ name, to }: DestinationSettings): State {
  const reason = `${to} does not say which events it has, as a hub does, and --ack ${name} needs that; check the URL, or give --ack a hub, with a name that no plain destination has had`;
  return stop('not understood', reason, STARTING);
}
