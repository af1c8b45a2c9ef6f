/** Replies whose bodies are produced while they are sent: piece by piece, no faster than the client reads. */

import type { Socket } from 'node:net';

/**
 * Sends a reply: the head with the first piece of the body, or at its end. Waits after each piece until the kernel has accepted
 * it, so that a client that stops reading keeps one piece in memory. Closes the iterator if the connection closes.
 * @param head called once
 * @param pieces such as the lines of a journal: `[Buffer.from('{"seq":1}\n')]`
 * @param chunked whether each piece becomes a chunk (RFC 9112 section 7.1); if not, the end of the connection ends the body
 * @returns whether the whole body was sent; if not, the connection has closed
 * @throws the error of the iterator; the body is then incomplete
 */
export async function sendPieces(
  socket: Socket,
  head: () => string,
  pieces: AsyncIterable<Buffer>,
  chunked: boolean,
): Promise<boolean> {
  let isBegun = false;
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
    if (socket.destroyed) return false;
  }
  if (!isBegun) socket.write(head());
  if (chunked) socket.write('0\r\n\r\n', 'latin1');
  return true;
}

/** Resolves when the kernel has accepted all written bytes, or the connection has closed. */
function allAccepted(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.write('', () => resolve()));
}
