/** The types of requests, replies and refusals that the listener and the handlers share. */

import { type Limits, limits as standardLimits } from '../config/limits.ts';
import type { Event } from '../event/event.ts';
import type { ConflictHandling, KeyConflict, RecordedResult, RecordResult } from '../event/record-result.ts';
import { printable } from '../telemetry/printable.ts';

/**
 * A request as the listener passes it to the app, its head before the body is received:
 * `{ method: 'POST', url: '/report_asset_check?passed=true', httpVersion: '1.1', fields, id: '…' }`.
 */
export interface Incoming {
  readonly method?: string | undefined;
  /** The request target as it was sent (RFC 9112 section 3.2): `/report_asset_check?passed=true`. */
  readonly url?: string | undefined;
  /** Without `HTTP/`: `1.1`. */
  readonly httpVersion: string;
  readonly fields: HeaderFields;
  /** `remoteAddress` is the IP address of the peer, a client or its proxy: `127.0.0.1`. */
  readonly socket?: { readonly remoteAddress?: string | undefined };
  /** A UUID that the service generated, not the client. It is in the reply to a failed request and in log lines about it. */
  readonly id: string;
  /** Hosted mode: the name of the valid token in the deployments file, such as `ci`. */
  tokenName?: string;
  /**
   * Aborts when the reply should end early: the client has closed its side of the connection, the service is stopping, the
   * client may no longer read, or others need the connection of a reply that only waits.
   */
  readonly ending: AbortSignal;
  /** Aborts `ending`. May be called again. */
  endReply(): void;
}

/**
 * The headers that the service uses: `{ raw: ['Host', 'localhost'], bytes: 17, host: 'localhost', hosts: 1, contentTypes: 0 }`.
 * A repeated one is joined with a comma, as RFC 9110 section 5.3 allows, or counted.
 */
export interface HeaderFields {
  /** All headers as they were sent: name, value, name, value … */
  readonly raw: readonly string[];
  /** Size of all headers in bytes, with their separators and line ends. */
  bytes: number;
  /** The last `Host`. */
  host?: string;
  /** Number of `Host` headers. */
  hosts: number;
  transferEncoding?: string;
  contentLength?: string;
  /** The last `Content-Type`. */
  contentType?: string;
  /** Number of `Content-Type` headers. */
  contentTypes: number;
  contentEncoding?: string;
  prefer?: string;
  accept?: string;
  lastEventId?: string;
  expect?: string;
  upgrade?: string;
  origin?: string;
  /** `Sec-Fetch-Site`: `same-origin`. */
  fetchSite?: string;
  /** `Sec-Fetch-Mode`: `navigate`. */
  fetchMode?: string;
  /** `Sec-Fetch-Dest`: `document`. */
  fetchDest?: string;
  idempotencyKey?: string;
}

/**
 * A reply, distinguished by its `kind`: `{ kind: 'body', status: 200, body: '{}' }` or
 * `{ kind: 'error', status: 400, error: 'passed is missing: …' }`. `ReplyTexts` writes each kind.
 */
export type Reply = WholeReply | DocumentReply | StreamReply | CutReply;

/** A reply that is written at once: `{ kind: 'body', status: 200, body: '{}' }`. */
export type WholeReply = BodyReply | ErrorReply;

/** A reply whose whole body is known: `{ kind: 'body', status: 200, body: '{}' }`. */
export interface BodyReply extends ReplyHead {
  readonly kind: 'body';
  readonly body: string;
}

/**
 * A reply with a long body that is the same each time, such as the page: `{ kind: 'document', status: 200, body: Buffer.from('{…') }`.
 * The connections that send it share its memory; of a text, Node would keep a copy for each client that does not read.
 */
export interface DocumentReply extends ReplyHead {
  readonly kind: 'document';
  readonly body: Buffer;
}

/**
 * A reply whose body is produced while it is sent: `{ kind: 'stream', status: 200, contentType: 'text/event-stream', pieces }`.
 * `http/streams.ts` sends it.
 */
export interface StreamReply extends ReplyHead {
  readonly kind: 'stream';
  /**
   * Called once, when the reply can be sent. The next piece is requested when the kernel has accepted the one before it
   * (backpressure). If it throws, the client gets a Refusal as its reply, or 503; after the first piece the connection is
   * closed and the client sees an incomplete reply.
   * @param ending as `Incoming.ending`: the body should then end soon, complete
   * @param onWait called when the body waits from now on for what may not come: `ending` may then abort to make place for others
   */
  readonly pieces: (ending: AbortSignal, onWait: () => void) => AsyncIterable<Buffer>;
  /** While it is sent, its connection does not count against `--max-connections`: what sends it has a limit of its own. */
  readonly besideCap?: boolean;
}

/**
 * A reply after which the connection is closed without a word, for tests: `{ kind: 'cut', status: 200, reply: accepted, sent:
 * 'half' }`. `Exchanges` sends it.
 */
export interface CutReply extends Pick<ReplyHead, 'status' | 'close'> {
  readonly kind: 'cut';
  readonly reply: WholeReply;
  /** How much of the reply is sent: `half` is its head and half of its body; after `reset` the client sees a reset (RST). */
  readonly sent: 'reset' | 'nothing' | 'half' | 'all';
}

/**
 * A refusal, or a failure of the service: `{ kind: 'error', status: 400, error: 'passed is missing: …' }`. `bodyOf` builds its
 * body, which contains the id of the request.
 */
export interface ErrorReply extends ReplyHead {
  readonly kind: 'error';
  /** The error message, one line: what is wrong and what to do. */
  readonly error: string;
  /** What is wrong with items of a batch: `[{ item: 17, error: 'passed is missing: …' }]`. */
  readonly errors?: readonly ItemProblem[];
  /** Of a 410: the seq of the first event that is there. */
  readonly firstSeq?: number;
  /** Further members of the body: `{ reason: 'gap', seq: 7 }`. */
  readonly members?: Readonly<Record<string, unknown>>;
  /** The error as it may be logged, if it quotes a query, metadata or JSON: `passed in the query is …; send true or false`. */
  readonly logged?: string;
}

/** A wrong item of a batch: `{ item: 17, error: 'passed is missing: …' }`. */
export interface ItemProblem {
  /** Its line, or its position in the array; the first is 1. */
  readonly item: number;
  readonly error: string;
}

interface ReplyHead {
  /** The HTTP status code (RFC 9110 section 15): 200. */
  readonly status: number;
  /** `application/json` by default. */
  readonly contentType?: string;
  /** Headers in addition to those of every reply: name, value, name, value … */
  readonly headers?: readonly string[];
  /** Close the connection after this reply, because the start of the next request on it is not certain. */
  readonly close?: boolean;
}

/** The parts of a request that a handler reads: `{ keyPath: 'warehouse/orders', body, query: 'passed=true', head }`. */
export interface HandlerRequest {
  /** The raw path after `endpoint/`, such as `warehouse/orders`; undefined if nothing follows the slash. */
  readonly keyPath: string | undefined;
  /** The whole body; empty without one. */
  readonly body: Buffer;
  /** The query as sent, without the question mark: `partition=2026-11-20`. */
  readonly query: string;
  readonly head: RequestHead;
  /** In hosted mode, for a route that needs `read`: the deployment whose events may be read, such as `prod`. */
  readonly deployment?: string | undefined;
  /** The header `Idempotency-Key`, without quotes: `order-17/1`. Undefined without one, or if keys are not looked at. */
  readonly idempotencyKey?: string | undefined;
}

/** The headers that a handler reads: `{ contentType: 'application/json', prefer: undefined }`. */
export interface RequestHead {
  /** Checked against `Route.bodyTypes` if there is a body: `application/json; charset=utf-8`. */
  readonly contentType: string | undefined;
  /** `POST`. */
  readonly method?: string;
  /** All `Prefer` headers, joined with a comma: `handling=lenient`. */
  readonly prefer: string | undefined;
  /** All `Accept` headers, joined with a comma: `text/event-stream`. */
  readonly accept?: string | undefined;
  /** `Last-Event-ID`, as an EventSource sends it when it connects again: `17`. */
  readonly lastEventId?: string | undefined;
  /** All headers as they were sent: name, value, name, value … */
  readonly raw?: readonly string[];
}

/**
 * What a handler returns: a reply (`{ kind: 'answer', reply }`), how to find it out (`{ kind: 'later', reply }`), or the events
 * that must be durable before the reply is sent.
 */
export type Outcome = AnswerOutcome | LaterOutcome | RecordOutcome;

/** Nothing is recorded: `{ kind: 'answer', reply: { kind: 'body', status: 200, body: '{"status":"ok"}' } }`. */
export interface AnswerOutcome {
  readonly kind: 'answer';
  readonly reply: Reply;
}

/** The reply takes a while, for example because the journal is read first: `{ kind: 'later', reply: async () => … }`. */
export interface LaterOutcome {
  readonly kind: 'later';
  /**
   * Called once.
   * @param ending as `Incoming.ending`: a reply that waits for something should then come at once
   * @param recordable for a route that needs `report`: the journal that it may report to
   * @throws Refusal
   */
  readonly reply: (ending: AbortSignal, recordable?: Recordable) => Promise<Reply>;
}

/** A journal that a request may report to: `{ deployment: 'prod', begin, refusal, record }`. */
export interface Recordable {
  /** Undefined in local mode. */
  readonly deployment: string | undefined;
  /** Opens the journal, as a report does, unless it is open or being opened. */
  begin(): void;
  /** @returns why a report with a body of so many bytes can not be recorded now: `the journal is being opened`; else undefined */
  refusal(bodyBytes: number): string | undefined;
  /** Records the events of a body of so many bytes, at least one. @param done called once, when they are durable or refused */
  record(events: readonly Event[], bodyBytes: number, done: (result: RecordResult) => void): void;
}

/** The events are recorded together, or none of them: `{ kind: 'record', events: [event], onConflict: 'refuse all', … }`. */
export interface RecordOutcome {
  readonly kind: 'record';
  /** At least one. */
  readonly events: readonly Event[];
  /** @returns the reply once they are recorded; a pure function that does not retain the events */
  readonly replyTo: (result: RecordedResult) => Reply;
  /** Whether the events are recorded if idempotency keys of others among them belong to other events. */
  readonly onConflict: ConflictHandling;
  /**
   * Called if nothing is recorded, because idempotency keys belong to other events. A pure function that does not retain the
   * events.
   * @returns the reply: for a single report `{ kind: 'error', status: 422, … }`, for a batch a 400
   */
  readonly conflictReply: (conflicts: readonly KeyConflict[]) => ErrorReply;
  /** A different asset key in the same request, which the key in the path overrides, as text: `sales`. It is logged. */
  readonly hiddenKey?: string | undefined;
  /** Names of parameters that the endpoint does not know: `['colour']`. */
  readonly unknown?: readonly string[] | undefined;
  /** Those of them that are probably misspelt, with what was meant: `[{ name: 'checkName', meant: 'check_name' }]`. */
  readonly misspelt?: readonly { readonly name: string; readonly meant: string }[] | undefined;
}

/**
 * A pure function: no clock, no disk, no network. That of `/livez` returns `{ kind: 'answer', reply }` with a reply of 200.
 * @throws Refusal for an invalid request: 400
 */
export type Handler = (request: HandlerRequest) => Outcome;

/**
 * Decides from the head of a request whether to receive its body: for a POST of `/livez`,
 * `{ kind: 'refuse', route: '/livez', reply }` with a reply of 405. The listener calls it for each request. Never throws.
 */
export type App = (incoming: Incoming) => HeadDecision;
/**
 * Whether the body of a request is received: `{ kind: 'receive', route: '/report_asset_check', receive }`. `route` is a label of
 * the metrics: the path of the route that matched the request, or `OTHER_ROUTE`.
 */
export type HeadDecision =
  | { readonly kind: 'refuse'; readonly route: string; readonly reply: ErrorReply | CutReply }
  | {
      readonly kind: 'receive';
      readonly route: string;
      /** How large its body may be. */
      readonly bodyLimits: Pick<Limits, 'bodyBytesMax' | 'uploadBytesMax'>;
      readonly receive: ReceiveBody;
    };
/**
 * Takes the whole body of a request, empty if it has none, and calls `respond` once, now or when its event is durable; for
 * a report without a key, `receive(Buffer.from('{}'), respond)` responds with a 400.
 */
export type ReceiveBody = (body: Buffer, respond: (reply: Reply) => void) => void;

/** The route label of requests that match no route; in the metrics it is `endpoint="other"`. */
export const OTHER_ROUTE = '/other';

/** The reply to a report that is on stable storage: 200, `{}`. One object for all, so that a report allocates no reply. */
export const accepted: BodyReply = { kind: 'body', status: 200, body: '{}' };

/** Thrown if a request is invalid or not allowed: `new Refusal(404, 'nothing is at this path; …')`. */
export class Refusal extends Error {
  /** The reply to the request: `{ kind: 'error', status: 404, error: 'nothing is at this path; …' }`. */
  readonly reply: ErrorReply;

  /** @param error as in `ErrorReply`: `passed is missing: …`. @param more further members of the reply: `{ close: true }` */
  constructor(
    status: number,
    error: string,
    more: Pick<ErrorReply, 'headers' | 'close' | 'errors' | 'firstSeq' | 'members' | 'logged'> = {},
  ) {
    super(error);
    this.reply = { kind: 'error', status, error, ...more };
  }
}

/** @returns the text of the reply's body: `{}`, or for a failure `{"error":"passed is missing: …","request_id":"…"}` */
export function bodyOf(reply: WholeReply, request: { readonly id: string }): string {
  switch (reply.kind) {
    case 'body':
      return reply.body;
    case 'error': {
      const { error, errors, firstSeq: first_seq, members } = reply;
      return JSON.stringify({ error, errors, first_seq, ...members, request_id: request.id });
    }
  }
}

/**
 * @param reason what the client reads: `the service is stopping`
 * @returns a 503 with `Retry-After: 1` (seconds), for a request that can not be handled now; the client may send it again
 */
export function unavailable(
  reason: string,
  { retryAfterSeconds }: Pick<Limits, 'retryAfterSeconds'> = standardLimits,
): ErrorReply {
  return { kind: 'error', status: 503, error: reason, headers: ['Retry-After', String(retryAfterSeconds)] };
}

/** @returns the reply of `unavailable` as an exception, to be thrown where a reply is found out later: its `reply.status` is 503 */
export function unavailableRefusal(reason: string, limits?: Pick<Limits, 'retryAfterSeconds'>): Refusal {
  const { status, error, ...more } = unavailable(reason, limits);
  return new Refusal(status, error, more);
}

/**
 * @returns a client's text for an error message, as a JSON string without control characters, cut at `charactersMax` (100):
 *   `shown('nightly', 3)` is `"nig"…`
 */
export function shown(text: string, charactersMax: number = standardLimits.shownCharactersMax): string {
  const cut = firstCharacters(text, charactersMax);
  return cut === text ? quoted(text) : `${quoted(cut)}…`;
}

/**
 * @returns JSON text of a client for an error message: as it was sent, so that a string is quoted once (`"true"`), without
 * control characters, cut at `charactersMax` (100): `shownJson('[1,2,3]', 3)` is `[1,…`
 */
export function shownJson(text: string, charactersMax: number = standardLimits.shownCharactersMax): string {
  const cut = firstCharacters(text, charactersMax);
  return cut === text ? printable(text) : `${printable(cut)}…`;
}

/** What a log line has instead of a client's value: `passed in the query is …; send true or false`. */
export const WITHHELD = '…';

function firstCharacters(text: string, charactersMax: number): string {
  let length = 0;
  let count = 0;
  for (const character of text) {
    if (count === charactersMax) return text.slice(0, length);
    length += character.length;
    count += 1;
  }
  return text;
}

/** JSON does not escape U+007F to U+009F, U+2028, U+2029 and direction marks, but a terminal or a log viewer interprets them. */
function quoted(text: string): string {
  return printable(JSON.stringify(text));
}
