/** The connections of clients: the connection cap, the idle timeout, and how they end at a graceful shutdown. */

import type { Socket } from 'node:net';
import type { Limits } from '../../config/limits.ts';
import { atMostEvery, type Fields, type Notices } from '../../telemetry/log.ts';
import type { ReceiveDecision, Reply } from '../message.ts';
import type { RawResponse, UnbufferedRequest } from './node-classes.ts';

/** One request and its reply, from the parsed head until the kernel has accepted all bytes of the reply. */
export interface Exchange {
  readonly req: UnbufferedRequest;
  readonly res: RawResponse;
  readonly connection: Connection;
  /** `performance.now()` at the head of the request if each request is logged, else 0. */
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
  deferred: ReceiveDecision | undefined;
  /** Undefined until it is decided. */
  reply: Reply | undefined;
  /** The request that came after it on the connection. */
  next: Exchange | undefined;
}

/** An open connection, with the queue of its pipelined requests (RFC 9112 section 9.3.2). */
export class Connection {
  readonly socket: Socket;
  /** The oldest request whose reply is not sent. Replies are sent in the order of the requests. */
  first: Exchange | undefined;
  /** The newest request whose reply is not sent. */
  last: Exchange | undefined;
  /** Number of requests whose replies are not sent. */
  unanswered = 0;
  /** Number of them that wait for the service: for the disk, or for the rest of an upload. */
  undecided = 0;
  /** The reply of `first` was written, but the kernel has not accepted all of it, or the request is still being received. */
  sending = false;
  /** `#sendDecided` decides a deferred request, and sends the reply itself if there is one at once. */
  deciding = false;
  /** The body of a reply is being produced while it is sent, so the connection is not idle even if nothing is sent. */
  streaming = false;
  /** It does not count against the cap. */
  besideCap = false;
  /** Its reply waited when the cap was reached: it ends soon, and the last reply that is due announces `Connection: close`. */
  leaving = false;
  /** Reading is paused until fewer requests are unanswered. */
  paused = false;
  /** The reply to bytes that are not a valid request, head and body; sent after all other replies. */
  lastReply: string | undefined;
  /** Further bytes are ignored: the connection is about to close, or its bytes are malformed (RFC 9112 section 9.6). */
  closing = false;
  /** Bytes received so far of the body that is being uploaded. */
  uploadBytes = 0;
  /** What `progressBytesOf` returned when the idle check last ran. */
  progressBytes = 0;
  /** When an idle check last found the connection busy, by `performance.now()`; at first, when it was opened. */
  idleSinceMs = performance.now();
  /** Called when the kernel has accepted all written bytes. One closure for each connection, not one for each reply. */
  readonly onSent: () => void;
  /** Called when an upload whose reply is already sent has ended. */
  uploadEnded: () => void = ignore;

  constructor(socket: Socket, onSent: (connection: Connection) => void) {
    this.socket = socket;
    this.onSent = () => onSent(this);
  }
}

export interface ConnectionsOptions {
  /** At this number, a new connection replaces the one that was idle longest, or whose reply waits longest, or is closed. */
  readonly maxConnections: number;
  readonly limits: Limits;
  /** If true, the connections do not keep the process alive. */
  readonly background: boolean;
  readonly notices: Notices;
  /** Called when the kernel has accepted all bytes that were written to the connection. */
  readonly onSent: (connection: Connection) => void;
  /** Called when the client has closed its side: it may still read, but often it has gone. */
  readonly onEnded: (connection: Connection) => void;
  /** Called when the socket of a connection has closed. */
  readonly onClosed: (connection: Connection) => void;
  /** Called if a connection has sent no byte within `limits.headersMs`. */
  readonly onNoRequest: (socket: Socket) => void;
}

/**
 * The open connections, at most `maxConnections`: for one more the longest idle connection is closed, or the reply that waits
 * longest ends. As many connections whose replies end are open besides them.
 */
export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #bySocket = new Map<Socket, Connection>();
  /** How many of them do not count against the cap. */
  #besideCap = 0;
  /** Connections whose replies wait, see `StreamReply.pieces`, in the order in which they began to. */
  readonly #waiting = new Set<Connection>();
  /** Connections that are leaving, each with the request whose reply waited, in the order in which they were chosen. */
  readonly #leaving = new Map<Connection, Exchange>();
  readonly #idleCheck: NodeJS.Timeout;
  readonly #mayLog: (why: string) => boolean;

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#mayLog = atMostEvery(options.limits.notAcceptedNoticeMs);
    this.#idleCheck = setInterval(() => {
      this.#endWaits();
      this.#closeIdle();
    }, options.limits.deadlineCheckMs).unref();
  }

  /** Number of open connections, for the metrics. */
  get size(): number {
    return this.#bySocket.size;
  }

  /** A reply begins whose body is produced while it is sent. @param besideCap whether its connection does not count meanwhile */
  beginStream(connection: Connection, besideCap: boolean): void {
    connection.streaming = true;
    this.#setBesideCap(connection, besideCap || connection.leaving);
  }

  /** From now on the reply of the connection waits, until `endStream`: at the cap it may be ended early. */
  beginWait(connection: Connection): void {
    if (connection.leaving) connection.first?.req.endReply();
    else this.#waiting.add(connection);
  }

  /** The reply of `beginStream` has ended. */
  endStream(connection: Connection): void {
    connection.streaming = false;
    this.#waiting.delete(connection);
    this.#setBesideCap(connection, connection.leaving);
  }

  #setBesideCap(connection: Connection, is: boolean): void {
    if (connection.besideCap === is) return;
    connection.besideCap = is;
    this.#besideCap += is ? 1 : -1;
  }

  /** @returns the open connections; one that closes during the iteration is skipped */
  all(): Iterable<Connection> {
    return this.#bySocket.values();
  }

  /** @returns undefined if the connection is closed or was refused */
  of(socket: Socket): Connection | undefined {
    return this.#bySocket.get(socket);
  }

  /** Adds a new connection, or closes it if `maxConnections` is reached and no other connection can be closed for it. */
  add(socket: Socket): void {
    if (!this.#fits(socket)) return;
    const { background, onSent, onEnded, onClosed } = this.#options;
    const connection = new Connection(socket, onSent);
    this.#bySocket.set(socket, connection);
    // Node resumes a socket that it paused itself, although the listener has paused it as well.
    socket.on('resume', () => {
      if (connection.paused) socket.pause();
    });
    if (background) socket.unref();
    socket.once('end', () => onEnded(connection));
    socket.once('close', () => {
      onClosed(connection);
      this.#waiting.delete(connection);
      this.#leaving.delete(connection);
      this.#setBesideCap(connection, false);
      this.#bySocket.delete(socket);
    });
  }

  /**
   * @returns the connection without progress for the longest time, at least `idleMs`, of those for which `may` is true
   */
  longestIdle(idleMs: number, may: (connection: Connection) => boolean): Connection | undefined {
    let longest: Connection | undefined;
    let sinceMs = performance.now() - idleMs;
    for (const connection of this.#bySocket.values()) {
      if (connection.idleSinceMs > sinceMs || !may(connection)) continue;
      if (progressBytesOf(connection) !== connection.progressBytes) continue;
      longest = connection;
      sinceMs = connection.idleSinceMs;
    }
    return longest;
  }

  /**
   * Logs a connection or a body that was not accepted, at most once in `limits.notAcceptedNoticeMs` for each reason.
   * @param why the message of the log entry, a constant
   */
  notAccepted(why: string, fields: Fields): void {
    if (this.#mayLog(why)) this.#options.notices.warn(why, fields);
  }

  /**
   * Waits until all connections are closed, and closes those that outlast the limits of a shutdown: `limits.firstByteMs` without
   * a first byte, `limits.drainMs` for any.
   */
  async drain(allClosed: Promise<unknown>): Promise<void> {
    const { drainMs, firstByteMs } = this.#options.limits;
    const noFirstByte = setTimeout(() => this.#closeUnused(), firstByteMs);
    const deadline = setTimeout(() => this.#cutOff(), drainMs);
    await allClosed;
    clearInterval(this.#idleCheck);
    clearTimeout(noFirstByte);
    clearTimeout(deadline);
  }

  /** Node closes idle connections at shutdown, but does not count a connection that never sent a byte as idle. */
  #closeUnused(): void {
    for (const { socket } of this.#bySocket.values()) if (socket.bytesRead === 0) socket.destroy();
  }

  #cutOff(): void {
    this.#options.notices.warn('requests that were still being received are cut off', { connections: this.size });
    for (const { socket } of this.#bySocket.values()) socket.destroy();
  }

  #closeIdle(): void {
    const { limits, onNoRequest } = this.#options;
    const { headersMs, streamStallMs } = limits;
    const now = performance.now();
    for (const connection of this.#bySocket.values()) {
      const { socket, undecided, last } = connection;
      const progressBytes = progressBytesOf(connection);
      const waitsForDisk = undecided > 0 && last?.received === true;
      const waitsForEvents = connection.streaming && socket.writableLength === 0;
      if (waitsForDisk || waitsForEvents || progressBytes !== connection.progressBytes) {
        connection.progressBytes = progressBytes;
        connection.idleSinceMs = now;
        continue;
      }
      if (undecided > 0) continue; // an upload: Node's `requestTimeout` applies
      const idleForMs = now - connection.idleSinceMs;
      const idleMs = connection.streaming ? streamStallMs : limits.idleMs;
      if (idleForMs >= idleMs) socket.destroy();
      else if (socket.bytesRead === 0 && idleForMs >= headersMs) onNoRequest(socket); // Node ≥ 24 has no timeout for it
    }
  }

  /** At `maxConnections`, closes another connection for the new one; if that is not possible, closes the new one and returns false. */
  #fits(socket: Socket): boolean {
    const { maxConnections: cap, limits } = this.#options;
    if (this.size - this.#besideCap < cap) return true;
    const notice = (why: string) => this.notAccepted(`${why}; see --max-connections`, { cap });
    const closeFor = ({ socket: closed }: Connection, why: string) => {
      notice(why);
      this.#bySocket.delete(closed); // its `close` comes later
      closed.destroy();
      return true;
    };
    const idlest = this.longestIdle(limits.evictableMs, isIdle);
    if (idlest !== undefined)
      return closeFor(idlest, 'at the cap, the longest idle connection is closed for a new one');
    const [longestWaiting] = this.#waiting;
    if (longestWaiting?.first !== undefined) {
      notice('at the cap, the longest wait for events ends early for a new connection');
      this.#leave(longestWaiting, longestWaiting.first);
      return true;
    }
    const stalled = this.longestIdle(limits.evictableMs, isStalled);
    if (stalled !== undefined)
      return closeFor(stalled, 'at the cap, a client that reads no reply is cut off for a new one');
    notice('connections over the cap are closed at once');
    socket.destroy();
    return false;
  }

  /** Takes a connection whose reply waits out of the count. Its reply ends at the next check. */
  #leave(connection: Connection, exchange: Exchange): void {
    connection.leaving = true;
    this.#waiting.delete(connection);
    this.#leaving.set(connection, exchange);
    this.#setBesideCap(connection, true);
    if (this.#leaving.size <= this.#options.maxConnections) return;
    const [[oldest] = []] = this.#leaving;
    if (oldest === undefined) return;
    this.#leaving.delete(oldest);
    oldest.socket.destroy();
  }

  /**
   * Not at once: its client asks again at once, and then another wait has to end. With more of them than connections, they would
   * use all of the time.
   */
  #endWaits(): void {
    for (const { req } of this.#leaving.values()) req.endReply();
  }
}

const ignore = () => {};

function isIdle({ undecided, streaming, leaving }: Connection): boolean {
  return undecided === 0 && !streaming && !leaving;
}

/** Its client does not read the reply that is produced while it is sent. */
function isStalled({ streaming, besideCap, socket }: Connection): boolean {
  return streaming && !besideCap && socket.writableLength > 0;
}

/** Stops reading from the connection and sets `paused`. Node's parser may still pass on what it has read: at most 64 KiB. */
export function pause(connection: Connection): void {
  if (connection.paused) return;
  connection.paused = true;
  connection.socket.pause();
}

/**
 * Unsets `paused`, and resumes reading in the next tick: while Node parses, a `pause` and a `resume` could take effect in the
 * wrong order.
 */
export function resume(connection: Connection): void {
  connection.paused = false;
  process.nextTick(() => {
    if (!connection.paused) connection.socket.resume();
  });
}

/**
 * @returns bytes that were transferred on the connection. While a reply is being sent, only sent bytes count: a client that sends
 * but does not read its reply makes no progress.
 */
function progressBytesOf({ socket, sending, closing }: Connection): number {
  const sentBytes = socket.bytesWritten - socket.writableLength;
  return sending || closing ? sentBytes : sentBytes + socket.bytesRead;
}
