/**
 * `node:http` around one function. Here are the caps, the deadlines, the order of replies and the drain; nothing here
 * knows what a report is.
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
  type Failure,
  type HeaderFields,
  type Incoming,
  OTHER_ROUTE,
  type Receive,
  Refusal,
  type Reply,
  unavailable,
} from './message.ts';
import { bodyTooLarge, headTooLarge, readFields } from './request.ts';

export interface ListenerOptions {
  /** An IP address and a port, or the descriptor of a socket that somebody else opened. */
  readonly at: { readonly host: string; readonly port: number } | { readonly fd: number };
  /** Neither the listener nor its connections keep the process alive. */
  readonly background: boolean;
  readonly maxConnections: number;
  readonly limits: Limits;
  /** Made once, for the address that the listener is really bound to. */
  readonly createApp: (address: string) => App;
  readonly metrics: Metrics;
  readonly notices: Notices;
  /** Called after each `limits.collectBytes` of bodies. */
  readonly collectGarbage?: (() => void) | undefined;
}

export interface Listener {
  readonly address: string;
  readonly port: number;
  /** Accepts nobody any more, answers what is being received, and resolves when the last connection is gone. */
  close(): Promise<void>;
}

/** @throws the error of `listen`, with its `code` */
export async function listen(options: ListenerOptions): Promise<Listener> {
  const { limits } = options;
  const server: UploadServer = createServer({
    IncomingMessage: UploadOn as unknown as typeof Upload,
    ServerResponse: AnswerTo as unknown as typeof Answer,
    // Node's own answers to these have no JSON body; `request.ts` checks them.
    requireHostHeader: false,
    maxHeaderSize: limits.headBytesMax,
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    keepAliveTimeout: 0, // two timers a request; `#closeIdle` needs none
    connectionsCheckingInterval: limits.deadlineCheckMs,
  });
  server.maxHeadersCount = 0; // else Node 20 drops what is over its count without a word
  // A client that has sent everything may close its half and still wait for the reply. Not in the types of node:http.
  (server as UploadServer & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;

  server.listen(options.at);
  await once(server, 'listening');
  const bound = server.address();
  if (bound === null || typeof bound === 'string') {
    server.close();
    throw new Error('it is not a TCP socket');
  }
  if (options.background) server.unref();
  // In the same turn of the event loop: nobody is connected yet.
  const line = new Line(server, options, options.createApp(bound.address));
  // From here on an error is a connection that could not be accepted; without a listener it would end the process.
  server.on('error', (error) => line.acceptFailed(error));
  return { address: bound.address, port: bound.port, close: () => line.close() };
}

/**
 * A request that hands over its body as it is parsed, and null at its end. Read as a stream, the same bytes would take two
 * more turns of the event loop and a fifth of the time that a small request costs. Nobody may read it as a stream as well.
 */
class Upload extends IncomingMessage implements Incoming {
  onBytes: (chunk: Buffer | null) => void = ignore;
  #id: string | undefined;
  #fields: HeaderFields | undefined;

  /** Made when somebody asks: most requests end well, and nobody does. */
  get id(): string {
    this.#id ??= randomUUID(); // a count would tell strangers how often others fail
    return this.#id;
  }

  get fields(): HeaderFields {
    this.#fields ??= readFields(this.rawHeaders);
    return this.#fields;
  }

  static {
    // Node looks at `expect` only, but at that in each request; to make its object of all headers would cost more than the head.
    Object.defineProperty(Upload.prototype, 'headers', {
      get(this: Upload): { expect?: string } {
        return this.fields;
      },
    });
  }

  override push(chunk: Buffer | null): boolean {
    this.onBytes(chunk);
    return true; // never asks the parser to wait: what is taken is bounded by who takes it
  }

  /** Node calls this after the reply, to empty a stream that nobody read. Nothing is ever in this one. */
  _dump(): void {}
}

/** A response that the listener writes itself, whole: a third of what a small request costs is Node's way of writing one. */
class Answer extends ServerResponse<Upload> {
  /** The reply is out: Node gives the connection to the next response. */
  finish(): void {
    this.finished = true;
    this.emit('finish');
  }
}

/** Of a connection whose last request was parsed: Node adds a listener to each response, and none of these is ever used. */
class IgnoredAnswer extends Answer {
  override on(): this {
    return this;
  }
}

/**
 * What Node parses after the last request of a connection, until the end of its 64 KiB buffer, shares one request and one
 * response. Node keeps each until the connection ends, and a buffer may hold 2,400 requests of 3 KB each.
 */
const ignored = new WeakMap<Socket, { readonly req: Upload; readonly res: Answer }>();

/** For `new`, as a constructor that may give an object that is there. */
function UploadOn(socket: Socket): Upload {
  return ignored.get(socket)?.req ?? new Upload(socket);
}

function AnswerTo(req: Upload, options: ServerOptions): Answer {
  return ignored.get(req.socket)?.res ?? new (Answer as AnswerConstructor)(req, options);
}

/** As Node calls it; its types leave the options out. */
type AnswerConstructor = new (req: Upload, options: ServerOptions) => Answer;

type UploadServer = Server<typeof Upload, typeof Answer>;

/** One request and its reply, from when the head was parsed until the system has taken the reply. */
interface Exchange {
  readonly req: Upload;
  readonly res: Answer;
  readonly connection: Connection;
  readonly startedMs: number;
  /** As it is counted: see `Decision`. */
  route: string;
  /** The whole request has arrived, so the next one on the connection can be found. */
  received: boolean;
  /** Its reply is the last on the connection. */
  final: boolean;
  /** More than the connection may have unanswered: what the client sent after it is read and thrown away. */
  readonly overrun: boolean;
  /** Of a GET or HEAD that waits for its turn: decides the reply. */
  decide: Receive | undefined;
  /** Undefined until it is decided. */
  reply: Reply | undefined;
  /** The request that came after it on the connection. */
  next: Exchange | undefined;
}

interface Connection {
  readonly socket: Socket;
  /** The oldest request whose reply is not out. Replies leave in the order of the requests. */
  first: Exchange | undefined;
  /** The newest of them. */
  last: Exchange | undefined;
  /** How many they are. */
  unanswered: number;
  /** How many of them wait for the service: for the disk, or for the rest of an upload. */
  undecided: number;
  /** The reply of the first was written, and the system has not taken all of it, or the request is still being received. */
  sending: boolean;
  /** Nothing is read from it until fewer requests are unanswered. */
  paused: boolean;
  /** Answers bytes that never became a request, when all replies are out. */
  farewell: string | undefined;
  /** Its end was announced, or its bytes make no sense: what still comes in is not a request (RFC 9112 section 9.6). */
  closing: boolean;
  /** Of the body that is being received on it. */
  uploadBytes: number;
  /** As `#closeIdle` last found it: see `movedBytesOf`, and since when they are the same. */
  movedBytes: number;
  quietSinceMs: number;
  /** Called when the system has taken all that was written. One for each connection, not one for each reply. */
  readonly onSent: () => void;
  /** Called when nothing more comes of an upload whose reply is out. */
  uploadEnded: () => void;
}

const ignore = () => {};
const NO_BODY = Buffer.alloc(0);
/** A hint costs a line of code, and saves an hour to whoever speaks TLS to a plain port. */
const TLS_HANDSHAKE = 0x16;

class Line {
  readonly #server: UploadServer;
  readonly #options: ListenerOptions;
  readonly #app: App;
  readonly #connections = new Map<Socket, Connection>();
  /** Of all connections together. */
  #uploadBytes = 0;
  /** Of bodies since the last garbage collection that the listener asked for. */
  #uncollectedBytes = 0;
  /** Where bodies of more than one piece are put together; see `#keepRoom`. */
  readonly #rooms: Buffer[] = [];
  readonly #idleCheck: NodeJS.Timeout;
  /** What a reply says of a connection that is kept. */
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
    const { drainMs, silentMs } = this.#options.limits;
    this.#draining = true;
    const closed = once(this.#server, 'close');
    this.#server.close();
    const silent = setTimeout(() => this.#closeSilent(), silentMs);
    const deadline = setTimeout(() => this.#cutOff(), drainMs);
    await closed;
    clearInterval(this.#idleCheck);
    clearTimeout(silent);
    clearTimeout(deadline);
  }

  /** A connection that never sent a byte is not idle to Node, which closed the idle ones: it may still be about to. */
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
      if (undecided > 0) continue; // an upload: Node has a deadline for it
      const quietMs = now - connection.quietSinceMs;
      if (quietMs >= idleMs) socket.destroy();
      else if (socket.bytesRead === 0 && quietMs >= headersMs) this.#broken(TOO_SLOW, socket); // from 24 on Node waits for a first byte for ever
    }
  }

  /** @returns of the connections that `may`, the one on which nothing has moved for longest, and for so long at least */
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
    // Node resumes what it paused itself, and does not know that it is paused here as well.
    socket.on('resume', () => {
      if (connection.paused) socket.pause();
    });
    if (this.#options.background) socket.unref();
    socket.once('close', () => {
      this.#release(connection);
      this.#connections.delete(socket);
    });
  }

  /** At the cap the connection that was idle longest ends for a new one; without an idle one the new one ends. */
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
      exchange.decide = decision.receive; // a reply that can not leave yet need not be made yet
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
    if (received && final) this.#ignoreMore(connection); // now: what comes after it is parsed before its reply leaves
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

  #receive(exchange: Exchange, receive: Receive): void {
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
   * A first chunk is kept as it came; more are copied together, so that a body in a million pieces takes the memory of one.
   * @returns undefined if there is no memory for the body
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
   * What of the buffer is never written to takes no memory.
   * @returns undefined if the allocation failed: the parser calls this, and nothing catches what its callbacks throw
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

  /** For the next body of its size: memory is given back late, and large bodies come in crowds. */
  #keepRoom(room: Buffer): void {
    const { bodyBytesMax, roomsMax } = this.#options.limits;
    if (room.length === bodyBytesMax && this.#rooms.length < roomsMax) this.#rooms.push(room);
  }

  /** Each chunk becomes garbage, and so does what its body is parsed to. */
  #countGarbage(bytes: number): void {
    const { limits, collectGarbage } = this.#options;
    this.#uncollectedBytes += bytes;
    if (this.#uncollectedBytes < limits.collectBytes) return;
    this.#uncollectedBytes = 0;
    collectGarbage?.();
  }

  /** Ends the uploads that have stalled longest, until the others fit. @returns whether they do */
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

  /** The reply is decided; it leaves when those before it have left. */
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

  /** Sends replies in the order of their requests. One at most is unsent: the next is made when the system took all of it. */
  #sendDecided(connection: Connection): void {
    const { socket } = connection;
    while (!connection.sending && connection.first !== undefined) {
      if (socket.destroyed) return; // a reply to a client that has gone is never sent
      const { first } = connection;
      const { decide, reply } = first;
      if (decide !== undefined) {
        first.decide = undefined;
        connection.undecided += 1;
        decide(NO_BODY, (decided) => this.#answer(first, decided)); // sends what comes after it as well
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
    if (!res.shouldKeepAlive) exchange.final = true; // HTTP/1.0 closes unless it is asked
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

  /** The system has taken the whole reply. */
  #sent(exchange: Exchange): void {
    // Ending the response of a request that is still being sent would reset the connection before the client reads it.
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

  /** Not in the middle of what Node parses now: `pause` and `resume` take turns, and the last call would not win. */
  #resume(connection: Connection): void {
    connection.paused = false;
    process.nextTick(() => {
      if (!connection.paused) connection.socket.resume();
    });
  }

  /** Throws away the rest of an upload that was refused, so that the client gets to read its reply. */
  #discard(exchange: Exchange): void {
    const { req, connection } = exchange;
    let bytes = 0;
    req.onBytes = (chunk) => {
      bytes += chunk?.length ?? 0;
      this.#countGarbage(chunk?.length ?? 0);
      if (chunk !== null && bytes <= this.#options.limits.discardBytesMax) return;
      exchange.received = true;
      if (chunk !== null) this.#pause(connection); // its reply may have to wait for earlier ones
      connection.uploadEnded();
    };
  }

  /** Calls `act` when the client has nothing more to send, or has had its time. */
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

  /** Ends a connection whose client still sends: without a reset, so that it gets to read the replies. */
  #endReading(connection: Connection): void {
    const { socket } = connection;
    socket.end();
    // Past the parser, which would make a request of each. But a socket that was not reading then would not begin to.
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

  /** The bytes on a connection are no HTTP, too slow or too many. Node calls this again for each chunk that follows. */
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

  /** Answers bytes that never became a request, after the replies that are still due on the connection. */
  #sayLast(connection: Connection, reply: Failure, id: string): void {
    const { metrics, notices } = this.#options;
    metrics.answered(OTHER_ROUTE, reply.status);
    notices.debug('not a request', { request_id: id, status: reply.status, problem: reply.error });
    connection.farewell = wholeReply(reply, bodyOf(reply, { id }), CLOSES);
    this.#sendDecided(connection);
  }

  /** The reply that all but a few get, made anew when its date has to be. */
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
      // What is wrong with us, that is; what is wrong with a request may quote its query or its body.
      problem: 'error' in reply && reply.status === 503 ? reply.error : undefined,
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

/** An unread reply must not count as progress for as long as its client sends: then only what the client takes counts. */
function movedBytesOf({ socket, sending, closing }: Connection): number {
  const sentBytes = socket.bytesWritten - socket.writableLength;
  return sending || closing ? sentBytes : sentBytes + socket.bytesRead;
}

function isSafe({ method }: Upload): boolean {
  return method === 'GET' || method === 'HEAD';
}

/**
 * After an offer of an upgrade the parser throws away the rest of what it has read, though the offer is ignored: what comes
 * next may begin inside a request.
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

/** A reply is for who asked: nothing guesses its type, keeps it or shows it to another site. */
const GUARDS = [
  ...['X-Content-Type-Options', 'nosniff'],
  ...['Cache-Control', 'no-store'],
  ...['Cross-Origin-Resource-Policy', 'same-origin'],
];

const CLOSES = ['Connection', 'close'];

/** @param withBody false for the reply to a HEAD: only its length is sent */
function wholeReply(reply: Reply, body: string, connectionHeaders: readonly string[], withBody = true): string {
  const headers = [...headersOf(reply, body), 'Date', new Date().toUTCString(), ...connectionHeaders];
  let head = `HTTP/1.1 ${reply.status} ${STATUS_CODES[reply.status]}\r\n`;
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${head}\r\n${withBody ? body : ''}`;
}
