/** The interface of local mode (one journal) and hosted mode (a journal for each deployment) to the service. */

import type { AppParts } from '../http/app.ts';
import type { JournalHooks } from '../journal/hooks.ts';
import type { IsToken } from '../telemetry/masked.ts';
import type { Refusals } from '../telemetry/refusals.ts';
import type { DataFolder } from './folder.ts';
import type { Setup } from './setup.ts';

/** Records reports into the one journal of a local service, or into a journal for each deployment. */
export interface Recording extends Pick<AppParts, 'findRecorder' | 'findReadable' | 'tokenHeaders'> {
  /** In hosted mode the first deployment, or `NAME` if there is none yet; undefined in local mode. */
  readonly deployment: string | undefined;
  /** In hosted mode as `Refusals.deploymentIn`. */
  readonly deploymentIn: Refusals['deploymentIn'];
  /** Whether a text is a token of a deployment: never in local mode. */
  readonly isToken: IsToken;
  /**
   * Called once, when the folder is locked. Resolves when reports are accepted.
   * @throws DamagedError, or the error of a system call
   */
  open(): Promise<void>;
  /** Why no report at all can be recorded, or undefined. */
  readonly trouble: string | undefined;
  /** @returns the deployments that can not record now, each with the reason. Empty in local mode. */
  troubles(): ReadonlyMap<string, string>;
  /** Removes the oldest closed files of open journals if the disk has less free space than `Config.keepFree`. Never rejects. */
  makeSpace(): Promise<void>;
  /** @returns the deployments that there are now; in local mode `[undefined]` */
  deployments(): readonly (string | undefined)[];
  /**
   * Opens the journal of a deployment, as its first report does: after a restart nothing else says how far it is durable. Else, and
   * for undefined, does nothing.
   */
  wake(deployment: string | undefined): void;
  /** A destination has received all events of a file of this journal, which may be removed now. */
  retain(deployment: string | undefined): void;
  /** In hosted mode, reads the deployments file again. Else does nothing. */
  reload(): Promise<void>;
  /**
   * Empties a local journal; its next event has seq 1, and the reports that wait meanwhile are in it. Not called again
   * before it has ended.
   * @throws Error if it could not be emptied, or the service is stopping
   */
  beginAnew(): Promise<void>;
  /** Stops recording because the lock of the data folder is lost. May be called again. */
  abandon(error: Error): void;
  /** Resolves after the last write to the folder. Never rejects. */
  close(): Promise<void>;
}

/** What `recordLocally` and `recordForDeployments` need. */
export interface RecordingOptions extends Setup {
  /** The data folder, locked or waiting for space. */
  readonly folder: DataFolder;
  /** Called when the deployments may be others; what ends with a deployment has ended when it resolves. Never rejects. */
  readonly onDeployments: () => Promise<void>;
  /** The hooks of the journal of a deployment, or in local mode of the only one; called each time that it is about to be opened. */
  readonly hooksOf: (deployment: string | undefined) => JournalHooks;
}
