/** The types of requests, replies and refusals that the listener and the handlers share. */

import type { Limits } from '../config/limits.ts';
import type { Event } from '../event/event.ts';
import type { ConflictHandling, KeyConflict, RecordedResult, RecordResult } from '../event/record-result.ts';
import { printable } from '../telemetry/printable.ts';
import type { HeaderFields } from './headers.ts';

/** A request as the listener passes it to the app, its head before the body is received. */
export interface Incoming {
  readonly method?: string | undefined;
  /** The request target as it was sent (RFC 9112 section 3.2): `/report_asset_check?passed=true`. */
  readonly url?: string | undefined;
  /** Without `HTTP/`: `1.1`. */
  readonly httpVersion: string;
  readonly fields: HeaderFields;
  /** `remoteAddress` is the IP address of the peer, a client or its proxy. */
  readonly socket?: { readonly remoteAddress?: string | undefined };
  /** A UUID that the service generated, not the client. It is in the reply to a failed request and in log lines about it. */
  readonly id: string;
  /** Hosted mode: the name of the valid token in the deployments file. */
  tokenName?: string;
  /**
   * Aborts when the reply should end early: the client has closed its side of the connection, the service is stopping, the
   * client may no longer read, or others need the connection of a reply that only waits.
   */
  readonly ending: AbortSignal;
  /** Aborts `ending`. May be called again. */
  endReply(): void;
}

/** The head of a request, checked. `readHead` makes it. */
export interface Head {
  readonly method: string;
  /** As sent, neither percent-decoded nor normalised: `/report_asset_check/a%2Fb`. */
  readonly path: string;
  /** As sent, without the question mark; empty if there is no query. */
  readonly query: string;
  readonly fields: HeaderFields;
  /** Host and port that the client addressed: `localhost:3000`. Undefined only for HTTP/1.0 without Host. */
  readonly authority: string | undefined;
  /** Whether a browser opens what is requested in a tab or a window, as it says in `Sec-Fetch-Mode` and `Sec-Fetch-Dest`. */
  readonly navigates: boolean;
  /** The header `Expect`; undefined in HTTP/1.0, in which an expectation is ignored. */
  readonly expect: string | undefined;
  /** Value of the token header; undefined if there is none or the service uses no tokens. */
  readonly token: string | undefined;
  /** Size of the body, 0 without one. Undefined for a chunked body, whose size is known only at its end. */
  readonly bodyBytes: number | undefined;
}

/** A reply. `ReplyTexts` writes each kind. */
export type Reply = WholeReply | DocumentReply | StreamReply | CutReply;

/** A reply that is written at once. */
export type WholeReply = BodyReply | ErrorReply;

/** A reply whose whole body is known. */
export interface BodyReply extends ReplyHead {
  readonly kind: 'body';
  readonly body: string;
}

/**
 * A reply with a long body that is the same each time, such as the page. The connections that send it share its memory; of a
 * text, Node would keep a copy for each client that does not read.
 */
export interface DocumentReply extends ReplyHead {
  readonly kind: 'document';
  readonly body: Buffer;
}

/** A reply whose body is produced while it is sent, by `http/socket/streams.ts`. */
export interface StreamReply extends ReplyHead {
  readonly kind: 'stream';
  /**
   * Called once, when the reply can be sent. The next piece is requested when the kernel has accepted the one before it
   * (backpressure). If it throws, the client gets a Refusal as its reply, or 503; after the first piece the connection is
   * closed and the client sees an incomplete reply.
   * @param ending as `Incoming.ending`: the body should then end soon, complete
   * @param onWait called when the body begins to wait for what may not come: `ending` may then abort to free its connection
   */
  readonly pieces: (ending: AbortSignal, onWait: () => void) => AsyncIterable<Buffer>;
  /** While it is sent, its connection does not count against `--max-connections`: what sends it has a limit of its own. */
  readonly besideCap?: boolean;
}

/** A reply after which the connection is closed unannounced, for tests. `Exchanges` sends it. */
export interface CutReply extends Pick<ReplyHead, 'status' | 'close'> {
  readonly kind: 'cut';
  readonly reply: WholeReply;
  /** How much of the reply is sent: `half` is its head and half of its body; after `reset` the client sees a reset (RST). */
  readonly sent: 'reset' | 'nothing' | 'half';
}

/** A refusal, or a failure of the service. `bodyOf` builds its body, which contains the id of the request. */
export interface ErrorReply extends ReplyHead {
  readonly kind: 'error';
  /** One line: what is wrong and what to do. */
  readonly error: string;
  /** What is wrong with items of a batch. */
  readonly errors?: readonly ItemProblem[];
  /** Of a 410: the seq of the first event that is there. */
  readonly firstSeq?: number;
  /** Further members of the body: `{ reason: 'gap', seq: 7 }`. */
  readonly members?: Readonly<Record<string, unknown>>;
  /** The error as it may be logged, if it quotes a query, metadata or JSON: `passed in the query is …; send true or false`. */
  readonly logged?: string;
  /** @returns why it was refused, which the client does not get; called after the reply, since its time must not depend on it */
  readonly cause?: () => string;
}

/** A wrong item of a batch. */
export interface ItemProblem {
  /** Its line, or its position in the array; the first is 1. */
  readonly item: number;
  readonly error: string;
}

interface ReplyHead {
  /** The HTTP status code (RFC 9110 section 15). */
  readonly status: number;
  /** `application/json` by default. */
  readonly contentType?: string;
  /** Headers in addition to those of every reply: name, value, name, value … */
  readonly headers?: readonly string[];
  /** Close the connection after this reply, because the start of the next request on it is not certain. */
  readonly close?: boolean;
}

/** The parts of a request that a handler reads. */
export interface HandlerRequest {
  /** The raw path after `endpoint/`: `warehouse/orders`. Undefined if nothing follows the slash. */
  readonly keyPath: string | undefined;
  /** The whole body; empty without one. */
  readonly body: Buffer;
  /** The query as sent, without the question mark. */
  readonly query: string;
  /** The media type of a body has been checked against `Route.bodyTypes`. */
  readonly head: Pick<Head, 'method' | 'path' | 'fields'>;
  /** In hosted mode, for a route that needs `read`: the deployment whose events may be read. */
  readonly deployment?: string | undefined;
  /** As `Incoming.tokenName`. */
  readonly tokenName?: string | undefined;
  /** The header `Idempotency-Key`, without quotes. Undefined without one, or if keys are not looked at. */
  readonly idempotencyKey?: string | undefined;
}

/** What a handler returns: a reply, how to find it out, or the events that must be durable before the reply is sent. */
export type Outcome = AnswerOutcome | LaterOutcome | RecordOutcome;

/** Nothing is recorded. */
export interface AnswerOutcome {
  readonly kind: 'answer';
  readonly reply: Reply;
}

/** The reply takes a while, for example because the journal is read first. */
export interface LaterOutcome {
  readonly kind: 'later';
  /**
   * Called once.
   * @param ending as `Incoming.ending`: a reply that waits for something should then come at once
   * @param recorder for a route that needs `report`: the journal that it may report to
   * @throws Refusal
   */
  readonly reply: (ending: AbortSignal, recorder?: Recorder) => Promise<Reply>;
}

/** The events are recorded together, or none of them. */
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
   * @returns the reply: for a single report a 422, for a batch a 400
   */
  readonly conflictReply: (conflicts: readonly KeyConflict[]) => ErrorReply;
  /** Whether the key in the path overrides a different one in the same request. It is logged. */
  readonly hidesKey?: boolean;
  /** Names of parameters that the endpoint does not know. */
  readonly unknown?: readonly string[] | undefined;
  /** Those of them that are probably misspelt, with what was meant. */
  readonly misspelt?: readonly { readonly name: string; readonly meant: string }[] | undefined;
}

/** A journal that a request may report to. */
export interface Recorder {
  /** Undefined in local mode. */
  readonly deployment: string | undefined;
  /** Opens the journal, as a report does, unless it is open or being opened. */
  begin(): void;
  /** @returns why a report with a body of so many bytes can not be recorded now: `the journal is being opened`; else undefined */
  refusal(bodyBytes: number): string | undefined;
  /**
   * Records events, at least one, all of them or none.
   * @param done called once, when they are durable or refused. If they are recorded, `before` has the seqs of those that were recorded before, and the others are in the range of seqs from
   *   `first` to `last`
   * @param onConflict whether events whose idempotency keys belong to other events are left out instead
   */
  append(
    events: readonly Event[],
    done: (result: RecordResult, first?: number, last?: number, before?: readonly number[]) => void,
    onConflict: ConflictHandling,
  ): void;
}

/** With `--ack`: what keeps back the replies to reports until a destination has their events as well. */
export interface Acknowledgements {
  /** @returns why nothing of a deployment is to be recorded now, as a sentence for the client; undefined if it may be */
  refusal(deployment: string | undefined): string | undefined;
  /**
   * Waits for the destination to have the events from `first` to `last`, and those with the seqs in `before`, which are on the disk.
   * @param answer called once, at once or later: with the reason, if they are not known to be there in time
   */
  wait(
    deployment: string | undefined,
    first: number,
    last: number,
    before: readonly number[],
    answer: (reason?: string) => void,
  ): void;
}

/** A pure function: no clock, no disk, no network. @throws Refusal for an invalid request: 400 */
export type Handler = (request: HandlerRequest) => Outcome;

/** Decides from the head of a request whether to receive its body. The listener calls it for each request. Never throws. */
export type App = (incoming: Incoming) => HeadDecision;

/** `route` is a label of the metrics: the path of the route that matched the request, or `OTHER_ROUTE`. */
export type HeadDecision =
  | { readonly kind: 'refuse'; readonly route: string; readonly reply: ErrorReply | CutReply }
  | ReceiveDecision;

/** The body of the request is to be received. */
export interface ReceiveDecision {
  readonly kind: 'receive';
  readonly route: string;
  /** How large the body may be. */
  readonly bodyLimits: Pick<Limits, 'bodyBytesMax' | 'uploadBytesMax'>;
  /** Takes the whole body, empty if there is none, and calls `respond` once, now or when the events are durable. */
  receive(body: Buffer, respond: (reply: Reply) => void): void;
}

/** The route label of requests that match no route; in the metrics it is `endpoint="other"`. */
export const OTHER_ROUTE = '/other';

/** The reply to a report that is on stable storage. One object for all, so that a report allocates no reply. */
export const accepted: BodyReply = { kind: 'body', status: 200, body: '{}' };

type More = Pick<ErrorReply, 'headers' | 'close' | 'errors' | 'firstSeq' | 'members' | 'logged' | 'cause'>;

/** Thrown if a request is invalid or not allowed. */
export class Refusal extends Error {
  /** The reply to the request. */
  readonly reply: ErrorReply;

  constructor(status: number, error: string, more: More = {}) {
    super(error);
    this.reply = { kind: 'error', status, error, ...more };
  }
}

/**
 * @returns a refusal whose error quotes the client. All of them are made here.
 * @param quote what the client sent, made by `shown` or `shownJson`
 * @param inLog a query, metadata or JSON is withheld from the log
 */
export function quotingRefusal(
  status: number,
  quote: string,
  inLog: 'logged' | 'withheld',
  problem: (quote: string) => string,
  more: More = {},
): Refusal {
  return new Refusal(status, problem(quote), inLog === 'logged' ? more : { ...more, logged: problem(WITHHELD) });
}

/** @returns the text of the reply's body */
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
 * @returns a 503 with `Retry-After`, for a request that can not be handled now; the client may send it again
 */
export function unavailable(reason: string, { retryAfterSeconds }: Pick<Limits, 'retryAfterSeconds'>): ErrorReply {
  return { kind: 'error', status: 503, error: reason, headers: ['Retry-After', String(retryAfterSeconds)] };
}

/** @returns the reply of `unavailable` as an exception, to be thrown if a reply is found out later */
export function unavailableRefusal(reason: string, limits: Pick<Limits, 'retryAfterSeconds'>): Refusal {
  const { status, error, ...more } = unavailable(reason, limits);
  return new Refusal(status, error, more);
}

/** How much of a client's text an error shows. */
export type ShownLimits = Pick<Limits, 'shownCharactersMax'>;

/** @returns a client's text for an error message, as a JSON string without control characters, and cut: `"nig"…` */
export function shown(text: string, limits: ShownLimits): string {
  return cut(text, quoted, limits);
}

/**
 * @returns JSON text of a client for an error message: as it was sent, so that a string is quoted once (`"true"`), without
 * control characters, and cut: `[1,…`
 */
export function shownJson(text: string, limits: ShownLimits): string {
  return cut(text, printable, limits);
}

/** What a log line has instead of a client's value: `passed in the query is …; send true or false`. */
export const WITHHELD = '…';

function cut(text: string, show: (text: string) => string, { shownCharactersMax }: ShownLimits): string {
  let length = 0;
  let count = 0;
  for (const character of text) {
    if (count === shownCharactersMax) return `${show(text.slice(0, length))}…`;
    length += character.length;
    count += 1;
  }
  return show(text);
}

/** JSON does not escape U+007F to U+009F, U+2028, U+2029 and direction marks, but a terminal or a log viewer interprets them. */
function quoted(text: string): string {
  return printable(JSON.stringify(text));
}
