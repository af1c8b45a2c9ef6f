/**
 * `node:http` around one function. Here are the caps, the deadlines, the order of replies and the drain; nothing here
 * knows what a report is.
 */

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, IncomingMessage, type Server, ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Limits } from './config.ts';
import {
  type App,
  accepted,
  bodyOf,
  type Failure,
  type HeaderFields,
  type Incoming,
  type Receive,
  Refusal,
  type Reply,
  unavailable,
} from './message.ts';
import type { Metrics } from './metrics.ts';
import type { Fields, Notices } from './notice.ts';
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
    IncomingMessage: Upload,
    ServerResponse: Answer,
    // Node's own answers to these have no JSON body; `request.ts` checks them.
    requireHostHeader: false,
    maxHeaderSize: limits.headBytesMax,
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    keepAliveTimeout: 0, // two timers a request; `#closeIdle` needs none
    connectionsCheckingInterval: limits.deadlineCheckMs,
  });
  server.maxHeadersCount = 0; // else Node 20 drops what is over its count without a word
  server.maxConnections = options.maxConnections;
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
  route = NO_ROUTE;
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

/** A response that knows a short way for replies that are whole: a third of what a small request costs is Node's long one. */
class Answer extends ServerResponse<Upload> {
  #whole = false;

  /** Whether all of the reply was handed to the connection. `writableFinished` tells it only of Node's own way, from 24 on. */
  get isOut(): boolean {
    return this.#whole || this.writableFinished;
  }

  /**
   * @param text of the whole reply, ASCII, with a head that keeps the connection
   * @returns false, with nothing done, where the connection is still busy with earlier replies or is to end with this one
   */
  sendWhole(text: string): boolean {
    if (this.socket === null || !this.shouldKeepAlive) return false;
    this.socket.write(text, 'latin1');
    this.#whole = true;
    this.finished = true;
    this.emit('finish'); // as `end` does last: Node frees the connection for the next reply
    return true;
  }
}

type UploadServer = Server<typeof Upload, typeof Answer>;

/** One request and its reply. */
interface Exchange {
  readonly req: Upload;
  readonly res: Answer;
  readonly connection: Connection;
  readonly startedMs: number;
  /** The whole request has arrived, so the next one on the connection can be found. */
  received: boolean;
  /** Its reply is the last on the connection; see `endsConnection`. */
  readonly final: boolean;
}

interface Connection {
  readonly socket: Socket;
  /** The newest request on it; when its reply is out, so are all before it. */
  last: Exchange | undefined;
  /** Its end was announced, or its bytes make no sense: what still comes in is not a request (RFC 9112 section 9.6). */
  closing: boolean;
  /** Of the body that is being received on it. */
  uploadBytes: number;
  /** As `#closeIdle` last found it: how much had come, and since when nothing else did. */
  seenBytes: number;
  quietSinceMs: number;
}

const ignore = () => {};
/** As it is counted. */
const NO_ROUTE = '/other';
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
  #notAcceptedAtMs = Number.NEGATIVE_INFINITY;

  constructor(server: UploadServer, options: ListenerOptions, app: App) {
    this.#server = server;
    this.#options = options;
    this.#app = app;
    this.#keeps = ['Keep-Alive', `timeout=${Math.floor(options.limits.idleMs / 1000)}`];
    this.#idleCheck = setInterval(() => this.#closeIdle(), options.limits.deadlineCheckMs).unref();
    options.metrics.connections = this.#connections;
    server.on('connection', (socket) => this.#connected(socket));
    server.on('drop', () => {
      const cap = options.maxConnections;
      this.#notAccepted('connections over the cap are closed at once; see --max-connections', { cap });
    });
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
      const { socket, last, seenBytes, quietSinceMs } = connection;
      const busy = last !== undefined && !last.res.isOut;
      if (busy || socket.bytesRead !== seenBytes) {
        connection.seenBytes = socket.bytesRead;
        connection.quietSinceMs = now;
      } else if (now - quietSinceMs >= idleMs) {
        socket.destroy();
      } else if (socket.bytesRead === 0 && now - quietSinceMs >= headersMs) {
        this.#broken(TOO_SLOW, socket); // from 24 on Node waits for a first byte for ever
      }
    }
  }

  #cutOff(): void {
    this.#options.notices.warn('requests that were still being received are cut off', {
      connections: this.#connections.size,
    });
    this.#server.closeAllConnections();
  }

  #connected(socket: Socket): void {
    const connection: Connection = {
      socket,
      last: undefined,
      closing: false,
      uploadBytes: 0,
      seenBytes: 0,
      quietSinceMs: performance.now(),
    };
    this.#connections.set(socket, connection);
    if (this.#options.background) socket.unref();
    socket.once('close', () => {
      this.#release(connection);
      this.#connections.delete(socket);
    });
  }

  /** Whoever is turned away is told to the operator, but not each time. */
  #notAccepted(why: string, fields: Fields): void {
    const { limits, notices } = this.#options;
    const now = performance.now();
    if (now - this.#notAcceptedAtMs < limits.notAcceptedNoticeMs) return;
    this.#notAcceptedAtMs = now;
    notices.warn(why, fields);
  }

  #serve(req: Upload, res: Answer, awaitsContinue: boolean): void {
    const connection = this.#connections.get(req.socket);
    if (connection === undefined || connection.closing) return;
    const startedMs = this.#options.notices.debugging ? performance.now() : 0;
    const received = !hasBody(req);
    const final = endsConnection(req, awaitsContinue && received);
    const exchange: Exchange = { req, res, connection, startedMs, received, final };
    connection.last = exchange;
    if (received && final) connection.closing = true; // now: what is behind it comes before its reply leaves

    const next = this.#app(req);
    if (typeof next !== 'function') {
      this.#answer(exchange, next);
    } else if (exchange.received) {
      next(NO_BODY, (reply) => this.#answer(exchange, reply));
    } else {
      if (awaitsContinue) res.writeContinue();
      this.#receive(exchange, next);
    }
  }

  #receive(exchange: Exchange, receive: Receive): void {
    const { bodyBytesMax, uploadBytesMax } = this.#options.limits;
    const { req, connection } = exchange;
    let body: Buffer = NO_BODY;
    req.onBytes = (chunk) => {
      if (chunk === null) {
        exchange.received = true;
        if (exchange.final) connection.closing = true;
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
        this.#answer(exchange, bodyTooLarge().reply);
      } else if (this.#uploadBytes > uploadBytesMax) {
        this.#answer(exchange, unavailable('too much is being received at once; send the report again later'));
      } else {
        body = before === 0 ? chunk : this.#appended(body, before, chunk);
      }
    };
  }

  /** A first chunk is kept as it came; more are copied together, so that a body in a million pieces takes the memory of one. */
  #appended(body: Buffer, bytes: number, chunk: Buffer): Buffer {
    const { bodyBytesMax } = this.#options.limits;
    let room = body;
    if (room.length < bodyBytesMax) {
      // What of it is never written to takes no memory.
      room = this.#rooms.pop() ?? Buffer.allocUnsafeSlow(bodyBytesMax);
      body.copy(room, 0, 0, bytes);
    }
    chunk.copy(room, bytes);
    return room;
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

  #release(connection: Connection): void {
    this.#uploadBytes -= connection.uploadBytes;
    connection.uploadBytes = 0;
  }

  #answer(exchange: Exchange, reply: Reply): void {
    const { req, res, connection, received } = exchange;
    if (!received) this.#release(connection);
    const close = reply.close === true || !received || exchange.final || this.#draining;
    if (close) connection.closing = true;
    this.#options.metrics.answered(req.route, reply.status);
    if (this.#options.notices.debugging) this.#log(exchange, reply);
    if (reply === accepted && !close && res.sendWhole(this.#acceptedNow())) return;
    const connectionHeaders = close ? CLOSES : res.shouldKeepAlive ? this.#keeps : []; // HTTP/1.0 closes unless it is asked
    const body = bodyOf(reply, req);
    res.writeHead(reply.status, [...headersOf(reply, body), ...connectionHeaders]);
    if (received) {
      res.end(body);
    } else {
      // The reply is complete, but ending the response now would reset a connection on which the client still sends.
      res.write(body);
      this.#discard(exchange);
    }
  }

  /** Reads and throws away the rest of an upload, so that the client gets to read its reply. */
  #discard({ req, res, connection }: Exchange): void {
    let bytes = 0;
    const stop = this.#afterUpload(connection, () => res.end());
    req.onBytes = (chunk) => {
      bytes += chunk?.length ?? 0;
      this.#countGarbage(chunk?.length ?? 0);
      if (chunk === null || bytes > this.#options.limits.discardBytesMax) stop();
    };
  }

  /** Calls `act` when the client has nothing more to send, or has had its time. @returns what calls it before */
  #afterUpload({ socket }: Connection, act: () => void): () => void {
    const stop = () => {
      clearTimeout(deadline);
      socket.off('end', stop);
      act();
    };
    const deadline = setTimeout(stop, this.#options.limits.discardMs).unref();
    if (socket.readableEnded) stop();
    else socket.once('end', stop);
    return stop;
  }

  #refuseConnect(req: Upload, socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.closing) return;
    connection.closing = true;
    const reply = this.#app(req);
    if (typeof reply === 'function') socket.destroy();
    else this.#sayLast(connection, reply, req.id);
  }

  /** The bytes on a connection are no HTTP, too slow or too many. Node calls this again for each chunk that follows. */
  #broken(error: ClientError, socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined || !socket.writable || error.code === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    if (connection.closing) return;
    connection.closing = true;
    const { last } = connection;
    if (last !== undefined && !last.received) this.#answer(last, refusalOf(error, true).reply);
    else this.#sayLast(connection, refusalOf(error, false).reply, randomUUID());
  }

  /** Answers bytes that never became a request, behind the replies that are still due on the connection. */
  #sayLast(connection: Connection, reply: Failure, id: string): void {
    const { socket, last } = connection;
    const { metrics, notices } = this.#options;
    metrics.answered(NO_ROUTE, reply.status);
    notices.debug('not a request', { request_id: id, status: reply.status, problem: reply.error });
    const say = () => {
      socket.end(wholeReply(reply, bodyOf(reply, { id }), CLOSES));
      this.#afterUpload(connection, () => socket.destroySoon());
    };
    if (last === undefined || last.res.isOut) say();
    else last.res.once('finish', say);
  }

  /** The reply that all but a few get, made anew when its date has to be. */
  #acceptedNow(): string {
    const second = Math.floor(Date.now() / 1000);
    if (second !== this.#acceptedSecond) {
      this.#acceptedSecond = second;
      this.#accepted = wholeReply(accepted, accepted.body, ['Connection', 'keep-alive', ...this.#keeps]);
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

/**
 * Behind an offer of an upgrade the parser throws away the rest of the packet, though nobody takes the offer: what comes
 * next may begin inside a request. And a reply to an expectation for which no 100 was sent is closed by Node.
 */
function endsConnection({ fields }: Upload, expectsInVain: boolean): boolean {
  return fields.upgrade !== undefined || expectsInVain;
}

const TOO_SLOW: ClientError = Object.assign(new Error('too slow'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });

function refusalOf(error: ClientError, inBody: boolean): Refusal {
  const refuse = (status: number, problem: string) => new Refusal(status, problem, { close: true });
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return headTooLarge();
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

function wholeReply(reply: Reply, body: string, connectionHeaders: readonly string[]): string {
  const headers = [...headersOf(reply, body), 'Date', new Date().toUTCString(), ...connectionHeaders];
  let head = `HTTP/1.1 ${reply.status} ${STATUS_CODES[reply.status]}\r\n`;
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${head}\r\n${body}`;
}
