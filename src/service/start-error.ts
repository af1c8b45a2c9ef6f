import type { ExitCode } from '../config/exit-codes.ts';

/**
 * A failed start. The message says what is wrong and what to do, such as `port 3000 on 127.0.0.1 is busy; stop what listens
 * there or choose another with --port`, with one line for each problem. `exitCode` is the exit code of the process: 2, 3, 4 or 5 of `exitCodes`.
 */
export class StartError extends Error {
  /** Exit code of the process, such as 4 if another process has locked the data folder. */
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}
