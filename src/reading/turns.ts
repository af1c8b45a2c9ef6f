/**
 * Turns of the event loop for readings, so that they never slow reports down: one reading at a time takes a piece of a file, checks
 * it and writes it to its client. While reports are recorded, readings get a small share of the time (a token bucket).
 */

import type { Limits } from '../config/limits.ts';
import { Waiters } from '../config/waiters.ts';

/** The share of the time, and when it applies. */
export type TurnLimits = Pick<Limits, 'readTimePercent' | 'readIdleMs'>;

/** The turns of all readings of a service, in the order in which they ask. */
export class Turns {
  readonly #limits: TurnLimits;
  readonly #waiting = new Waiters();
  #isRunning = false;
  readonly #progress: { readonly recordedMs: number };
  /** Time that readings may still use, in milliseconds, as of `#countedAtMs`; below 0 they wait. */
  #creditMs = 0;
  #countedAtMs = 0;
  /** When the turns that are under way began, how many they are, and how long one takes on average. */
  #startedMs = 0;
  #begun = 1;
  #turnMs = 0.2;

  /** @param progress when reports were recorded last: see `OwnProgress` */
  constructor(limits: TurnLimits, progress: { readonly recordedMs: number }) {
    this.#limits = limits;
    this.#progress = progress;
  }

  /**
   * Resolves when it is the caller's turn. What it then does before it waits for anything else is its turn.
   * @param signal removes the caller from the queue
   * @throws the reason of the signal
   */
  async take(signal?: AbortSignal): Promise<void> {
    const turn = this.#waiting.wait(signal);
    if (!this.#isRunning && this.#waiting.size > 0) {
      this.#count(0);
      this.#next();
    }
    if (!(await turn)) throw signal?.reason;
  }

  /** Node runs both callbacks one after the other, and between them all that the turns do. */
  readonly #schedule = (): void => {
    setImmediate(this.#begin);
    setImmediate(this.#end);
  };

  readonly #begin = (): void => {
    this.#startedMs = performance.now();
    // As many turns as there is time for: under load there are few iterations of the event loop, and each is long.
    const fitting = Math.floor(Math.min(SAVED_MS, this.#creditMs) / this.#turnMs);
    this.#begun = Math.max(1, Math.min(this.#waiting.size, fitting));
    for (let left = this.#begun; left > 0; left -= 1) this.#waiting.wakeFirst();
  };

  readonly #end = (): void => {
    const tookMs = performance.now() - this.#startedMs;
    this.#turnMs += (Math.max(LEAST_TURN_MS, tookMs / this.#begun) - this.#turnMs) / 8;
    this.#count(tookMs);
    if (this.#waiting.size === 0) this.#isRunning = false;
    else this.#next();
  };

  /** @param usedMs since it was counted last */
  #count(usedMs: number): void {
    const nowMs = performance.now();
    const isIdle = nowMs - this.#progress.recordedMs > this.#limits.readIdleMs;
    const earnedMs = this.#share * (nowMs - this.#countedAtMs);
    this.#creditMs = isIdle ? SAVED_MS : Math.min(SAVED_MS, this.#creditMs + earnedMs) - usedMs;
    this.#countedAtMs = nowMs;
  }

  #next(): void {
    this.#isRunning = true;
    if (this.#creditMs >= 0) this.#schedule();
    else setTimeout(this.#schedule, -this.#creditMs / this.#share).unref();
  }

  get #share(): number {
    return this.#limits.readTimePercent / 100;
  }
}

/** Readings may save up so much time while they have nothing to do, and use so much at a time. */
const SAVED_MS = 0.5;
const LEAST_TURN_MS = 0.01;
