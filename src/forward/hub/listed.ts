/** The sources of a hub as `GET /sources` and `assetlog sources` list them. */

import { idTimeMs } from '../../journal/line/uuid.ts';
import type { SourceQuery, SourceState } from '../../journal/look/source-state.ts';
import type { Sightings } from './sightings.ts';
import type { Sources } from './sources.ts';

/** A hub's own journal. */
export interface ListedJournal {
  /** Undefined in local mode. */
  readonly deployment: string | undefined;
  readonly sources: Sources;
  readonly sightings: Sightings;
  /** Its last durable seq. */
  readonly lastSeq: number;
}

/**
 * @returns the sources that are wanted, first the one that was not heard of for the longest time
 * @throws the error of a system call
 */
export async function listSources(
  { deployment, sources, sightings, lastSeq }: ListedJournal,
  { silentMs = Number.NEGATIVE_INFINITY }: SourceQuery,
): Promise<SourceState[]> {
  await sightings.load();
  const marks = await sources.view(lastSeq);
  const untilMs = Date.now() - silentMs;
  const states = Array.from(marks, ([id, mark]): SourceState => {
    const said = sightings.get(id);
    const seenMs = lastSeenMs({ sources, sightings }, id);
    return {
      id,
      name: said?.name ?? null,
      token_name: said?.tokenName ?? null,
      deployment: deployment ?? null,
      last_seq: mark.seq,
      last_event: timeText(idTimeMs(mark.id)),
      last_seen: timeText(seenMs),
      lost_events: said?.lost ?? 0,
      lag_events: said?.lastSeq === undefined ? null : Math.max(0, said.lastSeq - mark.seq),
    };
  });
  return states.filter(({ last_seen }) => Date.parse(last_seen ?? EPOCH) <= untilMs).sort(bySilence);
}

/** @returns when a source made its last request, in ms since 1970, as far as that is known: 0 if it is not */
export function lastSeenMs({ sources, sightings }: Pick<ListedJournal, 'sources' | 'sightings'>, id: string): number {
  // A crash may have come between a request and the write of what was seen; the lines of its events are there.
  return Math.max(sightings.get(id)?.seenMs ?? 0, Date.parse(sources.times.get(id) ?? EPOCH));
}

/** The order in which the silent source is on top, and above it those of which nothing is known. */
export function bySilence({ last_seen: one }: SourceState, { last_seen: other }: SourceState): number {
  return (one ?? EPOCH) < (other ?? EPOCH) ? -1 : 1;
}

const EPOCH = '1970-01-01T00:00:00Z';

function timeText(ms = 0): string | null {
  return ms === 0 ? null : new Date(ms).toISOString();
}
