/** What a client asked a service to record, and whether a line says just that. Both are read without the parsers of the service. */

import { isDeepStrictEqual } from 'node:util';
import { TYPES } from '../../support/strict-event.ts';
import { type JournalLine, readLine } from '../../world/journal-line.ts';
import type { Delivered } from '../../world/network.ts';
import { SHORTENED } from '../upstream.ts';

/** One event of a report. */
export interface SentEvent {
  /** Its partition, which no other event has. */
  readonly mark: string;
  readonly key: string | undefined;
  /** The members of its line. */
  readonly members: Readonly<Record<string, unknown>>;
}

/** @returns the id of the journal that a request to a hub is of; undefined for any other request */
export function senderOf({ target }: Delivered): string | undefined {
  return /\/forward\/([^/]+)/.exec(target)?.[1];
}

export function headerOf({ headers }: Delivered, name: string): string | undefined {
  const at = headers.indexOf(name);
  return at === -1 ? undefined : headers[at + 1];
}

/** @returns the events of a report, in their order; undefined if the request is none */
export function eventsIn(request: Delivered): SentEvent[] | undefined {
  const { method, target, body } = request;
  const [, kind] = /\/report_asset_(\w+)\/$/.exec(target) ?? [];
  if (method !== 'POST' || kind === undefined) return undefined;
  const given = JSON.parse(body.toString());
  if (kind === 'batch') return given.map((item: Item) => eventOf(item.type, item, item.idempotency_key));
  return [eventOf(kind, given, headerOf(request, 'Idempotency-Key'))];
}

interface Item {
  readonly type: string;
  readonly partition: string;
  readonly idempotency_key?: string;
  readonly data_version?: string;
  readonly [name: string]: unknown;
}

function eventOf(kind: string, item: Item, key: string | undefined): SentEvent {
  const { type: _, data_version: version, idempotency_key: __, ...members } = item;
  return {
    mark: item.partition,
    key,
    members: {
      ...members,
      type: TYPES[kind],
      ...(version !== undefined && { tags: { data_version: version } }),
      ...(key !== undefined && { idempotency_key: key }),
    },
  };
}

/** @returns the line's member that is not in the request of a forwarder for it as it is in the line; undefined if there is none */
export function forwardedAs(line: JournalLine, request: Delivered): string | undefined {
  if (request.target.startsWith('/hook/')) return postedAs(line, request.body.toString());
  const [sent] = eventsIn(request)!;
  const { idempotency_key } = line.report;
  // A plain destination gets the id of the event in place of its key.
  return differing(line, { ...sent!, members: { ...sent!.members, idempotency_key } }, request.body);
}

/** @returns the same of a post to a hook, which has the line, or all of it but its metadata and what proves the line */
function postedAs(line: JournalLine, body: string): string | undefined {
  if (!body.includes(SHORTENED)) {
    const posted = readLine(body);
    return (['seq', 'id', 'time', 'members'] as const).find((name) => posted[name] !== line[name]);
  }
  const { metadata, crc: _, ...short } = JSON.parse(line.text);
  const expected = { ...short, metadata_bytes: Buffer.byteLength(line.metadata ?? '') };
  return metadata !== undefined && isDeepStrictEqual(JSON.parse(body), expected) ? undefined : 'member';
}

/** @returns the line's member that is not as it was sent; undefined if there is none */
export function differing({ report, metadata = '' }: JournalLine, sent: SentEvent, body: Buffer): string | undefined {
  const recorded: Readonly<Record<string, unknown>> = { ...report };
  for (const name of new Set([...Object.keys(recorded), ...Object.keys(sent.members)])) {
    if (!isDeepStrictEqual(recorded[name], sent.members[name])) return name;
  }
  // Also digit by digit: 1.00 and 1.0 are the same number.
  return body.includes(metadata) ? undefined : 'metadata';
}
