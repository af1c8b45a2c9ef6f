/**
 * Turns of the event loop for readings, so that they never slow reports down: one reading at a time takes a piece of a file, checks
 * it and writes it to its client. While reports are recorded, readings get a small share of the time (a token bucket).
 */

import type { Limits } from '../config/limits.ts';

/** The share of the time, and when it applies: `{ readTimePercent: 10, readIdleMs: 100 }`. */
export type TurnLimits = Pick<Limits, 'readTimePercent' | 'readIdleMs'>;

/** The turns of all readings of a service, in the order in which they ask: `await turns.take()`. */
export class Turns {
  readonly #limits: TurnLimits;
  readonly #waiting: (() => void)[] = [];
  #isRunning = false;
  #recordedAtMs = Number.NEGATIVE_INFINITY;
  /** Time that readings may still use, in milliseconds, as of `#countedAtMs`; below 0 they wait. */
  #creditMs = 0;
  #countedAtMs = 0;

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  /** Reports were recorded just now. */
  recorded(): void {
    this.#recordedAtMs = performance.now();
  }

  /** Resolves when it is the caller's turn. What it then does before it waits for anything else is its turn. */
  take(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (this.#isRunning) return;
      this.#isRunning = true;
      setImmediate(this.#next);
    });
  }

  readonly #next = (): void => {
    const begin = this.#waiting.shift();
    if (begin === undefined) {
      this.#isRunning = false;
      return;
    }
    const startedMs = performance.now();
    begin();
    // Node runs the microtasks of the turn when this callback returns, and then the next immediate.
    setImmediate(() => this.#ended(startedMs));
  };

  #ended(startedMs: number): void {
    const { readTimePercent, readIdleMs } = this.#limits;
    const nowMs = performance.now();
    if (nowMs - this.#recordedAtMs > readIdleMs) {
      this.#creditMs = 0;
      setImmediate(this.#next);
      return;
    }
    const share = readTimePercent / 100;
    const earnedMs = share * Math.min(nowMs - this.#countedAtMs, SAVED_MS / share);
    this.#creditMs = Math.min(SAVED_MS, this.#creditMs + earnedMs) - (nowMs - startedMs);
    this.#countedAtMs = nowMs;
    if (this.#creditMs >= 0) setImmediate(this.#next);
    else setTimeout(this.#next, -this.#creditMs / share).unref();
  }
}

/** Readings may save up so much time while they have nothing to do. */
const SAVED_MS = 2;
