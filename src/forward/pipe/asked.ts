/**
 * Sends to a destination that can be asked how far it is: a hub, or an engine. Its answer, not the cursor, decides what is sent next, so a
 * request can always be repeated.
 */

import type { Line } from '../../journal/look/reading.ts';
import type { Asked, Sent } from '../destinations/destination.ts';
import { kindOf } from '../destinations/kinds.ts';
import type { Position } from '../position.ts';
import type { DestinationSettings } from '../settings.ts';
import { commandText } from './backlog.ts';
import { hasSameEvent, stopAtFork, stopAtLostCursor } from './fork.ts';
import type { Sender } from './sender.ts';
import { ASKING, IDLE, LINGERING, OPENING, SENDING, type State, settle, stop } from './states.ts';

export class AskedSending {
  readonly #sender: Sender;
  /** What the destination has. */
  #theirs: Position = { seq: 0, id: null };
  /** The last event of the journal at the last request. */
  #lastSeq = 0;
  /** Whether it had no event of the journal when it was asked last, though it had some before. */
  #isEmpty = false;
  /** Whether the destination was at another seq than expected when lines were sent last. */
  #wasAtOtherSeq = false;
  #saidStopped = false;
  /** How often in a row the destination has answered as no hub does. */
  #strangeAnswers = 0;

  constructor(sender: Sender) {
    this.#sender = sender;
  }

  async ask(): Promise<State> {
    const { traffic } = this.#sender;
    const asked = await this.#request();
    this.#strangeAnswers = asked.kind === 'no hub' ? this.#strangeAnswers + 1 : 0;
    switch (asked.kind) {
      case 'again':
        return traffic.waiting(asked, ASKING);
      case 'stopped':
        return { ...asked, next: ASKING };
      case 'at':
        return this.#continueAt(asked);
      case 'no hub':
        return this.#isNoHub();
    }
  }

  /** Whether a hub heard last that nothing can be sent, which is so no longer. */
  get isShownStopped(): boolean {
    const { traits, stopped } = this.#sender;
    return traits.isHub && this.#saidStopped && stopped === undefined;
  }

  /** Lets a hub show that nothing can be sent, when what stops that is not its answer. */
  async tell(): Promise<void> {
    if (this.#sender.traits.isHub) await this.#request();
  }

  #request(): Promise<Asked> {
    const { traffic, destination, lastSeq, stopped, ledger } = this.#sender;
    this.#saidStopped = stopped !== undefined;
    const about = { lastSeq, stopped, unsent: Math.max(0, lastSeq - ledger.value.seq) };
    return traffic.answered(destination!.ask!(traffic.signal, about));
  }

  async #isNoHub(): Promise<State> {
    const { ledger, settings, ack } = this.#sender;
    const { value, lostReason } = ledger;
    const { to } = settings;
    if (ack !== undefined) return stopForAck(settings);
    if (value.kind !== undefined) {
      const reason = `${to} was a hub and does not answer as one any more; check the URL and proxies`;
      return stop('not understood', reason, ASKING);
    }
    if (lostReason !== undefined) return stopAtLostCursor(this.#sender, lostReason, ASKING);
    // A page of a proxy looks the same, and a hub takes plain reports for events of its own.
    if (this.#strangeAnswers < 2) return ASKING;
    await ledger.decideKind(kindOf(to, 'cursor'));
    return OPENING;
  }

  async #continueAt(theirs: Extract<Asked, { kind: 'at' }>): Promise<State> {
    const { ledger, lastSeq, settings, notices, backlog, traffic, ack } = this.#sender;
    const { value } = ledger;
    if (theirs.seq > lastSeq || (theirs.id !== null && !(await hasSameEvent(this.#sender, theirs)))) {
      const problem = `${settings.to} has event ${theirs.seq} of this journal as ${theirs.id}, and this journal, which ends with ${lastSeq}, does not`;
      return stopAtFork(this.#sender, problem, theirs.id, ASKING, theirs.seq);
    }
    const seq = await this.#findSettled(theirs);
    if (seq < value.seq && (value.id !== null || seq === 0)) {
      const counts = { had: value.seq, has: theirs.seq };
      if (ledger.isAtNewUrl && theirs.seq === 0)
        notices.info('the new hub has no event of this journal: all are sent', counts);
      else notices.warn('the destination has fewer events than it had: they are sent again', counts);
      ledger.namedSeq = Math.min(ledger.namedSeq, seq);
    }
    await backlog.moveTo(seq);
    this.#theirs = { seq: theirs.seq, id: theirs.id };
    await ledger.moveTo({ seq, id: seq === theirs.seq ? theirs.id : null });
    traffic.pace.reached();
    ack?.advance(seq);
    return IDLE;
  }

  /** @returns the last event that the destination does not need any more */
  async #findSettled({ seq: theirSeq, knowsIds }: Extract<Asked, { kind: 'at' }>): Promise<number> {
    const { ledger, traits, beginSeq, eras } = this.#sender;
    const { seq, id } = ledger.value;
    if (theirSeq > 0) this.#isEmpty = false;
    if (theirSeq >= seq) return theirSeq;
    // Those that follow might have dead letters. A hub has to be told of these once more.
    if (theirSeq > 0) return traits.isHub ? theirSeq : Math.min(seq, await ledger.namedAfter(theirSeq));
    // Without an id, an operator or `begin` has decided what is next for a destination that does not know the journal. A destination
    // that took an event does not begin `now` a second time. A hub that knows no earlier id of it either has none of its events.
    if (id === null && !(knowsIds && eras.length > 1 && seq < beginSeq)) return seq;
    if (traits.isEngine) {
      this.#warnOfNothing(seq);
      return seq;
    }
    // It has lost all that it had: also what is before the first event of this id, if it got that. What retention removed of that gets
    // a dead letter.
    return knowsIds || seq < beginSeq ? 0 : beginSeq - 1;
  }

  #warnOfNothing(had: number): void {
    const { settings, notices, disk } = this.#sender;
    if (!this.#isEmpty) {
      const command = commandText(disk, `forward from ${settings.name} --seq 1`);
      const wayOut = `${command}, before the destination has a later event`;
      notices.warn('the destination has no event of this journal any more', { had, to_send_all_again: wayOut });
    }
    this.#isEmpty = true;
  }

  /** @returns whether the next event, which is loaded, is sent at once: the first one after a pause is, and a backlog */
  next(seq: number): State {
    const isNew = this.#lastSeq < seq;
    return isNew && this.#sender.traffic.untilOld(this.#lingerMs) > 0 ? LINGERING : SENDING;
  }

  get #lingerMs(): number {
    const { traits, settings, limits, ack } = this.#sender;
    return traits.isHub && ack === undefined ? (settings.lingerMs ?? limits.forwardLingerMs) : 0;
  }

  /** Lets events gather until it is time for the next request or there is a full one, and sends it: also when a stop ends that. */
  async linger(): Promise<State> {
    const { traits, limits, ledger, backlog, traffic } = this.#sender;
    const bytesMax = traits.requestBytesMax(limits);
    for (let isOver = false; ; ) {
      await backlog.readAhead(ledger.value.seq, this.#sender.lastSeq, bytesMax);
      const waitMs = traffic.untilOld(this.#lingerMs);
      if (isOver || waitMs <= 0 || backlog.isFull(bytesMax) || traffic.closing.aborted) break;
      const ended = new AbortController();
      const more = this.#sender.moreEvents(limits.forwardLingerEventsMax, ended.signal);
      isOver = await traffic.isLate(more, waitMs);
      ended.abort();
    }
    return this.send(true);
  }

  /** Sends the loaded lines. @param isLast as `Sender.request` */
  async send(isLast = false): Promise<State> {
    const { traits, limits, backlog } = this.#sender;
    const bytesMax = traits.requestBytesMax(limits);
    const lines = await this.#linesToSend(bytesMax);
    if (lines === undefined) return IDLE;
    const { lastSeq } = this.#sender;
    const [first, last] = [lines[0]!.seq, lines.at(-1)!.seq];
    const { seq, id } = this.#theirs;
    const lost = first > seq + 1 ? { first: seq + 1, last: first - 1 } : undefined;
    // A copy might have sent others meanwhile, to a hub that was restored.
    const after = first === seq + 1 && id !== null ? id : undefined;
    this.#lastSeq = lastSeq;
    const sending = this.#sender.request({ lines, lost, after, lastSeq }, isLast);
    void backlog.readAhead(last, lastSeq, bytesMax);
    return this.#settle(lines, await sending);
  }

  /** @returns undefined if something else comes next */
  async #linesToSend(bytesMax: number): Promise<readonly Line[] | undefined> {
    const { backlog, ledger, lastSeq } = this.#sender;
    const { seq, sending = 0 } = ledger.value;
    const isSentAgain = sending > seq;
    if (isSentAgain) await backlog.readTo(Math.min(sending, lastSeq));
    const head = backlog.head(isSentAgain ? Number.POSITIVE_INFINITY : bytesMax);
    if (head?.kind !== 'lines') return undefined;
    return isSentAgain ? head.lines.filter((line) => line.seq <= sending) : head.lines;
  }

  #settle(lines: readonly Line[], sent: Sent): State | Promise<State> {
    const { traffic, ack } = this.#sender;
    if (sent.kind === 'stopped')
      return sent.why === 'fork' ? stopAtFork(this.#sender, sent.reason, null, ASKING) : { ...sent, next: ASKING };
    if (sent.kind === 'refused') {
      const { status, reason } = sent;
      return this.#sender.refused(sent, lines[0]!, { outcome: 'refused', status, reason });
    }
    const isMoved = sent.kind === 'elsewhere' && !this.#wasAtOtherSeq;
    this.#wasAtOtherSeq = sent.kind === 'elsewhere';
    // A stream might have dropped its last event. Nothing is wrong unless the next answer is the same.
    if (isMoved) return ASKING;
    if (sent.kind !== 'recorded') return traffic.waiting(sent, ASKING);
    const taken = lines.findIndex(({ seq }) => seq === sent.seq);
    if (taken === -1) return traffic.waiting({ reason: `it answered with event ${sent.seq}` }, ASKING);
    this.#theirs = { seq: sent.seq, id: lines[taken]!.event.id };
    ack?.advance(sent.seq);
    return settle([{ kind: 'recorded', lines: lines.slice(0, taken + 1) }]);
  }
}

/** @returns the state with `--ack`, if the destination cannot be asked */
export function stopForAck({ name, to }: DestinationSettings): State {
  const reason = `${to} does not say which events it has, as a hub does, and --ack ${name} needs that; check the URL, or give --ack a hub, with a name that no plain destination has had`;
  return stop('not understood', reason, OPENING);
}
