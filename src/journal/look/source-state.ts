/** The state of the journals whose events are forwarded to this service: the sources of a hub. */

import { integerFrom, objectSchema, orNull, type Schema, TEXT, TIME } from '../../event/schema.ts';

/** A source, with the names of its members in JSON. */
export interface SourceState {
  /** The id of its journal. */
  readonly id: string;
  /** The name that it gave itself; null if it has not sent one. */
  readonly name: string | null;
  /** In hosted mode, the name of its token. */
  readonly token_name: string | null;
  /** Null in local mode. */
  readonly deployment: string | null;
  /** The last event of the source on this hub, as a seq of its own journal. */
  readonly last_seq: number;
  /** When it recorded that event, by its own clock. */
  readonly last_event: string | null;
  /** When its last request arrived, by the clock of the hub; null if that is no longer known. */
  readonly last_seen: string | null;
  /** The journal that delivered its last event; null if the source sent the event itself. */
  readonly through: string | null;
  /** `stopped` if it reported that it cannot send; null if it can. Later versions might report other states. */
  readonly state: string | null;
  /** Why it is stopped: `fork`. */
  readonly reason: string | null;
  /** Number of events that it reported as lost. */
  readonly lost_events: number;
  /**
   * Number of events before its last one that the hub does not have, although another journal might still deliver them; null if
   * another journal sent its last event.
   */
  readonly missing_events: number | null;
  /** Number of events that it had at its last request and that the hub does not have; null if unknown. */
  readonly lag_events: number | null;
}

/** @returns the schema of a source in the reply of `GET /sources` */
export function sourceSchema(): Schema {
  const members: Readonly<Record<keyof SourceState, Schema>> = {
    id: TEXT,
    name: orNull(TEXT),
    token_name: orNull(TEXT),
    deployment: orNull(TEXT),
    last_seq: integerFrom(0),
    last_event: orNull(TIME),
    last_seen: orNull(TIME),
    through: orNull(TEXT),
    state: orNull(TEXT),
    reason: orNull(TEXT),
    lost_events: integerFrom(0),
    missing_events: orNull(integerFrom(0)),
    lag_events: orNull(integerFrom(0)),
  };
  return objectSchema(members);
}

/** Which sources a reader wants. */
export interface SourceQuery {
  /** Only sources without a request for this time. */
  readonly silentMs?: number | undefined;
  /** Only sources that reported that they are stopped. */
  readonly isStopped?: boolean | undefined;
  /** Only sources that come after this one in the order of the reply. */
  readonly after?: { readonly id: string; readonly seenMs: number } | undefined;
  /** The most sources in the reply. */
  readonly limit?: number | undefined;
}
