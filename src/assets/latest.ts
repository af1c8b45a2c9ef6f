/** The number of events of one kind, or of one check, and the values of the latest one. */

import type { KeptPlace } from './place.ts';

/**
 * Each event overwrites the same object, since the garbage of ten million new objects would use more memory than a million assets.
 * `at`, `source` and `ownSeq` are the place of the latest event.
 */
export interface Latest extends KeptPlace {
  count: number;
  /** The seq of the latest event. */
  seq: number;
  /** When it was recorded, in milliseconds since 1970. */
  timeMs: number;
  /** The `event_time` of the latest event, in the recorded form. */
  eventTime: string | undefined;
  partition: string | undefined;
  dataVersion: string | undefined;
}

export function blankLatest(): Latest {
  return {
    count: 0,
    seq: 0,
    timeMs: 0,
    eventTime: undefined,
    at: 0,
    source: undefined,
    ownSeq: 0,
    partition: undefined,
    dataVersion: undefined,
  };
}
