/**
 * Reads files of an operator one after the other, so that a file system that does not answer holds only one thread. Node has four
 * threads for all system calls, and the journal needs one.
 */

import { Mutex } from '../waiting/mutex.ts';
import { Waiters } from '../waiting/waiters.ts';

/** A file was not read in time. */
export class LateFileError extends Error {
  /** At the start of a service this counts as a failure of the disk: a later start can succeed. */
  readonly code = 'ETIMEDOUT';
  /** The file that does not answer. */
  readonly late: string;

  constructor(path: string, late: string) {
    const problem = `${late} was not read to its end in time; check its file system, or the program that writes to the pipe`;
    super(path === late ? problem : `${path} waits for another file: ${problem}`);
    this.late = late;
  }
}

export class FileQueue {
  readonly #tasks = new Mutex();
  #running: { readonly path: string; isLate: boolean } | undefined;

  /**
   * The file that did not answer in time, until its system call returns. Until then other callers are refused at once.
   */
  get late(): string | undefined {
    return this.#running?.isLate ? this.#running.path : undefined;
  }

  /**
   * Runs a task on a file after all tasks before it.
   * @param ms how long the caller waits, including the tasks before it
   * @param task its signal is aborted when the caller no longer waits; the next task still starts only after it has settled
   * @param signal ends the wait
   * @throws LateFileError at the end of the wait, and at once while a file is late; or the error of the task
   */
  async run<Result>(
    path: string,
    ms: number,
    task: (ending: AbortSignal) => Promise<Result>,
    signal?: AbortSignal,
  ): Promise<Result> {
    if (this.late !== undefined) throw new LateFileError(path, this.late);
    const ending = new AbortController();
    const done = this.#tasks.run(async () => {
      ending.signal.throwIfAborted();
      this.#running = { path, isLate: false };
      return task(ending.signal).finally(() => {
        this.#running = undefined;
      });
    });
    const caller = new Waiters();
    const wake = () => caller.wake();
    done.then(wake, wake);
    if (await caller.wait(signal, ms)) return done;
    if (this.#running !== undefined && !signal?.aborted) this.#running.isLate = true;
    ending.abort();
    throw new LateFileError(path, this.#running?.path ?? path);
  }
}

/** The queue of the process, which has one pool of threads. */
export const fileQueue = new FileQueue();
