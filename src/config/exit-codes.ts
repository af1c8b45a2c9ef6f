/** The exit codes of the process. */

/** Exit codes of the service and of its commands: `exitCodes.damaged` is `3`, the code for a damaged journal. */
export const exitCodes = {
  done: 0,
  unexpected: 1,
  configuration: 2,
  damaged: 3,
  inUse: 4,
  diskFailed: 5,
  /** `report`: the service refused a report. */
  refused: 1,
  /** EX_TEMPFAIL of sysexits.h: the same command may succeed later. */
  tryLater: 75,
} as const;

/** One of the exit codes, such as `2`. */
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];
