/** The bytes of replies: status line, headers and body. */

import { STATUS_CODES } from 'node:http';
import type { Limits } from '../../config/limits.ts';
import { accepted, bodyOf, type DocumentReply, type StreamReply, type WholeReply } from '../message.ts';

/** The parts of a request that its reply depends on. */
export interface RepliedRequest {
  /** The `request_id` of an error. */
  readonly id: string;
  /** Undefined for bytes that are not a request. */
  readonly method?: string | undefined;
}

/**
 * Builds replies. The reply to a recorded report is built once a second, for its Date header, so it costs no allocation.
 */
export class ReplyTexts {
  /** The headers of a reply on a connection that stays open. */
  readonly #keepAlive: readonly string[];
  #accepted = '';
  #acceptedSecond = Number.NaN;

  /** @param limits the idle timeout, which is sent as `Keep-Alive: timeout=75` */
  constructor({ idleMs }: Limits) {
    this.#keepAlive = ['Connection', 'keep-alive', 'Keep-Alive', `timeout=${Math.floor(idleMs / 1000)}`];
  }

  /**
   * @param final whether the reply is the last on its connection: `Connection: close`
   * @returns a whole reply; only its head for a HEAD request
   */
  textOf(reply: WholeReply, request: RepliedRequest, final: boolean): string {
    const body = bodyOf(reply, request);
    return this.#headOf(reply, body, final) + (request.method === 'HEAD' ? '' : body);
  }

  /** @returns the head of a document */
  documentHead(reply: DocumentReply, final: boolean): string {
    return this.#headOf(reply, reply.body, final);
  }

  /** @returns a reply with `Connection: keep-alive`, without the second half of its body */
  halfText(reply: WholeReply, request: RepliedRequest): string {
    const text = this.textOf(reply, request, false);
    return text.slice(0, text.length - Math.ceil(bodyOf(reply, request).length / 2));
  }

  /**
   * @param chunked whether the body is sent in chunks; otherwise the end of the connection ends the body (RFC 9112 section 6.3)
   * @returns the head of a stream
   */
  streamHead(reply: StreamReply, chunked: boolean, final: boolean): string {
    const framing = chunked ? ['Transfer-Encoding', 'chunked'] : [];
    return headText(reply, framing, this.#connectionHeaders(final));
  }

  /** @returns the reply to a recorded report on a connection that stays open, in ASCII */
  acceptedText(): string {
    const second = Math.floor(Date.now() / 1000);
    if (second !== this.#acceptedSecond) {
      this.#acceptedSecond = second;
      this.#accepted = this.textOf(accepted, NO_REQUEST, false);
    }
    return this.#accepted;
  }

  #headOf(reply: WholeReply | DocumentReply, body: string | Buffer, final: boolean): string {
    const length = reply.status === 204 ? [] : ['Content-Length', String(Buffer.byteLength(body))]; // RFC 9110 section 8.6
    return headText(reply, length, this.#connectionHeaders(final));
  }

  #connectionHeaders(final: boolean): readonly string[] {
    return final ? CLOSE : this.#keepAlive;
  }
}

const CLOSE = ['Connection', 'close'];
/** The reply to a recorded report has no id. */
const NO_REQUEST: RepliedRequest = { id: '' };

/** Security headers of every reply: no content sniffing, no caching, and no use by pages of other origins. */
const SECURITY_HEADERS = [
  ...['X-Content-Type-Options', 'nosniff'],
  ...['Cache-Control', 'no-store'],
  ...['Cross-Origin-Resource-Policy', 'same-origin'],
];

/** @param framing the headers that define the end of the body (RFC 9112 section 6) */
function headText(
  reply: WholeReply | DocumentReply | StreamReply,
  framing: readonly string[],
  connectionHeaders: readonly string[],
): string {
  const { status, contentType = 'application/json', headers = [] } = reply;
  const all = ['Content-Type', contentType, ...framing, ...SECURITY_HEADERS, ...headers];
  all.push('Date', new Date().toUTCString(), ...connectionHeaders);
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`;
  for (let at = 0; at < all.length; at += 2) head += `${all[at]}: ${all[at + 1]}\r\n`;
  return `${head}\r\n`;
}
