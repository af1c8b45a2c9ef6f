/** What the two ways of sending, to a destination that can be asked and to a plain one, need of their pipe. */

import type { Limits } from '../../config/limits.ts';
import type { Disk } from '../../journal/disk.ts';
import type { Notices } from '../../telemetry/log.ts';
import type { Ack } from '../acks.ts';
import type { Batch, Destination, Sent } from '../destinations/destination.ts';
import type { KindTraits } from '../destinations/kinds.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Outcome } from '../ledger/letter.ts';
import type { DestinationSettings } from '../settings.ts';
import type { Alarms } from './alarms.ts';
import type { Backlog } from './backlog.ts';
import type { State } from './states.ts';
import type { Traffic } from './traffic.ts';

export interface SendingContext {
  readonly settings: DestinationSettings;
  /** The folder of the journal. */
  readonly disk: Disk;
  readonly limits: Limits;
  readonly notices: Notices;
  readonly ledger: Ledger;
  readonly backlog: Backlog;
  readonly traffic: Traffic;
  /** Of a hook with `on`. */
  readonly alarms: Alarms | undefined;
  /** Of the destination of `--ack`. */
  readonly ack: Ack | undefined;
  /** Of the kind of the destination, as far as it is known. */
  readonly traits: KindTraits;
  readonly destination: Destination;
  /** The first event of the journal under its id. */
  readonly beginSeq: number;
  /** The last seq of the journal. */
  readonly lastSeq: number;
  /** @returns the first seq of the journal's first file. @throws the error of a system call */
  firstSeq(): Promise<number>;
  /** Resolves when the journal has so many further events, or the signal aborts. Never rejects. */
  moreEvents(count: number, signal: AbortSignal): Promise<void>;
  /**
   * Sends in turn; after a crash the ledger knows what was being sent.
   * @param isLast whether it is sent although a stop has begun. @throws the error of a system call
   */
  request(batch: Batch, isLast?: boolean): Promise<Sent>;
  /** An event was refused: gives it up, unless it is one refusal too many. @param outcome for its dead letter */
  refused(sent: Extract<Sent, { kind: 'refused' }>, line: Batch['lines'][number], outcome: Outcome): State;
}
