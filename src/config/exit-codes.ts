/** The exit codes of the service and of its commands. */

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

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];
