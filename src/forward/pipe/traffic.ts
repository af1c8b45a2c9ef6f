/**
 * The requests of one pipe, one at a time: when they are sent (exponential backoff with full jitter, slow start after an outage, the rate
 * limit), the request in flight, and how a stop ends it.
 */

import type { Limits } from '../../config/limits.ts';
import { Waiters } from '../../waiting/waiters.ts';
import type { Asked, Destination, Sent, Shipment } from '../destinations/destination.ts';
import { kindOf, traitsOf } from '../destinations/kinds.ts';
import type { DestinationSettings } from '../settings.ts';
import type { Failure, State } from './states.ts';

export class Traffic {
  readonly pace: Pace;
  /** Number of requests by the answer, since the start. The answers are the kinds of `Asked` and `Sent`. */
  readonly answers = new Map<string, number>();
  /** The limits of the pipe. */
  readonly limits: Limits;
  readonly #closing = new AbortController();
  readonly #abort = new AbortController();
  readonly #pauses = new Waiters();
  /** When the request in flight was sent. */
  #requestMs = Number.POSITIVE_INFINITY;
  /** When the last request with events was sent. */
  #sentMs = Number.NEGATIVE_INFINITY;

  /** @param isAwaited whether reports wait for the destination */
  constructor(limits: Limits, { to, ratePerSecond }: DestinationSettings, isAwaited: boolean) {
    this.limits = isAwaited ? withShortPauses(limits) : limits;
    const traits = traitsOf[kindOf(to, 'destination')];
    const near = { forwardRetryMsMax: limits.nearRetryMsMax, forwardOutageMs: Number.POSITIVE_INFINITY };
    const own = { ...this.limits, ...((traits.isEngine || isAwaited) && near) };
    this.pace = new Pace(own, ratePerSecond ?? traits.ratePerSecond);
  }

  /** Aborts when a stop starts: waits end then, and no request is sent any more. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Aborts when a stop has waited long enough for the request in flight. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** For how long a request has not been answered; null if no request is in flight, or only for a short time. */
  get unanswered(): string | null {
    const waitedMs = performance.now() - this.#requestMs;
    return waitedMs < this.limits.forwardSlowMs ? null : `no answer for ${Math.floor(waitedMs / 1000)} s`;
  }

  /**
   * Sends when it is the pipe's turn, unless a stop has started.
   * @param before called when it is the pipe's turn
   * @param isLast whether the request is sent even during a stop, if it is the pipe's turn. @throws the errors of `before`, and the error
   * of a system call
   */
  async send(destination: Destination, batch: Shipment, before: () => Promise<void>, isLast = false): Promise<Sent> {
    const waitMs = this.pace.turnMs();
    await this.pause(waitMs);
    if (this.closing.aborted && (!isLast || waitMs > 0)) return { kind: 'again', reason: 'the service stops' };
    await before();
    const turn = () => this.pause(this.pace.turnMs());
    this.#sentMs = performance.now();
    return this.answered(destination.send({ ...batch, turn }, this.signal));
  }

  /** @returns the time until the last request with events is `ms` old; 0 or less if it already is */
  untilOld(ms: number): number {
    return this.#sentMs + ms - performance.now();
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

  /** @returns the wait after a request without effect */
  waiting({ reason, afterMs }: Failure, next: State): State {
    return { kind: 'waiting', reason, waitMs: this.pace.failed(afterMs), next };
  }

  /** Waits, until `wake` or `close`. */
  async pause(ms: number): Promise<void> {
    if (ms > 0 && !this.closing.aborted) await this.#pauses.wait(undefined, ms);
  }

  /** Ends a pause, and the wait for a turn. */
  wake(): void {
    this.pace.hurry();
    this.#pauses.wake();
  }

  /**
   * Waits for another promise, but not for long.
   * @returns whether it took longer than `ms`, or a pause was ended in the meantime
   */
  async isLate(other: Promise<void>, ms: number): Promise<boolean> {
    const found = new AbortController();
    const late = this.#pauses.wait(found.signal, ms).then(() => true);
    return Promise.race([other.then(() => false), late]).finally(() => found.abort());
  }

  /**
   * Sends no further request. @param ended resolves after the request in flight, which gets `forwardStopMs` to finish
   */
  async close(ended: Promise<void>): Promise<void> {
    this.#closing.abort();
    this.wake();
    const late = setTimeout(() => this.#abort.abort(), this.limits.forwardStopMs);
    await ended;
    clearTimeout(late);
  }
}

/** While reports wait for a destination, its answers never pause them for longer than the 5 s of the handbook. */
function withShortPauses(limits: Limits): Limits {
  const { nearRetryMsMax, forwardRetryMs, forwardStoppedMs } = limits;
  return {
    ...limits,
    forwardRetryAfterMsMax: Math.max(0, nearRetryMsMax - forwardRetryMs), // jitter adds up to forwardRetryMs
    forwardStoppedMs: Math.min(nearRetryMsMax, forwardStoppedMs),
  };
}

export function count(counts: Map<string, number>, name: string, more = 1): void {
  counts.set(name, (counts.get(name) ?? 0) + more);
}

/** The pace of one pipe. It uses only the monotonic clock, so a wrong or changed time of day delays nothing. */
export class Pace {
  readonly #limits: Limits;
  readonly #ratePerSecond: number;
  readonly #random: () => number;
  readonly #clock: () => number;
  /** Number of failures since the last accepted event. */
  #failures = 0;
  /** When the destination was found unreachable; undefined if it is reachable. */
  #outageMs: number | undefined;
  /** When the slow start after the last long outage starts. */
  #rampMs = Number.NEGATIVE_INFINITY;
  /** The earliest time of the next request. */
  #nextMs = Number.NEGATIVE_INFINITY;

  /**
   * @param ratePerSecond the most requests a second
   * @param random from 0 up to but not including 1
   * @param clock monotonic, in milliseconds
   */
  constructor(
    limits: Limits,
    ratePerSecond = Number.POSITIVE_INFINITY,
    random: () => number = Math.random,
    clock: () => number = () => performance.now(),
  ) {
    this.#limits = limits;
    this.#ratePerSecond = ratePerSecond;
    this.#random = random;
    this.#clock = clock;
  }

  /**
   * A request failed.
   * @param afterMs the delay that the destination requested with `Retry-After`
   * @returns how long to wait, in milliseconds: a random time up to 500 after the first failure. A `Retry-After` is the
   * minimum, and a
   *   random time is added to it, since many pipes might have got the same value
   */
  failed(afterMs = 0): number {
    const { forwardRetryMs, forwardRetryMsMax, forwardRetryAfterMsMax } = this.#limits;
    this.#outageMs ??= this.#clock();
    const backoffMs = Math.min(forwardRetryMsMax, forwardRetryMs * 2 ** this.#failures);
    this.#failures += 1;
    return Math.min(afterMs, forwardRetryAfterMsMax) + this.#random() * (afterMs > 0 ? forwardRetryMs : backoffMs);
  }

  /** The destination answered. After a long outage this starts the slow start. */
  reached(): void {
    const { forwardOutageMs, forwardSpreadMsMax } = this.#limits;
    const nowMs = this.#clock();
    if (this.#outageMs !== undefined && nowMs - this.#outageMs > forwardOutageMs) {
      this.#rampMs = this.#nextMs = nowMs + this.#random() * forwardSpreadMsMax;
    }
    this.#outageMs = undefined;
  }

  /** The destination accepted an event. */
  succeeded(): void {
    this.reached();
    this.#failures = 0;
  }

  /** Makes the next turn due now; a slow start begins with it. */
  hurry(): void {
    const nowMs = this.#clock();
    this.#rampMs = Math.min(this.#rampMs, nowMs);
    this.#nextMs = Math.min(this.#nextMs, nowMs);
  }

  /**
   * @returns how long to wait before the next request, in milliseconds, mostly 0. Called once for each request. A slow start
   *   allows 1 request a second, and twice as many in each further second
   */
  turnMs(): number {
    const nowMs = this.#clock();
    const startMs = Math.max(nowMs, this.#nextMs);
    const rampPerSecond = 2 ** Math.floor((startMs - this.#rampMs) / 1000);
    this.#nextMs = startMs + 1000 / Math.min(this.#ratePerSecond, rampPerSecond);
    return Math.min(startMs - nowMs, TIMER_MS_MAX);
  }
}

/** A longer timer of Node would end at once. This is 24 days. */
const TIMER_MS_MAX = 2 ** 31 - 1;
