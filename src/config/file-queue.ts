/**
 * The files that an operator wrote are read one after the other: a file system that is gone then holds one thread. Node has four
 * for all system calls, and the journal needs one.
 */

import { Mutex } from './mutex.ts';
import { Waiters } from './waiters.ts';

/** A file was not read in time. */
export class LateFileError extends Error {
  /** At the start of a service it is a failure of the disk, after which a later start may succeed. */
  readonly code = 'ETIMEDOUT';
  /** The file that holds up the others, or itself. */
  readonly late: string;

  constructor(path: string, late: string) {
    const problem = `${late} was not read to its end in time; check its file system, or what writes to the pipe`;
    super(path === late ? problem : `${path} waits for another file: ${problem}`);
    this.late = late;
  }
}

export class FileQueue {
  readonly #tasks = new Mutex();
  #running: { readonly path: string; isLate: boolean } | undefined;

  /** The file for which a caller has waited in vain, until the system lets go of it. Nothing else begins to wait for it. */
  get late(): string | undefined {
    return this.#running?.isLate ? this.#running.path : undefined;
  }

  /**
   * Runs a task on a file after all tasks before it.
   * @param ms how long the caller waits, also for the tasks before it
   * @param task gets a signal that is aborted when its caller waits no longer; the next task begins when it has settled all the same
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

/** That of the process, which has one pool of threads. */
export const fileQueue = new FileQueue();
