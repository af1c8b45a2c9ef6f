import type { Limits } from '../config/limits.ts';
import type { Notices } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Disk } from './disk.ts';
import type { Follower, HeldBack } from './follower.ts';
import type { KeyMemory } from './keys/memory.ts';
import type { HashKey } from './keys/table.ts';
import type { QueuedBytes } from './queue-entry.ts';
import type { RetainNow } from './retention.ts';

/** The options of a `Journal`. */
export interface JournalOptions {
  readonly disk: Disk;
  readonly notices: Notices;
  /** Size at which a file is closed and the next one created. */
  readonly segmentBytes: number;
  readonly retain?: RetainNow;
  readonly limits: Limits;
  /** Throws if the folder is no longer locked; see `Lock.checkHeld`. If omitted, no other process uses the folder. */
  readonly checkHeld?: (() => void) | undefined;
  /** Shared by journals with a common memory limit for waiting events. */
  readonly backlog?: QueuedBytes;
  /**
   * How long after construction, in milliseconds, reports are queued before the journal is open. By default they are refused until
   * the journal is open.
   */
  readonly openWaitMs?: number;
  /**
   * @returns how long the first event of a batch waits for others, in milliseconds: `--commit-delay`. If omitted, it does not
   * wait.
   */
  readonly commitDelayMs?: (() => number) | undefined;
  /** Called when a write to the disk was refused. */
  readonly onRefused?: (() => void) | undefined;
  /** Shared by all journals of the service. */
  readonly metrics?: Metrics;
  /** The idempotency keys of all journals of the service. If omitted, keys are recorded but not looked up. */
  readonly keyMemory?: KeyMemory | undefined;
  /** Called after the keys, in this order. */
  readonly followers?: readonly Follower[];
  /**
   * Called at each run of retention that would remove files, even before the journal is open.
   * @returns the first seq that is still to be sent, and the destination. Files with events from this seq on are kept, and at
   * the
   *   limit of retention, reports are refused with the reason. Undefined if all files may be removed
   */
  readonly heldBack?: (() => HeldBack | undefined) | undefined;
  /** `hashKey` by default; only tests pass another function. */
  readonly hashKey?: HashKey | undefined;
  /** Called when no descriptor was free to create the next file. The creation is tried again every `limits.probeMs`. */
  readonly onNoDescriptor?: () => void;
  /** Called when the last waiting event has been recorded or refused. */
  readonly onIdle?: () => void;
  /**
   * Called once, after a disk failure from which only a restart can recover or after a Defect, and after the callbacks of all
   * waiting events.
   */
  readonly onFailed: (error: Error) => void;
}
