/** The exit codes of the service and of its commands, and the exit codes of errors. */

export const exitCodes = {
  done: 0,
  unexpected: 1,
  configuration: 2,
  damaged: 3,
  inUse: 4,
  /**
   * Also used if a resource that a start needs, such as its address, is not available yet, so that the same start can
   * succeed later.
   */
  diskFailed: 5,
  /** `report`: the service refused a report. */
  refused: 1,
  /** EX_TEMPFAIL of sysexits.h: the same command can succeed later. */
  tryLater: 75,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/**
 * @param error the error of a system call, or an error without a code about a file or an option of the operator
 * @returns 2 for a mistake that only a person can correct, such as a missing permission or a busy port; 5 for everything that can
 *   resolve itself: a failed or read-only disk (EIO, EROFS), too few descriptors or too little memory (EMFILE, ENOMEM), an address or a
 *   name that does not exist yet (EADDRNOTAVAIL, EAI_AGAIN)
 */
export function exitCodeOf(error: Error): ExitCode {
  const code = codeOf(error);
  return code === undefined || MISTAKES.has(code) ? exitCodes.configuration : exitCodes.diskFailed;
}

/** Like `exitCodeOf`, for files of a journal: no operator chose their names, so only a missing permission is a mistake. */
export function exitCodeOfJournal(error: Error): ExitCode {
  return DENIALS.has(codeOf(error) ?? '') ? exitCodes.configuration : exitCodes.diskFailed;
}

function codeOf({ code, cause }: NodeJS.ErrnoException): string | undefined {
  return code ?? (cause as NodeJS.ErrnoException | undefined)?.code;
}

const DENIALS: ReadonlySet<string> = new Set(['EACCES', 'EPERM']);
/** Codes of system calls that are caused by a path, a permission, an address, or the choice of the file system. */
const MISTAKES: ReadonlySet<string> = new Set([
  ...DENIALS,
  ...['ENOENT', 'ENOTDIR', 'EISDIR', 'EEXIST', 'ELOOP', 'ENAMETOOLONG', 'EINVAL', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'],
  ...['EADDRINUSE', 'EAFNOSUPPORT', 'ENOTFOUND'],
]);
