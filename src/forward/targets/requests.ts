/** The requests to one destination: its URL, token and CA, and what an answer means whatever the kind of the destination. */

import {
  type HttpCall,
  type HttpClient,
  type HttpReply,
  NoReply,
  type OpenClient,
  openClient,
} from '../../client/connection.ts';
import { isChallenge, isTlsError, isTokenLimit, onOneLine, retryAfterMs } from '../../client/delivery.ts';
import { version } from '../../config/config.ts';
import type { Limits } from '../../config/limits.ts';
import type { Deployment, Destination } from '../destination.ts';
import { isId } from '../source.ts';
import type { Again, Position, Sent, Stopped } from '../target.ts';
import { Credentials } from './credentials.ts';

export interface TargetOptions
  extends Pick<
    Destination,
    'to' | 'hookPath' | 'tokenFile' | 'tokenHeader' | 'user' | 'passwordFile' | 'caFile' | 'stamp'
  > {
  /** The id of the journal that is forwarded. */
  readonly source: string;
  /** What the service calls itself at a hub. */
  readonly sourceName?: string | undefined;
  /** That of the journal. */
  readonly deployment?: Deployment;
  /** What is masked in each reply besides the token. */
  readonly secrets?: readonly string[];
  /** The journals that wait for what a hub says of `via`, its own last; undefined for a sender. */
  readonly asking?: readonly string[];
  /** Called with the ids of the journals that a hub said its events reach, whenever it answers. */
  readonly onVia?: (via: readonly string[]) => void;
  /** That of `client/connection.ts` if it is absent. */
  readonly openClient?: OpenClient | undefined;
  readonly limits: Limits;
}

/** What a request came to. `reason` is a clause about the destination: `answers 404: no such path`. */
export type Answer =
  /** Any status that is in no other case; `said` is its body, if that is a JSON object. */
  | { readonly kind: 'answer'; readonly status: number; readonly said: Said | undefined; readonly reason: string }
  /** 5xx, or no complete reply: the request may have done what it asks for. */
  | { readonly kind: 'unclear'; readonly status?: number; readonly reason: string }
  | Again
  | Stopped;

/** The members of a JSON object. */
export type Said = Readonly<Record<string, unknown>>;

/** One request, without what all requests have in common. */
export interface TargetCall extends Pick<HttpCall, 'method' | 'headers' | 'body'> {
  /** Appended to the base URL. */
  readonly path: string;
  readonly signal: AbortSignal;
}

/**
 * Sends requests to one destination, one at a time, over one connection.
 * @template Own what only replies of this kind of destination mean
 */
export class Requests<Own extends { readonly kind: string } = never> {
  readonly #options: TargetOptions;
  readonly #base: URL;
  readonly #credentials: Credentials;
  readonly #judgeOwn: (reply: HttpReply) => Own | undefined;
  #client: HttpClient | undefined;
  #ca: string | undefined;

  /**
   * @param judgeOwn called with each reply first; undefined for one that means what it means to every kind
   * @throws TypeError if `to` is no URL
   */
  constructor(options: TargetOptions, judgeOwn: (reply: HttpReply) => Own | undefined = () => undefined) {
    this.#options = options;
    this.#base = new URL(options.to);
    this.#credentials = new Credentials(options, options.limits);
    this.#judgeOwn = judgeOwn;
  }

  haveFilesChanged(): Promise<boolean> {
    return this.#credentials.haveChanged();
  }

  /** Sends a request to the destination and nowhere else: a redirect is not followed. Does not throw. */
  async send(call: TargetCall): Promise<Answer | Own> {
    const answer = await this.#send(call).catch((error: Error) => this.#judgeError(error));
    if (answer.kind === 'stopped') this.#credentials.forget();
    return answer;
  }

  async #send({ path, headers, ...call }: TargetCall): Promise<Answer | Own> {
    const { tokenHeader, secrets, limits } = this.#options;
    const { origin, pathname } = this.#base;
    const { password, token = password, ca } = await this.#credentials.read();
    const client = this.#connect(ca);
    const reply = await client.call(new URL(`${origin}${pathname.replace(/\/+$/, '')}${path}`), {
      ...call,
      headers: { 'User-Agent': `assetlog/${version}`, ...headers },
      token: token === undefined ? undefined : { name: tokenHeader, token },
      secrets,
      timeoutMs: limits.forwardRequestMs,
    });
    return this.#judgeOwn(reply) ?? this.#judge(reply);
  }

  close(): void {
    this.#client?.close();
  }

  #connect(ca: string | undefined): HttpClient {
    if (this.#client === undefined || ca !== this.#ca) {
      this.#client?.close();
      this.#client = (this.#options.openClient ?? openClient)(this.#base.protocol, this.#options.limits, ca);
      this.#ca = ca;
    }
    return this.#client;
  }

  #judge(reply: HttpReply): Answer {
    const { status, headers, body } = reply;
    const said = readObject(body);
    const text = typeof said?.['error'] === 'string' ? said['error'] : body;
    const reason = `answers ${status}: ${quote(text) || 'nothing'}`;
    // The text of an assetlog is for authors of clients: it lists every path.
    const hint = loginHint(this.#options) ?? 'it wants a token; name a token file';
    if (status === 401 && isChallenge(headers))
      return turnedAway(`answers 401 for the deployment in ${this.#options.to}; ${hint}`);
    if (status === 401 || isTokenLimit(reply)) return turnedAway(`${reason}; ${hint}`);
    if (status === 403) return turnedAway(`${reason}; check the URL, and what the token may do`);
    const { location } = headers;
    if (status >= 300 && status < 400 && location !== undefined) {
      return turnedAway(`answers ${status}: it is at ${quote(location)} now; give that URL if it is the right one`);
    }
    if (status === 408 || status === 429 || status === 503) {
      return { kind: 'again', reason, afterMs: retryAfterMs(headers) || undefined };
    }
    return status >= 500 ? { kind: 'unclear', status, reason } : { kind: 'answer', status, said, reason };
  }

  /** @param error `NoReply`, or that of reading a file or a certificate */
  #judgeError(error: Error): Answer {
    if (!(error instanceof NoReply)) return turnedAway(`no request was sent: ${onOneLine(error.message)}`);
    const { sent, code } = error;
    const problem = isTlsError(code) ? tlsProblem(code, quote(error.message)) : quote(error.message);
    return sent ? { kind: 'unclear', reason: `sent no complete reply: ${problem}` } : unreached(error, this.#options);
  }
}

/** @returns what to do about a login that was refused; undefined if there is no file with one */
export function loginHint({ tokenFile, passwordFile }: TargetOptions): string | undefined {
  if (passwordFile !== undefined) return `check the user, and the password in ${passwordFile}`;
  return tokenFile && `check the token in ${tokenFile}`;
}

/** @returns the line that a destination names; undefined unless it has a seq above 0 and an id */
export function positionOf({ seq, id }: Said = {}): Position | undefined {
  return Number.isSafeInteger(seq) && (seq as number) > 0 && isId(id) ? { seq: seq as number, id } : undefined;
}

/** Text from a server may have any length. It is cut between words. */
export function quote(text: string): string {
  if (text.length <= QUOTED_CHARACTERS_MAX) return onOneLine(text);
  return `${onOneLine(text.slice(0, QUOTED_CHARACTERS_MAX).replace(/\s\S*$/, ''))} …`;
}

export function turnedAway(reason: string): Stopped {
  return { kind: 'stopped', why: 'turned away', reason };
}

/** @returns what an answer means to every kind of destination that sent lines and does not know its status: 404 is the wrong URL */
export function otherwise({ status, reason }: { readonly status: number; readonly reason: string }): Sent & Stopped {
  if (status < 300) return { kind: 'stopped', why: 'not understood', reason: `${reason}; check the URL` };
  return turnedAway(`${reason}; check the URL, and a proxy in front of it`);
}

/** @returns what it means that no connection to a destination was established */
export function unreached(
  { message, code }: Pick<NoReply, 'message' | 'code'>,
  { caFile }: Pick<TargetOptions, 'caFile'>,
): Again | Stopped {
  if (!isTlsError(code)) return { kind: 'again', reason: `cannot be reached: ${quote(message)}` };
  return turnedAway(`cannot be reached: ${tlsProblem(code, quote(message))}; ${tlsHint(code, caFile)}`);
}

function tlsHint(code = '', caFile: string | undefined): string {
  if (/EXPIRED|NOT_YET/.test(code)) {
    return `renew its certificate, or set the clock of this machine, which is at ${new Date().toISOString()}`;
  }
  if (/ALTNAME/.test(code)) return 'use a name that its certificate has, unless a captive portal is in between';
  if (/SSL|EPROTO/.test(code)) return 'is it an http:// address, or is a captive portal in between?';
  return caFile === undefined ? 'name a CA file that has the certificate of its CA' : `check that ${caFile} has its CA`;
}

/** @returns an error of TLS in a few words, without the lines of OpenSSL */
function tlsProblem(code = '', message: string): string {
  const [, detail] = /:SSL routines:[^:]*:([^:]+)/.exec(message) ?? /altnames: (.*?):?$/.exec(message) ?? [];
  const [, problem] = TLS_PROBLEMS.find(([pattern]) => pattern.test(`${code} ${detail}`)) ?? [];
  if (problem === undefined) return message;
  return detail === undefined ? problem : `${problem} (${detail})`;
}

/** The first that the code, or what OpenSSL says, matches. */
const TLS_PROBLEMS: readonly (readonly [RegExp, string])[] = [
  [/ALTNAME/, 'its certificate is not for this name'],
  [/EXPIRED/, 'its certificate has expired'],
  [/NOT_YET/, 'its certificate is not yet valid'],
  [/SELF_SIGNED|ISSUER|LEAF|UNTRUSTED/, 'its certificate is of no authority that is trusted here'],
  [/ alert /, 'it ends the TLS handshake'],
  [/SSL|EPROTO/, 'it does not speak TLS'],
];

/** @returns undefined for what is no JSON object */
export function readObject(body: string): Said | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Said) : undefined;
  } catch {
    return undefined; // the page of a proxy
  }
}

/** What a destination says that has no event of the journal. */
export const NOTHING: Position = { seq: 0, id: null };
const QUOTED_CHARACTERS_MAX = 200;
