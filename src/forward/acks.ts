/**
 * `--ack NAME`: a report gets its 200 when the destination NAME has its events too, and nothing is recorded before NAME has all
 * earlier events. So a 200 means that the events are on two disks, and a load balancer leaves out a service that cannot reach
 * NAME.
 */

import type { Limits } from '../config/limits.ts';
import type { Acknowledgements } from '../http/message.ts';
import type { Notices } from '../telemetry/log.ts';
import type { Ledger } from './ledger/ledger.ts';
import type { SeqRange } from './position.ts';
import type { Deployment } from './settings.ts';

export interface AcksOptions {
  /** Name of the destination. */
  readonly name: string;
  /** @returns the first seq of a journal that is not durable yet; undefined before the journal is open */
  readonly nextSeq: (deployment: Deployment) => number | undefined;
  /** Called with the milliseconds that a reply waited for its acknowledgement. */
  readonly onAcknowledged: (ms: number) => void;
  readonly limits: Limits;
  readonly notices: Notices;
}

/** The acknowledgements of all journals of a service. */
export class Acks implements Acknowledgements {
  readonly #options: AcksOptions;
  readonly #acks = new Map<Deployment, Ack>();
  #isOver = false;

  constructor(options: AcksOptions) {
    this.#options = options;
  }

  /** Name of the destination. */
  get name(): string {
    return this.#options.name;
  }

  /** Number of waiting replies. */
  get waiting(): number {
    return [...this.#acks.values()].reduce((sum, { waiting }) => sum + waiting, 0);
  }

  /** @returns the same object each time */
  of(deployment: Deployment): Ack {
    let ack = this.#acks.get(deployment);
    if (ack === undefined) {
      const { notices, nextSeq, ...shared } = this.#options;
      const own = notices.with({ destination: this.name, ...(deployment !== undefined && { deployment }) });
      ack = new Ack({ ...shared, notices: own, nextSeq: () => nextSeq(deployment) });
      this.#acks.set(deployment, ack);
    }
    return ack;
  }

  refusal(deployment: Deployment): string | undefined {
    return this.of(deployment).refusal;
  }

  /** @returns why no journal currently records reports; undefined if at least one does */
  problem(deployments: readonly Deployment[]): string | undefined {
    const refusals = deployments.map((deployment) => this.refusal(deployment));
    return refusals.includes(undefined) ? undefined : refusals[0];
  }

  /** @returns the deployments whose reports are refused, with the reasons */
  troubles(deployments: readonly Deployment[]): Map<string, string> {
    const troubles = new Map<string, string>();
    for (const deployment of deployments) {
      const refusal = this.refusal(deployment);
      if (deployment !== undefined && refusal !== undefined) troubles.set(deployment, refusal);
    }
    return troubles;
  }

  wait(
    deployment: Deployment,
    first: number,
    last: number,
    before: readonly number[],
    answer: (reason?: string) => void,
  ): void {
    const ack = this.of(deployment);
    ack.wait({ first, last }, before, answer);
    if (this.#isOver) ack.giveUp();
  }

  /** Called when the service stops: replies wait for `ms` at most. */
  end(ms: number): void {
    setTimeout(() => {
      this.#isOver = true;
      for (const ack of this.#acks.values()) ack.giveUp();
    }, ms).unref();
  }
}

interface AckOptions extends Omit<AcksOptions, 'nextSeq'> {
  readonly nextSeq: () => number | undefined;
}

/** A reply that waits for its events, all of which are in the range. */
interface Waiting extends SeqRange {
  readonly sinceMs: number;
  readonly answer: (reason?: string) => void;
}

/** The acknowledgements of one journal. The pipe reports which events the destination has. */
export class Ack {
  /** Records which events the destination does not get. Undefined until a destination is known. */
  ledger: Pick<Ledger, 'isMissing'> | undefined;
  readonly #options: AckOptions;
  /** The destination has all events up to this one, except for the missing ones; undefined until it has answered. */
  #seq: number | undefined;
  #isStopped = false;
  #isOpen = false;
  /**
   * While the acknowledgement is not open: the event that the destination needs first; undefined before the journal is
   * open.
   */
  #neededSeq: number | undefined;
  /** The waiting replies, in order of arrival. */
  #waiting: Waiting[] = [];
  #late: NodeJS.Timeout | undefined;

  constructor(options: AckOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Why nothing is recorded now, as a sentence for the client; undefined if reports are recorded. */
  get refusal(): string | undefined {
    if (this.#isOpen) return undefined;
    const why = this.#isStopped ? STOPPED : 'it does not have all earlier events';
    return `not recorded: ${this.#options.name} must have each event too, and ${why}; send the report again later`;
  }

  /** The destination has all events up to this one, except for the missing ones. */
  advance(seq: number): void {
    this.#seq = seq;
    const nowMs = performance.now();
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const one of waiting) {
      if (this.#isMissing(one)) one.answer(this.#notTaken);
      else if (one.last > seq) this.#waiting.push(one);
      else {
        this.#options.onAcknowledged(nowMs - one.sinceMs);
        one.answer();
      }
    }
    this.#tryToOpen();
  }

  /** The destination does not get its next events, up to this one. Dead letters name them. */
  lacks(seq: number): void {
    if (this.#seq !== undefined) this.advance(Math.max(this.#seq, seq));
  }

  /** @param isStopped whether the pipe waits for an operator */
  setStopped(isStopped: boolean): void {
    this.#isStopped = isStopped;
    if (isStopped) {
      this.#close(STOPPED);
      this.giveUp(); // the operator might take days
    } else this.#tryToOpen();
  }

  /** Called when the pipe ends, since the next pipe might have another server as its destination. */
  reset(): void {
    this.#seq = undefined;
    this.#isOpen = false;
    this.#neededSeq = this.#lastSeq;
  }

  /**
   * Waits until the destination has the events of a range, which are durable here.
   * @param before the seqs of earlier events that must arrive too; they need not be consecutive
   */
  wait({ first, last }: SeqRange, before: readonly number[], answer: Waiting['answer']): void {
    const seqs = before.filter((seq) => this.#seq === undefined || seq > this.#seq);
    const all = { first: Math.min(first, ...seqs), last: Math.max(last, ...seqs) };
    const one: Waiting = { ...all, sinceMs: performance.now(), answer };
    if (this.#isMissing(one) || before.some((seq) => this.#isMissing({ first: seq, last: seq }))) {
      answer(this.#notTaken);
      return;
    }
    if (this.#seq !== undefined && one.last <= this.#seq) {
      this.#options.onAcknowledged(0);
      answer();
      return;
    }
    this.#waiting.push(one);
    this.#late ??= setTimeout(() => this.#expire(), this.#options.limits.ackMs).unref();
    if (this.#isStopped) this.giveUp();
  }

  /** Answers the waiting replies. */
  giveUp(): void {
    clearTimeout(this.#late);
    this.#late = undefined;
    for (const { answer } of this.#waiting.splice(0)) answer(this.#notYet);
  }

  #expire(): void {
    const { ackMs } = this.#options.limits;
    const beforeMs = performance.now() - ackMs;
    const isLate = ({ sinceMs }: Waiting) => sinceMs <= beforeMs;
    const late = this.#waiting.filter(isLate);
    this.#waiting = this.#waiting.slice(late.length);
    const [next] = this.#waiting;
    this.#late = next && setTimeout(() => this.#expire(), next.sinceMs - beforeMs).unref();
    if (late.length === 0) return;
    this.#close(`it has not acknowledged an event for ${ackMs / 1000} s`);
    for (const { answer } of late) answer(this.#notYet);
  }

  #close(why: string): void {
    this.#neededSeq = this.#lastSeq;
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#options.notices.warn('reports get 503 until the destination has all events', { why });
  }

  #tryToOpen(): void {
    if (this.#isOpen || this.#isStopped || this.#seq === undefined) return;
    this.#neededSeq ??= this.#lastSeq;
    if (this.#neededSeq === undefined || this.#seq < this.#neededSeq) return;
    this.#isOpen = true;
    this.#options.notices.info('the destination has all events, and reports are recorded', { seq: this.#seq });
  }

  get #lastSeq(): number | undefined {
    const nextSeq = this.#options.nextSeq();
    return nextSeq === undefined ? undefined : nextSeq - 1;
  }

  #isMissing(range: SeqRange): boolean {
    return this.ledger?.isMissing(range) === true;
  }

  get #notYet(): string {
    return `recorded here, not yet at ${this.#options.name}${this.#isStopped ? `: ${STOPPED}` : ''}; it will still be forwarded`;
  }

  get #notTaken(): string {
    const { name } = this.#options;
    return `recorded here, and ${name} does not accept it; the operator finds it with assetlog forward dead ${name}`;
  }
}

const STOPPED = 'forwarding is stopped';
