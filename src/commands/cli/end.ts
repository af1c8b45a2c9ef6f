/**
 * Ends the process, even while the disk hangs: `process.exit` waits for threads that are inside a system call, but the default
 * action of a signal does not.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { platform } from '../../config/platform.ts';

/**
 * Ends the process with an exit code, or by SIGKILL if a thread is still inside a system call after `waitMs`.
 * @param complain called before SIGKILL with a sentence for the operator that contains the lost exit code
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

/** Ends the process at once, by the default action of a signal: after SIGTERM a shell reports 143. */
export function endBySignal(signal: NodeJS.Signals): never {
  process.removeAllListeners(signal);
  process.kill(process.pid, platform.isWindows ? 'SIGKILL' : signal); // no other signal on Windows ends a process for certain
  // Only the first process (PID 1) of a container gets here, since the kernel ignores the signals that it sends to
  // itself.
  if (!hasBusyThread()) process.exit(exitCodes.unexpected);
  process.abort();
}

const POLL_MS = 10;
/** Requests of the thread pool that might never finish: file operations and name resolution. */
const THREAD_REQUEST = /^(FSReq|FileHandleCloseReq|GetAddrInfoReq)/;

function hasBusyThread(): boolean {
  return process.getActiveResourcesInfo().some((name) => THREAD_REQUEST.test(name));
}
