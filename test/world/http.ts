/** Requests and answers of HTTP in the form that the models of peers read and give. */

import type { HttpReply } from '../../src/client/connection.ts';

export interface HttpRequest {
  readonly method: string | undefined;
  /** Path and query. */
  readonly url: string | undefined;
  /** Unpacked. */
  readonly body: string;
}

/** An answer: `[200, '{}']`, with further headers if needed, and whether the connection ends after it, unannounced. */
export type Scripted = readonly [
  status: number,
  body: string,
  headers?: Readonly<Record<string, string>>,
  after?: 'ends',
];

/** @returns an answer as a client of the source gets it */
export function replyOf([status, body, headers = {}]: Scripted): HttpReply {
  return { status, headers: { 'content-type': contentTypeOf(body), ...headers }, body };
}

export function contentTypeOf(body: string): string {
  return body.startsWith('{') ? 'application/json' : 'text/html';
}
