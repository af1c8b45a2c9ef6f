/**
 * Turns of the event loop for readings, so that they never slow reports down: one reading at a time takes a piece of a file, checks
 * it and writes it to its client. While reports are recorded, readings get a share of the time (a token bucket): half of the time
 * in which the event loop is idle, but never less than a twentieth of all time. Followers get their turns before searches, since
 * they would otherwise be late, and the amount that they read is limited.
 */

import type { Limits } from '../config/limits.ts';
import { Waiters } from '../waiting/waiters.ts';

/** What the turns know about the reports. */
export interface RecordedReports {
  /** When reports were last recorded: see `OwnProgress`. */
  readonly recordedMs: number;
  /** Whether reports wait for the disk. Without this, a slow disk would look as if there were no reports. */
  readonly isWaiting?: () => boolean;
}

/** The turns of all readings of a service, in the order of the requests for them. */
export class Turns {
  readonly #limits: Limits;
  readonly #followers = new Waiters();
  readonly #searches = new Waiters();
  #isRunning = false;
  readonly #reports: RecordedReports;
  /** Time that readings may still use, in milliseconds, at `#countedAtMs`. While it is negative they wait. */
  #creditMs = 0;
  #countedAtMs = performance.now();
  /** When the current turns started, how many they are, and how long a turn takes on average. */
  #startedMs = 0;
  #begun = 1;
  #turnMs = 0.2;
  /**
   * The share of readings, when it was measured, how long the event loop had been idle until then, and how much time readings
   * have used since then.
   */
  #share: number;
  #measuredAtMs = performance.now();
  #idleMs = idleMs();
  #usedMs = 0;

  constructor(limits: Limits, reports: RecordedReports) {
    this.#limits = limits;
    this.#reports = reports;
    this.#share = limits.readTimePercent / 100;
  }

  /**
   * Resolves when it is the caller's turn. The turn lasts until the caller waits for anything else.
   * @param signal removes the caller from the queue
   * @param isFollower whether the caller follows a journal, and has all but its newest lines
   * @throws the reason of the signal
   */
  async take(signal?: AbortSignal, isFollower = false): Promise<void> {
    const turn = (isFollower ? this.#followers : this.#searches).wait(signal);
    if (!this.#isRunning && this.#waiting > 0) {
      this.#count(0);
      this.#next();
    }
    if (!(await turn)) throw signal?.reason;
  }

  get #waiting(): number {
    return this.#followers.size + this.#searches.size;
  }

  /** Node runs both callbacks one after the other, and everything that the turns do happens between them. */
  readonly #schedule = (): void => {
    setImmediate(this.#begin);
    setImmediate(this.#end);
  };

  readonly #begin = (): void => {
    this.#startedMs = performance.now();
    // The number of turns for which there is time: under load there are few iterations of the event loop, and each is
    // long.
    const fitting = Math.floor(Math.min(AT_ONCE_MS, this.#creditMs) / this.#turnMs);
    this.#begun = Math.max(1, Math.min(this.#waiting, fitting));
    for (let left = this.#begun; left > 0; left -= 1) if (!this.#followers.wakeFirst()) this.#searches.wakeFirst();
  };

  readonly #end = (): void => {
    const tookMs = performance.now() - this.#startedMs;
    this.#turnMs += (Math.max(LEAST_TURN_MS, tookMs / this.#begun) - this.#turnMs) / 8;
    this.#count(tookMs);
    if (this.#waiting === 0) this.#isRunning = false;
    else this.#next();
  };

  /** @param usedMs time used since the last count */
  #count(usedMs: number): void {
    const nowMs = performance.now();
    const { readIdleMs } = this.#limits;
    const isIdle = nowMs - this.#reports.recordedMs > readIdleMs && this.#reports.isWaiting?.() !== true;
    this.#usedMs += usedMs;
    this.#measure(nowMs);
    const earnedMs = this.#share * (nowMs - this.#countedAtMs);
    this.#creditMs = isIdle ? SAVED_MS : Math.min(SAVED_MS, this.#creditMs + earnedMs) - usedMs;
    this.#countedAtMs = nowMs;
  }

  /** Without the readings the event loop would be idle during its idle time and during their turns. */
  #measure(nowMs: number): void {
    const { readTimePercent, readIdlePercent } = this.#limits;
    const passedMs = nowMs - this.#measuredAtMs;
    if (passedMs < MEASURED_MS) return;
    const idle = idleMs();
    const free = Math.min(1, (idle - this.#idleMs + this.#usedMs) / passedMs);
    this.#share = Math.max(readTimePercent, readIdlePercent * free) / 100;
    this.#measuredAtMs = nowMs;
    this.#idleMs = idle;
    this.#usedMs = 0;
  }

  #next(): void {
    this.#isRunning = true;
    if (this.#creditMs >= 0) this.#schedule();
    else setTimeout(this.#again, Math.min(MEASURED_MS, -this.#creditMs / this.#share)).unref();
  }

  /** The share might have changed. */
  readonly #again = (): void => {
    this.#count(0);
    this.#next();
  };
}

/** @returns how long the event loop has been idle since its start */
function idleMs(): number {
  return performance.eventLoopUtilization().idle;
}

/** The most time that readings can save up, since a timer of 1 ms takes several ms on a busy machine. */
const SAVED_MS = 4;
/** The most time that they use before the event loop handles reports. */
const AT_ONCE_MS = 0.5;
const LEAST_TURN_MS = 0.01;
/** How often the idle time is measured. */
const MEASURED_MS = 50;
