/** What a client gets whose bytes are no valid request: malformed, too slow or too many. */

import type { Limits } from '../../config/limits.ts';
import { Refusal } from '../message.ts';
import { headTooLarge } from '../request.ts';

/** An error of Node's parser or of its checks of time, as the event `clientError` of `node:http` has it. */
export interface ClientError extends Error {
  /** Such as `HPE_INVALID_METHOD` or `ERR_HTTP_REQUEST_TIMEOUT`. */
  readonly code?: string;
  /** The parser's own description. */
  readonly reason?: string;
  /** The bytes in which the parser found the error; absent if a timeout ended the request. */
  readonly rawPacket?: Buffer;
}

/** The error of a client that sent too little in the time it had: `refusalOf` makes a 408 of it. */
export const TOO_SLOW: ClientError = Object.assign(new Error('too slow'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });

/** First byte of a TLS handshake record: detected so that the error can say that the port speaks plain HTTP. */
const TLS_HANDSHAKE = 0x16;

/** @returns the refusal, which closes the connection: 400, 408, 413 or 431 */
export function refusalOf(
  error: ClientError,
  inBody: boolean,
  limits: Pick<Limits, 'headBytesMax' | 'headersMax'>,
): Refusal {
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
