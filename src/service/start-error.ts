import { type ExitCode, exitCodes } from '../config/exit-codes.ts';

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

/**
 * @param error of a system call, or an error without a code about a file or an option of the operator
 * @returns the exit code of a start that ends with the error: 2 for a mistake that a restart does not mend, such as a missing
 *   permission; 5 for a failure of the disk (EIO), and for too few descriptors or too little memory (EMFILE, ENOMEM)
 */
export function exitCodeOf({ code, cause }: NodeJS.ErrnoException): ExitCode {
  const known = code ?? (cause as NodeJS.ErrnoException | undefined)?.code;
  return known === undefined || MISTAKES.has(known) ? exitCodes.configuration : exitCodes.diskFailed;
}

/** Codes of system calls that follow from a path, a permission or the choice of the file system. */
const MISTAKES: ReadonlySet<string> = new Set([
  ...['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR', 'EISDIR', 'EEXIST', 'ELOOP', 'ENAMETOOLONG'],
  ...['EINVAL', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'],
]);
