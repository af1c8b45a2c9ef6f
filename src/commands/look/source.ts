/** A journal that `events` and `assets` read: in a folder (`local.ts`) or of a service (`remote.ts`). */

import type { Asset } from '../../assets/asset-state.ts';
import type { Filter } from '../../event/search.ts';
import type { Line } from '../../journal/look/reading.ts';
import type { SourceQuery, SourceState } from '../../journal/look/source-state.ts';
import type { Progress } from '../../journal/progress.ts';

export interface JournalSource {
  /** The name of the deployment in hosted mode; undefined for a journal that belongs to no deployment. */
  readonly deployment: string | undefined;
  /**
   * Yields the lines that match, in the order of their seqs. An error is reported, and ends the lines.
   * @param isSearch as for a `Reading`
   */
  read(filter: Filter, follow?: FollowOptions, isSearch?: boolean): AsyncGenerator<readonly Line[]>;
  /** @returns the last `count` lines that match, or all, in the order of their seqs. With more than `limits.lastBytesMax` they are dropped */
  newest(count: number, filter: Filter): Promise<readonly Line[]>;
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
  readonly signal?: AbortSignal;
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
