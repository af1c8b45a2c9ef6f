/** A journal that `events` and `assets` read: in a folder (`local.ts`) or of a service (`remote.ts`). */

import type { Asset } from '../../assets/asset-state.ts';
import type { Filter } from '../../event/search.ts';
import type { Line } from '../../journal/look/reading.ts';
import type { SourceQuery, SourceState } from '../../journal/look/source-state.ts';
import type { Progress } from '../../journal/progress.ts';

/** The seq of a line, with a time by which the lines of several journals are compared. */
export interface TimedSeq {
  readonly seq: number;
  /** Its time, or the earlier time of a later line if the clock was set back, so that the times of a journal are in order. */
  readonly time: string;
}

export interface JournalSource {
  /** The name of the deployment in hosted mode; undefined for a journal that belongs to no deployment. */
  readonly deployment: string | undefined;
  /** Yields the lines that match, in the order of their seqs. An error is reported, and ends the lines. */
  read(filter: Filter, follow?: FollowOptions): AsyncGenerator<readonly Line[]>;
  /** @returns the last `count` lines that match, or all, in the order of their seqs */
  newest(count: number, filter: Filter): Promise<readonly TimedSeq[]>;
  /** @returns the journals that forward to this one, the longest silent first */
  sources(wanted: SourceQuery): Promise<readonly SourceState[]>;
  /** @returns the matching assets from the state that a service keeps, ordered by key. An error is reported, and ends the assets */
  assets(wanted: AssetQuery): AsyncGenerator<readonly Asset[]>;
}

export interface AssetQuery {
  readonly keyPrefix?: readonly string[] | undefined;
  readonly failing?: boolean;
  /** A duration: `26h`. */
  readonly stale?: string | undefined;
}

export interface FollowOptions {
  /** Ends the reading when it aborts. */
  readonly signal: AbortSignal;
  /** Resolves when the source must be read again. By default it is polled. */
  readonly more?: Progress['more'];
}

export interface JournalSources {
  /** `hosted` if the folder holds a journal for each deployment. */
  readonly kind: 'journal' | 'hosted';
  /** The journals that were found first; one if `kind` is `journal`. */
  readonly all: readonly JournalSource[];
  /** @returns the journals of deployments that have appeared since the last call */
  added(): Promise<readonly JournalSource[]>;
}

/** A line with its deployment, which is empty for a journal that belongs to none. */
export interface DeploymentLine {
  readonly deployment: string;
  readonly line: Line;
}
