/**
 * The destinations that are neither hubs nor engines. They get one event in each request, and cannot be asked which events they have:
 * an event whose request failed might have arrived.
 *
 * A plain upstream is a server with the three report endpoints, such as the reference implementation. A hook is a URL that gets a POST
 * with each event that it wants, in the form of the journal line. Only the status of its answer counts, since the body has no common
 * form.
 *
 * Services whose hooks post to each other could form a circle. Therefore the idempotency key of a post, which the next service
 * records, counts the hooks that the event has passed: `hook/1/<id of the line>`.
 */

import { objectOf } from '../../client/submission.ts';
import type { Recorded } from '../../event/event.ts';
import { endpoints, findEndpoint } from '../../event/parameters.ts';
import { ID_FORM } from '../../journal/line/uuid.ts';
import type { Line } from '../../journal/look/reading.ts';
import { decode } from '../../telemetry/masked.ts';
import { otherwise, recordedUpTo, turnedAway } from './answers.ts';
import type { Again, Destination, Opening, Sent, Shipment, Stopped } from './destination.ts';
import { type Answer, type HttpRequest, HttpRequests } from './http.ts';

/** @returns a plain upstream, not connected yet. @throws TypeError if `to` is not a URL */
export function openPlainApi(opening: Opening): Destination {
  const requests = new HttpRequests(opening);
  const judge = (answer: FinalAnswer, line: Line): Sent => {
    if (answer.kind === 'unclear') {
      const { type, partition } = line.event;
      // The reference answers like this to the second result of a check for a partition, although it has recorded it.
      const isFinal = answer.status === 500 && type === 'AssetCheckEvaluation' && partition !== undefined;
      return { ...answer, kind: 'in doubt', isFinal };
    }
    const { status, said } = answer;
    const isDone = status === 200 && said !== undefined && !('error' in said);
    return isDone ? recordedUpTo(line) : judgeRefusal(answer);
  };
  const requestOf = (line: Line) => ({
    path: `${endpointOf(line).path}/`,
    key: line.event.id,
    body: bodyOf(line, opening.stamp),
  });
  // No such server records a report without a key, so its refusal shows that the URL, the token and the CA are right.
  const trial = {
    method: 'POST' as const,
    path: `${endpoints[0]!.path}/`,
    headers: { 'Content-Type': JSON_TYPE },
    body: '{}',
  };
  const judgeTrial = (answer: Answered) => {
    const found = judgeRefusal(answer);
    return found.kind === 'refused' ? undefined : found;
  };
  return openPlain(requests, { requestOf, judge, trial, judgeTrial });
}

/** @returns a hook, not connected yet. @throws TypeError if `to` is not a hook's URL */
export function openHook(opening: Opening): Destination {
  const { to, hookPath = '', deployment } = opening;
  const requests = new HttpRequests({ ...opening, to: hookOrigin(to), secrets: partsOf(hookPath) });
  // In the form in which `assetlog events` prints the lines of several deployments.
  const prefix = deployment === undefined ? '' : `"deployment":"${deployment}",`;
  const bodyOf = (text: string, alarm?: string) =>
    `{${alarm === undefined ? '' : `"alarm":${alarm},`}${prefix}${text.slice(1)}`;
  const judge = (answer: FinalAnswer, recorded: Sent): Sent => {
    if (answer.kind === 'unclear') return { ...answer, kind: 'in doubt', isFinal: false };
    const { status, reason } = answer;
    if (status >= 200 && status < 300) return recorded;
    return REFUSED.has(status) ? { kind: 'refused', status, reason } : otherwise(answer);
  };
  const requestWith = (key: string, line: Line, alarm?: string): PlainRequest => ({
    path: hookPath,
    key,
    body: bodyOf(line.text, alarm),
    shortBody: () => {
      const { event, metadata } = line;
      return metadata === undefined ? undefined : bodyOf(withoutMetadata(event, metadata), alarm);
    },
  });
  const requestOf = (line: Line) => requestWith(`hook/${hooksPassed(line.event) + 1}/${line.event.id}`, line);
  // OPTIONS is used, since some hooks treat any GET as a call. Any answer except a refused token is good.
  const trial = { method: 'OPTIONS' as const, path: hookPath };
  const judgeLine = (answer: FinalAnswer, line: Line) => judge(answer, recordedUpTo(line));
  const form = { requestOf, judge: judgeLine, trial, judgeTrial: () => undefined };
  return {
    ...openPlain(requests, form),
    post: async ({ key, alarm, line, members, turn }, signal) => {
      const request = line ? requestWith(key, line, alarm) : { path: hookPath, key, body: bodyOf(members, alarm) };
      const answer = await postOrShort(requests, request, turn, signal);
      return isFinal(answer) ? judge(answer, { kind: 'recorded', seq: 0, id: null }) : answer;
    },
  };
}

type Answered = Extract<Answer, { kind: 'answer' }>;

/** An answer that concerns the event. */
type FinalAnswer = Extract<Answer, { kind: 'answer' | 'unclear' }>;

/** The request for an event. */
interface PlainRequest {
  /** Appended to the base URL. */
  readonly path: string;
  /** The idempotency key of the report. */
  readonly key: string;
  readonly body: string;
  /** @returns the body to send if the first one is too long (413); undefined if there is no shorter one */
  readonly shortBody?: () => string | undefined;
}

/** The differences between a plain upstream and a hook. */
interface PlainForm {
  readonly requestOf: (line: Line) => PlainRequest;
  readonly judge: (answer: FinalAnswer, line: Line) => Sent;
  /** A request that changes nothing at the destination. */
  readonly trial: Omit<HttpRequest, 'signal'>;
  /** @returns undefined if it works */
  readonly judgeTrial: (answer: Answered) => Stopped | undefined;
}

function post(requests: HttpRequests, { path, key, body }: PlainRequest, signal: AbortSignal): Promise<Answer> {
  const headers = { 'Content-Type': JSON_TYPE, 'Idempotency-Key': `"${key}"` };
  return requests.send({ method: 'POST', headers, path, body, signal });
}

/** Posts a shorter body, if there is one, after the first was too long. */
async function postOrShort(
  requests: HttpRequests,
  request: PlainRequest,
  turn: Shipment['turn'],
  signal: AbortSignal,
): Promise<Answer> {
  const answer = await post(requests, request, signal);
  const short = answer.kind === 'answer' && answer.status === 413 ? request.shortBody?.() : undefined;
  if (short === undefined) return answer;
  await turn?.();
  return post(requests, { ...request, body: short }, signal);
}

function isFinal(answer: Answer): answer is FinalAnswer {
  return answer.kind === 'answer' || answer.kind === 'unclear';
}

function openPlain(requests: HttpRequests, { requestOf, judge, trial, judgeTrial }: PlainForm): Destination {
  async function send({ lines, turn }: Shipment, signal: AbortSignal): Promise<Sent> {
    const [line] = lines as readonly [Line];
    const answer = await postOrShort(requests, requestOf(line), turn, signal);
    return isFinal(answer) ? judge(answer, line) : answer;
  }

  async function test(signal: AbortSignal): Promise<Again | Stopped | undefined> {
    const answer = await requests.send({ ...trial, signal });
    if (answer.kind === 'unclear') return { ...answer, kind: 'again' };
    return answer.kind === 'answer' ? judgeTrial(answer) : answer;
  }

  return {
    send,
    test,
    haveFilesChanged: (signal) => requests.haveFilesChanged(signal),
    close: () => requests.close(),
  };
}

/** @returns the meaning of an answer that is not a success */
function judgeRefusal(answer: Answered): Extract<Sent, { kind: 'refused' }> | Stopped {
  const { status, said, reason } = answer;
  if (said !== undefined && 'error' in said && REFUSED.has(status)) return { kind: 'refused', status, reason };
  if (!REFUSED.has(status) || status === 200) return otherwise(answer);
  return turnedAway(`${reason}; this is not JSON with an "error"; check the proxy in front of it`);
}

/**
 * Statuses that refuse a single event if there is a JSON `error`; the event would be refused again. The reference sends 200 in
 * some cases.
 */
const REFUSED: ReadonlySet<number> = new Set([200, 400, 413, 415, 422]);

function endpointOf({ event }: Line) {
  return findEndpoint(endpoints, event.type)!;
}

/**
 * All parameters are in the body, since the reference splits keys in paths and queries. Metadata is sent exactly as it was
 * recorded. Nothing is added to what the client sent: only a `stamp` shows when the event was recorded.
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

/** The path of a hook's URL is the secret, not the name of the host: Slack and others give each channel its own path. */
const FORM = /^(hook\+https?:\/\/[^/?#@\\\s]+)([/?][^#\\\s]*)?$/i;

const HOOK_KEY = new RegExp(`^hook/([0-9]{1,9})/${ID_FORM}$`);

/** @returns the part of the URL that can be shown, and its path and query; undefined if it is not a hook's URL */
export function readHookUrl(url: string): { readonly to: string; readonly hookPath: string } | undefined {
  const [, host, hookPath = ''] = FORM.exec(url) ?? [];
  if (host === undefined || !URL.canParse(withoutHook(url))) return undefined;
  return { to: hookPath.length > 1 ? `${host}/…` : host, hookPath };
}

/** @returns how many hooks an event had passed before it was recorded, according to its idempotency key; 0 for a client's own key */
export function hooksPassed({ idempotency_key = '' }: Pick<Recorded, 'idempotency_key'>): number {
  return Number(HOOK_KEY.exec(idempotency_key)?.[1] ?? 0);
}

/** @returns a line without the members that make it long, and without its checksum, which would be wrong */
function withoutMetadata(event: Recorded, metadata: string): string {
  return JSON.stringify({ ...event, metadata_bytes: Buffer.byteLength(metadata) });
}

/** @param to see `DestinationSettings.to`. @returns its scheme, host and port, as `http://hooks.example` */
export function hookOrigin(to: string): string {
  return new URL(withoutHook(to)).origin;
}

function withoutHook(url: string): string {
  return url.slice('hook+'.length);
}

/**
 * @returns the texts that are masked in replies, which might include the whole URL or a part of it. Each is masked in its
 * encoded and its decoded form
 */
function partsOf(hookPath: string): string[] {
  return [hookPath, ...hookPath.split(/[/?&=]/)].map(decode);
}

const JSON_TYPE = 'application/json';
