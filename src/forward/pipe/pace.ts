/** When a sender sends: exponential backoff with full jitter, slow start after an outage, and the rate limit. */

import type { Limits } from '../../config/limits.ts';

type PaceLimits = Pick<
  Limits,
  'forwardRetryMs' | 'forwardRetryMsMax' | 'forwardRetryAfterMsMax' | 'forwardOutageMs' | 'forwardSpreadMsMax'
>;

/**
 * The pace of one sender. It knows only the monotonic clock, so a time of day that is wrong or changed delays nothing.
 */
export class Pace {
  readonly #limits: PaceLimits;
  readonly #ratePerSecond: number;
  readonly #random: () => number;
  readonly #clock: () => number;
  /** Failures since the last event that was taken. */
  #failures = 0;
  /** When the destination was found unreachable; undefined if it is reachable. */
  #outageMs: number | undefined;
  /** When the slow start after the last long outage begins. */
  #rampMs = Number.NEGATIVE_INFINITY;
  /** The earliest time of the next request. */
  #nextMs = Number.NEGATIVE_INFINITY;

  /**
   * @param ratePerSecond most requests a second
   * @param random from 0 up to but not including 1
   * @param clock monotonic, in milliseconds
   */
  constructor(
    limits: PaceLimits,
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
   * @param afterMs what the destination asked for with `Retry-After`
   * @returns how long to wait, in milliseconds: up to 500 by chance after the first failure. A `Retry-After` is the least, and
   *   chance is added to it, since many senders might have got the same
   */
  failed(afterMs = 0): number {
    const { forwardRetryMs, forwardRetryMsMax, forwardRetryAfterMsMax } = this.#limits;
    this.#outageMs ??= this.#clock();
    const backoffMs = Math.min(forwardRetryMsMax, forwardRetryMs * 2 ** this.#failures);
    this.#failures += 1;
    return Math.min(afterMs, forwardRetryAfterMsMax) + this.#random() * (afterMs > 0 ? forwardRetryMs : backoffMs);
  }

  /** The destination answered. After a long outage the slow start begins. */
  reached(): void {
    const { forwardOutageMs, forwardSpreadMsMax } = this.#limits;
    const nowMs = this.#clock();
    if (this.#outageMs !== undefined && nowMs - this.#outageMs > forwardOutageMs) {
      this.#rampMs = this.#nextMs = nowMs + this.#random() * forwardSpreadMsMax;
    }
    this.#outageMs = undefined;
  }

  /** The destination took an event. */
  succeeded(): void {
    this.reached();
    this.#failures = 0;
  }

  /**
   * @returns how long to wait before the next request, in milliseconds, mostly 0. Call it once a request. In a slow start it is
   *   1 request a second, and twice as many in each further second
   */
  turnMs(): number {
    const nowMs = this.#clock();
    const startMs = Math.max(nowMs, this.#nextMs);
    const rampPerSecond = 2 ** Math.floor((startMs - this.#rampMs) / 1000);
    this.#nextMs = startMs + 1000 / Math.min(this.#ratePerSecond, rampPerSecond);
    return Math.min(startMs - nowMs, TIMER_MS_MAX);
  }
}

/** Timers of Node that are longer end at once: 24 days. */
const TIMER_MS_MAX = 2 ** 31 - 1;
