/** The values that the steps of a start share, and the parts of a service that a test or an embedding program may replace. */

import type { OpenClient } from '../client/connection.ts';
import type { Limits } from '../config/limits.ts';
import type { Config } from '../config/options-of-service.ts';
import type { Listen, Listener } from '../http/socket/listener.ts';
import type { Disk } from '../journal/disk.ts';
import type { KeyMemory } from '../journal/keys/memory.ts';
import type { LockFolder, LockRota } from '../journal/lock/lock.ts';
import type { OwnProgress } from '../journal/progress.ts';
import type { Activity, Terminal } from '../telemetry/activity.ts';
import type { Notices } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Refusals } from '../telemetry/refusals.ts';
import type { Recording } from './recording.ts';
import type { Shutdown } from './shutdown.ts';

/** Parts of a service that a test or an embedding program may replace. */
export interface ServiceParts {
  readonly limits: Limits;
  /** @returns the file system access of a folder; a test passes disks that fail */
  readonly openDisk?: (folder: string) => Disk;
  readonly lockFolder?: LockFolder;
  /** Binds the socket, or replaces it: a simulation passes requests to the app directly. */
  readonly listen?: Listen;
  /** @returns a client for the requests of forwarding */
  readonly openClient?: OpenClient;
  /** The name by which a hub lists the service if `Config.name` is not set; none by default. */
  readonly hostName?: string | undefined;
  /** Descriptor of a listening socket (socket activation). The configuration's host and port are then ignored. */
  readonly fd?: number | undefined;
  /** Whether the process can exit while the service runs, like with `unref`. */
  readonly background?: boolean;
  /**
   * Runs a full garbage collection. Called after each `limits.collectBytes` of bodies. If absent, V8 alone decides when to
   * collect.
   */
  readonly collectGarbage?: (() => void) | undefined;
  /** Called with the bytes of forwarded events. */
  readonly onForwarded?: ((bytes: number) => void) | undefined;
  /** The terminal that shows the log: it gets colours, and a line for each recorded event. */
  readonly terminal?: Terminal | undefined;
  /** See `RefusalsOptions.seenMax`; 0 by default. */
  readonly refusalsSeenMax?: number;
  /** Wraps each reset of a service for tests: until `reset` is called and after it resolves, the journal can be read. */
  readonly aroundReset?: ((reset: () => Promise<void>) => Promise<void>) | undefined;
}

/** The values that the steps of a start share. */
export interface Setup
  extends Pick<ServiceParts, 'limits' | 'hostName' | 'fd' | 'collectGarbage' | 'onForwarded' | 'aroundReset'>,
    Required<Pick<ServiceParts, 'openDisk' | 'lockFolder' | 'listen' | 'openClient' | 'background'>> {
  readonly config: Config;
  readonly notices: Notices;
  readonly metrics: Metrics;
  readonly activity: Activity;
  readonly refusals: Refusals;
  /** Undefined if `Idempotency-Key` has no effect. */
  readonly keyMemory: KeyMemory | undefined;
  /** See `segmentBytesOf`. */
  readonly segmentBytes: number;
  /** See `JournalOptions.commitDelayMs`: 0 as soon as the service stops, so that no reply is late. */
  readonly commitDelayMs: () => number;
  readonly locks: LockRota;
  /** The durable end of each journal, for its readers. */
  readonly progress: OwnProgress;
  /**
   * The paths of deployments and destinations files whose last version was refused. The previous version stays in
   * effect.
   */
  readonly refusedFiles: Set<string>;
  /** Parts that earlier steps use once a later step has created them. */
  readonly later: { recording?: Recording; boundTo?: Listener };
  /** Each step of the start that acquires a resource adds the function that releases it. */
  readonly shutdown: Shutdown;
}
