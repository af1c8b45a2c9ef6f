/** The sources of a hub as `GET /sources` and `assetlog sources` list them. */

import { idTimeMs } from '../../journal/line/uuid.ts';
import type { SourceQuery, SourceState } from '../../journal/look/source-state.ts';
import type { Sightings } from './sightings.ts';
import type { Sources } from './sources.ts';
import type { Watermark } from './watermark.ts';

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
 * @returns the wanted sources, the one with the oldest request first. The state of each is read when the iteration reaches it
 * @throws the error of a system call
 */
export async function listSources(journal: ListedJournal, wanted: SourceQuery): Promise<Iterable<SourceState>> {
  const { sources, sightings, lastSeq } = journal;
  await sightings.load();
  return statesOf(journal, await sources.view(lastSeq), wanted);
}

function* statesOf(
  { deployment, sources, sightings }: ListedJournal,
  marks: ReadonlyMap<string, Watermark>,
  { silentMs = Number.NEGATIVE_INFINITY, after, limit = Number.POSITIVE_INFINITY }: SourceQuery,
): Generator<SourceState> {
  const untilMs = Date.now() - silentMs;
  const known = sightings.complete(marks, sources.times);
  const isThere = after !== undefined && known.get(after.id)?.seenMs === after.seenMs;
  let isAfter = after === undefined;
  let left = limit;
  for (const [id, { name, tokenName, lastSeq, seenMs, lost }] of sightings.inOrder(marks, sources.times)) {
    if (!isAfter) {
      isAfter = isThere ? id === after.id : seenMs >= after!.seenMs; // a request has put it at the end
      if (isThere || !isAfter) continue;
    }
    const mark = marks.get(id);
    if (mark === undefined || seenMs > untilMs) continue;
    yield {
      id,
      name: name ?? null,
      token_name: tokenName ?? null,
      deployment: deployment ?? null,
      last_seq: mark.seq,
      last_event: timeText(idTimeMs(mark.id)),
      last_seen: timeText(seenMs),
      lost_events: lost,
      lag_events: lastSeq === undefined ? null : Math.max(0, lastSeq - mark.seq),
    };
    left -= 1;
    if (left === 0) return;
  }
}

/** The order in which the silent source is on top, and above it those of which nothing is known. */
export function bySilence({ last_seen: one }: SourceState, { last_seen: other }: SourceState): number {
  return (one ?? EPOCH) < (other ?? EPOCH) ? -1 : 1;
}

const EPOCH = '1970-01-01T00:00:00Z';

function timeText(ms = 0): string | null {
  return ms === 0 ? null : new Date(ms).toISOString();
}
