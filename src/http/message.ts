/** The vocabulary between socket and disk: what comes in, what goes out, what refuses. */

import { type Limits, limits as standardLimits } from '../config/limits.ts';
import type { Event } from '../event/event.ts';
import type { Json } from '../event/json.ts';
import { printable } from '../telemetry/printable.ts';

/** What is known of a request before its body. */
export interface Incoming {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersion: string;
  readonly fields: HeaderFields;
  readonly socket?: { readonly remoteAddress?: string | undefined };
  /** Made by the service, never by the client: it stands in the error of the reply and in every notice about this request. */
  readonly id: string;
}

/** The headers that decide something. A repeated one is joined with a comma, as RFC 9110 section 5.3 allows, or counted. */
export interface HeaderFields {
  /** All of them: name, value, name, value … as they were sent. */
  readonly raw: readonly string[];
  /** Of all of them, with their separators and line ends. */
  bytes: number;
  host?: string;
  hosts: number;
  transferEncoding?: string;
  contentLength?: string;
  contentType?: string;
  contentTypes: number;
  contentEncoding?: string;
  expect?: string;
  upgrade?: string;
  origin?: string;
  fetchSite?: string;
}

export type Reply = Success | Failure;

export interface Success extends ReplyHead {
  readonly body: string;
}

/** Its body is made where the id of the request is known: see `bodyOf`. */
export interface Failure extends ReplyHead {
  /** One line that a person can act on. */
  readonly error: string;
}

interface ReplyHead {
  readonly status: number;
  /** JSON unless it says otherwise. */
  readonly contentType?: string;
  /** Name, value, name, value …, besides those that every reply has. */
  readonly headers?: readonly string[];
  /** The connection can not be trusted to find the next request, so it ends with this reply. */
  readonly close?: boolean;
}

/** Everything that a handler may look at. */
export interface Request {
  /** The raw path after `endpoint/`: undefined where nothing follows the slash. */
  readonly keyPath: string | undefined;
  /** Undefined without a body. */
  readonly body: ReadonlyMap<string, Json> | undefined;
  readonly query: ReadonlyMap<string, string>;
}

/** What a handler decides: the reply, and what has to be on disk before it may leave. */
export interface Outcome {
  readonly reply: Reply;
  readonly event?: Event;
  /** For the operator: the key in the path won over another one. */
  readonly hiddenKey?: string | undefined;
  /** Parameters that the endpoint does not know. */
  readonly unknown?: readonly string[] | undefined;
}

/** Pure: no clock, no disk, no network. @throws Refusal */
export type Handler = (request: Request) => Outcome;

/** The service as the listener sees it: decides from the head of a request whether its body is received. Never throws. */
export type App = (incoming: Incoming) => Decision;
/** `route`: the path of the route that the request found, or `OTHER_ROUTE`; it is a label of the metrics. */
export type Decision =
  | { readonly kind: 'refuse'; readonly route: string; readonly reply: Failure }
  | { readonly kind: 'receive'; readonly route: string; readonly receive: Receive };
export type Receive = (body: Buffer, respond: (reply: Reply) => void) => void;

export const OTHER_ROUTE = '/other';

export const accepted: Success = { status: 200, body: '{}' };

/** Thrown where a request breaks a rule; it is the reply. */
export class Refusal extends Error {
  readonly reply: Failure;

  constructor(status: number, error: string, more: Pick<ReplyHead, 'headers' | 'close'> = {}) {
    super(error);
    this.reply = { status, error, ...more };
  }
}

/** @returns the bytes' text; `{"error": …, "request_id": …}` is the one shape of every failure */
export function bodyOf(reply: Reply, request: { readonly id: string }): string {
  return 'error' in reply ? JSON.stringify({ error: reply.error, request_id: request.id }) : reply.body;
}

/** 503 for a report that could not be recorded now. The client may send it again. */
export function unavailable(
  reason: string,
  { retryAfterSeconds }: Pick<Limits, 'retryAfterSeconds'> = standardLimits,
): Failure {
  return { status: 503, error: reason, headers: ['Retry-After', String(retryAfterSeconds)] };
}

/** A client's text as an error may hold it: quoted, on one line for every reader, cut at 100 characters unless the caller says otherwise. */
export function shown(text: string, charactersMax: number = standardLimits.shownCharactersMax): string {
  let cut = '';
  let count = 0;
  for (const character of text) {
    if (count === charactersMax) return `${quoted(cut)}…`;
    cut += character;
    count += 1;
  }
  return quoted(cut);
}

/** JSON leaves U+007F to U+009F, U+2028, U+2029 and direction marks as they are, and a terminal or a log takes them for more than text. */
function quoted(text: string): string {
  return printable(JSON.stringify(text));
}
