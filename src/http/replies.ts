/** The bytes of replies: status line, headers and body. */

import { STATUS_CODES } from 'node:http';
import type { Limits } from '../config/limits.ts';
import { accepted, bodyOf, type Reply } from './message.ts';

/** The parts of a request that its reply depends on: `{ id: '…', method: 'HEAD' }`. */
export interface Replied {
  /** The `request_id` of an error. */
  readonly id: string;
  /** Undefined for bytes that are no request. */
  readonly method?: string | undefined;
}

/**
 * Builds replies, such as `HTTP/1.1 200 OK` with its headers and body. The one to a recorded report is built once a second, for
 * its Date header, and costs no allocation.
 */
export class ReplyTexts {
  /** The headers of a reply on a connection that stays open. */
  readonly #keepAlive: readonly string[];
  #accepted = '';
  #acceptedSecond = Number.NaN;

  /** @param limits the idle timeout in milliseconds, which clients see as `Keep-Alive: timeout=75` */
  constructor({ idleMs }: Pick<Limits, 'idleMs'>) {
    this.#keepAlive = ['Connection', 'keep-alive', 'Keep-Alive', `timeout=${Math.floor(idleMs / 1000)}`];
  }

  /**
   * @param final whether the reply is the last on its connection: `Connection: close`
   * @returns a reply, head and body; without a body to a HEAD
   */
  textOf(reply: Reply, request: Replied, final: boolean): string {
    const connectionHeaders = final ? CLOSE : this.#keepAlive;
    return replyText(reply, bodyOf(reply, request), connectionHeaders, request.method !== 'HEAD');
  }

  /** @returns the reply to a recorded report on a connection that stays open, all ASCII: `HTTP/1.1 200 OK`, headers, `{}` */
  acceptedText(): string {
    const second = Math.floor(Date.now() / 1000);
    if (second !== this.#acceptedSecond) {
      this.#acceptedSecond = second;
      this.#accepted = replyText(accepted, accepted.body, this.#keepAlive, true);
    }
    return this.#accepted;
  }
}

const CLOSE = ['Connection', 'close'];

/** Security headers of every reply: no content sniffing, no caching, and no use by pages of other origins. */
const SECURITY_HEADERS = [
  ...['X-Content-Type-Options', 'nosniff'],
  ...['Cache-Control', 'no-store'],
  ...['Cross-Origin-Resource-Policy', 'same-origin'],
];

/** @param withBody false for the reply to a HEAD: Content-Length without the body */
function replyText(reply: Reply, body: string, connectionHeaders: readonly string[], withBody: boolean): string {
  const headers = [...headersOf(reply, body), 'Date', new Date().toUTCString(), ...connectionHeaders];
  let head = `HTTP/1.1 ${reply.status} ${STATUS_CODES[reply.status]}\r\n`;
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${head}\r\n${withBody ? body : ''}`;
}

function headersOf({ contentType = 'application/json', headers = [] }: Reply, body: string): string[] {
  const length = String(Buffer.byteLength(body));
  return ['Content-Type', contentType, 'Content-Length', length, ...SECURITY_HEADERS, ...headers];
}
