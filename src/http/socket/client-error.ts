/** The refusals of bytes that are not a valid request: malformed, too slow or too many. */

import type { Limits } from '../../config/limits.ts';
import { Refusal } from '../message.ts';
import { headTooLarge } from '../request.ts';

/** An error of Node's parser or of its timeouts, as passed to a `clientError` listener of `node:http`. */
export interface ClientError extends Error {
  /** Such as `HPE_INVALID_METHOD` or `ERR_HTTP_REQUEST_TIMEOUT`. */
  readonly code?: string;
  /** The parser's own description. */
  readonly reason?: string;
  /** The bytes that contain the error; absent after a timeout. */
  readonly rawPacket?: Buffer;
}

/** The error of a client that sent too little in the allowed time, which becomes a 408. */
export const TOO_SLOW: ClientError = Object.assign(new Error('too slow'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });

/** The first byte of a TLS handshake record, so that its error can explain that the port speaks plain HTTP. */
const TLS_HANDSHAKE = 0x16;

/** @returns the refusal, which closes the connection: 400, 408, 413 or 431 */
export function refusalOf(error: ClientError, inBody: boolean, limits: Limits): Refusal {
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
