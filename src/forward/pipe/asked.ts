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
  /** The last event that the destination has. */
  #theirs: Position = { seq: 0, id: null };
  /** The last event of the journal at the last request. */
  #lastSeq = 0;
  /** Whether the destination's last answer was that it had no event of the journal, although it once had some. */
  #isEmpty = false;
  /** Whether the destination was at an unexpected seq when lines were last sent. */
  #wasAtOtherSeq = false;
  #saidStopped = false;
  /** How many times in a row the destination has answered unlike a hub. */
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

  /** Whether the hub still shows that nothing can be sent, although that is no longer true. */
  get isShownStopped(): boolean {
    const { traits, stopped } = this.#sender;
    return traits.isHub && this.#saidStopped && stopped === undefined;
  }

  /** Reports to a hub that nothing can be sent, if the cause is not the hub's own answer. */
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
      const reason = `${to} was a hub and no longer answers like one; check the URL and proxies`;
      return stop('not understood', reason, ASKING);
    }
    if (lostReason !== undefined) return stopAtLostCursor(this.#sender, lostReason, ASKING);
    // A page of a proxy looks the same, and a hub would record plain reports as its own events.
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

  /** @returns the last event that the destination no longer needs */
  async #findSettled({ seq: theirSeq, knowsIds }: Extract<Asked, { kind: 'at' }>): Promise<number> {
    const { ledger, traits, beginSeq, eras } = this.#sender;
    const { seq, id } = ledger.value;
    if (theirSeq > 0) this.#isEmpty = false;
    if (theirSeq >= seq) return theirSeq;
    // The events that follow might have dead letters. These have to be reported to a hub again.
    if (theirSeq > 0) return traits.isHub ? theirSeq : Math.min(seq, await ledger.namedAfter(theirSeq));
    // If the cursor has no id, an operator or `begin` has decided which event is next for a destination that does not know the
    // journal. A destination that accepted an event does not start with `now` a second time. A hub that knows none of the journal's
    // earlier ids has none of its events either.
    if (id === null && !(knowsIds && eras.length > 1 && seq < beginSeq)) return seq;
    if (traits.isEngine) {
      this.#warnOfNothing(seq);
      return seq;
    }
    // The destination has lost everything: also the events before the first event of this id, if it got those. Events that retention
    // has removed get a dead letter.
    return knowsIds || seq < beginSeq ? 0 : beginSeq - 1;
  }

  #warnOfNothing(had: number): void {
    const { settings, notices, disk } = this.#sender;
    if (!this.#isEmpty) {
      const command = commandText(disk, `forward from ${settings.name} --seq 1`);
      const wayOut = `${command}, before the destination has a later event`;
      notices.warn('the destination no longer has any event of this journal', { had, to_send_all_again: wayOut });
    }
    this.#isEmpty = true;
  }

  /**
   * @returns whether the next event, which is loaded, is sent at once: this is so for the first event after a pause, and
   * for a backlog
   */
  next(seq: number): State {
    const isNew = this.#lastSeq < seq;
    return isNew && this.#sender.traffic.untilOld(this.#lingerMs) > 0 ? LINGERING : SENDING;
  }

  get #lingerMs(): number {
    const { traits, settings, limits, ack } = this.#sender;
    return traits.isHub && ack === undefined ? (settings.lingerMs ?? limits.forwardLingerMs) : 0;
  }

  /** Collects events until it is time for the next request or a request is full, and then sends it. A stop also ends the wait. */
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

  /** Sends the loaded lines. @param isLast see `Sender.request` */
  async send(isLast = false): Promise<State> {
    const { traits, limits, backlog } = this.#sender;
    const bytesMax = traits.requestBytesMax(limits);
    const lines = await this.#linesToSend(bytesMax);
    if (lines === undefined) return IDLE;
    const { lastSeq } = this.#sender;
    const [first, last] = [lines[0]!.seq, lines.at(-1)!.seq];
    const { seq, id } = this.#theirs;
    const lost = first > seq + 1 ? { first: seq + 1, last: first - 1 } : undefined;
    // If the hub was restored, a copy of the journal might have sent other events to it.
    const after = first === seq + 1 && id !== null ? id : undefined;
    this.#lastSeq = lastSeq;
    const sending = this.#sender.request({ lines, lost, after, lastSeq }, isLast);
    void backlog.readAhead(last, lastSeq, bytesMax);
    return this.#settle(lines, await sending);
  }

  /** @returns undefined if something else has to be done next */
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
    // A stream might have dropped its last event. This is no error unless the next answer is the same.
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
  const reason = `${to} does not report which events it has, like a hub does, and --ack ${name} requires that; check the URL, or give --ack a hub, with a name that no plain destination has had`;
  return stop('not understood', reason, OPENING);
}
