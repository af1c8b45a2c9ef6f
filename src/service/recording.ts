/** The interface of local mode (one journal) and hosted mode (a journal for each deployment) to the service. */

import type { AppParts } from '../http/app.ts';
import type { DeploymentFigures } from '../telemetry/deployment-counts.ts';
import type { IsToken } from '../telemetry/masked.ts';
import type { Refusals } from '../telemetry/refusals.ts';

/** Records reports into the one journal of a local service, or into a journal for each deployment. */
export interface Recording extends Pick<AppParts, 'findRecorder' | 'findReadable' | 'tokenHeaders'> {
  /** In hosted mode the first deployment, or `NAME` if none exists yet; undefined in local mode. */
  readonly deployment: string | undefined;
  /** See `Refusals.deploymentIn`; undefined in local mode. */
  readonly deploymentIn: Refusals['deploymentIn'];
  /** @returns the current number of tokens by state; empty in local mode */
  tokens(): Readonly<Record<string, number>>;
  /** Whether a text is a token of a deployment. Always false in local mode. */
  readonly isToken: IsToken;
  /**
   * Called once, when the folder is locked. Resolves when reports are accepted.
   * @throws DamagedError, or the error of a system call
   */
  open(): Promise<void>;
  /** Why no report of any deployment can be recorded; undefined if reports can be. */
  readonly trouble: string | undefined;
  /** @returns the deployments that currently cannot record, with the reasons. Empty in local mode. */
  troubles(): ReadonlyMap<string, string>;
  /** Resolves within `limits.watchWaitMs` to the figures of each deployment; to none in local mode. Never rejects. */
  figures(): Promise<readonly DeploymentFigures[]>;
  /** Removes the oldest closed files of open journals if the disk has less free space than `Config.keepFree`. Never rejects. */
  makeSpace(): Promise<void>;
  /** @returns the current deployments; in local mode `[undefined]` */
  deployments(): readonly (string | undefined)[];
  /**
   * Opens the journal of a deployment like its first report does, since after a restart its durable end is unknown before. Does
   * nothing for undefined.
   */
  wake(deployment: string | undefined): void;
  /** Ends the pause of `--commit-delay` in each journal. */
  hurry(): void;
  /** Reads the deployments file again. Does nothing in local mode. */
  reload(): Promise<void>;
  /**
   * Empties a local journal. Its next event has seq 1. Reports that arrive in the meantime are in the new journal. It must not be
   * called again before it has ended.
   * @throws Error if it could not be emptied, or the service is stopping
   */
  startOver(): Promise<void>;
  /**
   * Closes the open journal of a deployment, runs `act` on its folder, and opens it again. Reports that arrive in the meantime
   * wait for that.
   * @throws Error if it is not open, or the errors of `act`
   */
  whileClosed<Result>(deployment: string | undefined, act: () => Promise<Result>): Promise<Result>;
  /** Stops recording because the lock of the data folder is lost. Can be called more than once. */
  abandon(error: Error): void;
  /** Resolves after the last write to the folder. Never rejects. */
  close(): Promise<void>;
}
