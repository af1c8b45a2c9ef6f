/**
 * The clock of alarms. Devices deliver their backlog when the service starts or resumes, so no asset becomes silent for `alarmGraceMs`
 * after that.
 *
 * Two consecutive looks reveal a process that was suspended or stopped, and a clock that was set: the time of day and the monotonic
 * clock, which continues while a process is stopped but not while the machine sleeps, advanced by different times, or both by a long
 * time.
 */

/** The clocks at a look, in milliseconds. */
export interface AlarmMoment {
  /** In ms since 1970. */
  readonly nowMs: number;
  /** By the monotonic clock. */
  readonly monoMs: number;
  /**
   * When the service started to run with this clock: its start, or the last time that it was stopped or the clock was
   * set. By the monotonic clock.
   */
  readonly quietFromMs: number;
}

/** Reads the time of day, and the monotonic clock. */
export type Clocks = () => Pick<AlarmMoment, 'nowMs' | 'monoMs'>;

export class AlarmClock {
  readonly #read: Clocks;
  #last: AlarmMoment;

  /** The service starts now. @param read reads both clocks */
  constructor(read: Clocks = () => ({ nowMs: Date.now(), monoMs: performance.now() })) {
    this.#read = read;
    const first = read();
    this.#last = { ...first, quietFromMs: first.monoMs };
  }

  /** Looks at the clocks. Called at least every half minute. */
  look(): AlarmMoment {
    const { nowMs, monoMs } = this.#read();
    const last = this.#last;
    const passedMs = monoMs - last.monoMs;
    const isMoved = Math.abs(nowMs - last.nowMs - passedMs) > MOVED_MS || passedMs > MOVED_MS;
    this.#last = { nowMs, monoMs, quietFromMs: isMoved ? monoMs : last.quietFromMs };
    return this.#last;
  }
}

/** If two looks differ by more, the clock was set or the process was stopped. */
const MOVED_MS = 60_000;
