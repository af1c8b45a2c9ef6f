/** Replies whose bodies are produced while they are sent, piece by piece and no faster than the client reads. */

import type { Socket } from 'node:net';

/** The end of a reply. After `failed` the reply is incomplete; `hasStarted` is whether its head was sent. */
export type StreamEnd = { readonly kind: 'complete' } | { readonly kind: 'connection closed' } | FailedStream;

export interface FailedStream {
  readonly kind: 'failed';
  readonly error: unknown;
  readonly hasStarted: boolean;
}

/**
 * Sends a reply. The head is sent with the first piece of the body, or after an empty body. Waits after each piece until the
 * kernel has accepted it, so that a client that stops reading keeps only one piece in memory. Closes the iterator if the
 * connection closes. Never rejects.
 * @param chunked whether each piece becomes a chunk (RFC 9112 section 7.1); otherwise the end of the connection ends the body
 */
export async function sendPieces(
  socket: Socket,
  head: () => string,
  pieces: AsyncIterable<Buffer>,
  chunked: boolean,
): Promise<StreamEnd> {
  let hasStarted = false;
  try {
    for await (const piece of pieces) {
      if (piece.length > 0 && !socket.destroyed) {
        socket.cork();
        if (!hasStarted) socket.write(head());
        hasStarted = true;
        writePiece(socket, piece, chunked);
        socket.uncork();
        if (socket.writableLength > 0) await waitUntilAccepted(socket);
      }
      if (socket.destroyed) return { kind: 'connection closed' };
    }
  } catch (error) {
    return { kind: 'failed', error, hasStarted };
  }
  if (!hasStarted) socket.write(head());
  if (chunked) socket.write('0\r\n\r\n', 'latin1');
  return { kind: 'complete' };
}

function writePiece(socket: Socket, piece: Buffer, chunked: boolean): void {
  if (chunked) socket.write(`${piece.length.toString(16)}\r\n`, 'latin1');
  socket.write(piece);
  if (chunked) socket.write('\r\n', 'latin1');
}

/** Resolves when the kernel has accepted all written bytes, or the connection has closed. */
function waitUntilAccepted(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.write('', () => resolve()));
}
