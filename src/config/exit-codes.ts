/** What the process ends with, and why. */

/** What the process ends with, and why. */
export const exitCodes = {
  done: 0,
  unexpected: 1,
  configuration: 2,
  damaged: 3,
  inUse: 4,
  diskFailed: 5,
  /** Of `report`: what it was told to send was not taken. */
  refused: 1,
  /** EX_TEMPFAIL of sysexits.h. */
  tryLater: 75,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];
