import { type ExitCode, exitCodes } from '../config/exit-codes.ts';

/**
 * A failed start. The message says what is wrong and what to do, such as `port 3000 on 127.0.0.1 is busy; stop what listens
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
 * @param error of a system call, or an error without a code about what an operator wrote
 * @returns the exit code of a start that ends with the error: 2 for a mistake of the operator, which a restart does not mend, such
 *   as a missing permission; 5 for a failure of the disk (EIO), and for too few descriptors or too little memory (EMFILE, ENOMEM)
 */
export function exitCodeOf({ code, cause }: NodeJS.ErrnoException): ExitCode {
  const known = code ?? (cause as NodeJS.ErrnoException | undefined)?.code;
  return known === undefined || MISTAKES.has(known) ? exitCodes.configuration : exitCodes.diskFailed;
}

/** Codes of system calls that a path, a permission or the choice of the file system explains. */
const MISTAKES: ReadonlySet<string> = new Set([
  ...['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR', 'EISDIR', 'EEXIST', 'ELOOP', 'ENAMETOOLONG'],
  ...['EINVAL', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'],
]);
