/** A journal that `events` and `assets` read, either in a folder (`local.ts`) or of a service (`remote.ts`). */

import type { AssetJson } from '../../assets/asset-json.ts';
import type { By } from '../../event/event-time.ts';
import type { Filter } from '../../event/search.ts';
import type { Line } from '../../journal/look/reading.ts';
import type { SourceQuery, SourceState } from '../../journal/look/source-state.ts';
import type { Progress } from '../../journal/progress.ts';
import type { TimeRange } from './options.ts';

export interface JournalSource {
  /** The name of the deployment in hosted mode; undefined for a journal that belongs to no deployment. */
  readonly deployment: string | undefined;
  /**
   * Yields the lines that match, in the order of their seqs. An error is reported, and ends the lines.
   * @param isSearch see `Reading`
   */
  read(filter: Filter, follow?: FollowOptions, isSearch?: boolean): AsyncGenerator<readonly Line[]>;
  /**
   * @returns the last `count` matching lines, or all if there are fewer, in the order of their seqs. If they have more bytes than
   *   `limits.lastBytesMax`, they are dropped
   */
  newest(count: number, filter: Filter): Promise<readonly Line[]>;
  /** @returns whether an event matches. Damage and read errors are not reported */
  hasEvent(filter: Filter): Promise<boolean>;
  /** @returns the names of the journals that forward to this one, by id; undefined if it is not a hub */
  sourceNames(): Promise<ReadonlyMap<string, string> | undefined>;
  /** @returns the journals that forward to this one, starting with the one that has been silent longest */
  sources(wanted: SourceQuery): Promise<readonly SourceState[]>;
  /** @returns the matching assets from the state that a service keeps, ordered by key. An error is reported, and ends the assets */
  assets(wanted: AssetQuery): AsyncGenerator<readonly AssetJson[]>;
}

/**
 * @param filter the filter of these values
 * @returns whether an event of a journal matches; undefined for a range of `event_time`, which only all events together
 * show
 */
export async function hasEvent(
  journals: readonly JournalSource[],
  { by, since, until }: TimeRange & { readonly by: By },
  filter: Filter,
): Promise<boolean | undefined> {
  if (by === 'event_time' && (since ?? until) !== undefined) return undefined;
  for (const journal of journals) if (await journal.hasEvent(filter)) return true;
  return false;
}

export interface AssetQuery {
  readonly keyPrefix?: readonly string[] | undefined;
  /** The first parts of the key; the last part can be incomplete. */
  readonly keyBeginsWith?: readonly string[] | undefined;
  readonly failing?: boolean | undefined;
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
  /** The journals that were found first; a single one if `kind` is `journal`. */
  readonly all: readonly JournalSource[];
  /** @returns the journals of deployments that have appeared since the last call */
  added(): Promise<readonly JournalSource[]>;
}
