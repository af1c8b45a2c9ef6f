/** What became of the events of a report, or of a batch of reports: all of them were recorded, or none. */
export type RecordResult =
  /** They are on stable storage. */
  | { readonly kind: 'recorded' }
  /** None of them is acknowledged; `reason` says why and what to do, such as `the service is stopping`. */
  | { readonly kind: 'refused'; readonly reason: string };

/** One object for all results, so that a report allocates none. */
export const recorded: RecordResult = { kind: 'recorded' };

/** @param reason what the client reads: `the disk refuses writes; send the report again later` */
export function refused(reason: string): RecordResult {
  return { kind: 'refused', reason };
}
