/** Graceful shutdown: undoes the steps of a start in reverse order, whether the start fails or the service stops. */

import { setTimeout as sleep } from 'node:timers/promises';
import { type ExitCode, exitCodes } from '../config/exit-codes.ts';

export type Cause = 'start failed' | 'stop requested' | 'lock lost' | 'disk failed';

/** Takes back one step of the start. */
export type Undo = (cause: Cause) => Promise<void> | void;

export class Shutdown {
  /** Resolves after the last step. */
  readonly ended: Promise<ExitCode>;
  /** Of the process, once the service has ended. */
  exitCode: ExitCode = exitCodes.done;
  readonly #undos: Undo[] = [];
  #running: Promise<void> | undefined;
  #end!: (code: ExitCode) => void;

  constructor() {
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  get hasBegun(): boolean {
    return this.#running !== undefined;
  }

  /** @param undo runs before those that were added earlier */
  add(undo: Undo): void {
    this.#undos.push(undo);
  }

  /** Runs once; a later call waits for the same end, whatever its cause. */
  run(cause: Cause): Promise<void> {
    this.#running ??= this.#undo(cause).finally(() => this.#end(this.exitCode));
    return this.#running;
  }

  /** A step that fails does not keep the others from running. */
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

/** @returns whether the promise resolved in time. @throws as the promise, if it rejects in time */
export function resolvesWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  return Promise.race([promise.then(() => true), sleep(ms, false, { ref: false })]);
}
