/** Events in plain values, as tests write them. The service itself has only encoded events. */

import { encodeEvent, forwardedEvent, lineOrder, quote, quoteAll } from '../../src/event/encoded.ts';
import type { Event, EventOrigin, EventType, Severity } from '../../src/event/event.ts';
import { readJson } from '../../src/event/json.ts';

export interface PlainEvent {
  readonly type: EventType;
  readonly assetKey: readonly string[];
  readonly partition?: string | undefined;
  readonly checkName?: string;
  readonly passed?: boolean;
  readonly severity?: Severity;
  readonly description?: string | undefined;
  readonly dataVersion?: string | undefined;
  /** JSON text of an object. */
  readonly metadata?: string | undefined;
  readonly eventTime?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  readonly origin?: EventOrigin | undefined;
  /** Members of the slot of a forwarded event: `,"site":"north"`. */
  readonly slot?: string | undefined;
}

export function eventOf(plain: PlainEvent): Event {
  const { type, assetKey, passed, metadata, idempotencyKey, origin } = plain;
  const json = (text: string | undefined) => (text === undefined ? undefined : quote(text));
  const fragments = {
    asset_key: quoteAll(assetKey),
    partition: json(plain.partition),
    check_name: json(plain.checkName),
    passed: passed === undefined ? undefined : `${passed}`,
    severity: json(plain.severity),
    description: json(plain.description),
    data_version: json(plain.dataVersion),
    metadata: metadata === undefined ? undefined : readJson(metadata, 128),
    event_time: json(plain.eventTime),
  };
  const inOrder = lineOrder.map((name) => fragments[name]);
  const event = { type, encoded: encodeEvent(type, inOrder, idempotencyKey), idempotencyKey };
  return origin === undefined ? { ...event, origin } : forwardedEvent(event, origin, plain.slot);
}

/** @returns the members of an event in a line */
export function encodeMembers(plain: PlainEvent): string | Buffer {
  return eventOf(plain).encoded;
}
