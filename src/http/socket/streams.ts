/** Replies whose bodies are produced while they are sent: piece by piece, no faster than the client reads. */

import type { Socket } from 'node:net';

/** How a reply has ended. A failed one is incomplete; `isBegun` says whether some of it was sent. */
export type StreamEnd = { readonly kind: 'complete' } | { readonly kind: 'connection closed' } | FailedStream;

export interface FailedStream {
  readonly kind: 'failed';
  readonly error: unknown;
  readonly isBegun: boolean;
}

/**
 * Sends a reply: the head with the first piece of the body, or at its end. Waits after each piece until the kernel has accepted
 * it, so that a client that stops reading keeps one piece in memory. Closes the iterator if the connection closes. Never rejects.
 * @param chunked whether each piece becomes a chunk (RFC 9112 section 7.1); if not, the end of the connection ends the body
 */
export async function sendPieces(
  socket: Socket,
  head: () => string,
  pieces: AsyncIterable<Buffer>,
  chunked: boolean,
): Promise<StreamEnd> {
  let isBegun = false;
  try {
    for await (const piece of pieces) {
      if (piece.length > 0 && !socket.destroyed) {
        socket.cork();
        if (!isBegun) socket.write(head());
        isBegun = true;
        if (chunked) socket.write(`${piece.length.toString(16)}\r\n`, 'latin1');
        socket.write(piece);
        if (chunked) socket.write('\r\n', 'latin1');
        socket.uncork();
        if (socket.writableLength > 0) await allAccepted(socket);
      }
      if (socket.destroyed) return { kind: 'connection closed' };
    }
  } catch (error) {
    return { kind: 'failed', error, isBegun };
  }
  if (!isBegun) socket.write(head());
  if (chunked) socket.write('0\r\n\r\n', 'latin1');
  return { kind: 'complete' };
}

/** Resolves when the kernel has accepted all written bytes, or the connection has closed. */
function allAccepted(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.write('', () => resolve()));
}
