/**
 * A plain upstream: a server with the three report endpoints, such as the reference implementation. It gets one event in a
 * request. It cannot be asked what it has, so an event whose request failed might be there.
 */

import { objectOf } from '../../client/submission.ts';
import type { Recorded } from '../../event/event.ts';
import { endpoints, findEndpoint } from '../../event/parameters.ts';
import type { Line } from '../../journal/look/reading.ts';
import { otherwise, recordedUpTo, turnedAway } from './answers.ts';
import type { Again, Batch, Destination, Sent, Stopped } from './destination.ts';
import { type Answer, HttpRequests, type Opening } from './http.ts';

/** @returns a plain upstream, not connected yet. Its `ask` is always `{ kind: 'no hub' }`. @throws TypeError if `to` is no URL */
export function openApi(options: Opening): Destination {
  const judge = (answer: FinalAnswer, line: Line): Sent => {
    if (answer.kind === 'unclear') {
      const { type, partition } = line.event;
      // The reference answers so to the second result of a check for a partition, though it has recorded it.
      const isFinal = answer.status === 500 && type === 'AssetCheckEvaluation' && partition !== undefined;
      return { ...answer, kind: 'in doubt', isFinal };
    }
    const { status, said } = answer;
    const isDone = status === 200 && said !== undefined && !('error' in said);
    return isDone ? recordedUpTo(line) : refusalIn(answer);
  };
  const request = (line: Line) => ({
    path: `${endpointOf(line).path}/`,
    key: line.event.id,
    body: bodyOf(line, options.stamp),
  });
  return openPlain(new HttpRequests(options), request, judge);
}

/** An answer that is about the event. */
export type FinalAnswer = Extract<Answer, { kind: 'answer' | 'unclear' }>;

/** What a plain destination gets for an event. */
export interface PlainRequest {
  /** Appended to the base URL. */
  readonly path: string;
  /** Its idempotency key. */
  readonly key: string;
  readonly body: string;
  /** @returns what is sent once more if the body is too long (413); undefined if nothing is shorter */
  readonly shortBody?: () => string | undefined;
}

/** @returns a destination that gets one event in a request and cannot be asked: its `ask` is always `{ kind: 'no hub' }` */
export function openPlain(
  requests: HttpRequests,
  requestOf: (line: Line) => PlainRequest,
  judge: (answer: FinalAnswer, line: Line) => Sent,
): Destination {
  async function send({ lines, turn }: Batch, signal: AbortSignal): Promise<Sent> {
    const [line] = lines as readonly [Line];
    const { path, key, body, shortBody } = requestOf(line);
    const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': `"${key}"` };
    const post = (text: string) => requests.send({ method: 'POST', headers, path, body: text, signal });
    let answer = await post(body);
    const short = answer.kind === 'answer' && answer.status === 413 ? shortBody?.() : undefined;
    if (short !== undefined) {
      await turn?.();
      answer = await post(short);
    }
    return answer.kind === 'answer' || answer.kind === 'unclear' ? judge(answer, line) : answer;
  }

  return {
    ask: async () => ({ kind: 'no hub' }),
    send,
    haveFilesChanged: (signal) => requests.haveFilesChanged(signal),
    close: () => requests.close(),
  };
}

/**
 * Sends a report without a key, which no such server records: its refusal shows that the URL, the token and the CA are right.
 * @returns undefined if they are
 */
export async function tryApi(options: Opening, signal: AbortSignal): Promise<Again | Stopped | undefined> {
  const requests = new HttpRequests(options);
  const headers = { 'Content-Type': 'application/json' };
  const answer = await requests.send({ method: 'POST', path: `${endpoints[0]!.path}/`, headers, body: '{}', signal });
  requests.close();
  if (answer.kind === 'unclear') return { ...answer, kind: 'again' };
  const found = answer.kind === 'answer' ? refusalIn(answer) : answer;
  return found.kind === 'refused' ? undefined : found;
}

/** @returns what an answer means that is no success */
function refusalIn(answer: Extract<Answer, { kind: 'answer' }>): Extract<Sent, { kind: 'refused' }> | Stopped {
  const { status, said, reason } = answer;
  if (said !== undefined && 'error' in said && REFUSED.has(status)) return { kind: 'refused', status, reason };
  if (!REFUSED.has(status) || status === 200) return otherwise(answer);
  return turnedAway(
    `${reason}; this is no JSON with an "error", so it is not from the upstream; check the proxy in front of it`,
  );
}

/** Statuses that refuse one event if there is a JSON `error`: it would be refused again. The reference answers 200 to some. */
export const REFUSED: ReadonlySet<number> = new Set([200, 400, 413, 415, 422]);

function endpointOf({ event }: Line) {
  return findEndpoint(endpoints, event.type)!;
}

/**
 * All parameters are in the body, since the reference splits keys in paths and queries. Metadata is sent as it was recorded,
 * digit for digit, and nothing that the client did not say is added: only a `stamp` tells when it was recorded.
 */
function bodyOf(line: Line, stamp: boolean): string {
  const { event } = line;
  const members = new Map<string, string>();
  for (const { name } of endpointOf(line).parameters) {
    const value = parameterOf(event, name);
    const text =
      name === 'metadata' ? metadataOf(line, stamp) : value === undefined ? undefined : JSON.stringify(value);
    if (text !== undefined) members.set(name, text);
  }
  return objectOf(members);
}

function parameterOf(event: Recorded, name: string): unknown {
  if (name === 'data_version') return event.tags?.data_version;
  return (event as unknown as Readonly<Record<string, unknown>>)[name];
}

function metadataOf({ event, metadata }: Line, stamp: boolean): string | undefined {
  if (!stamp) return metadata;
  const stamped = {
    'assetlog/id': event.id,
    'assetlog/recorded': event.recorded ?? event.time,
    'assetlog/event_time': event.event_time,
  };
  const members = JSON.stringify(stamped).slice(1);
  return metadata === undefined || metadata === '{}' ? `{${members}` : `${metadata.slice(0, -1)},${members}`;
}
