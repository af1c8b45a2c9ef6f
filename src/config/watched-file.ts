/** A file of an operator that is read again when it changes. */

import { Mutex } from '../waiting/mutex.ts';
import { readText } from './files.ts';
import type { Limits } from './limits.ts';
import type { Invalid } from './options.ts';

export interface WatchedFile<Value> {
  /** The value of the last valid version. */
  readonly current: Value;
  /**
   * Reads the file again. Resolves when a read that started after this call has taken effect. Never rejects: the problem of an
   * invalid file is passed to `failed`, and `current` stays unchanged.
   */
  reload(): Promise<void>;
  /** Ends the checks for changes. A read that has started can still take effect. */
  stop(): void;
}

export interface FileUse<Value> {
  /** The option that contains the path. The error of a failed first read starts with it. */
  readonly option: string;
  /** @returns the value of the text, or every problem as a clause that starts with its line */
  readonly read: (text: string) => { readonly kind: 'valid'; readonly value: Value } | Invalid;
  /** Called with each valid new version, but not with the first one. It can throw to refuse the version. */
  readonly changed: (current: Value) => void;
  /** Called once for each new problem of a later version: `/etc/a.json, line 1: …`. */
  readonly failed: (problem: string) => void;
  /** Contains the path while the last version could not be read or is invalid. */
  readonly refused?: Set<string> | undefined;
}

/**
 * Reads a file, and reads it again every `deploymentsCheckMs` to find changes.
 * @throws Error if the first read fails; its message has one line for each problem of an invalid file:
 *   `/etc/a.json, line 1: deployments[0].name must be …`
 */
export async function watchFile<Value>(
  path: string,
  limits: Limits,
  { refused = new Set(), ...use }: FileUse<Value>,
): Promise<WatchedFile<Value>> {
  const readFile = () => readText(path, limits.deploymentsBytesMax, limits.fileReadMs);
  const parse = (now: string): Value => {
    const found = use.read(now);
    if (found.kind === 'valid') return found.value;
    throw new Error(found.problems.map((problem) => `${path}, ${problem}`).join('\n'));
  };
  let text = await readFile().catch((error: Error) => {
    error.message = `${use.option}: ${error.message}`;
    throw error;
  });
  let current = parse(text);
  let good = text;
  let reportedProblem = '';

  async function read(): Promise<void> {
    try {
      const now = await readFile();
      reportedProblem = '';
      if (now !== text) {
        text = now; // also an invalid version, whose problems are reported once
        current = parse(now);
        use.changed(current);
        good = now;
      }
      if (now === good) refused.delete(path);
    } catch (error) {
      const problem = (error as Error).message;
      if (problem !== reportedProblem) use.failed(problem);
      reportedProblem = problem;
      refused.add(path);
    }
  }

  // One read at a time: if two overlapped, the older text could be applied last and make a revoked token valid again.
  const reads = new Mutex();
  let next: Promise<void> | undefined;
  function reload(): Promise<void> {
    // A read that has not started sees the newest text.
    next ??= reads.run(() => {
      next = undefined;
      return read();
    });
    return next;
  }

  const timer = setInterval(() => void reload(), limits.deploymentsCheckMs).unref();
  return {
    get current() {
      return current;
    },
    reload,
    stop: () => clearInterval(timer),
  };
}
