/**
 * The classes of `node:http` as the listener uses them: a request that hands over its body without a stream, and a response that
 * the listener writes to the socket itself. Reading and writing through Node's streams would take half of the time of a small
 * request.
 *
 * They depend on internals of Node, which are the same in 20, 22, 24 and 26. The tests in brackets fail if one changes:
 * - The server creates each request as `new IncomingMessage(socket)` and each response as `new ServerResponse(req, options)`,
 *   with the classes that its options name, and uses an object that the constructor returns (a client that pipelines without a
 *   pause: `faults/flood`).
 * - The parser calls `push` of the request with each chunk of the body, and with null at its end (any body: `program/listener`).
 * - Of the headers, the server itself reads only `expect` (`100-continue`: `program/listener`).
 * - After `finish` of a response the server assigns the socket to the next one, and calls `_dump` of the request (pipelined
 *   requests: `program/listener`). `shouldKeepAlive` is false if the client asked to close the connection.
 */

import { randomUUID } from 'node:crypto';
import { createServer, IncomingMessage, type Server, type ServerOptions, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Limits } from '../../config/limits.ts';
import { type HeaderFields, readFields } from '../headers.ts';
import type { Incoming } from '../message.ts';

/**
 * A request that passes the chunks of its body to `onBytes` as they are parsed, and null at its end. Reading it as a stream
 * would take two more turns of the event loop and a fifth of the time of a small request. It can not also be read as a stream.
 */
export class UnbufferedRequest extends IncomingMessage implements Incoming {
  /** Receives each chunk of the body, and null at its end; it ignores them until it is set. */
  onBytes: (chunk: Buffer | null) => void = ignore;
  declare tokenName?: string;
  #id: string | undefined;
  #fields: HeaderFields | undefined;
  #ending: AbortController | undefined;
  #isEnding = false;

  /** Generated on first use: most requests succeed and need no id. */
  get id(): string {
    this.#id ??= randomUUID(); // a counter would reveal to a client how often requests of others fail
    return this.#id;
  }

  /** As `Incoming.ending`. Made at first use: most replies are sent at once and need none. */
  get ending(): AbortSignal {
    this.#ending ??= new AbortController();
    if (this.#isEnding) this.#ending.abort();
    return this.#ending.signal;
  }

  /** Aborts `ending`. May be called again. */
  endReply(): void {
    this.#isEnding = true;
    this.#ending?.abort();
  }

  /** Parsed on first use. */
  get fields(): HeaderFields {
    this.#fields ??= readFields(this.rawHeaders);
    return this.#fields;
  }

  /** Node reads only `expect`, in each request. Building its object of all headers would cost more than parsing the head. */
  // @ts-expect-error: the types have a property, Node an accessor
  override get headers(): { expect: string | undefined } {
    return this.fields;
  }

  /** Node's parser calls it with each chunk of the body, and with null at its end. */
  override push(chunk: Buffer | null): boolean {
    this.onBytes(chunk);
    return true; // no backpressure to the parser: the `onBytes` callback bounds the bytes that it keeps
  }

  /** Node calls `_dump` after the reply to drain an unread stream. This stream is always empty. */
  _dump(): void {}
}

/**
 * A response that the listener writes itself, in one write: Node's own writing takes a third of the time of a small request.
 */
export class RawResponse extends ServerResponse<UnbufferedRequest> {
  /** Called when the reply has been sent. Emits `finish`, so that Node assigns the connection to the next response. */
  finish(): void {
    this.finished = true;
    this.emit('finish');
  }
}

/** A server of `node:http` whose requests and responses are the classes of this file. */
export type RawServer = Server<typeof UnbufferedRequest, typeof RawResponse>;

/**
 * Creates a server that does not listen yet. Its checks of time are Node's; all other checks are left to the listener.
 */
export function createRawServer(
  limits: Pick<Limits, 'headBytesMax' | 'headersMs' | 'requestMs' | 'deadlineCheckMs'>,
): RawServer {
  const server: RawServer = createServer({
    IncomingMessage: RequestOn as unknown as typeof UnbufferedRequest,
    ServerResponse: ResponseTo as unknown as typeof RawResponse,
    // Node's own reply to a missing Host has no JSON body, so `request.ts` checks it.
    requireHostHeader: false,
    insecureHTTPParser: false, // whatever NODE_OPTIONS say
    maxHeaderSize: limits.headBytesMax,
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    keepAliveTimeout: 0, // Node sets two timers for each request; the idle check of `Connections` needs none
    connectionsCheckingInterval: limits.deadlineCheckMs,
  });
  server.maxHeadersCount = 0; // else Node 20 drops the headers beyond its limit without an error
  // A client may half-close the connection after its request and still wait for the reply. Not in the types of node:http.
  (server as RawServer & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  return server;
}

/**
 * From now on, the requests that Node parses on the connection share one request and one response object. Node keeps these
 * objects until the connection ends, and its 64 KiB buffer may hold 2,400 requests of 3 KB each. Called once for each connection.
 */
export function shareFurtherRequests(socket: Socket): void {
  const req = new UnbufferedRequest(socket);
  shared.set(socket, { req, res: new IgnoredResponse(req) });
}

const ignore = () => {};

/** The response to ignored requests: Node adds event listeners to it for each request, and none of them is ever needed. */
class IgnoredResponse extends RawResponse {
  override on(): this {
    return this;
  }
}

const shared = new WeakMap<Socket, { readonly req: UnbufferedRequest; readonly res: RawResponse }>();

/** A constructor for `new` that may return an existing object. */
function RequestOn(socket: Socket): UnbufferedRequest {
  return shared.get(socket)?.req ?? new UnbufferedRequest(socket);
}

function ResponseTo(req: UnbufferedRequest, options: ServerOptions): RawResponse {
  return shared.get(req.socket)?.res ?? new (RawResponse as RawResponseConstructor)(req, options);
}

/** The constructor as Node calls it; the types of Node omit the options. */
type RawResponseConstructor = new (req: UnbufferedRequest, options: ServerOptions) => RawResponse;
