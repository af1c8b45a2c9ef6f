/**
 * The followers of a journal: each is called when something happens to the journal. Events arrive in order, and each follower
 * handles an event before the next follower does. The journal's own keys are the first follower; the others are listed once, in
 * `service/followers.ts`.
 */

import { Defect } from '../config/defect.ts';
import type { Notices } from '../telemetry/log.ts';
import type { LineMembers } from './line/record.ts';
import type { Segment } from './open/recovery.ts';
import type { QueueEntry } from './queue-entry.ts';

/** A follower omits the methods that it does not need. An exception is logged; a Defect also fails the journal. */
export interface Follower {
  /** The journal is open, and records nothing yet. @param lastSeq its last seq; 0 if it is new */
  opened?(lastSeq: number): void;
  /** The lines of a batch are durable; their replies are not sent yet. */
  committed?(batch: Committed): void;
  /** A full file was closed, and the next one was created. */
  rotated?(closed: Segment): void;
  /**
   * Files with the events from `firstSeq` to `lastSeq` are about to be removed, perhaps before the journal is open. They are removed
   * after all followers have resolved. If a follower rejects, the files are kept and a later run calls this again; a crash can also
   * repeat the call.
   */
  removing?(lastSeq: number, firstSeq: number): Promise<void>;
  /** The marker of the removal is durable, and the files are being removed. */
  removed?(lastSeq: number): void;
  /**
   * The last batch is written, and the stop is about to be marked as clean. Never rejects. @param lastSeq the last
   * durable seq
   */
  closing?(lastSeq: number): Promise<void>;
}

/** One write: a batch, or, without entries, only a test that a write succeeds. */
export interface Committed {
  readonly entries: readonly QueueEntry[];
  readonly lines: readonly LineMembers[];
  /** The `time` of the lines. */
  readonly time: Date;
  /** The end of the newest file before and after the write. */
  readonly before: Segment;
  readonly after: Segment;
  /** The lines, in memory that is reused for the next batch. */
  readonly fresh: FreshLines | undefined;
}

/** Lines that the writer has just made durable. They are the last lines of their file. */
export interface FreshLines {
  readonly file: string;
  /** Position of the first line in the file. */
  readonly byte: number;
  readonly bytes: Buffer;
}

/** Events that must not be removed yet. */
export interface HeldBack {
  readonly fromSeq: number;
  /** The destination and what to do, for clients and operators. */
  readonly reason: string;
}

/** The followers of one journal. */
export class Followers {
  readonly #all: readonly Follower[];
  readonly #notices: Pick<Notices, 'error'>;

  constructor(all: readonly Follower[], notices: Pick<Notices, 'error'>) {
    this.#all = all;
    this.#notices = notices;
  }

  /** Calls each follower, without waiting for it. @throws Defect */
  tell<Name extends FactName>(name: Name, fact: FactOf<Name>): void {
    for (const one of this.#all) {
      const hear = one[name] as ((fact: FactOf<Name>) => void) | undefined;
      try {
        hear?.call(one, fact);
      } catch (error) {
        if (error instanceof Defect) throw error;
        logThrown(error, this.#notices);
      }
    }
  }

  /** Calls the followers one after the other. @throws the first error */
  async removing(lastSeq: number, firstSeq: number): Promise<void> {
    for (const one of this.#all) await one.removing?.(lastSeq, firstSeq);
  }

  /** Waits for the followers one after the other. Never rejects. */
  async closing(lastSeq: number): Promise<void> {
    for (const one of this.#all) await one.closing?.(lastSeq);
  }
}

type FactName = 'opened' | 'committed' | 'rotated' | 'removed';
type FactOf<Name extends FactName> = Parameters<Required<Follower>[Name]>[0];

/**
 * Logs an exception from a callback of a journal. It does not mean that the disk failed, and must not prevent the other
 * callbacks.
 */
export function logThrown(error: unknown, notices: Pick<Notices, 'error'>): void {
  notices.error('a callback of the journal failed; this is a defect of the service', {
    problem: String((error as Error)?.stack ?? error),
  });
}
