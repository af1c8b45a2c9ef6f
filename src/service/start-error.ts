import type { ExitCode } from '../config/exit-codes.ts';

/** Why a start failed, in one line that says what to do. */
export class StartError extends Error {
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}
