/** A repeated check: soon while something happens, and rarely otherwise. */

export interface ChecksOptions {
  /** Pauses before the next check, in milliseconds. */
  readonly soonMs: number;
  readonly idleMs: number;
  /** One call at a time. @returns whether the next check should be soon. Never rejects. */
  readonly check: () => Promise<boolean>;
}

export class Checks {
  readonly #options: ChecksOptions;
  #timer: NodeJS.Timeout | undefined;
  /** The next check is at most `soonMs` away. */
  #isSoon = false;
  /** No checks happen before `begin` and after `stop`. */
  #isRunning = false;
  #isChecking = false;

  constructor(options: ChecksOptions) {
    this.#options = options;
  }

  /** Checks at once, and then again. Resolves after the first check. */
  begin(): Promise<void> {
    this.#isRunning = true;
    return this.#run();
  }

  /** Schedules the next check soon. It is fast, and can be called often. */
  readonly soon = (): void => {
    if (this.#isSoon || !this.#isRunning) return;
    this.#isSoon = true;
    if (!this.#isChecking) this.#plan();
  };

  /** Ends the checks. A check that has started is finished. */
  stop(): void {
    this.#isRunning = false;
    clearTimeout(this.#timer);
  }

  async #run(): Promise<void> {
    this.#isChecking = true;
    this.#isSoon = false;
    const isSoon = await this.#options.check();
    this.#isChecking = false;
    this.#isSoon ||= isSoon;
    this.#plan();
  }

  #plan(): void {
    if (!this.#isRunning) return;
    const { soonMs, idleMs } = this.#options;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#run(), this.#isSoon ? soonMs : idleMs).unref();
  }
}
