/**
 * A lingering close (RFC 9112 section 9.6) for a client that might still send: its bytes are read and discarded for a while.
 * Otherwise the kernel would reset the connection before the client has read the reply.
 */

import type { Limits } from '../../config/limits.ts';
import { type Connection, resume } from './connections.ts';
import { shareFurtherRequests } from './node-classes.ts';

/** Ignores all requests after the current one. */
export function ignoreFurther(connection: Connection): void {
  if (connection.closing) return;
  connection.closing = true;
  shareFurtherRequests(connection.socket);
}

/** Calls `act` when the client has finished sending, or after `limits.discardMs` milliseconds. */
export function afterUpload(connection: Connection, { discardMs }: Limits, act: () => void): void {
  const { socket } = connection;
  const stop = () => {
    connection.uploadEnded = ignore;
    clearTimeout(deadline);
    socket.off('end', stop);
    act();
  };
  const deadline = setTimeout(stop, discardMs).unref();
  connection.uploadEnded = stop;
  if (socket.readableEnded) stop();
  else socket.once('end', stop);
}

/**
 * Closes a connection whose client still sends, without a TCP reset, so that the client can read the replies: when it has
 * finished sending, or after `limits.discardMs` milliseconds.
 */
export function closeLingering(connection: Connection, limits: Limits): void {
  const { socket } = connection;
  socket.end();
  // Discards bytes before the parser, which would create objects for each request. On a paused socket this waits for its resume,
  // since the socket would otherwise not start to read.
  const skipParser = () => {
    if (socket.isPaused()) return;
    socket.off('resume', skipParser).removeAllListeners('data').on('data', ignore);
  };
  socket.on('resume', skipParser);
  skipParser();
  resume(connection);
  afterUpload(connection, limits, () => socket.destroySoon());
}

const ignore = () => {};
