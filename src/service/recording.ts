/** What a service needs of its journals, be it one or one for each deployment. */

import type { Config } from '../config/config.ts';
import type { Limits } from '../config/limits.ts';
import type { Endpoint } from '../event/parameters.ts';
import type { AppParts } from '../http/app.ts';
import type { Disk } from '../journal/disk.ts';
import type { Notices } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { DataFolder } from './folder.ts';

/** Where reports go: into the one journal of a local service, or into one for each deployment. */
export interface Recording extends Pick<AppParts, 'findSite' | 'tokenHeaders'> {
  /** In hosted mode the first deployment; `NAME` if there is none yet. */
  readonly deployment: string | undefined;
  /** Called once, when the folder is locked; resolves when reports are taken. @throws DamagedError, or the error of a system call */
  open(): Promise<void>;
  /** Why nothing at all can be recorded, or undefined. */
  readonly trouble: string | undefined;
  /** The deployments that can not record, and why. */
  troubles(): ReadonlyMap<string, string>;
  /** Reads the deployments again, in hosted mode. */
  reload(): Promise<void>;
  /** Gives up: the data folder is not locked any more. May be called again. */
  abandon(error: Error): void;
  /** Resolves when nothing writes to the folder any more. Never rejects. */
  close(): Promise<void>;
}

export interface RecordingOptions {
  readonly config: Config;
  readonly notices: Notices;
  readonly folder: DataFolder;
  readonly limits: Limits;
  readonly endpoints: readonly Endpoint[];
  readonly metrics: Metrics;
  readonly openDisk: (folder: string) => Disk;
  /** As `Parts.onRecorded`. */
  readonly onRecorded?: ((folder: string, nextSeq: number) => void) | undefined;
}
