/** Graceful shutdown: undoes the steps of a start in reverse order, both after a failed start and when the service stops. */

import { setTimeout as sleep } from 'node:timers/promises';
import { Defect } from '../config/defect.ts';
import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import type { Notices } from '../telemetry/log.ts';

/** Why a service ends. After `journal failed` the journal accepts nothing more; otherwise queued reports are still written. */
export type Cause = 'start failed' | 'stop requested' | 'lock lost' | 'journal failed';

/** Undoes one step of the start. */
export type Undo = (cause: Cause) => Promise<void> | void;

/** A failure that ends the service, with its line of the log. */
const failures = {
  'disk failed': {
    cause: 'journal failed',
    exitCode: exitCodes.diskFailed,
    message: 'the disk failed and the service ends; its next start finds out what is on the disk',
  },
  /** Each deployment's folder has a separate lock, so the requests that were already read can be finished. */
  'lock lost': {
    cause: 'lock lost',
    exitCode: exitCodes.diskFailed,
    message: 'the data folder is no longer locked and the service ends',
  },
  defect: {
    cause: 'journal failed',
    exitCode: exitCodes.unexpected,
    message: 'a journal contradicts itself and the service ends; this is a defect of the service, please report it',
  },
} as const;

/** The completed steps of a start, each with the function that undoes it. */
export class Shutdown {
  /** Resolves to `exitCode` after the last step is undone. */
  readonly ended: Promise<ExitCode>;
  /** The exit code of the process after the service has ended. Set before `run` or by a step. */
  exitCode: ExitCode = exitCodes.done;
  readonly #undos: Undo[] = [];
  readonly #notices: Notices;
  #running: Promise<void> | undefined;
  #end!: (code: ExitCode) => void;

  constructor(notices: Notices) {
    this.#notices = notices;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  /** Whether `run` was called. */
  get hasBegun(): boolean {
    return this.#running !== undefined;
  }

  /** @param undo runs before the functions that were added earlier, so that the last step is undone first */
  add(undo: Undo): void {
    this.#undos.push(undo);
  }

  /**
   * Undoes the steps, once. A later call waits for the same shutdown, and its cause is ignored.
   * @param cause passed to each step
   */
  run(cause: Cause): Promise<void> {
    this.#running ??= this.#undo(cause).finally(() => this.#end(this.exitCode));
    return this.#running;
  }

  /** Ends the service because of an error. A Defect explains the end better than the caller, so it takes precedence. */
  endAfter(failure: 'disk failed' | 'lock lost', error: Error): void {
    const { cause, exitCode, message } = failures[error instanceof Defect ? 'defect' : failure];
    if (cause === 'lock lost' && this.hasBegun) return;
    this.exitCode = exitCode;
    this.#notices.error(message, { problem: error.message });
    void this.run(cause);
  }

  /** Runs the other steps even if one of them fails. */
  async #undo(cause: Cause): Promise<void> {
    const undo = this.#undos.pop();
    if (undo === undefined) return;
    try {
      await undo(cause);
    } finally {
      await this.#undo(cause);
    }
  }
}

/**
 * @returns whether the promise resolved within `ms` milliseconds
 * @throws the promise's error if it rejects within that time
 */
export function resolvesWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  return Promise.race([promise.then(() => true), sleep(ms, false, { ref: false })]);
}
