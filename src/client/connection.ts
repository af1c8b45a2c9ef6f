/** An HTTP client for commands that call a service. It sends each request once; retries are left to the caller. */

import { X509Certificate } from 'node:crypto';
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { PeerCertificate } from 'node:tls';
import type { Limits } from '../config/limits.ts';
import { maskToken } from '../telemetry/masked.ts';

/** The token of a request, and the name of its header. The token is masked in replies. */
export interface TokenHeader {
  readonly name: string;
  readonly token: string;
}

/** One request, without its URL. */
export interface HttpCall {
  readonly method: 'GET' | 'OPTIONS' | 'POST' | 'PUT';
  readonly headers?: Readonly<Record<string, string>>;
  readonly token?: TokenHeader | undefined;
  /** Other texts of the request that are masked in its reply. */
  readonly secrets?: readonly string[] | undefined;
  readonly body?: string | Buffer;
  /**
   * Timeout of the whole call: name resolution, connecting, sending, and the reply to its last byte. It is no idle timeout, so a
   * service that sends a byte now and then does not extend it.
   */
  readonly timeoutMs: number;
  /** Bytes of the reply's body that are read; `limits.replyBytesMax` if it is absent. */
  readonly replyBytesMax?: number;
  /** Ends the call, which then throws NoReply. */
  readonly signal?: AbortSignal;
}

/** A complete reply without the token of its request. */
export interface HttpReply {
  /** Never a 1xx except 101, after which the connection is not HTTP. */
  readonly status: number;
  /** By name in lower case. */
  readonly headers: IncomingHttpHeaders;
  /** The body as UTF-8, up to the `replyBytesMax` of the call. */
  readonly body: string;
}

/** No complete reply was received. The message comes from the system or from TLS, such as `connect ECONNREFUSED 127.0.0.1:3000`. */
export class NoReply extends Error {
  /** Whether a connection was established, so that the service might have received the request. */
  readonly sent: boolean;
  /** The code of the system or of TLS, such as `ECONNREFUSED`; undefined for a timeout. */
  readonly code: string | undefined;

  constructor(error: NodeJS.ErrnoException, sent: boolean) {
    // If every address of a name failed, Node throws an AggregateError with an empty message.
    const [first] = (error as Partial<AggregateError>).errors ?? [];
    super(error.message || first?.message || error.code);
    this.sent = sent;
    this.code = error.code;
  }
}

/** A client with one connection at a time, kept alive for the next call. */
export interface HttpClient {
  /**
   * Sends a request and resolves with its reply, also with a redirect.
   * @throws NoReply; the error of TLS if there is no certificate in `ca`
   */
  call(url: URL, call: HttpCall): Promise<HttpReply>;
  /** Closes the connection. A call in flight throws NoReply. */
  close(): void;
}

export type OpenClient = typeof openClient;

/**
 * @returns a client that is not connected yet
 * @param protocol the protocol of every URL that is called, `http:` or `https:`
 * @param ca certificates (PEM) of the authorities that are trusted instead of the default ones of Node
 */
export function openClient(
  protocol: string,
  limits: Pick<Limits, 'keptMs' | 'replyBytesMax' | 'replyHeadBytesMax' | 'replyChunkBytes'>,
  ca?: string | undefined,
): HttpClient {
  // Loaded only if needed, since loading TLS takes time.
  const { Agent, request } = protocol === 'https:' ? process.getBuiltinModule('node:https') : http;
  const agent = new Agent({ keepAlive: true, maxSockets: 1, checkServerIdentity, ...(ca !== undefined && { ca }) });
  let keptUntilMs = 0;
  /** Bytes that may still arrive, and what ends the connection after them. Between two calls nothing may arrive. */
  let leftBytes = 0;
  const close = (socket: Duplex): void => void socket.destroy();
  let refuse = close;
  const watch = (socket: Duplex) =>
    socket.on('data', ({ length }: Buffer) => {
      leftBytes -= length + limits.replyChunkBytes;
      if (leftBytes < 0) refuse(socket);
    });

  function call(url: URL, { method, headers, token, body, timeoutMs, signal, ...more }: HttpCall): Promise<HttpReply> {
    const { replyBytesMax } = { ...limits, ...more };
    const secrets = secretsOf(token, more.secrets);
    // The service might be closing an idle connection, and then it is unknown whether a request on it was received.
    if (performance.now() > keptUntilMs) agent.destroy();
    return new Promise<HttpReply>((resolve, reject) => {
      let sent = false;
      const settle = () => {
        leftBytes = 0;
        refuse = close;
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      };
      const fail = (error: Error) => {
        settle();
        reject(noReply(error, sent, secrets));
      };
      const giveUp = (problem: string) => {
        const error = new Error(problem);
        // Rejects the promise here: the events of a destroyed request depend on its state and on the version of Node.
        fail(error);
        httpRequest.destroy(error);
      };
      const onTimeout = () => giveUp(`${sent ? 'no complete reply' : 'no connection'} within ${timeoutMs / 1000} s`);
      const onAbort = () => giveUp('the request was given up');
      const onConnect = () => {
        sent = true;
      };
      const onClose = () => fail(new Error('the connection was closed before the whole reply'));
      const httpRequest = request(url, { method, headers: headersWith(token, headers), agent }, (reply) => {
        const { statusCode: status = 0, headers } = reply;
        const chunks: Buffer[] = [];
        let bytes = 0;
        const finish = () => {
          settle();
          // After a 500 the reference implementation closes its connection without announcing it.
          keptUntilMs = status >= 500 ? 0 : performance.now() + limits.keptMs;
          const body = Buffer.concat(chunks).toString('utf8', 0, replyBytesMax);
          resolve(replyWithout(secrets, { status, headers, body }));
        };
        httpRequest.off('close', onClose); // from here on, the events of the reply give the more precise error
        reply.on('error', fail);
        reply.on('close', onClose);
        reply.on('end', finish);
        reply.on('data', (chunk: Buffer) => {
          chunks.push(chunk);
          bytes += chunk.length;
          if (bytes <= replyBytesMax) return;
          finish();
          reply.destroy();
        });
      });
      httpRequest.on('socket', (socket) => {
        const bytesMax = limits.replyHeadBytesMax + 2 * replyBytesMax; // chunks of a body have heads of their own
        leftBytes = bytesMax;
        refuse = () => giveUp(`more than ${bytesMax} bytes arrived`);
        if (httpRequest.reusedSocket) return onConnect();
        watch(socket);
        socket.once(protocol === 'https:' ? 'secureConnect' : 'connect', onConnect);
      });
      httpRequest.on('error', fail);
      // For a 101, Node emits 'upgrade' and then only 'close': the bytes that follow on the connection are not HTTP.
      httpRequest.on('upgrade', ({ statusCode = 0, headers }, socket) => {
        settle();
        socket.destroy();
        resolve(replyWithout(secrets, { status: statusCode, headers, body: '' }));
      });
      httpRequest.on('close', onClose);
      const timer = setTimeout(onTimeout, timeoutMs);
      signal?.addEventListener('abort', onAbort);
      if (signal?.aborted) onAbort();
      else httpRequest.end(body);
    });
  }

  return { call, close: () => agent.destroy() };
}

/** A GET request whose reply can be long. */
export interface OpenCall {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly token: TokenHeader | undefined;
  /** The media type of the long reply. */
  readonly accept: string;
  /** How long to wait for the connection, for the head of the reply, and for each further piece of a long reply. */
  readonly idleMs: number;
  /** Ends the request and its reply. */
  readonly signal: AbortSignal | undefined;
}

/** A 200 with the requested media type, as a stream; or any other reply, with its body up to `replyBytesMax`. */
export type OpenedReply =
  /** Reading throws if the connection breaks. */
  { readonly kind: 'long'; readonly chunks: AsyncIterable<Buffer> } | ({ readonly kind: 'short' } & HttpReply);

/** Sends a GET request on a connection of its own. @throws NoReply */
export function openReply(
  { url, headers, token, accept, idleMs, signal }: OpenCall,
  { replyBytesMax }: Pick<Limits, 'replyBytesMax'>,
): Promise<OpenedReply> {
  // Loaded only if needed, since loading TLS takes time.
  const { request } = url.protocol === 'https:' ? process.getBuiltinModule('node:https') : http;
  return new Promise((resolve, reject) => {
    let isConnected = false;
    const secrets = secretsOf(token);
    const all = headersWith(token, { ...headers, Accept: accept });
    const options = { headers: all, signal, timeout: idleMs, agent: false, checkServerIdentity };
    const fail = (error: Error) => {
      clearTimeout(timer);
      reject(noReply(error, isConnected, secrets));
    };
    const onClose = () => fail(new Error('the connection was closed before the reply'));
    const onTimeout = () => httpRequest.destroy(new Error(`no data arrived within ${idleMs / 1000} s`));
    const httpRequest = request(url, options, (reply) => {
      const { statusCode: status = 0, headers } = reply;
      if (status === 200 && headers['content-type']?.startsWith(accept)) {
        clearTimeout(timer);
        return resolve({ kind: 'long', chunks: reply });
      }
      httpRequest.off('close', onClose); // `readStart` closes it after `replyBytesMax`
      return readStart(reply, replyBytesMax).then((body) => {
        clearTimeout(timer);
        resolve({ kind: 'short', ...replyWithout(secrets, { status, headers, body }) });
      }, fail);
    });
    // No idle timeout: a service that sends a byte of a head now and then does not extend it.
    let timer = setTimeout(onTimeout, idleMs);
    httpRequest.on('socket', (socket) =>
      socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => {
        isConnected = true;
        clearTimeout(timer);
        timer = setTimeout(onTimeout, idleMs);
      }),
    );
    httpRequest.on('timeout', onTimeout);
    httpRequest.on('error', fail);
    httpRequest.on('close', onClose);
    httpRequest.end();
  });
}

/** @returns the first bytes of a reply as UTF-8; the rest is not read @throws Error if the connection breaks before */
async function readStart(reply: IncomingMessage, bytesMax: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of reply) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > bytesMax) break;
  }
  return Buffer.concat(chunks).toString('utf8', 0, bytesMax);
}

function headersWith(
  token: TokenHeader | undefined,
  headers: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return { ...headers, ...(token !== undefined && { [token.name]: token.token }) };
}

function secretsOf(token: TokenHeader | undefined, others: readonly string[] = []): readonly string[] {
  return token === undefined ? others : [token.token, ...others];
}

/** Every reply goes through this function, except events and assets, so that no caller prints the token. */
function replyWithout(secrets: readonly string[], reply: HttpReply): HttpReply {
  if (secrets.length === 0) return reply;
  const { status, headers, body } = reply;
  const mask = (text: string) => secrets.reduce(maskToken, text);
  const masked = Object.entries(headers).map(([name, value]) => [
    name,
    typeof value === 'string' ? mask(value) : value?.map(mask),
  ]);
  return { status, headers: Object.fromEntries(masked), body: mask(body) };
}

function noReply(error: NodeJS.ErrnoException, sent: boolean, secrets: readonly string[]): NoReply {
  error.message = secrets.reduce(maskToken, error.message);
  return new NoReply(error, sent);
}

/** Like `checkServerIdentity` of `node:tls`, which in some versions of Node, such as 22.23, finds no IPv6 address in a certificate. */
export function checkServerIdentity(host: string, certificate: PeerCertificate): Error | undefined {
  const problem = process.getBuiltinModule('node:tls').checkServerIdentity(host, certificate);
  const isProved = problem !== undefined && host.includes(':') && new X509Certificate(certificate.raw).checkIP(host);
  return isProved ? undefined : problem;
}
