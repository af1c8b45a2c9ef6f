/**
 * What forwarding needs of a journal: to know before files are removed, and to hold files back that a destination still needs.
 */

/** For example `{ heldBack: () => undefined, removing: async () => {}, closed: async () => {} }`. Shared by one journal at most. */
export interface JournalHooks {
  /**
   * Asked at each run of retention.
   * @returns the seq from which on events are still to be sent, and by whom: `{ fromSeq: 54, reason: '…' }`. Files with such events
   *   stay; at the limit of retention, reports are refused with the reason. Undefined if all may be removed
   */
  heldBack(): HeldBack | undefined;
  /**
   * Called before files are removed. They are removed after it resolves; if it rejects, nothing is removed.
   * @param lastSeq the last seq that the journal will no longer have
   */
  removing(lastSeq: number): Promise<void>;
  /**
   * Called after a file was closed because it is full, and before a clean stop is noted. Its failure changes nothing else.
   * @param lastSeq the last durable seq, such as 53
   */
  closed(lastSeq: number): Promise<void>;
}

/** Events that may not be removed yet: `{ fromSeq: 54, reason: 'the destination upstream has not received event 54 yet; …' }`. */
export interface HeldBack {
  readonly fromSeq: number;
  /** For clients and operators: which destination, and what to do. */
  readonly reason: string;
}
