/** What became of the events of a report, or of a batch of reports: all of them were recorded, or none. */
export type RecordResult =
  | Recorded
  /** None of them is acknowledged; `reason` says why and what to do, such as `the service is stopping`. */
  | { readonly kind: 'refused'; readonly reason: string };

/** They are on stable storage. */
export interface Recorded {
  readonly kind: 'recorded';
}

/** One object for all results, so that a report allocates none. */
export const recorded: Recorded = { kind: 'recorded' };

/** @param reason what the client reads: `the disk refuses writes; send the report again later` */
export function refused(reason: string): RecordResult {
  return { kind: 'refused', reason };
}
