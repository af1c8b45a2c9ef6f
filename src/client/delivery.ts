/** Sends a request with reports to a service, with retries, and returns the outcome. Retries only if that records nothing twice. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import { printable } from '../telemetry/printable.ts';
import { type HttpReply, NoReply } from './connection.ts';

/** What became of one report: `{ kind: 'recorded' }`, or `{ kind: 'refused', reason: 'answers 400: passed is missing' }`. */
export type Delivery = { readonly kind: 'recorded' } | Failure;

/**
 * Why a request was not accepted. `reason` is a clause about the service, such as `answers 400: passed is missing`, on one line
 * and without control characters.
 */
export type Failure =
  /** The service refused this request; it may accept others. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** The service would refuse every report: the URL or the token is wrong. */
  | { readonly kind: 'misconfigured'; readonly reason: string }
  | InDoubt
  /** Neither accepted nor refused within `retryForMs`. */
  | { readonly kind: 'unavailable'; readonly reason: string };

/**
 * It is unknown whether the request was recorded: a retry could record it twice. For example
 * `{ kind: 'in doubt', reason: 'sent no complete reply: socket hang up' }`.
 */
export interface InDoubt {
  readonly kind: 'in doubt';
  /** A clause about the service, as in `Failure`. */
  readonly reason: string;
}

/**
 * The request may be sent again: the service recorded nothing of it, or never received it. For example
 * `{ kind: 'again', reason: 'answers 503: the disk is full', afterMs: 1_000 }`.
 */
export interface Again {
  readonly kind: 'again';
  /** A clause about the service, as in `Failure`. */
  readonly reason: string;
  /** The service's Retry-After (RFC 9110 section 10.2.3) in ms; 0 if it sent none. */
  readonly afterMs: number;
}

/** When to send a request again, and how long to keep trying: `{ retryForMs: 60_000, stopped, limits, onWait }`. */
export interface RetryPolicy {
  /** Time in ms from the first attempt to the last one; with 0 there is one attempt. */
  readonly retryForMs: number;
  /** Ends the wait for the next attempt; the result is then `unavailable`. */
  readonly stopped: AbortSignal;
  /** The first pause between two attempts and the longest one: 250 and 10,000 ms. */
  readonly limits: Pick<Limits, 'retryMs' | 'retryMsMax'>;
  /** Called before each wait, for progress: `answers 503: the disk is full`, 250. */
  readonly onWait: (reason: string, waitMs: number) => void;
}

/**
 * Whether a request that may have been recorded may be sent again, since it would not be recorded twice: `{ kind: 'no' }` for a
 * report without an idempotency key.
 */
export type Permission = { readonly kind: 'yes' } | { readonly kind: 'no' } | Again;

/** One request with reports: `{ attempt, accept: acceptReport, mayRepeat: async () => ({ kind: 'no' }) }`. */
export interface Request<Accepted> {
  /** Sends the request once; throws only NoReply. */
  readonly attempt: () => Promise<HttpReply>;
  /** @returns what a reply means, if that differs from other requests: what counts as success. Undefined otherwise. */
  readonly accept: (reply: HttpReply) => Accepted | InDoubt | undefined;
  /** Called when it is in doubt whether the request was recorded; `again` if that cannot be found out now. */
  readonly mayRepeat: () => Promise<Permission>;
}

/**
 * Sends a request, and again while that cannot record anything twice.
 * @returns what `accept` returns, such as `{ kind: 'recorded' }`, or the failure; `in doubt` if any attempt may have been
 *   recorded and no later one showed it
 */
export async function deliver<Accepted extends { readonly kind: string }>(
  { attempt, accept, mayRepeat }: Request<Accepted>,
  policy: RetryPolicy,
): Promise<Accepted | Failure> {
  const untilMs = performance.now() + policy.retryForMs;
  let doubt: InDoubt | undefined;
  const permission = async (): Promise<Permission> => (performance.now() < untilMs ? mayRepeat() : { kind: 'no' });
  const once = async (): Promise<Accepted | Failure | Again> => {
    if (doubt !== undefined) {
      const may = await permission();
      if (may.kind === 'again') return may;
      if (may.kind === 'no' || performance.now() > untilMs) return doubt;
    }
    const found = await attempt().then((reply) => accept(reply) ?? judge(reply), judgeNoReply);
    if (found.kind !== 'in doubt') return found;
    doubt = found as InDoubt;
    const may = await permission();
    if (may.kind === 'no') return doubt;
    return { kind: 'again', reason: doubt.reason, afterMs: may.kind === 'again' ? may.afterMs : 0 };
  };
  const found = await retry(once, policy, untilMs);
  const isOpen = found.kind === 'unavailable' || found.kind === 'misconfigured';
  return isOpen && doubt !== undefined ? doubt : found;
}

/**
 * Calls a function until its result is final: with exponential backoff and jitter between attempts, at least the Retry-After of
 * the last reply (RFC 9110 section 10.2.3).
 * @param untilMs when the last attempt begins, on the clock of `performance.now()`
 * @returns the result of the last call; if that was `again`, `{ kind: 'unavailable', reason: 'answers 503: the disk is full' }`
 */
export async function retry<Found extends { readonly kind: string }>(
  once: () => Promise<Found | Again>,
  { retryForMs, stopped, limits, onWait }: RetryPolicy,
  untilMs = performance.now() + retryForMs,
): Promise<Found | Failure> {
  for (let pauseMs = limits.retryMs; ; pauseMs = Math.min(2 * pauseMs, limits.retryMsMax)) {
    const found = await once();
    if (!isAgain(found)) return found;
    const { reason, afterMs } = found;
    const leftMs = untilMs - performance.now();
    const away: Failure = { kind: 'unavailable', reason };
    if (leftMs <= 0 || stopped.aborted) return away;
    if (afterMs > leftMs) {
      return {
        kind: 'unavailable',
        reason: `${reason}; its Retry-After of ${Math.ceil(afterMs / 1000)} s is longer than --retry-for allows`,
      };
    }
    // Jitter: clients that were refused at the same time do not retry at the same time.
    const waitMs = Math.min(afterMs + (pauseMs * (1 + Math.random())) / 2, leftMs);
    onWait(reason, waitMs);
    await sleep(waitMs, undefined, { signal: stopped }).catch(() => {}); // aborted
    if (stopped.aborted) return away;
  }
}

function isAgain(found: { readonly kind: string }): found is Again {
  return found.kind === 'again';
}

/**
 * What counts as success for one report: 200 and a JSON object without `error`, since the page of another server is no success.
 * @returns `{ kind: 'recorded' }` for a 200 with the body `{}`; undefined if it is no success
 */
export function acceptReport({ status, body }: HttpReply): { readonly kind: 'recorded' } | undefined {
  return status === 200 && errorIn(body) === undefined ? { kind: 'recorded' } : undefined;
}

/**
 * @returns what a reply means that is no success, whatever the request was: for a 503 with `Retry-After: 1` it is
 *   `{ kind: 'again', reason: 'answers 503: the disk is full', afterMs: 1_000 }`
 */
export function judge({ status, headers, body }: HttpReply): Failure | Again {
  const reason = `answers ${status}: ${errorIn(body) ?? 'no error'}`;
  if (isTokenLimit({ status, headers })) {
    return {
      kind: 'misconfigured',
      reason: `${reason}; a valid token is never limited, so this one is wrong or missing`,
    };
  }
  if (SAFE.has(status)) return { kind: 'again', reason, afterMs: retryAfterMs(headers) };
  if (status >= 500) return { kind: 'in doubt', reason };
  if (status >= 400 && !FOR_ALL.has(status)) return { kind: 'refused', reason };
  const { location } = headers;
  if (location !== undefined) {
    return { kind: 'misconfigured', reason: `answers ${status}: it is at ${onOneLine(location)} now` };
  }
  return { kind: 'misconfigured', reason: status < 400 ? `${reason}; is this the right address?` : reason };
}

/**
 * assetlog answers 429 only to requests without a valid token, and sends the challenge of its 401 with it: other credentials
 * would change the reply (RFC 9110 section 11.6.1). The 429 of another server is a rate limit, and is retried.
 * @returns whether the reply is such a 429, as with `WWW-Authenticate: Bearer realm="assetlog"`
 */
export function isTokenLimit({ status, headers }: Pick<HttpReply, 'status' | 'headers'>): boolean {
  return status === 429 && isChallenge(headers);
}

/** @returns whether a reply has the challenge of an assetlog, as its 401s have */
export function isChallenge(headers: HttpReply['headers']): boolean {
  return /\brealm="assetlog"/.test(headers['www-authenticate'] ?? '');
}

/** Statuses after which a retry is safe: request timeout, rate limit, full queue. */
const SAFE: ReadonlySet<number> = new Set([408, 429, 503]);
/** Statuses that do not depend on the report, but on the token, the host name or the path. */
const FOR_ALL: ReadonlySet<number> = new Set([401, 403, 404, 405]);

/**
 * @returns what it means that there was no complete reply:
 *   `{ kind: 'again', reason: 'cannot be reached: connect ECONNREFUSED 127.0.0.1:3000', afterMs: 0 }`
 * @throws what is not a NoReply
 */
export function judgeNoReply(error: unknown): Failure | Again {
  if (!(error instanceof NoReply)) throw error;
  const { message, code = '', sent } = error;
  if (sent) return { kind: 'in doubt', reason: `sent no complete reply: ${message}` };
  // Errors before the connection was established are temporary, except those of TLS: a service or a network may come up.
  const reason = `cannot be reached: ${onOneLine(message)}`;
  if (!isTlsError(code)) return { kind: 'again', reason, afterMs: 0 };
  const untrusted = /SIGN|ISSUER/.test(code) ? '; for a private CA set NODE_EXTRA_CA_CERTS' : '';
  const hint = /SSL|EPROTO/.test(code) ? '; is it an http:// address?' : untrusted;
  return { kind: 'misconfigured', reason: `${reason}${hint}` };
}

/** @returns whether an error is one of TLS, such as `CERT_HAS_EXPIRED`, and not of the network below it, such as `ECONNRESET` */
export function isTlsError(code = ''): boolean {
  return /CERT|SIGNATURE|SSL|TLS|EPROTO/.test(code);
}

/** @returns the error in a reply, on one line; undefined for a JSON object without `error`, the body of an accepted report */
function errorIn(body: string): string | undefined {
  try {
    const reply: { error?: unknown } | null = JSON.parse(body);
    if (typeof reply?.error === 'string') return onOneLine(reply.error);
    if (typeof reply === 'object' && reply !== null && !Array.isArray(reply) && !('error' in reply)) return undefined;
  } catch {
    // The reply of a proxy may not be JSON.
  }
  return onOneLine(body.slice(0, SHOWN_CHARACTERS)) || 'nothing';
}

/** @returns text from a service on one line, cut, without control characters: `onOneLine(' a\n  b ')` is `'a b'` */
export function onOneLine(text: string): string {
  const line = text.slice(0, REASON_CHARACTERS_MAX).replaceAll(/\s+/g, ' ').trim();
  return `${printable(line)}${text.length > REASON_CHARACTERS_MAX ? '…' : ''}`;
}

/**
 * Reads Retry-After: seconds, or a date in one of three formats (RFC 9110 sections 10.2.3 and 5.6.7).
 * @returns milliseconds, such as `1_000` for `Retry-After: 1`; 0 if the header is missing or malformed
 */
export function retryAfterMs({ 'retry-after': after = '', date = '' }: HttpReply['headers']): number {
  if (/^[0-9]{1,9}$/.test(after)) return Number(after) * 1000;
  // The Date header of the reply comes first, since the clock of a device may be wrong by years.
  const nowMs = dateMs(date) || Date.now();
  return Math.max(0, dateMs(after) - nowMs) || 0;
}

/** Each format begins with the weekday; the oldest (asctime) has no GMT. Other formats that Date.parse accepts are refused. */
function dateMs(text: string): number {
  if (!/^[A-Z][a-z]{2}/.test(text)) return Number.NaN;
  return Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
}

const SHOWN_CHARACTERS = 300;
/** More than any error of assetlog. */
const REASON_CHARACTERS_MAX = 2_000;
