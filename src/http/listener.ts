/**
 * The HTTP server: runs an `App` on `node:http`. This file holds the connection limits, the timeouts, the order of pipelined
 * replies and the graceful shutdown; it does not depend on what a report is.
 */

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  IncomingMessage,
  type Server,
  type ServerOptions,
  ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Socket } from 'node:net';
import type { Limits } from '../config/limits.ts';
import type { Fields, Notices } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import {
  type App,
  accepted,
  bodyOf,
  type ErrorReply,
  type HeaderFields,
  type Incoming,
  OTHER_ROUTE,
  type ReceiveBody,
  Refusal,
  type Reply,
  unavailable,
} from './message.ts';
import { bodyTooLarge, headTooLarge, readFields } from './request.ts';

export interface ListenerOptions {
  /** An IP address and a port, or the file descriptor of a listening socket that another process opened. */
  readonly at: { readonly host: string; readonly port: number } | { readonly fd: number };
  /** If true, neither the listener nor its connections keep the process alive. */
  readonly background: boolean;
  readonly maxConnections: number;
  readonly limits: Limits;
  /** Called once, with the address that the listener is bound to. */
  readonly createApp: (address: string) => App;
  readonly metrics: Metrics;
  readonly notices: Notices;
  /** Called each time that `limits.collectBytes` of bodies have been received. */
  readonly collectGarbage?: (() => void) | undefined;
}

export interface Listener {
  readonly address: string;
  readonly port: number;
  /** Stops accepting connections, answers the requests that are being received, and resolves when all connections are closed. */
  close(): Promise<void>;
}

/** Binds the socket and serves requests. @throws the error of `listen`, with its `code`, such as `EADDRINUSE` */
export async function listen(options: ListenerOptions): Promise<Listener> {
  const { limits } = options;
  const server: UploadServer = createServer({
    IncomingMessage: UploadOn as unknown as typeof Upload,
    ServerResponse: AnswerTo as unknown as typeof Answer,
    // Node's own reply to a missing Host has no JSON body, so `request.ts` checks it.
    requireHostHeader: false,
    maxHeaderSize: limits.headBytesMax,
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    keepAliveTimeout: 0, // Node sets two timers for each request; `#closeIdle` needs none
    connectionsCheckingInterval: limits.deadlineCheckMs,
  });
  server.maxHeadersCount = 0; // else Node 20 drops the headers beyond its limit without an error
  // A client may half-close the connection after its request and still wait for the reply. Not in the types of node:http.
  (server as UploadServer & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;

  server.listen(options.at);
  await once(server, 'listening');
  const bound = server.address();
  if (bound === null || typeof bound === 'string') {
    server.close();
    throw new Error('it is not a TCP socket');
  }
  if (options.background) server.unref();
  // In the same turn of the event loop as 'listening', so no connection event was missed.
  const line = new Line(server, options, options.createApp(bound.address));
  // From here on, an 'error' event means that a connection could not be accepted. Without a handler it would end the process.
  server.on('error', (error) => line.acceptFailed(error));
  return { address: bound.address, port: bound.port, close: () => line.close() };
}

/**
 * A request that passes the chunks of its body to `onBytes` as they are parsed, and null at its end. Reading it as a stream
 * would take two more turns of the event loop and a fifth of the time of a small request. It can not also be read as a stream.
 */
class Upload extends IncomingMessage implements Incoming {
  onBytes: (chunk: Buffer | null) => void = ignore;
  #id: string | undefined;
  #fields: HeaderFields | undefined;

  /** Generated on first use: most requests succeed and need no id. */
  get id(): string {
    this.#id ??= randomUUID(); // a counter would reveal to a client how often requests of others fail
    return this.#id;
  }

  get fields(): HeaderFields {
    this.#fields ??= readFields(this.rawHeaders);
    return this.#fields;
  }

  static {
    // Node reads only `expect`, in each request. Building its object of all headers would cost more than parsing the head.
    Object.defineProperty(Upload.prototype, 'headers', {
      get(this: Upload): { expect?: string } {
        return this.fields;
      },
    });
  }

  override push(chunk: Buffer | null): boolean {
    this.onBytes(chunk);
    return true; // no backpressure to the parser: the `onBytes` callback bounds the bytes that it keeps
  }

  /** Node calls this after the reply to drain an unread stream. This stream is always empty. */
  _dump(): void {}
}

/** A response that the listener writes itself, in one write: Node's own writing takes a third of the time of a small request. */
class Answer extends ServerResponse<Upload> {
  /** Called when the reply has been sent: Node then assigns the connection to the next response. */
  finish(): void {
    this.finished = true;
    this.emit('finish');
  }
}

/** The response to ignored requests: Node adds event listeners to it for each request, and none of them is ever needed. */
class IgnoredAnswer extends Answer {
  override on(): this {
    return this;
  }
}

/**
 * The requests that Node parses after the last one of a connection, up to the end of its 64 KiB buffer, share one request and
 * one response object. Node keeps these objects until the connection ends, and a buffer may hold 2,400 requests of 3 KB each.
 */
const ignored = new WeakMap<Socket, { readonly req: Upload; readonly res: Answer }>();

/** A constructor for `new` that may return an existing object. */
function UploadOn(socket: Socket): Upload {
  return ignored.get(socket)?.req ?? new Upload(socket);
}

function AnswerTo(req: Upload, options: ServerOptions): Answer {
  return ignored.get(req.socket)?.res ?? new (Answer as AnswerConstructor)(req, options);
}

/** The constructor as Node calls it; the types of Node omit the options. */
type AnswerConstructor = new (req: Upload, options: ServerOptions) => Answer;

type UploadServer = Server<typeof Upload, typeof Answer>;

/** One request and its reply, from the parsed head until the kernel has accepted all bytes of the reply. */
interface Exchange {
  readonly req: Upload;
  readonly res: Answer;
  readonly connection: Connection;
  readonly startedMs: number;
  /** The route label of the metrics: see `HeadDecision`. */
  route: string;
  /** The whole request has arrived, so the next request on the connection can be parsed. */
  received: boolean;
  /** Its reply is the last on the connection. */
  final: boolean;
  /** The connection reached `limits.unansweredMax` with this request: the bytes after it are read and discarded. */
  readonly overrun: boolean;
  /** Decides the reply of a GET or HEAD whose earlier replies on the connection are not sent yet. */
  decide: ReceiveBody | undefined;
  /** Undefined until it is decided. */
  reply: Reply | undefined;
  /** The request that came after it on the connection. */
  next: Exchange | undefined;
}

interface Connection {
  readonly socket: Socket;
  /** The oldest request whose reply is not sent. Replies are sent in the order of the requests. */
  first: Exchange | undefined;
  /** The newest request whose reply is not sent. */
  last: Exchange | undefined;
  /** Number of requests whose replies are not sent. */
  unanswered: number;
  /** Number of them that wait for the service: for the disk, or for the rest of an upload. */
  undecided: number;
  /** The reply of `first` was written, but the kernel has not accepted all of it, or the request is still being received. */
  sending: boolean;
  /** Reading is paused until fewer requests are unanswered. */
  paused: boolean;
  /** The reply to bytes that are not a valid request; sent after all other replies. */
  farewell: string | undefined;
  /** Further bytes are ignored: the connection is about to close, or its bytes are malformed (RFC 9112 section 9.6). */
  closing: boolean;
  /** Bytes received so far of the body that is being uploaded. */
  uploadBytes: number;
  /** What `movedBytesOf` returned when `#closeIdle` last ran, and since when it has not changed. */
  movedBytes: number;
  quietSinceMs: number;
  /** Called when the kernel has accepted all written bytes. One closure for each connection, not one for each reply. */
  readonly onSent: () => void;
  /** Called when an upload whose reply is already sent has ended. */
  uploadEnded: () => void;
}

const ignore = () => {};
const NO_BODY = Buffer.alloc(0);
/** First byte of a TLS handshake record: detected so that the error can say that the port speaks plain HTTP. */
const TLS_HANDSHAKE = 0x16;

class Line {
  readonly #server: UploadServer;
  readonly #options: ListenerOptions;
  readonly #app: App;
  readonly #connections = new Map<Socket, Connection>();
  /** Sum of `uploadBytes` of all connections. */
  #uploadBytes = 0;
  /** Bytes of bodies received since the listener last requested a garbage collection. */
  #uncollectedBytes = 0;
  /** Free buffers in which bodies of more than one chunk are assembled; see `#keepRoom`. */
  readonly #rooms: Buffer[] = [];
  readonly #idleCheck: NodeJS.Timeout;
  /** The headers of a reply on a connection that stays open. */
  readonly #keeps: readonly string[];
  #accepted = '';
  #acceptedSecond = Number.NaN;
  #draining = false;
  /** When each notice about connections was last logged. */
  readonly #noticedAtMs = new Map<string, number>();

  constructor(server: UploadServer, options: ListenerOptions, app: App) {
    this.#server = server;
    this.#options = options;
    this.#app = app;
    this.#keeps = ['Connection', 'keep-alive', 'Keep-Alive', `timeout=${Math.floor(options.limits.idleMs / 1000)}`];
    this.#idleCheck = setInterval(() => this.#closeIdle(), options.limits.deadlineCheckMs).unref();
    options.metrics.connections = this.#connections;
    server.on('connection', (socket) => this.#connected(socket));
    server.on('request', (req, res) => this.#serve(req, res, false));
    server.on('checkContinue', (req, res) => this.#serve(req, res, true));
    server.on('checkExpectation', (req, res) => this.#serve(req, res, false));
    server.on('connect', (req, socket) => this.#refuseConnect(req, socket as Socket));
    server.on('clientError', (error: ClientError, socket) => this.#broken(error, socket as Socket));
  }

  acceptFailed({ message }: Error): void {
    this.#notAccepted('a connection could not be accepted', { problem: message });
  }

  async close(): Promise<void> {
    const { drainMs, firstByteMs } = this.#options.limits;
    this.#draining = true;
    const closed = once(this.#server, 'close');
    this.#server.close();
    const silent = setTimeout(() => this.#closeSilent(), firstByteMs);
    const deadline = setTimeout(() => this.#cutOff(), drainMs);
    await closed;
    clearInterval(this.#idleCheck);
    clearTimeout(silent);
    clearTimeout(deadline);
  }

  /** Node closes idle connections at shutdown, but does not count a connection that never sent a byte as idle. */
  #closeSilent(): void {
    for (const { socket } of this.#connections.values()) if (socket.bytesRead === 0) socket.destroy();
  }

  #closeIdle(): void {
    const { idleMs, headersMs } = this.#options.limits;
    const now = performance.now();
    for (const connection of this.#connections.values()) {
      const { socket, undecided, last } = connection;
      const movedBytes = movedBytesOf(connection);
      const waitsForDisk = undecided > 0 && last?.received === true;
      if (waitsForDisk || movedBytes !== connection.movedBytes) {
        connection.movedBytes = movedBytes;
        connection.quietSinceMs = now;
        continue;
      }
      if (undecided > 0) continue; // an upload: Node's `requestTimeout` applies
      const quietMs = now - connection.quietSinceMs;
      if (quietMs >= idleMs) socket.destroy();
      else if (socket.bytesRead === 0 && quietMs >= headersMs) this.#broken(TOO_SLOW, socket); // Node ≥ 24 has no timeout for it
    }
  }

  /** @returns the connection without traffic for the longest time, at least `quietMs`, of those for which `may` is true */
  #quietest(quietMs: number, may: (connection: Connection) => boolean): Connection | undefined {
    let quietest: Connection | undefined;
    let sinceMs = performance.now() - quietMs;
    for (const connection of this.#connections.values()) {
      if (connection.quietSinceMs > sinceMs || !may(connection)) continue;
      if (movedBytesOf(connection) !== connection.movedBytes) continue;
      quietest = connection;
      sinceMs = connection.quietSinceMs;
    }
    return quietest;
  }

  #cutOff(): void {
    this.#options.notices.warn('requests that were still being received are cut off', {
      connections: this.#connections.size,
    });
    for (const { socket } of this.#connections.values()) socket.destroy();
  }

  #connected(socket: Socket): void {
    if (!this.#isRoomFor(socket)) return;
    const connection: Connection = {
      socket,
      first: undefined,
      last: undefined,
      unanswered: 0,
      undecided: 0,
      sending: false,
      paused: false,
      farewell: undefined,
      closing: false,
      uploadBytes: 0,
      movedBytes: 0,
      quietSinceMs: performance.now(),
      onSent: () => {
        if (connection.first === undefined || socket.destroyed) return;
        this.#sent(connection.first);
        this.#sendDecided(connection);
      },
      uploadEnded: ignore,
    };
    this.#connections.set(socket, connection);
    // Node resumes a socket that it paused itself, although the listener has paused it as well.
    socket.on('resume', () => {
      if (connection.paused) socket.pause();
    });
    if (this.#options.background) socket.unref();
    socket.once('close', () => {
      this.#release(connection);
      this.#connections.delete(socket);
    });
  }

  /** At `maxConnections`, closes the connection that was idle longest; if none is idle, closes the new one and returns false. */
  #isRoomFor(socket: Socket): boolean {
    const { maxConnections: cap, limits } = this.#options;
    if (this.#connections.size < cap) return true;
    const idlest = this.#quietest(limits.evictableMs, ({ undecided }) => undecided === 0);
    if (idlest === undefined) {
      this.#notAccepted('connections over the cap are closed at once; see --max-connections', { cap });
      socket.destroy();
      return false;
    }
    this.#notAccepted('at the cap, the longest idle connection is closed for a new one; see --max-connections', {
      cap,
    });
    this.#connections.delete(idlest.socket); // its `close` comes later
    idlest.socket.destroy();
    return true;
  }

  /** Logs a refused connection or body, at most once a minute for each reason. */
  #notAccepted(why: string, fields: Fields): void {
    const { limits, notices } = this.#options;
    const now = performance.now();
    if (now - (this.#noticedAtMs.get(why) ?? Number.NEGATIVE_INFINITY) < limits.notAcceptedNoticeMs) return;
    this.#noticedAtMs.set(why, now);
    notices.warn(why, fields);
  }

  #serve(req: Upload, res: Answer, awaitsContinue: boolean): void {
    const connection = this.#connections.get(req.socket);
    if (connection === undefined || connection.closing) return;
    const exchange = this.#enqueue(connection, req, res);
    const decision = this.#app(req);
    exchange.route = decision.route;
    if (decision.kind === 'refuse') {
      this.#answer(exchange, decision.reply);
    } else if (!exchange.received) {
      if (awaitsContinue) res.writeContinue();
      this.#receive(exchange, decision.receive);
    } else if (connection.first === exchange || !isSafe(req)) {
      decision.receive(NO_BODY, (reply) => this.#answer(exchange, reply));
    } else {
      exchange.decide = decision.receive; // decided when it can be sent, so that the reply does not wait in memory
      connection.undecided -= 1;
    }
  }

  /** A client may send requests without reading replies, so the unanswered ones of a connection are bounded. */
  #enqueue(connection: Connection, req: Upload, res: Answer): Exchange {
    const { notices, limits } = this.#options;
    const received = !hasBody(req);
    const overrun = connection.unanswered + 1 >= limits.unansweredMax;
    const final = overrun || endsConnection(req) || this.#draining;
    const startedMs = notices.debugging ? performance.now() : 0;
    const more = { route: OTHER_ROUTE, decide: undefined, reply: undefined, next: undefined };
    const exchange: Exchange = { req, res, connection, startedMs, received, final, overrun, ...more };

    if (connection.last === undefined) connection.first = exchange;
    else connection.last.next = exchange;
    connection.last = exchange;
    connection.unanswered += 1;
    connection.undecided += 1;
    if (received && final) this.#ignoreMore(connection); // at once: Node parses the bytes after it before its reply is sent
    if (connection.unanswered >= limits.pipelinedMax) this.#pause(connection);
    return exchange;
  }

  #ignoreMore(connection: Connection): void {
    const { socket } = connection;
    if (connection.closing) return;
    connection.closing = true;
    const req = new Upload(socket);
    ignored.set(socket, { req, res: new IgnoredAnswer(req) });
  }

  #receive(exchange: Exchange, receive: ReceiveBody): void {
    const { bodyBytesMax, uploadBytesMax } = this.#options.limits;
    const { req, connection } = exchange;
    let body: Buffer = NO_BODY;
    req.onBytes = (chunk) => {
      if (chunk === null) {
        exchange.received = true;
        if (exchange.final) this.#ignoreMore(connection);
        const room = body;
        body = NO_BODY; // this closure lives until the next request on the connection
        const whole = room.subarray(0, connection.uploadBytes);
        this.#release(connection);
        receive(whole, (reply) => this.#answer(exchange, reply));
        this.#keepRoom(room);
        return;
      }
      const before = connection.uploadBytes;
      connection.uploadBytes += chunk.length;
      this.#uploadBytes += chunk.length;
      this.#countGarbage(chunk.length);
      if (connection.uploadBytes > bodyBytesMax) {
        this.#answer(exchange, bodyTooLarge(this.#options.limits).reply);
      } else if (this.#uploadBytes > uploadBytesMax && !this.#freeUpload(connection)) {
        this.#answer(exchange, unavailable(TOO_MUCH, this.#options.limits));
      } else if (before === 0) {
        body = chunk;
      } else {
        const appended = this.#appended(body, before, chunk);
        if (appended === undefined) this.#answer(exchange, unavailable(NO_MEMORY, this.#options.limits));
        else body = appended;
      }
    };
  }

  /**
   * Appends a chunk to a body. The first chunk is kept without a copy. Further chunks are copied into one buffer, so that a
   * body of a million chunks takes no more memory than a body of one.
   * @returns undefined if the memory for the body could not be allocated
   */
  #appended(body: Buffer, bytes: number, chunk: Buffer): Buffer | undefined {
    const { bodyBytesMax } = this.#options.limits;
    let room: Buffer | undefined = body;
    if (room.length < bodyBytesMax) {
      room = this.#rooms.pop() ?? this.#allocated(bodyBytesMax);
      if (room === undefined) return undefined;
      body.copy(room, 0, 0, bytes);
    }
    chunk.copy(room, bytes);
    return room;
  }

  /**
   * Allocates a buffer. Its pages take no memory until they are written.
   * @returns undefined if the allocation failed: this runs in a callback of the parser, where nothing would catch an error
   */
  #allocated(bytes: number): Buffer | undefined {
    try {
      return Buffer.allocUnsafeSlow(bytes);
    } catch (error) {
      this.#notAccepted('a body could not be received and gets 503; is memory short?', {
        problem: (error as Error).message,
      });
      return undefined;
    }
  }

  /** Keeps the buffer for the next body: freed memory returns to the system late, and large bodies arrive in bursts. */
  #keepRoom(room: Buffer): void {
    const { bodyBytesMax, spareBuffersMax } = this.#options.limits;
    if (room.length === bodyBytesMax && this.#rooms.length < spareBuffersMax) this.#rooms.push(room);
  }

  /** Counts bytes that become garbage: each chunk does, and so does what its body is parsed to. */
  #countGarbage(bytes: number): void {
    const { limits, collectGarbage } = this.#options;
    this.#uncollectedBytes += bytes;
    if (this.#uncollectedBytes < limits.collectBytes) return;
    this.#uncollectedBytes = 0;
    collectGarbage?.();
  }

  /** Refuses the uploads that have stalled longest until the others fit `limits.uploadBytesMax`. @returns whether they fit */
  #freeUpload(newest: Connection): boolean {
    const { uploadBytesMax, stalledUploadMs } = this.#options.limits;
    while (this.#uploadBytes > uploadBytesMax) {
      const stalled = this.#quietest(stalledUploadMs, (one) => one.uploadBytes > 0 && one !== newest);
      if (stalled?.last === undefined) return false;
      this.#answer(stalled.last, STALLED);
    }
    return true;
  }

  #release(connection: Connection): void {
    this.#uploadBytes -= connection.uploadBytes;
    connection.uploadBytes = 0;
  }

  /** Sets the reply of a request; it is sent after the replies to earlier requests on the connection. */
  #answer(exchange: Exchange, reply: Reply): void {
    const { connection, received } = exchange;
    if (!received) this.#release(connection);
    connection.undecided -= 1;
    exchange.reply = reply;
    if (reply.close === true || !received) exchange.final = true;
    if (exchange.final) this.#ignoreMore(connection);
    this.#options.metrics.answered(exchange.route, reply.status);
    if (this.#options.notices.debugging) this.#log(exchange, reply);
    if (!received) this.#discard(exchange);
    if (connection.first === exchange) this.#sendDecided(connection);
  }

  /** Sends replies in the order of their requests, one at a time: the next is written when the kernel has accepted all of it. */
  #sendDecided(connection: Connection): void {
    const { socket } = connection;
    while (!connection.sending && connection.first !== undefined) {
      if (socket.destroyed) return; // a reply to a client that has gone is never sent
      const { first } = connection;
      const { decide, reply } = first;
      if (decide !== undefined) {
        first.decide = undefined;
        connection.undecided += 1;
        decide(NO_BODY, (decided) => this.#answer(first, decided)); // also sends the replies after it
        return;
      }
      if (reply === undefined) return;
      this.#send(first, reply);
    }
    if (connection.first !== undefined || connection.farewell === undefined) return;
    socket.write(connection.farewell);
    connection.farewell = undefined;
    this.#endReading(connection);
  }

  #send(exchange: Exchange, reply: Reply): void {
    const { req, res, connection } = exchange;
    const { socket } = connection;
    connection.sending = true;
    if (this.#draining && exchange.next === undefined) exchange.final = true;
    if (!res.shouldKeepAlive) exchange.final = true; // HTTP/1.0 closes unless the client sent `Connection: keep-alive`
    if (exchange.final) this.#ignoreMore(connection);
    if (reply === accepted && !exchange.final) {
      socket.write(this.#acceptedNow(), 'latin1');
    } else {
      const body = bodyOf(reply, req);
      const connectionHeaders = exchange.final ? CLOSES : this.#keeps;
      socket.write(wholeReply(reply, body, connectionHeaders, req.method !== 'HEAD'));
    }
    if (socket.writableLength === 0) this.#sent(exchange);
    else socket.write('', connection.onSent);
  }

  /** Called when the kernel has accepted the whole reply. */
  #sent(exchange: Exchange): void {
    // Closing the connection while the client still sends would reset it before the client has read the reply.
    if (exchange.received) this.#finish(exchange);
    else this.#afterUpload(exchange.connection, () => this.#finish(exchange));
  }

  #finish({ res, connection, next, final, overrun }: Exchange): void {
    const { socket } = connection;
    connection.sending = false;
    connection.unanswered -= 1;
    connection.first = next;
    if (next === undefined) connection.last = undefined;
    if (socket.destroyed) return;
    res.finish();
    if (overrun) this.#endReading(connection);
    else if (final) socket.destroySoon();
    else if (connection.paused && connection.unanswered <= this.#options.limits.pipelinedMax / 2)
      this.#resume(connection);
  }

  #pause(connection: Connection): void {
    if (connection.paused) return;
    connection.paused = true;
    connection.socket.pause();
  }

  /** Resumes reading in the next tick: while Node parses, a `pause` and a `resume` could take effect in the wrong order. */
  #resume(connection: Connection): void {
    connection.paused = false;
    process.nextTick(() => {
      if (!connection.paused) connection.socket.resume();
    });
  }

  /** Discards the rest of an upload that was refused, so that the client can read its reply. */
  #discard(exchange: Exchange): void {
    const { req, connection } = exchange;
    let bytes = 0;
    req.onBytes = (chunk) => {
      bytes += chunk?.length ?? 0;
      this.#countGarbage(chunk?.length ?? 0);
      if (chunk !== null && bytes <= this.#options.limits.discardBytesMax) return;
      exchange.received = true;
      if (chunk !== null) this.#pause(connection); // its reply may have to wait for the replies to earlier requests
      connection.uploadEnded();
    };
  }

  /** Calls `act` when the client has finished sending, or after `limits.discardMs`. */
  #afterUpload(connection: Connection, act: () => void): void {
    const { socket } = connection;
    const stop = () => {
      connection.uploadEnded = ignore;
      clearTimeout(deadline);
      socket.off('end', stop);
      act();
    };
    const deadline = setTimeout(stop, this.#options.limits.discardMs).unref();
    connection.uploadEnded = stop;
    if (socket.readableEnded) stop();
    else socket.once('end', stop);
  }

  /** Closes a connection whose client still sends, without a TCP reset, so that the client can read the replies. */
  #endReading(connection: Connection): void {
    const { socket } = connection;
    socket.end();
    // Discards bytes before the parser, which would create a request of each. On a paused socket, this waits for its resume:
    // a socket that is not reading would otherwise not start.
    const skipParser = () => {
      if (socket.isPaused()) return;
      socket.off('resume', skipParser).removeAllListeners('data').on('data', ignore);
    };
    socket.on('resume', skipParser);
    skipParser();
    this.#resume(connection);
    this.#afterUpload(connection, () => socket.destroySoon());
  }

  #refuseConnect(req: Upload, socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.closing) return;
    this.#ignoreMore(connection);
    const decision = this.#app(req);
    if (decision.kind === 'receive') socket.destroy();
    else this.#sayLast(connection, decision.reply, req.id);
  }

  /** Answers bytes that are malformed, too slow or too many. Node emits `clientError` again for each chunk that follows. */
  #broken(error: ClientError, socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined || !socket.writable || error.code === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    if (connection.closing) return;
    this.#ignoreMore(connection);
    const { last } = connection;
    if (last !== undefined && !last.received) this.#answer(last, refusalOf(error, true, this.#options.limits).reply);
    else this.#sayLast(connection, refusalOf(error, false, this.#options.limits).reply, randomUUID());
  }

  /** Answers bytes that are not a valid request, after the replies that are still pending on the connection. */
  #sayLast(connection: Connection, reply: ErrorReply, id: string): void {
    const { metrics, notices } = this.#options;
    metrics.answered(OTHER_ROUTE, reply.status);
    notices.debug('not a request', { request_id: id, status: reply.status, problem: reply.error });
    connection.farewell = wholeReply(reply, bodyOf(reply, { id }), CLOSES);
    this.#sendDecided(connection);
  }

  /** The reply to a recorded report, rebuilt once a second for its Date header. */
  #acceptedNow(): string {
    const second = Math.floor(Date.now() / 1000);
    if (second !== this.#acceptedSecond) {
      this.#acceptedSecond = second;
      this.#accepted = wholeReply(accepted, accepted.body, this.#keeps);
    }
    return this.#accepted;
  }

  #log({ req, startedMs }: Exchange, reply: Reply): void {
    this.#options.notices.debug('request', {
      request_id: req.id,
      method: req.method,
      path: req.url?.split('?', 1)[0],
      status: reply.status,
      ms: Math.round((performance.now() - startedMs) * 1000) / 1000,
      // Only the service's own problems: the error of a refused request may quote its query or its body.
      problem: reply.kind === 'error' && reply.status === 503 ? reply.error : undefined,
    });
  }
}

interface ClientError extends Error {
  readonly code?: string;
  readonly reason?: string;
  readonly rawPacket?: Buffer;
}

function hasBody({ fields }: Upload): boolean {
  return fields.transferEncoding !== undefined || Number(fields.contentLength ?? 0) > 0;
}

/**
 * @returns bytes that moved on the connection. While a reply is being sent, only sent bytes count: a client that sends but
 * does not read its reply makes no progress.
 */
function movedBytesOf({ socket, sending, closing }: Connection): number {
  const sentBytes = socket.bytesWritten - socket.writableLength;
  return sending || closing ? sentBytes : sentBytes + socket.bytesRead;
}

function isSafe({ method }: Upload): boolean {
  return method === 'GET' || method === 'HEAD';
}

/**
 * After an Upgrade header the parser discards the rest of its buffer, although the service ignores the header, so the next
 * bytes may begin inside a request.
 */
function endsConnection({ fields }: Upload): boolean {
  return fields.upgrade !== undefined;
}

const TOO_SLOW: ClientError = Object.assign(new Error('too slow'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });

const TOO_MUCH = 'too much is being received at once; send the report again later';
const NO_MEMORY = 'the service is short of memory; send the report again later';

const STALLED = new Refusal(408, 'the body stalled while others needed its memory; send it without a pause').reply;

function refusalOf(error: ClientError, inBody: boolean, limits: Limits): Refusal {
  const refuse = (status: number, problem: string) => new Refusal(status, problem, { close: true });
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return headTooLarge(limits);
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return refuse(413, 'the chunk extensions of the body are too long; send none');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return refuse(408, `the ${inBody ? 'body' : 'request'} took too long; send it faster or in smaller parts`);
    default:
      if (error.rawPacket?.[0] === TLS_HANDSHAKE)
        return refuse(400, 'this port speaks plain HTTP, not TLS; use http://');
      return refuse(400, `malformed HTTP request: ${error.reason ?? error.message}`);
  }
}

function headersOf({ contentType = 'application/json', headers = [] }: Reply, body: string): string[] {
  const length = String(Buffer.byteLength(body));
  return ['Content-Type', contentType, 'Content-Length', length, ...GUARDS, ...headers];
}

/** Security headers of every reply: no content sniffing, no caching, and no use by pages of other origins. */
const GUARDS = [
  ...['X-Content-Type-Options', 'nosniff'],
  ...['Cache-Control', 'no-store'],
  ...['Cross-Origin-Resource-Policy', 'same-origin'],
];

const CLOSES = ['Connection', 'close'];

/** @param withBody false for the reply to a HEAD: Content-Length without the body */
function wholeReply(reply: Reply, body: string, connectionHeaders: readonly string[], withBody = true): string {
  const headers = [...headersOf(reply, body), 'Date', new Date().toUTCString(), ...connectionHeaders];
  let head = `HTTP/1.1 ${reply.status} ${STATUS_CODES[reply.status]}\r\n`;
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${head}\r\n${withBody ? body : ''}`;
}
