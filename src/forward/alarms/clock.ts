/**
 * The clock of alarms. Devices deliver what they have when the service starts, and when it runs again, so nothing becomes silent for
 * `alarmGraceMs` after that.
 *
 * A process that was suspended or stopped, and a clock that was moved, show in two looks: the time of day and the monotonic clock, which
 * continues while a process is stopped and not while the machine sleeps, went on by different times, or both by a long one.
 */

/** The clocks at a look, in milliseconds. */
export interface AlarmMoment {
  /** Since 1970. */
  readonly nowMs: number;
  /** Of the monotonic clock. */
  readonly monoMs: number;
  /** When the service began to run with this clock: its start, or the last move or stop. Of the monotonic clock. */
  readonly quietFromMs: number;
}

/** Reads the time of day, and the monotonic clock. */
export type Clocks = () => Pick<AlarmMoment, 'nowMs' | 'monoMs'>;

export class AlarmClock {
  readonly #read: Clocks;
  #last: AlarmMoment;

  /** The start of the service is now. @param read both clocks */
  constructor(read: Clocks = () => ({ nowMs: Date.now(), monoMs: performance.now() })) {
    this.#read = read;
    const first = read();
    this.#last = { ...first, quietFromMs: first.monoMs };
  }

  /** Looks at the clocks. It is called at least every half minute. */
  look(): AlarmMoment {
    const { nowMs, monoMs } = this.#read();
    const last = this.#last;
    const passedMs = monoMs - last.monoMs;
    const isMoved = Math.abs(nowMs - last.nowMs - passedMs) > MOVED_MS || passedMs > MOVED_MS;
    this.#last = { nowMs, monoMs, quietFromMs: isMoved ? monoMs : last.quietFromMs };
    return this.#last;
  }
}

/** Two looks that differ by more show a move of the clock, or a stop. */
const MOVED_MS = 60_000;
