/** Sends a request with reports to a service, with retries, and returns the outcome. Retries only if that records nothing twice. */

import { setTimeout as sleep } from 'node:timers/promises';
import { readObject } from '../config/json-file.ts';
import type { Limits } from '../config/limits.ts';
import { printable } from '../telemetry/printable.ts';
import { type HttpReply, NoReply, PROXY_REFUSED } from './connection.ts';

/** The outcome of one report. */
export type Delivery = { readonly kind: 'recorded' } | DeliveryFailure;

/**
 * Why a request was not accepted. `reason` is a clause about the service, such as `answers 400: passed is missing`, on one line
 * and without control characters.
 */
export type DeliveryFailure =
  /** The service refused this request; it might accept others. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** The service would refuse every report: the URL or the token is wrong. */
  | { readonly kind: 'misconfigured'; readonly reason: string }
  | DeliveryInDoubt
  /** Neither accepted nor refused within `retryForMs`. */
  | { readonly kind: 'unavailable'; readonly reason: string };

/** It is unknown whether the request was recorded: a retry could record it twice. */
export interface DeliveryInDoubt {
  readonly kind: 'in doubt';
  readonly reason: string;
}

/** The request can be sent again: the service recorded nothing of it, or never received it. */
export interface SafeToRetry {
  readonly kind: 'again';
  readonly reason: string;
  /** The service's Retry-After (RFC 9110 section 10.2.3); 0 if there is none. */
  readonly afterMs: number;
}

/** When to send a request again, and how long to keep trying. */
export interface RetryPolicy {
  /** Time from the first attempt to the last one. With 0 there is only one attempt. */
  readonly retryForMs: number;
  /** Ends the wait for the next attempt; the result is then `unavailable`. */
  readonly stopped: AbortSignal;
  /** The first pause between two attempts, and the longest. */
  readonly limits: Limits;
  /** Called before each wait, for progress. */
  readonly onWait: (reason: string, waitMs: number) => void;
}

/** Whether a request in doubt may be sent again, since the service would not record it twice. */
export type Permission = { readonly kind: 'yes' } | { readonly kind: 'no' } | SafeToRetry;

export interface ReportRequest<Accepted> {
  /** Sends the request once; throws only NoReply. */
  readonly attempt: () => Promise<HttpReply>;
  /** @returns the meaning of a reply that is specific to this request, such as its success; undefined for any other reply */
  readonly accept: (reply: HttpReply) => Accepted | DeliveryInDoubt | undefined;
  /**
   * Called when it is in doubt whether the request was recorded. @returns `again` if the answer cannot be determined
   * now
   */
  readonly mayRepeat: () => Promise<Permission>;
}

/**
 * Sends a request, and repeats it while that cannot record anything twice.
 * @returns the result of `accept`, or the failure; `in doubt` if any attempt might have been recorded and no later attempt has
 * shown the result
 */
export async function deliver<Accepted extends { readonly kind: string }>(
  { attempt, accept, mayRepeat }: ReportRequest<Accepted>,
  policy: RetryPolicy,
): Promise<Accepted | DeliveryFailure> {
  const untilMs = performance.now() + policy.retryForMs;
  let doubt: DeliveryInDoubt | undefined;
  const askPermission = async (): Promise<Permission> => (performance.now() < untilMs ? mayRepeat() : { kind: 'no' });
  const once = async (): Promise<Accepted | DeliveryFailure | SafeToRetry> => {
    if (doubt !== undefined) {
      const permission = await askPermission();
      if (permission.kind === 'again') return permission;
      if (permission.kind === 'no' || performance.now() > untilMs) return doubt;
    }
    const found = await attempt().then((reply) => accept(reply) ?? judge(reply), judgeNoReply);
    if (!isInDoubt(found)) return found;
    doubt = found;
    const permission = await askPermission();
    if (permission.kind === 'no') return doubt;
    return { kind: 'again', reason: doubt.reason, afterMs: permission.kind === 'again' ? permission.afterMs : 0 };
  };
  const found = await retry(once, policy, untilMs);
  const isOpen = found.kind === 'unavailable' || found.kind === 'misconfigured';
  return isOpen && doubt !== undefined ? doubt : found;
}

/**
 * Calls a function until its result is final: with exponential backoff and jitter between attempts, at least the Retry-After of
 * the last reply (RFC 9110 section 10.2.3).
 * @param untilMs when the last attempt starts, on the clock of `performance.now()`
 * @returns the result of the last call; `unavailable` if it was `again`
 */
export async function retry<Found extends { readonly kind: string }>(
  once: () => Promise<Found | SafeToRetry>,
  { retryForMs, stopped, limits, onWait }: RetryPolicy,
  untilMs = performance.now() + retryForMs,
): Promise<Found | DeliveryFailure> {
  for (let pauseMs = limits.retryMs; ; pauseMs = Math.min(2 * pauseMs, limits.retryMsMax)) {
    const found = await once();
    if (!isAgain(found)) return found;
    const { reason, afterMs } = found;
    const leftMs = untilMs - performance.now();
    const unavailable: DeliveryFailure = { kind: 'unavailable', reason };
    if (leftMs <= 0 || stopped.aborted) return unavailable;
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
    if (stopped.aborted) return unavailable;
  }
}

function isInDoubt(found: { readonly kind: string }): found is DeliveryInDoubt {
  return found.kind === 'in doubt';
}

function isAgain(found: { readonly kind: string }): found is SafeToRetry {
  return found.kind === 'again';
}

/**
 * Success for one report is status 200 with a JSON object that has no `error`, so the page of another server is not a
 * success.
 */
export function acceptReport({ status, body }: HttpReply): { readonly kind: 'recorded' } | undefined {
  return status === 200 && errorIn(body) === undefined ? { kind: 'recorded' } : undefined;
}

/** @returns the meaning of a reply that is not a success, for any request */
export function judge({ status, headers, body }: HttpReply): DeliveryFailure | SafeToRetry {
  const reason = `answers ${status}: ${errorIn(body) ?? 'no error'}`;
  if (isTokenLimit({ status, headers })) {
    return {
      kind: 'misconfigured',
      reason: `${reason}; a valid token is never limited, so this one is wrong or missing`,
    };
  }
  if (SAFE_TO_RETRY.has(status)) return { kind: 'again', reason, afterMs: retryAfterMs(headers) };
  if (status >= 500) return { kind: 'in doubt', reason };
  if (status >= 400 && !FOR_ALL_REPORTS.has(status)) return { kind: 'refused', reason };
  const { location } = headers;
  if (location !== undefined) {
    return { kind: 'misconfigured', reason: `answers ${status}: it is at ${onOneLine(location)} now` };
  }
  return { kind: 'misconfigured', reason: status < 400 ? `${reason}; is this the right address?` : reason };
}

/**
 * assetlog sends 429 only for requests without a valid token, together with the challenge of its 401, since other
 * credentials would change the reply (RFC 9110 section 11.6.1). The 429 of another server is a rate limit, and is retried.
 */
export function isTokenLimit({ status, headers }: Pick<HttpReply, 'status' | 'headers'>): boolean {
  return status === 429 && isChallenge(headers);
}

/** Whether a reply has the challenge of assetlog, like its 401s. */
export function isChallenge(headers: HttpReply['headers']): boolean {
  return /\brealm="assetlog"/.test(headers['www-authenticate'] ?? '');
}

/** Request timeout, rate limit, full queue: nothing was recorded. */
const SAFE_TO_RETRY: ReadonlySet<number> = new Set([408, 429, 503]);
/** Statuses that do not depend on the report, but on the token, the host name or the path. */
const FOR_ALL_REPORTS: ReadonlySet<number> = new Set([401, 403, 404, 405]);

/** For a request that changes nothing, so it can always be repeated. @returns `again` in place of `in doubt` */
export function neverInDoubt<Found extends { readonly kind: string }>(found: Found | DeliveryFailure | SafeToRetry) {
  return isInDoubt(found) ? ({ kind: 'again', reason: found.reason, afterMs: 0 } as const) : found;
}

/** @param error thrown by a call @returns the meaning of the missing reply @throws any error other than NoReply */
export function judgeNoReply(error: unknown): DeliveryFailure | SafeToRetry {
  if (!(error instanceof NoReply)) throw error;
  const { message, code = '', sent } = error;
  if (sent) return { kind: 'in doubt', reason: `sent no complete reply: ${message}` };
  // Errors before the connection was established are temporary, except TLS errors, since the service or the network
  // might come up.
  const reason = `cannot be reached: ${onOneLine(message)}`;
  if (code === PROXY_REFUSED) return { kind: 'misconfigured', reason };
  if (!isTlsError(code)) return { kind: 'again', reason, afterMs: 0 };
  const untrusted = /SIGN|ISSUER/.test(code) ? '; for a private CA set NODE_EXTRA_CA_CERTS' : '';
  const hint = /SSL|EPROTO/.test(code) ? '; is it an http:// address?' : untrusted;
  return { kind: 'misconfigured', reason: `${reason}${hint}` };
}

/** Whether an error comes from TLS (`CERT_HAS_EXPIRED`), and not from the underlying network (`ECONNRESET`). */
export function isTlsError(code = ''): boolean {
  return /CERT|SIGNATURE|SSL|TLS|EPROTO/.test(code);
}

/** @returns the error in a reply, on one line; undefined for a JSON object without `error`, the body of an accepted report */
function errorIn(body: string): string | undefined {
  const reply = readObject(body);
  if (typeof reply?.['error'] === 'string') return onOneLine(reply['error']);
  if (reply !== undefined && !('error' in reply)) return undefined;
  return onOneLine(body.slice(0, SHOWN_CHARACTERS)) || 'nothing';
}

/** @returns text from a service on one line, shortened, and without control characters */
export function onOneLine(text: string): string {
  const line = text.slice(0, REASON_CHARACTERS_MAX).replaceAll(/\s+/g, ' ').trim();
  return `${printable(line)}${text.length > REASON_CHARACTERS_MAX ? '…' : ''}`;
}

/**
 * Reads Retry-After: seconds, or a date in one of three formats (RFC 9110 sections 10.2.3 and 5.6.7).
 * @returns milliseconds; 0 if the header is missing or malformed
 */
export function retryAfterMs({ 'retry-after': after = '', date = '' }: HttpReply['headers']): number {
  if (/^[0-9]{1,9}$/.test(after)) return Number(after) * 1000;
  // The Date header of the reply comes first, since the clock of a device can be wrong by years.
  const nowMs = dateMs(date) || Date.now();
  return Math.max(0, dateMs(after) - nowMs) || 0;
}

/** Each format starts with the weekday; the oldest (asctime) has no GMT. Other formats that Date.parse accepts are refused. */
function dateMs(text: string): number {
  if (!/^[A-Z][a-z]{2}/.test(text)) return Number.NaN;
  return Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
}

const SHOWN_CHARACTERS = 300;
/** Longer than any error of assetlog. */
const REASON_CHARACTERS_MAX = 2_000;
