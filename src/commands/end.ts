/**
 * How the process ends, also while the disk hangs: `process.exit` waits for the threads that are inside a system call, and a
 * signal that has its default action does not.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { type ExitCode, exitCodes } from '../config/exit-codes.ts';

/**
 * Ends the process with an exit code; by SIGKILL when a thread is still inside a system call after `waitMs`.
 * @param complain takes a sentence for the operator when the exit code is lost
 */
export async function endWith(code: ExitCode, waitMs: number, complain: (problem: string) => void): Promise<never> {
  const lateMs = performance.now() + waitMs;
  while (hasBusyThread()) {
    if (performance.now() > lateMs) {
      complain(
        `a system call has not returned for ${waitMs} ms; the process ends by SIGKILL, and not with exit code ${code}`,
      );
      endBySignal('SIGKILL');
    }
    await sleep(POLL_MS);
  }
  process.exit(code);
}

/** Ends the process at once, by the default action of a signal. */
export function endBySignal(signal: NodeJS.Signals): never {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // Only the first process of a container gets here: the kernel does not let it signal itself.
  if (!hasBusyThread()) process.exit(exitCodes.unexpected);
  process.abort();
}

const POLL_MS = 10;
/** Requests that threads of the pool work on, of those that may never come to an end: files, and names of hosts. */
const THREAD_REQUEST = /^(FSReq|FileHandleCloseReq|GetAddrInfoReq)/;

function hasBusyThread(): boolean {
  return process.getActiveResourcesInfo().some((name) => THREAD_REQUEST.test(name));
}
