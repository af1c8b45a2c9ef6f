/**
 * The requests of each connection and their replies, from the parsed head to the last byte of the reply. Replies are sent in the
 * order of the requests (RFC 9112 section 9.3.2), one at a time. The number of unanswered requests of a connection is limited.
 */

import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Limits } from '../../config/limits.ts';
import type { Activity } from '../../telemetry/activity.ts';
import type { Notices } from '../../telemetry/log.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { traceparentIn } from '../../telemetry/refusals.ts';
import {
  type App,
  accepted,
  type CutReply,
  type ErrorReply,
  OTHER_ROUTE,
  Refusal,
  type Reply,
  type StreamReply,
  unavailable,
} from '../message.ts';
import { type ClientError, refusalOf, TOO_SLOW } from './client-error.ts';
import { type Connection, Connections, type Exchange, pause, resume } from './connections.ts';
import { afterUpload, closeLingering, ignoreFurther } from './lingering-close.ts';
import type { RawResponse, UnbufferedRequest } from './node-classes.ts';
import { ReplyTexts } from './replies.ts';
import { type FailedStream, sendPieces } from './streams.ts';
import { NO_BODY, Uploads } from './uploads.ts';

export interface ExchangesOptions {
  /** See {@link Connections}. */
  readonly maxConnections: number;
  /** If true, the connections do not keep the process alive. */
  readonly background: boolean;
  readonly limits: Limits;
  readonly metrics: Metrics;
  readonly notices: Notices;
  /** Logs each refused request. */
  readonly activity: Activity;
  /** Called each time that `limits.collectBytes` of bodies have been received. */
  readonly collectGarbage?: (() => void) | undefined;
  /** See `ConnectionsOptions.checkRequests`. */
  readonly checkRequests?: (() => void) | undefined;
}

/** Hands each request to the app, and sends its reply. Its methods are the event handlers of a server of `node:http`. */
export class Exchanges {
  readonly connections: Connections;
  readonly #options: ExchangesOptions;
  readonly #app: App;
  readonly #uploads: Uploads;
  readonly #replies: ReplyTexts;
  #draining = false;

  constructor(options: ExchangesOptions, app: App) {
    const { maxConnections, background, limits, notices, collectGarbage, checkRequests } = options;
    this.#options = options;
    this.#app = app;
    this.#replies = new ReplyTexts(limits);
    this.connections = new Connections({
      maxConnections,
      background,
      limits,
      notices,
      checkRequests,
      onSent: (connection) => this.#allSent(connection),
      onEnded: endReplies,
      onClosed: (connection) => {
        this.#uploads.release(connection);
        endReplies(connection);
      },
      onNoRequest: (socket) => this.onClientError(TOO_SLOW, socket),
    });
    const answer = (exchange: Exchange, reply: Reply) => this.#answer(exchange, reply);
    this.#uploads = new Uploads({ limits, connections: this.connections, answer, collectGarbage });
  }

  /**
   * Starts a graceful shutdown: the last reply of each connection has `Connection: close`, and long replies end soon.
   */
  drain(): void {
    this.#draining = true;
    for (const connection of this.connections.all()) endReplies(connection);
  }

  /**
   * Answers a request, or receives its body first.
   * @param awaitsContinue the client sends its body only after `100 Continue` (RFC 9110 section 10.1.1)
   */
  onRequest(req: UnbufferedRequest, res: RawResponse, awaitsContinue: boolean): void {
    const connection = this.connections.find(req.socket);
    if (connection === undefined || connection.closing) return;
    const exchange = this.#enqueue(connection, req, res);
    if (this.#draining) req.endReply();
    const decision = this.#app(req);
    exchange.route = decision.route;
    if (decision.kind === 'refuse') {
      this.#answer(exchange, decision.reply);
    } else if (!exchange.received) {
      if (awaitsContinue) res.writeContinue();
      this.#uploads.receive(exchange, decision);
    } else if (!isSafe(req) && connection.unpacking !== undefined) {
      this.#uploads.receiveInTurn(exchange, decision, NO_BODY);
    } else if (connection.first === exchange || !isSafe(req)) {
      decision.receive(NO_BODY, (reply) => this.#answer(exchange, reply));
    } else {
      exchange.deferred = decision; // decided when it can be sent, so that the reply does not wait in memory
      connection.undecided -= 1;
    }
  }

  /** Refuses the method CONNECT, for which Node has no response object. */
  onConnect(req: UnbufferedRequest, socket: Socket): void {
    const connection = this.connections.find(socket);
    if (connection === undefined || connection.closing) return;
    ignoreFurther(connection);
    const decision = this.#app(req);
    if (decision.kind === 'receive' || decision.reply.kind === 'cut') socket.destroy();
    else this.#refuseLast(connection, decision.reply, req.id);
  }

  /**
   * Answers malformed, slow or too many bytes with the reply of `refusalOf`. Node emits `clientError` again for each further
   * chunk.
   */
  onClientError(error: ClientError, socket: Socket): void {
    const connection = this.connections.find(socket);
    if (connection === undefined || !socket.writable || error.code === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    if (connection.closing) return;
    ignoreFurther(connection);
    const { last } = connection;
    if (last !== undefined && !last.received) this.#answer(last, refusalOf(error, true, this.#options.limits).reply);
    else this.#refuseLast(connection, refusalOf(error, false, this.#options.limits).reply, randomUUID());
  }

  /** Limits the unanswered requests of a connection, since a client can send requests without reading replies. */
  #enqueue(connection: Connection, req: UnbufferedRequest, res: RawResponse): Exchange {
    const { notices, limits } = this.#options;
    const received = !hasBody(req);
    const overrun = connection.unanswered + 1 >= limits.unansweredMax;
    const final = overrun || endsConnection(req) || this.#endsSoon(connection);
    const startedMs = notices.isDebug ? performance.now() : 0;
    const more = { route: OTHER_ROUTE, deferred: undefined, reply: undefined, next: undefined };
    const exchange: Exchange = { req, res, connection, startedMs, received, final, overrun, ...more };

    if (connection.last === undefined) connection.first = exchange;
    else connection.last.next = exchange;
    connection.last = exchange;
    connection.unanswered += 1;
    connection.undecided += 1;
    if (received && final) ignoreFurther(connection); // done now: Node parses further bytes before the reply is sent
    if (connection.unanswered >= limits.pipelinedMax) pause(connection);
    return exchange;
  }

  /** Sets the reply of a request. It is sent after the replies to earlier requests on the connection. */
  #answer(exchange: Exchange, reply: Reply): void {
    const { connection, received } = exchange;
    if (!received) this.#uploads.release(connection);
    connection.undecided -= 1;
    exchange.reply = reply;
    if (reply.close === true || !received) exchange.final = true;
    if (exchange.final) ignoreFurther(connection);
    if (reply.kind !== 'stream') this.#count(exchange, reply); // otherwise counted when its head is sent
    if (!received) this.#uploads.discard(exchange);
    if (connection.first === exchange && !connection.deciding) this.#sendDecided(connection);
  }

  #count(exchange: Exchange, reply: Reply): void {
    const { metrics, notices } = this.#options;
    if (reply.kind !== 'cut') metrics.answered(exchange.route, reply.status);
    if (notices.isDebug) this.#log(exchange, reply);
    if (reply.kind === 'error' && !READINESS_ROUTES.includes(exchange.route)) this.#logRefusal(reply, exchange.req);
  }

  /** Sends replies in the order of their requests: the next one is written when the kernel has accepted the last one. */
  #sendDecided(connection: Connection): void {
    const { socket } = connection;
    while (!connection.sending && connection.first !== undefined) {
      if (socket.destroyed) return; // the client has disconnected
      const { first } = connection;
      const { deferred, reply } = first;
      if (deferred !== undefined) {
        first.deferred = undefined;
        connection.undecided += 1;
        connection.deciding = true; // prevents a recursion for each pipelined request, which would overflow the stack
        deferred.receive(NO_BODY, (decided) => this.#answer(first, decided));
        connection.deciding = false;
        continue;
      }
      if (reply === undefined) return;
      this.#send(first, reply);
    }
    if (connection.first !== undefined || connection.lastReply === undefined) return;
    socket.write(connection.lastReply);
    connection.lastReply = undefined;
    closeLingering(connection, this.#options.limits);
  }

  #send(exchange: Exchange, reply: Reply): void {
    const { req, res, connection } = exchange;
    const { socket } = connection;
    connection.sending = true;
    if (!res.shouldKeepAlive) exchange.final = true; // HTTP/1.0 closes unless the client sent `Connection: keep-alive`
    this.#endIfLast(exchange);
    if (reply.kind === 'stream') {
      void this.#stream(exchange, reply);
      return;
    }
    if (reply.kind === 'cut') {
      this.#cut(exchange, reply);
      return;
    }
    if (reply === accepted && !exchange.final) socket.write(this.#replies.acceptedText(), 'latin1');
    else if (reply.kind === 'document') {
      socket.cork(); // head and body in one system call
      socket.write(this.#replies.documentHead(reply, exchange.final));
      if (req.method !== 'HEAD') socket.write(reply.body);
      socket.uncork();
    } else socket.write(this.#replies.textOf(reply, req, exchange.final));
    if (socket.writableLength === 0) this.#sent(exchange);
    else socket.write('', connection.onSent);
  }

  /** Makes the reply the last one of its connection, if the connection ends soon and no request waits for its reply. */
  #endIfLast(exchange: Exchange): void {
    const { connection, next } = exchange;
    if (this.#endsSoon(connection) && next === undefined) exchange.final = true;
    if (exchange.final) ignoreFurther(connection);
  }

  #endsSoon({ leaving }: Connection): boolean {
    return leaving || this.#draining;
  }

  /** Sends a part of a reply or nothing, and closes the connection. */
  #cut({ req, connection }: Exchange, { reply, sent }: CutReply): void {
    const { socket } = connection;
    ignoreFurther(connection);
    if (sent === 'reset') {
      socket.resetAndDestroy();
      return;
    }
    if (sent === 'half') socket.write(this.#replies.halfText(reply, req));
    socket.destroySoon();
  }

  /** Never rejects. */
  async #stream(exchange: Exchange, reply: StreamReply): Promise<void> {
    const { req, connection } = exchange;
    const { socket } = connection;
    const chunked = req.httpVersion !== '1.0';
    if (!chunked) exchange.final = true;
    const head = () => {
      this.#count(exchange, reply);
      this.#endIfLast(exchange);
      return this.#replies.streamHead(reply, chunked, exchange.final);
    };
    if (req.method === 'HEAD') {
      socket.write(head());
    } else {
      this.connections.startStream(connection, reply.isBesideCap === true);
      const pieces = reply.pieces(req.ending, () => this.connections.startWait(connection));
      const end = await sendPieces(socket, head, pieces, chunked);
      if (end.kind === 'connection closed') return;
      if (end.kind === 'failed') return this.#failStream(exchange, end);
      this.connections.endStream(connection);
      this.#endIfLast(exchange); // the end of the stream might come long after its head
    }
    socket.write('', connection.onSent);
  }

  /** Refuses the request if no byte of its reply is sent. Otherwise closes the connection, which shows that it is incomplete. */
  #failStream(exchange: Exchange, { error, hasStarted }: FailedStream): void {
    const { req, connection } = exchange;
    const { notices } = this.#options;
    if (!(error instanceof Refusal) && !connection.socket.destroyed) {
      notices.rated.error('a reply could not be completed', {
        request_id: req.id,
        problem: String((error as Error)?.stack ?? error),
      });
    }
    if (hasStarted || connection.socket.destroyed) {
      connection.socket.destroy();
      return;
    }
    this.connections.endStream(connection);
    const refusal = error instanceof Refusal ? error.reply : unavailable('the reply could not be completed');
    this.#count(exchange, refusal);
    this.#send(exchange, refusal);
    this.#sendDecided(connection);
  }

  #allSent(connection: Connection): void {
    if (connection.first === undefined || connection.socket.destroyed) return;
    this.#sent(connection.first);
    this.#sendDecided(connection);
  }

  /** Called when the kernel has accepted the whole reply. */
  #sent(exchange: Exchange): void {
    // Closing the connection during an upload would reset it before the client has read the reply.
    if (exchange.received) this.#finish(exchange);
    else afterUpload(exchange.connection, this.#options.limits, () => this.#finish(exchange));
  }

  #finish({ res, connection, next, final, overrun }: Exchange): void {
    const { limits } = this.#options;
    const { socket } = connection;
    connection.sending = false;
    connection.unanswered -= 1;
    connection.first = next;
    if (next === undefined) connection.last = undefined;
    if (socket.destroyed) return;
    res.finish();
    if (overrun) closeLingering(connection, limits);
    else if (final) socket.destroySoon();
    else if (connection.paused && connection.unanswered <= limits.pipelinedMax / 2) resume(connection);
  }

  /** Answers bytes that are not a valid request, after the replies that are still pending on the connection. */
  #refuseLast(connection: Connection, reply: ErrorReply, id: string): void {
    this.#options.metrics.answered(OTHER_ROUTE, reply.status);
    this.#logRefusal(reply, { id, socket: connection.socket });
    connection.lastReply = this.#replies.textOf(reply, { id }, true);
    this.#sendDecided(connection);
  }

  #logRefusal({ status, error, logged = error, cause }: ErrorReply, request: LoggedRequest): void {
    const { id, method, url, socket, rawHeaders: headers, tokenName } = request;
    const peer = socket.remoteAddress;
    const about = { id, method, url, status, error, problem: logged, cause, peer, headers, tokenName };
    this.#options.activity.refused(about);
  }

  #log({ req, startedMs }: Exchange, reply: Reply): void {
    this.#options.notices.debug('request', {
      request_id: req.id,
      method: req.method,
      path: req.url && this.#options.activity.pathOf(req.url),
      status: reply.status,
      token_name: req.tokenName,
      traceparent: traceparentIn(req.fields.raw),
      ms: Math.round((performance.now() - startedMs) * 1000) / 1000,
      // Only problems of the service are logged, since the error of a refused request can quote its query or its body.
      problem: reply.kind === 'error' && reply.status === 503 ? reply.error : undefined,
    });
  }
}

/** The logged parts of a request. Bytes that are not a request have only an id and a socket. */
type LoggedRequest = Pick<UnbufferedRequest, 'id' | 'socket'> &
  Partial<Pick<UnbufferedRequest, 'method' | 'url' | 'rawHeaders' | 'tokenName'>>;

/** Orchestrators poll these routes while the service is not ready, so their 503 is not logged as a refusal. */
const READINESS_ROUTES: readonly string[] = ['/readyz', '/server_info'];

/** Ends long replies of a connection. */
function endReplies({ first }: Connection): void {
  for (let exchange = first; exchange !== undefined; exchange = exchange.next) exchange.req.endReply();
}

function hasBody({ fields }: UnbufferedRequest): boolean {
  return fields.transferEncoding !== undefined || Number(fields.contentLength ?? 0) > 0;
}

function isSafe({ method }: UnbufferedRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}

/**
 * After an Upgrade header the parser discards the rest of its buffer, although the service ignores the header, so the next bytes
 * can start inside a request.
 */
function endsConnection({ fields }: UnbufferedRequest): boolean {
  return fields.upgrade !== undefined;
}
