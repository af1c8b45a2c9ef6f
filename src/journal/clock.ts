/** The clock of a journal: the time of each batch, and warnings about a clock that is wrong. */

import type { Limits } from '../config/limits.ts';
import { EARLIEST_MS } from '../event/event-time.ts';
import type { Notices } from '../telemetry/log.ts';

/** Compares the clock of the system with the monotonic clock at each reading, so it needs no timer. */
export class Clock {
  readonly #notices: Notices;
  readonly #jumpMs: number;
  /** The system's clock minus the monotonic clock at the last reading, in ms. */
  #offsetMs: number | undefined;

  constructor(notices: Notices, { clockJumpMs }: Limits) {
    this.#jumpMs = clockJumpMs;
    this.#notices = notices;
  }

  /**
   * Warns if the first time is before 2024, or if the clock jumped by more than `clockJumpMs` since the last reading. A journal
   * is ordered by seq, so a wrong time is recorded unchanged.
   * @returns the time of the system's clock
   */
  read(): Date {
    const now = new Date();
    const offsetMs = now.getTime() - performance.now();
    const before = this.#offsetMs;
    this.#offsetMs = offsetMs;
    if (before === undefined || Math.abs(offsetMs - before) > this.#jumpMs) this.#warn(now, before, offsetMs);
    return now;
  }

  #warn(now: Date, before: number | undefined, offsetMs: number): void {
    const clock = now.toISOString();
    if (before !== undefined) {
      const jump_seconds = Math.round((offsetMs - before) / 1000);
      this.#notices.warn('the clock of this machine jumped; times of events jump as well', { clock, jump_seconds });
    }
    if (now.getTime() >= EARLIEST_MS) return;
    this.#notices.warn('the clock of this machine is not set: it is before 2024, and so are the times of events', {
      clock,
    });
  }
}
