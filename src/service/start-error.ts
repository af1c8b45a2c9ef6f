import type { ExitCode } from '../config/exit-codes.ts';

/** A failed start. The message says in one line what is wrong and what to do; `exitCode` is the exit code of the process. */
export class StartError extends Error {
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}
