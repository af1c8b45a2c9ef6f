/** An HTTP client for commands that call a service. It sends each request once; retries are left to the caller. */

import { X509Certificate } from 'node:crypto';
import http, { type IncomingHttpHeaders, type IncomingMessage, type RequestOptions } from 'node:http';
import type https from 'node:https';
import type { Agent, AgentOptions } from 'node:https';
import type { Duplex } from 'node:stream';
import type { ConnectionOptions, PeerCertificate } from 'node:tls';
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
   * Timeout of the whole call: name resolution, connecting, sending, and the reply to its last byte. It is not an idle timeout,
   * so a service that sends a byte from time to time does not extend it.
   */
  readonly timeoutMs: number;
  /** Bytes of the reply's body that are read; `limits.replyBytesMax` by default. */
  readonly replyBytesMax?: number;
  /** Ends the call, which then throws NoReply. */
  readonly signal?: AbortSignal;
}

/** A complete reply without the token of its request. */
export interface HttpReply {
  /** Never a 1xx except 101, after which the connection is not HTTP. */
  readonly status: number;
  /** Headers by name in lower case. */
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
    super(messageOf(error));
    this.sent = sent;
    this.code = error.code;
  }
}

/** The code of a NoReply if a proxy refuses to pass requests on. */
export const PROXY_REFUSED = 'ERR_PROXY_REFUSED';

/** The route from one client to a service: direct, or through a proxy that `client/proxy.ts` sets up. */
export interface ProxyRoute {
  /** `the proxy http://proxy.example:3128`, without user and password; empty for a direct route. */
  readonly name: string;
  /** Texts that are masked in replies and errors. */
  readonly secrets: readonly string[];
  /** Connects for TLS, like `createConnection` of an agent. */
  readonly connect?: (options: ConnectionOptions, done: (error: Error | null, socket?: unknown) => void) => void;
  /** @returns the options of a request */
  options(url: URL, own: RequestOptions): RequestOptions;
  /** @returns the error, with PROXY_REFUSED, for a reply with which a proxy refuses a request */
  refusal(url: URL, reply: IncomingMessage): Error | undefined;
  /**
   * @returns the prefix of an error: `the proxy …: ` if the error occurred before the proxy had connected. @param sent
   * see `NoReply.sent`
   */
  prefix(url: URL, sent: boolean): string;
  /** Ends all open requests. */
  close(): void;
}

const direct: ProxyRoute = {
  name: '',
  secrets: [],
  options: (_url, own) => own,
  refusal: () => undefined,
  prefix: () => '',
  close: () => {},
};

/** A client with one connection at a time, kept alive for the next call. */
export interface HttpClient {
  /**
   * Sends a request and resolves with its reply, which can be a redirect.
   * @throws NoReply; the error of TLS if `ca` contains no certificate
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
 * @param route used only by this client
 */
export function openClient(
  protocol: string,
  limits: Limits,
  ca?: string | undefined,
  route: ProxyRoute = direct,
): HttpClient {
  const { request } = moduleOf(protocol);
  const agent = agentOf(protocol, { keepAlive: true, keepAliveMsecs: limits.aliveProbeMs, maxSockets: 1, ca }, route);
  let keptUntilMs = 0;
  /**
   * Number of bytes that can still arrive, and the function that ends the connection after them. Between two calls no
   * byte may arrive.
   */
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
    const secrets = [...secretsOf(token, more.secrets), ...route.secrets];
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
        reject(noReply(error, sent, secrets, route, url));
      };
      const giveUp = (error: Error) => {
        route.close();
        // Rejects the promise here: the events of a destroyed request depend on its state and on the version of Node.
        fail(error);
        httpRequest.destroy(error);
      };
      const onTimeout = () => giveUp(late(sent, timeoutMs));
      const onAbort = () => giveUp(new Error('the request was given up'));
      const onConnect = () => {
        sent = true;
      };
      const onClose = () => fail(new Error('the connection was closed before the reply was complete'));
      const own = { method, headers: headersWith(token, headers), agent };
      const httpRequest = request(url, route.options(url, own), (reply) => {
        const { statusCode: status = 0, headers } = reply;
        const refusal = route.refusal(url, reply);
        if (refusal !== undefined) return giveUp(refusal);
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
        const bytesMax = limits.replyHeadBytesMax + 2 * replyBytesMax; // each chunk of a body has a head too
        leftBytes = bytesMax;
        refuse = () => giveUp(new Error(`more than ${bytesMax} bytes arrived`));
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

  return { call, close: () => void [route.close(), agent.destroy()] };
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
  readonly route?: ProxyRoute | undefined;
}

/** A 200 with the requested media type, as a stream; or any other reply, with its body up to `replyBytesMax`. */
export type OpenedReply =
  /** Reading throws if the connection breaks. */
  { readonly kind: 'long'; readonly chunks: AsyncIterable<Buffer> } | ({ readonly kind: 'short' } & HttpReply);

/** Sends a GET request on a separate connection. @throws NoReply */
export function openReply(
  { url, headers, token, accept, idleMs, signal, route = direct }: OpenCall,
  { replyBytesMax }: Limits,
): Promise<OpenedReply> {
  const { request } = moduleOf(url.protocol);
  return new Promise((resolve, reject) => {
    let isConnected = false;
    const secrets = [...secretsOf(token), ...route.secrets];
    const all = headersWith(token, { ...headers, Accept: accept });
    const options = { headers: all, signal, timeout: idleMs, agent: agentOf(url.protocol, {}, route) };
    const fail = (error: Error) => {
      clearTimeout(timer);
      route.close();
      reject(noReply(error, isConnected, secrets, route, url));
    };
    const onClose = () => fail(new Error('the connection was closed before the reply'));
    const onTimeout = () => {
      const error = new Error(`no data arrived within ${idleMs / 1000} s`);
      if (!isConnected) fail(error); // a request without a connection emits no error before it has one
      httpRequest.destroy(error);
    };
    const httpRequest = request(url, route.options(url, options), (reply) => {
      const { statusCode: status = 0, headers } = reply;
      const refusal = route.refusal(url, reply);
      if (refusal !== undefined) {
        fail(refusal);
        return void reply.destroy();
      }
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
    // Not an idle timeout: a service that sends a byte of a head from time to time does not extend it.
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

function late(sent: boolean, timeoutMs: number): Error {
  return new Error(`${sent ? 'no complete reply' : 'no connection'} within ${timeoutMs / 1000} s`);
}

/** Loaded only if needed, since loading TLS takes time. */
function moduleOf(protocol: string): Pick<typeof https, 'request' | 'Agent'> {
  return protocol === 'https:' ? process.getBuiltinModule('node:https') : (http as never);
}

function agentOf(protocol: string, options: AgentOptions, { connect }: ProxyRoute): Agent {
  const agent = new (moduleOf(protocol).Agent)({ checkServerIdentity, ...options });
  return protocol === 'https:' && connect ? Object.assign(agent, { createConnection: connect }) : agent;
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

function noReply(
  error: NodeJS.ErrnoException,
  isConnected: boolean,
  secrets: readonly string[],
  route: ProxyRoute,
  url: URL,
): NoReply {
  const sent = isConnected && error.code !== PROXY_REFUSED; // a request that a proxy refuses did not reach the service
  error.message = secrets.reduce(maskToken, `${route.prefix(url, sent)}${messageOf(error)}`);
  return new NoReply(error, sent);
}

/** If every address of a name failed, Node throws an AggregateError with an empty message. */
function messageOf(error: NodeJS.ErrnoException): string | undefined {
  const [first] = (error as Partial<AggregateError>).errors ?? [];
  return error.message || first?.message || error.code;
}

/** Like `checkServerIdentity` of `node:tls`, which in some versions of Node, such as 22.23, finds no IPv6 address in a certificate. */
export function checkServerIdentity(host: string, certificate: PeerCertificate): Error | undefined {
  const problem = process.getBuiltinModule('node:tls').checkServerIdentity(host, certificate);
  const isProved = problem !== undefined && host.includes(':') && new X509Certificate(certificate.raw).checkIP(host);
  return isProved ? undefined : problem;
}
