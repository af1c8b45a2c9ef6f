/**
 * Subclasses of `node:http` for the listener: a request that passes its body on without a stream, and a response that the listener
 * writes to the socket itself. Node's streams would cost half of the time of a small request.
 *
 * They depend on internals of Node that are the same in versions 20, 22, 24 and 26. If one of them changes, the tests in brackets
 * fail:
 * - The server creates each request as `new IncomingMessage(socket)` and each response as `new ServerResponse(req, options)`,
 *   with the classes in its options, and uses an object that the constructor returns (a client that pipelines without a pause:
 *   `faults/flood`).
 * - The parser calls `push` of the request with each chunk of the body, and with null at its end (any body: `program/http/hostile`).
 * - The server itself reads no header except `expect` (`100-continue`: `program/http/clients`).
 * - After `finish` of a response the server assigns the socket to the next one, and calls `_dump` of the request (pipelined
 *   requests: `program/http/hostile`). `shouldKeepAlive` is false if the client asked to close the connection.
 * - The timer of `connectionsCheckingInterval` is a property of the server. After each read and write of a socket `_unrefTimer` is
 *   called (a part of a head after a pause, and no timer without a connection: `http/socket/deadlines`).
 */

import { randomUUID } from 'node:crypto';
import { createServer, IncomingMessage, type Server, type ServerOptions, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Limits } from '../../config/limits.ts';
import { type HeaderFields, readFields } from '../headers.ts';
import type { Incoming } from '../message.ts';

/**
 * A request that passes the chunks of its body to `onBytes` while they are parsed, and null at its end. A stream would cost two
 * more turns of the event loop and a fifth of the time of a small request. It cannot be read as a stream.
 */
export class UnbufferedRequest extends IncomingMessage implements Incoming {
  /** Called with each chunk of the body, and with null at its end. */
  onBytes: (chunk: Buffer | null) => void = ignore;
  declare tokenName?: string;
  #id: string | undefined;
  #fields: HeaderFields | undefined;
  #ending: AbortController | undefined;
  #isEnding = false;

  /** Generated on first use: most requests succeed and need no id. */
  get id(): string {
    this.#id ??= randomUUID(); // a counter would reveal how often requests of other clients fail
    return this.#id;
  }

  /** See `Incoming.ending`. Created on first use: most replies are sent immediately and need no signal. */
  get ending(): AbortSignal {
    this.#ending ??= new AbortController();
    if (this.#isEnding) this.#ending.abort();
    return this.#ending.signal;
  }

  /** Aborts `ending`. Repeated calls have no effect. */
  endReply(): void {
    this.#isEnding = true;
    this.#ending?.abort();
  }

  /** Parsed on first use. */
  get fields(): HeaderFields {
    this.#fields ??= readFields(this.rawHeaders);
    return this.#fields;
  }

  /** Node reads only `expect` of each request. Its own object of all headers would cost more than parsing the head. */
  // @ts-expect-error: the types have a property, Node an accessor
  override get headers(): { expect: string | undefined } {
    return this.fields;
  }

  override push(chunk: Buffer | null): boolean {
    this.onBytes(chunk);
    return true; // no backpressure to the parser: the `onBytes` callback bounds its own memory
  }

  /** Node calls `_dump` after the reply to drain an unread stream. This stream is always empty. */
  _dump(): void {}
}

/**
 * A response that the listener writes itself, in one write: Node's own writes cost a third of the time of a small request.
 */
export class RawResponse extends ServerResponse<UnbufferedRequest> {
  /** Called after the reply is sent. Emits `finish`, so that Node assigns the connection to the next response. */
  finish(): void {
    this.finished = true;
    this.emit('finish');
  }
}

/** A server of `node:http` with the classes of this file. */
export type RawServer = Server<typeof UnbufferedRequest, typeof RawResponse>;

/**
 * Creates a server that does not listen yet. Node enforces its timeouts; all other checks are left to the listener.
 */
export function createRawServer(limits: Limits): RawServer {
  const server: RawServer = createServer({
    IncomingMessage: RequestOn as unknown as typeof UnbufferedRequest,
    ServerResponse: ResponseTo as unknown as typeof RawResponse,
    // Node's own reply to a missing Host has no JSON body, so `request.ts` checks the header.
    requireHostHeader: false,
    insecureHTTPParser: false, // even if NODE_OPTIONS enable it
    maxHeaderSize: limits.headBytesMax,
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    keepAliveTimeout: 0, // Node sets two timers for each request; the idle check of `Connections` needs none
    connectionsCheckingInterval: limits.deadlineCheckMs,
  });
  server.maxHeadersCount = 0; // otherwise Node 20 silently drops headers beyond its limit
  // A client can half-close the connection after its request and still wait for the reply. The types of node:http lack
  // this property.
  (server as RawServer & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  return server;
}

/**
 * Takes over the check of `headersTimeout` and `requestTimeout`, which Node would make at an interval even if no client is connected.
 * @param server a server that listens
 * @returns the check; undefined if this version of Node has a different one, which it then continues to make itself
 */
export function takeTimeouts(server: RawServer): (() => void) | undefined {
  const symbols = Object.getOwnPropertySymbols(server) as (symbol & keyof RawServer)[];
  const symbol = symbols.find(({ description }) => description === 'http.server.connectionsCheckingInterval');
  const timer = symbol && (server[symbol] as { _onTimeout?: () => void } | undefined);
  if (typeof timer?._onTimeout !== 'function') return undefined;
  const check = timer._onTimeout;
  clearInterval(timer as NodeJS.Timeout);
  return check;
}

/**
 * Calls a function whenever Node has read from a socket or written to it, since Node then restarts the idle timeout of the
 * socket.
 */
export function onTransfer(socket: Socket, transferred: () => void): void {
  const inner = socket as Socket & { _unrefTimer(): void };
  const { _unrefTimer: moveTimeout } = inner;
  inner._unrefTimer = function moved(this: Socket) {
    moveTimeout.call(this);
    transferred();
  };
}

/**
 * From now on, all requests that Node parses on the connection share one request and one response object. Node keeps these
 * objects until the connection ends, and its 64 KiB buffer can hold 2,400 requests of 3 KB each. Called once for each connection.
 */
export function shareFurtherRequests(socket: Socket): void {
  const req = new UnbufferedRequest(socket);
  shared.set(socket, { req, res: new IgnoredResponse(req) });
}

const ignore = () => {};

/** The response to ignored requests, which drops the event listeners that Node adds for each request. */
class IgnoredResponse extends RawResponse {
  override on(): this {
    return this;
  }
}

const shared = new WeakMap<Socket, { readonly req: UnbufferedRequest; readonly res: RawResponse }>();

/** A constructor for `new` that can return an existing object. */
function RequestOn(socket: Socket): UnbufferedRequest {
  return shared.get(socket)?.req ?? new UnbufferedRequest(socket);
}

function ResponseTo(req: UnbufferedRequest, options: ServerOptions): RawResponse {
  return shared.get(req.socket)?.res ?? new (RawResponse as RawResponseConstructor)(req, options);
}

/** The constructor that Node calls; its types omit the options. */
type RawResponseConstructor = new (req: UnbufferedRequest, options: ServerOptions) => RawResponse;
