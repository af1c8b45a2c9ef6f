/** Sends one report to a service, with retries, and returns the outcome. Retries only if that cannot record it twice. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import { printable } from '../telemetry/printable.ts';
import { type HttpReply, NoReply } from './connection.ts';

/**
 * What became of one report. `reason` is a clause about the service, such as `answers 400: passed is missing`, on one line and
 * without control characters.
 */
export type Delivery =
  | { readonly kind: 'recorded' }
  /** The service refused this report; it may accept others. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** The service would refuse every report: the URL or the token is wrong. */
  | { readonly kind: 'misconfigured'; readonly reason: string }
  /** It is unknown whether the report was recorded: a retry could record it twice. */
  | { readonly kind: 'in doubt'; readonly reason: string }
  /** Neither accepted nor refused within `retryForMs`. */
  | { readonly kind: 'unavailable'; readonly reason: string };

/** When to send a report again, and how long to keep trying. */
export interface RetryPolicy {
  /** Time from the first attempt to the last one; with 0 there is one attempt. */
  readonly retryForMs: number;
  /** Ends the wait for the next attempt; the result is then `unavailable`. */
  readonly stopped: AbortSignal;
  readonly limits: Pick<Limits, 'retryMs' | 'retryMsMax'>;
  /** Called before each wait, for progress: `answers 503: the disk is full`, 250. */
  readonly onWait: (reason: string, waitMs: number) => void;
}

/**
 * Sends a report, and again while that cannot record it twice: with exponential backoff and jitter between attempts, at least
 * the Retry-After of the last reply (RFC 9110 section 10.2.3).
 * @param attempt sends the report once; throws only NoReply
 */
export async function deliver(attempt: () => Promise<HttpReply>, policy: RetryPolicy): Promise<Delivery> {
  const { retryForMs, stopped, limits, onWait } = policy;
  const untilMs = performance.now() + retryForMs;
  for (let pauseMs = limits.retryMs; ; pauseMs = Math.min(2 * pauseMs, limits.retryMsMax)) {
    const found = await attempt().then(judge, judgeNoReply);
    if (found.kind !== 'again') return found;
    const { reason, afterMs } = found;
    const leftMs = untilMs - performance.now();
    const away: Delivery = { kind: 'unavailable', reason };
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

/** The report may be sent again: the service did not record it, or never received it. */
interface Again {
  readonly kind: 'again';
  readonly reason: string;
  /** The service's Retry-After in ms; 0 if it sent none. */
  readonly afterMs: number;
}

function judge(answer: HttpReply): Delivery | Again {
  const { status, headers, body } = answer;
  const error = errorIn(body);
  if (status === 200 && error === undefined) return { kind: 'recorded' };
  const reason = `answers ${status}: ${error ?? 'no error'}`;
  if (status === 429 && TOKEN_CHALLENGE.test(headers['www-authenticate'] ?? '')) {
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

/** Statuses after which a retry is safe: request timeout, rate limit, full queue. */
const SAFE: ReadonlySet<number> = new Set([408, 429, 503]);
/**
 * assetlog answers 429 only to requests without a valid token, and sends the challenge of its 401 with it: other credentials
 * would change the reply (RFC 9110 section 11.6.1). The 429 of another server is a rate limit, and is retried.
 */
const TOKEN_CHALLENGE = /\brealm="assetlog"/;
/** Statuses that do not depend on the report, but on the token, the host name or the path. */
const FOR_ALL: ReadonlySet<number> = new Set([401, 403, 404, 405]);

function judgeNoReply(error: unknown): Delivery | Again {
  if (!(error instanceof NoReply)) throw error;
  const { message, code = '', sent } = error;
  if (sent) return { kind: 'in doubt', reason: `sent no complete reply: ${message}` };
  // Errors before the connection was established are temporary, except those of TLS: a service or a network may come up.
  const reason = `cannot be reached: ${onOneLine(message)}`;
  if (!/CERT|SIGNATURE|SSL|TLS|EPROTO/.test(code)) return { kind: 'again', reason, afterMs: 0 };
  const untrusted = /SIGN|ISSUER/.test(code) ? '; for a private CA set NODE_EXTRA_CA_CERTS' : '';
  const hint = /SSL|EPROTO/.test(code) ? '; is it an http:// address?' : untrusted;
  return { kind: 'misconfigured', reason: `${reason}${hint}` };
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

function onOneLine(text: string): string {
  return printable(text.replaceAll(/\s+/g, ' ').trim());
}

/**
 * Reads Retry-After: seconds, or a date in one of three formats (RFC 9110 sections 10.2.3 and 5.6.7).
 * @returns milliseconds, 0 if the header is missing or malformed
 */
function retryAfterMs({ 'retry-after': after = '', date = '' }: HttpReply['headers']): number {
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
