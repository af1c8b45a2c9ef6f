/** What is known of the journals whose events are forwarded here: the sources of a hub. */

import { integerFrom, objectSchema, orNull, type Schema, TEXT, TIME } from '../../event/schema.ts';

/** A source, with the names of its members in JSON. */
export interface SourceState {
  /** The id of its journal. */
  readonly id: string;
  /** What it calls itself; null if it has not said it. */
  readonly name: string | null;
  /** In hosted mode, the name of its token. */
  readonly token_name: string | null;
  /** Null in local mode. */
  readonly deployment: string | null;
  /** Its last event that is here, as a seq of its own journal. */
  readonly last_seq: number;
  /** When it recorded that event, by its own clock. */
  readonly last_event: string | null;
  /** When its last request came, by the clock of the hub; null if that is not known any more. */
  readonly last_seen: string | null;
  /** The journal that brought its last event; null if it sent that itself. */
  readonly through: string | null;
  /** `stopped` if it said that it cannot send; null if it can. Later versions may say other words. */
  readonly state: string | null;
  /** Why: `fork`. */
  readonly reason: string | null;
  /** Events that it said are lost. */
  readonly lost_events: number;
  /** Events before its last one here that are not here, though another journal might still bring them; null if another one sent it. */
  readonly missing_events: number | null;
  /** Events that it had at its last request and that are not here; null if it has not said it. */
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

/** Which sources are wanted. */
export interface SourceQuery {
  /** Only those without a request for so long. */
  readonly silentMs?: number | undefined;
  /** Only those that said they are stopped. */
  readonly isStopped?: boolean | undefined;
  /** Of these, only those that come after this one in the order of the reply. */
  readonly after?: { readonly id: string; readonly seenMs: number } | undefined;
  /** At most so many. */
  readonly limit?: number | undefined;
}
