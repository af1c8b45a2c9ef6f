import type { ExitCode } from '../config/exit-codes.ts';

/**
 * A failed start. Its message names the problem and what to do, such as `port 3000 on 127.0.0.1 is busy; stop what listens
 * there or choose another with --port`, with one line for each problem. `exitCode` is the exit code of the process: 2, 3, 4 or 5 of `exitCodes`.
 */
export class StartError extends Error {
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}
