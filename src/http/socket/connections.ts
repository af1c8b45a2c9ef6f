/** The connections of clients: the connection cap, the idle timeout, and how they end at a graceful shutdown. */

import type { Socket } from 'node:net';
import type { Limits } from '../../config/limits.ts';
import { atMostEvery, type Fields, type Notices } from '../../telemetry/log.ts';
import type { ReceiveDecision, Reply } from '../message.ts';
import { onTransfer, type RawResponse, type UnbufferedRequest } from './node-classes.ts';

/** One request and its reply, from the parsed head until the kernel has accepted all bytes of the reply. */
export interface Exchange {
  readonly req: UnbufferedRequest;
  readonly res: RawResponse;
  readonly connection: Connection;
  /** `performance.now()` when the head arrived if each request is logged, 0 otherwise. */
  readonly startedMs: number;
  /** The route label of the metrics: see `HeadDecision`. */
  route: string;
  /** The whole request has arrived, so the next request on the connection can be parsed. */
  received: boolean;
  /** The reply is the last on the connection. */
  final: boolean;
  /**
   * The connection reached `limits.unansweredMax` or `limits.unpaidPiecesMax` with this request, so further bytes are discarded
   * unparsed.
   */
  overrun: boolean;
  /** For a GET or HEAD after unanswered requests: decides the reply when it can be sent. */
  deferred: ReceiveDecision | undefined;
  /** Undefined until the reply is decided. */
  reply: Reply | undefined;
  /** The next request on the connection. */
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
  /** Number of requests that wait for the disk or for the rest of an upload. */
  undecided = 0;
  /** The reply of `first` is written, but the kernel has not accepted all of it, or the request is still being received. */
  sending = false;
  /** `#sendDecided` is deciding a deferred request. It sends an immediate reply itself. */
  deciding = false;
  /** A stream is being sent, so the connection is not idle even if no bytes are sent. */
  streaming = false;
  /** The connection does not count towards the cap. */
  isBesideCap = false;
  /** Chosen at the cap because its reply only waits: the reply ends soon, and the last reply announces `Connection: close`. */
  leaving = false;
  /** Reading is paused until fewer requests are unanswered (`limits.pipelinedMax`). */
  paused = false;
  /** The whole reply to bytes that are not a valid request, sent after all other replies. */
  lastReply: string | undefined;
  /** Further bytes are ignored: the connection is about to close, or its bytes are malformed (RFC 9112 section 9.6). */
  closing = false;
  /** Bytes received of the current upload. */
  uploadBytes = 0;
  /** Pieces of its bodies that are not paid for by their bytes: see `limits.unpaidPiecesMax`. */
  unpaidPieces = 0;
  /** The result of `progressBytesOf` in the last look. */
  progressBytes = 0;
  /** `performance.now()` when a look last found the connection busy, or when it was opened. */
  idleSinceMs = performance.now();
  /** `performance.now()` when a look last found that bytes were transferred, or when it was opened. */
  movedMs = this.idleSinceMs;
  /** Whether it waited for the disk or for events in the last look, so that `idleSinceMs` might be long ago. */
  isWaiting = false;
  /** Resolves when its compressed bodies, and the requests after them, are handled. */
  unpacking: Promise<void> | undefined;
  /**
   * Called when the kernel has accepted all written bytes. There is one closure for each connection instead of one for
   * each reply.
   */
  readonly onSent: () => void;
  /** Called when an upload whose reply is already sent has ended. */
  uploadEnded: () => void = ignore;

  constructor(socket: Socket, onSent: (connection: Connection) => void) {
    this.socket = socket;
    this.onSent = () => onSent(this);
  }
}

export interface ConnectionsOptions {
  /** The cap of connections: see {@link Connections}. */
  readonly maxConnections: number;
  readonly limits: Limits;
  /** If true, the connections do not keep the process alive. */
  readonly background: boolean;
  readonly notices: Notices;
  /** Called when the kernel has accepted all bytes that were written to the connection. */
  readonly onSent: (connection: Connection) => void;
  /** Called when the client has closed its side. It might still read its replies. */
  readonly onEnded: (connection: Connection) => void;
  /** Called when the socket of a connection has closed. */
  readonly onClosed: (connection: Connection) => void;
  /** Called if a connection has sent no byte within `limits.headersMs`. */
  readonly onNoRequest: (socket: Socket) => void;
  /** Called at each look, for the timeouts of requests: see `takeTimeouts`. */
  readonly checkRequests?: (() => void) | undefined;
}

/**
 * The open connections, at most `maxConnections`. For a new connection beyond the cap, the longest idle connection is closed, or
 * the longest waiting reply ends, or the new connection is closed. Connections whose replies end count separately, up to the same
 * number.
 *
 * Regular looks find connections that are beyond a deadline. They happen every `limits.deadlineCheckMs` while bytes are transferred
 * or a request is being received, and for `limits.headersMs` after that, since a part of a request might have arrived. After that
 * time no deadline comes before the idle timeout of a connection, so the next look is at that timeout. Any transferred byte restarts
 * the regular looks.
 */
export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #bySocket = new Map<Socket, Connection>();
  /** Number of connections that do not count towards the cap. */
  #isBesideCap = 0;
  /** Connections whose replies wait (see `StreamReply.pieces`), longest wait first. */
  readonly #waiting = new Set<Connection>();
  /** Connections that are leaving, with the request whose reply waits, in the order in which they were chosen. */
  readonly #leaving = new Map<Connection, Exchange>();
  #nextLook: NodeJS.Timeout | undefined;
  /** The next look is at most `limits.deadlineCheckMs` away. */
  #isLooking = false;
  readonly #canLog: (why: string) => boolean;

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#canLog = atMostEvery(options.limits.notAcceptedNoticeMs);
  }

  /** Called often, whenever bytes are transferred. */
  readonly #moves = (): void => {
    if (!this.#isLooking) this.#lookIn(this.#options.limits.deadlineCheckMs);
  };

  #lookIn(ms: number): void {
    this.#isLooking = ms <= this.#options.limits.deadlineCheckMs;
    clearTimeout(this.#nextLook);
    if (ms === Number.POSITIVE_INFINITY) return;
    const look = () => {
      this.#endWaits();
      this.#options.checkRequests?.();
      this.#lookIn(this.#closeIdle());
    };
    this.#nextLook = setTimeout(look, ms).unref();
  }

  /** Number of open connections, for the metrics. */
  get size(): number {
    return this.#bySocket.size;
  }

  /** @param isBesideCap whether the connection does not count towards the cap during the stream */
  startStream(connection: Connection, isBesideCap: boolean): void {
    connection.streaming = true;
    this.#setBesideCap(connection, isBesideCap || connection.leaving);
  }

  /** From now on the stream waits for events, until `endStream`: at the cap it can end early. */
  startWait(connection: Connection): void {
    if (connection.leaving) connection.first?.req.endReply();
    else this.#waiting.add(connection);
  }

  endStream(connection: Connection): void {
    connection.streaming = false;
    this.#waiting.delete(connection);
    this.#setBesideCap(connection, connection.leaving);
  }

  #setBesideCap(connection: Connection, isBesideCap: boolean): void {
    if (connection.isBesideCap === isBesideCap) return;
    connection.isBesideCap = isBesideCap;
    this.#isBesideCap += isBesideCap ? 1 : -1;
  }

  /** @returns the open connections; the iteration skips connections that have closed */
  all(): Iterable<Connection> {
    return this.#bySocket.values();
  }

  /** @returns undefined if the connection is closed or was refused */
  find(socket: Socket): Connection | undefined {
    return this.#bySocket.get(socket);
  }

  /** Adds a new connection, or closes it if there is no space at the cap. */
  add(socket: Socket): void {
    this.#moves();
    if (!this.#makeRoom(socket)) return;
    const { background, onSent, onEnded, onClosed } = this.#options;
    const connection = new Connection(socket, onSent);
    this.#bySocket.set(socket, connection);
    onTransfer(socket, this.#moves);
    // Node resumes a socket that it has paused itself, even if the listener has also paused it.
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
   * @param isCandidate whether to consider a connection
   * @returns the connection without progress for the longest time, at least `idleMs`
   */
  findLongestIdle(idleMs: number, isCandidate: (connection: Connection) => boolean): Connection | undefined {
    let longest: Connection | undefined;
    let sinceMs = performance.now() - idleMs;
    for (const connection of this.#bySocket.values()) {
      if (connection.idleSinceMs > sinceMs || !isCandidate(connection)) continue;
      if (connection.isWaiting || progressBytesOf(connection) !== connection.progressBytes) continue;
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
    if (this.#canLog(why)) this.#options.notices.warn(why, fields);
  }

  /**
   * Waits until all connections are closed. Closes connections without a first byte after `limits.firstByteMs`, and all others
   * after `limits.drainMs`.
   */
  async drain(allClosed: Promise<unknown>): Promise<void> {
    const { drainMs, firstByteMs } = this.#options.limits;
    const noFirstByte = setTimeout(() => this.#closeUnused(), firstByteMs);
    const deadline = setTimeout(() => this.#cutOff(), drainMs);
    await allClosed;
    clearTimeout(this.#nextLook);
    clearTimeout(noFirstByte);
    clearTimeout(deadline);
  }

  /** For Node, which closes idle connections at shutdown, a connection that has never sent a byte is not idle. */
  #closeUnused(): void {
    for (const { socket } of this.#bySocket.values()) if (socket.bytesRead === 0) socket.destroy();
  }

  #cutOff(): void {
    this.#options.notices.warn('requests that were still being received are cut off', { connections: this.size });
    for (const { socket } of this.#bySocket.values()) socket.destroy();
  }

  /** @returns how long nothing can be beyond a deadline, in milliseconds; at least `limits.deadlineCheckMs` */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one pass over one connection, whose facts would be handed around
  #closeIdle(): number {
    const { limits, onNoRequest } = this.#options;
    const { headersMs, deadlineCheckMs } = limits;
    const now = performance.now();
    let nextMs = this.#leaving.size > 0 ? deadlineCheckMs : Number.POSITIVE_INFINITY;
    for (const connection of this.#bySocket.values()) {
      const { socket, undecided, last } = connection;
      const progressBytes = progressBytesOf(connection);
      const waitsForDisk = undecided > 0 && last?.received === true;
      const waitsForEvents = connection.streaming && socket.writableLength === 0;
      const moved = progressBytes !== connection.progressBytes;
      if (moved) connection.movedMs = now;
      const isInRequest = now - connection.movedMs <= headersMs + deadlineCheckMs;
      if (isInRequest || (undecided > 0 && !waitsForDisk) || socket.writableLength > 0) nextMs = deadlineCheckMs;
      const wasWaiting = connection.isWaiting;
      connection.isWaiting = waitsForDisk || waitsForEvents;
      if (connection.isWaiting || wasWaiting || moved) {
        connection.progressBytes = progressBytes;
        connection.idleSinceMs = now;
        continue;
      }
      if (undecided > 0) continue; // an upload: Node's `requestTimeout` applies
      const idleForMs = now - connection.idleSinceMs;
      const idleMs = timeoutOf(connection, limits);
      nextMs = Math.min(nextMs, Math.max(deadlineCheckMs, idleMs - idleForMs));
      if (idleForMs >= idleMs) socket.destroy();
      else if (socket.bytesRead === 0 && idleForMs >= headersMs) onNoRequest(socket); // Node ≥ 24 has no timeout for this
    }
    return nextMs;
  }

  /** At the cap, frees a place for a new connection; if that is not possible, closes the new one and returns false. */
  #makeRoom(socket: Socket): boolean {
    const { maxConnections: cap, limits } = this.#options;
    if (this.size - this.#isBesideCap < cap) return true;
    const notice = (why: string) => this.notAccepted(`${why}; see --max-connections`, { cap });
    const closeFor = ({ socket: closed }: Connection, why: string) => {
      notice(why);
      this.#bySocket.delete(closed); // its `close` event is emitted later
      closed.destroy();
      return true;
    };
    const idlest = this.findLongestIdle(limits.evictableMs, isIdle);
    if (idlest !== undefined)
      return closeFor(idlest, 'at the cap, the longest idle connection is closed for a new one');
    const [longestWaiting] = this.#waiting;
    if (longestWaiting?.first !== undefined) {
      notice('at the cap, the longest wait for events ends early for a new connection');
      this.#leave(longestWaiting, longestWaiting.first);
      return true;
    }
    const stalled = this.findLongestIdle(limits.evictableMs, isStalled);
    if (stalled !== undefined)
      return closeFor(stalled, 'at the cap, a client that reads no reply is cut off for a new one');
    notice('connections over the cap are closed at once');
    socket.destroy();
    return false;
  }

  /** Removes a connection with a waiting reply from the count. The reply ends at the next idle check. */
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
   * Done only at each idle check: a client repeats its request immediately, which ends another wait at the cap. With more clients
   * than `maxConnections`, ending waits immediately would use all processor time.
   */
  #endWaits(): void {
    for (const { req } of this.#leaving.values()) req.endReply();
  }
}

const ignore = () => {};

function isIdle({ undecided, streaming, leaving }: Connection): boolean {
  return undecided === 0 && !streaming && !leaving;
}

/** Whether the client does not read its stream. */
function isStalled({ streaming, isBesideCap, socket }: Connection): boolean {
  return streaming && !isBesideCap && socket.writableLength > 0;
}

/** @returns how long the connection may be without progress, in milliseconds */
function timeoutOf({ streaming, socket }: Connection, { streamStallMs, unreadMs, idleMs }: Limits): number {
  if (streaming) return streamStallMs;
  return socket.writableLength > 0 ? unreadMs : idleMs;
}

/** Stops reading from the connection. Node's parser might still pass on up to 64 KiB that it has read. */
export function pause(connection: Connection): void {
  if (connection.paused) return;
  connection.paused = true;
  connection.socket.pause();
}

/**
 * Resumes reading in the next tick: while Node parses, a `pause` and a `resume` could take effect in the wrong order.
 */
export function resume(connection: Connection): void {
  connection.paused = false;
  process.nextTick(() => {
    if (!connection.paused) connection.socket.resume();
  });
}

/**
 * @returns the number of transferred bytes. During a reply only sent bytes count: a client that sends but does not read its reply
 *   makes no progress.
 */
function progressBytesOf({ socket, sending, closing }: Connection): number {
  const sentBytes = socket.bytesWritten - socket.writableLength;
  return sending || closing ? sentBytes : sentBytes + socket.bytesRead;
}
