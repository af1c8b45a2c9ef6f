/** The requests to one destination over HTTP: its URL, token, headers and CA. */

import { isLocal } from '../../client/base-url.ts';
import {
  type HttpCall,
  type HttpClient,
  type HttpReply,
  NoReply,
  openClient,
  type ProxyRoute,
} from '../../client/connection.ts';
import { isChallenge, isTokenLimit, retryAfterMs } from '../../client/delivery.ts';
import { version } from '../../config/names.ts';
import { loginHint, notSent, problemOf, quoteAnswer, readObject, type Said, turnedAway, unreached } from './answers.ts';
import { type CredentialFiles, Credentials } from './credentials.ts';
import type { Again, Opening, Stopped } from './destination.ts';

/** The settings of a destination, and of the service, that requests need. */
export interface HttpOptions extends CredentialFiles, Pick<Opening, 'to' | 'tokenHeader' | 'openClient' | 'limits'> {
  /** Texts that are masked in each reply, like the token. */
  readonly secrets?: readonly string[];
  /** How long an idle connection is kept; `limits.keptMs` by default. */
  readonly keptMs?: number;
}

/** The result of a request. `reason` is a clause about the destination: `answers 404: no such path`. */
export type Answer =
  /** Any status without a case of its own; `said` is its body, if that is a JSON object. */
  | { readonly kind: 'answer'; readonly status: number; readonly said: Said | undefined; readonly reason: string }
  /** 5xx, or no complete reply: the request might have been carried out. */
  | { readonly kind: 'unclear'; readonly status?: number; readonly reason: string }
  | Again
  | Stopped;

/** One request, without the parts that all requests have in common. */
export interface HttpRequest extends Pick<HttpCall, 'method' | 'headers' | 'body'> {
  /** Appended to the base URL. */
  readonly path: string;
  readonly signal: AbortSignal;
}

/**
 * Sends requests to one destination, one at a time, over one connection.
 * @template Own results that only this kind of destination has
 */
export class HttpRequests<Own extends { readonly kind: string } = never> {
  readonly #options: HttpOptions;
  readonly #base: URL;
  readonly #credentials: Credentials;
  readonly #judgeOwn: (reply: HttpReply) => Own | undefined;
  #client: HttpClient | undefined;
  /** The CA with which it was opened. */
  #ca: string | undefined;
  #proxyUrl: string | undefined;
  #route: ProxyRoute | undefined;

  /**
   * @param judgeOwn called first with each reply; returns undefined for a reply with the general meaning
   * @throws TypeError if `to` is not a URL
   */
  constructor(options: HttpOptions, judgeOwn: (reply: HttpReply) => Own | undefined = () => undefined) {
    this.#options = options;
    this.#base = new URL(options.to);
    this.#credentials = new Credentials(options, options.limits);
    this.#judgeOwn = judgeOwn;
  }

  haveFilesChanged(signal: AbortSignal): Promise<boolean> {
    return this.#credentials.haveChanged(signal);
  }

  /** Sends a request to the destination and nowhere else: redirects are not followed. Does not throw. */
  async send(call: HttpRequest): Promise<Answer | Own> {
    const answer = await this.#send(call).catch((error: Error) => this.#judgeError(error));
    if (answer.kind === 'stopped') this.#credentials.forget();
    return answer;
  }

  async #send({ path, headers, ...call }: HttpRequest): Promise<Answer | Own> {
    const { tokenHeader, secrets = [], limits } = this.#options;
    const { origin, pathname } = this.#base;
    const { password, token = password, headers: own, ca, proxy } = await this.#credentials.read(call.signal);
    if (proxy !== undefined && !isLocal(this.#base.hostname)) await this.#goThrough(proxy);
    const client = this.#connect(ca);
    const reply = await client.call(new URL(`${origin}${pathname.replace(/\/+$/, '')}${path}`), {
      ...call,
      headers: { 'User-Agent': `assetlog/${version}`, ...own, ...headers },
      token: token === undefined ? undefined : { name: tokenHeader, token },
      secrets: [...secrets, ...Object.values(own).flatMap(partsOf)],
      timeoutMs: limits.forwardRequestMs,
    });
    return this.#judgeOwn(reply) ?? this.#judge(reply);
  }

  close(): void {
    this.#client?.close();
  }

  async #goThrough(proxy: string): Promise<void> {
    if (proxy === this.#proxyUrl) return;
    this.#route = (await import('../../client/proxy.ts')).openProxy(proxy);
    this.#proxyUrl = proxy;
    this.#client?.close();
    this.#client = undefined;
  }

  #connect(ca: string | undefined): HttpClient {
    if (this.#client === undefined || ca !== this.#ca) {
      this.#client?.close();
      const { limits, keptMs = limits.keptMs, openClient: open = openClient } = this.#options;
      this.#client = open(this.#base.protocol, { ...limits, keptMs }, ca, this.#route);
      this.#ca = ca;
    }
    return this.#client;
  }

  #judge(reply: HttpReply): Answer {
    const { status, headers, body } = reply;
    const said = readObject(body);
    const text = typeof said?.['error'] === 'string' ? said['error'] : body;
    // A page of the proxy looks like a page of the destination.
    const way = this.#route === undefined || said !== undefined ? '' : ` through ${this.#route.name}`;
    const reason = `answers ${status}${way}: ${quoteAnswer(text) || 'nothing'}`;
    // The text of an assetlog is left out, since it is for authors of clients and lists every path.
    const also = this.#options.headers === undefined ? '' : ', or check headers';
    const hint = `${loginHint(this.#options, 'a token file')}${also}`;
    if (status === 401 && isChallenge(headers)) {
      const { to } = this.#options;
      if (this.#base.pathname !== '/') return turnedAway(`answers 401 for the deployment in ${to}; ${hint}`);
      return turnedAway(`answers 401, and its URL lacks the deployment; add the name, as in ${new URL('prod', to)}`);
    }
    if (status === 401 || isTokenLimit(reply)) return turnedAway(`${reason}; ${hint}`);
    if (status === 403) return turnedAway(`${reason}; check the URL, and what this login may do${also}`);
    const { location } = headers;
    if (status >= 300 && status < 400 && location !== undefined) {
      return turnedAway(
        `answers ${status}: it is at ${quoteAnswer(location)} now; give that URL if it is the right one${also}`,
      );
    }
    if (status === 408 || status === 429 || status === 503) {
      return { kind: 'again', reason, afterMs: retryAfterMs(headers) || undefined };
    }
    return status >= 500 ? { kind: 'unclear', status, reason } : { kind: 'answer', status, said, reason };
  }

  /** @param error `NoReply`, or the error of reading a file or a certificate */
  #judgeError(error: Error): Answer {
    if (!(error instanceof NoReply)) return notSent(error);
    const { sent, code } = error;
    if (!sent) return unreached(error, this.#options);
    return { kind: 'unclear', reason: `sent no complete reply: ${problemOf(code, quoteAnswer(error.message))}` };
  }
}

/**
 * @returns the parts of a header's value that are masked, since a server might include `Bearer a…` in its reply without
 * the first word
 */
function partsOf(value: string): string[] {
  return [value, ...value.split(' ')];
}
