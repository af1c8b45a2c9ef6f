/** Brings one report to a service, and says what became of it. Only what is safe to send again is sent again. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import { printable } from '../telemetry/printable.ts';
import { type Answer, NoReply } from './connection.ts';

/** `reason` is a clause about the service: "answers 400: …". */
export type Delivery =
  | { readonly kind: 'recorded' }
  /** This report was not taken; another may be. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** No report would be taken: the address or the token is wrong. */
  | { readonly kind: 'turned away'; readonly reason: string }
  /** Nobody knows whether it was recorded: sent again, it may be there twice. */
  | { readonly kind: 'in doubt'; readonly reason: string }
  /** Neither taken nor refused in all the time that there was. */
  | { readonly kind: 'away'; readonly reason: string };

export interface Patience {
  /** From the first attempt to the last one; with 0 there is one attempt. */
  readonly retryForMs: number;
  /** Ends the waiting for the next attempt. */
  readonly stopped: AbortSignal;
  readonly limits: Pick<Limits, 'retryMs' | 'retryMsMax'>;
  /** Called before each wait. */
  readonly onWait: (reason: string, waitMs: number) => void;
}

/** @param attempt sends the report; it throws only NoReply */
export async function deliver(attempt: () => Promise<Answer>, patience: Patience): Promise<Delivery> {
  const { retryForMs, stopped, limits, onWait } = patience;
  const untilMs = performance.now() + retryForMs;
  for (let pauseMs = limits.retryMs; ; pauseMs = Math.min(2 * pauseMs, limits.retryMsMax)) {
    const found = await attempt().then(judge, judgeSilence);
    if (found.kind !== 'again') return found;
    const { reason, afterMs } = found;
    const leftMs = untilMs - performance.now();
    const away: Delivery = { kind: 'away', reason };
    if (leftMs <= 0 || stopped.aborted) return away;
    if (afterMs > leftMs) {
      return { kind: 'away', reason: `${reason}; it wants to be asked again in ${Math.ceil(afterMs / 1000)} s` };
    }
    // Those that were turned away together do not come back together.
    const waitMs = Math.min(afterMs + (pauseMs * (1 + Math.random())) / 2, leftMs);
    onWait(reason, waitMs);
    await sleep(waitMs, undefined, { signal: stopped }).catch(() => {}); // it was broken off
    if (stopped.aborted) return away;
  }
}

/** Safe to send again: the service said so, or never got it. */
interface Again {
  readonly kind: 'again';
  readonly reason: string;
  /** What the service wants to be left alone. */
  readonly afterMs: number;
}

function judge(answer: Answer): Delivery | Again {
  const { status, headers, body } = answer;
  const error = errorIn(body);
  if (status === 200 && error === undefined) return { kind: 'recorded' };
  const reason = `answers ${status}: ${error ?? 'no error'}`;
  if (SAFE.has(status)) return { kind: 'again', reason, afterMs: retryAfterMs(headers) };
  if (status >= 500) return { kind: 'in doubt', reason };
  if (status >= 400 && !FOR_ALL.has(status)) return { kind: 'refused', reason };
  const { location } = headers;
  if (location !== undefined) {
    return { kind: 'turned away', reason: `answers ${status}: it is at ${onOneLine(location)} now` };
  }
  return { kind: 'turned away', reason: status < 400 ? `${reason}; is this the right address?` : reason };
}

/** A queue that is full, a limit of requests, a request that took too long to come in. */
const SAFE: ReadonlySet<number> = new Set([408, 429, 503]);
/** Refused whatever the report says: the token, the name of the host, the path. */
const FOR_ALL: ReadonlySet<number> = new Set([401, 403, 404, 405]);

function judgeSilence(error: unknown): Delivery | Again {
  if (!(error instanceof NoReply)) throw error;
  const { message, code = '', sent } = error;
  if (sent) return { kind: 'in doubt', reason: `did not answer: ${message}` };
  // Before the connection stood nothing went wrong for good, but for what TLS found: a service or a network may come up.
  const reason = `can not be reached: ${onOneLine(message)}`;
  if (!/CERT|SIGNATURE|SSL|TLS|EPROTO/.test(code)) return { kind: 'again', reason, afterMs: 0 };
  const untrusted = /SIGN|ISSUER/.test(code) ? '; a CA of your own goes into NODE_EXTRA_CA_CERTS' : '';
  const hint = /SSL|EPROTO/.test(code) ? '; is it an http:// address?' : untrusted;
  return { kind: 'turned away', reason: `${reason}${hint}` };
}

/** @returns undefined for an object without an error, which is what accepts a report */
function errorIn(body: string): string | undefined {
  try {
    const reply: { error?: unknown } | null = JSON.parse(body);
    if (typeof reply?.error === 'string') return onOneLine(reply.error);
    if (typeof reply === 'object' && reply !== null && !Array.isArray(reply) && !('error' in reply)) return undefined;
  } catch {
    // A proxy may answer in any form.
  }
  return onOneLine(body.slice(0, SHOWN_CHARACTERS)) || 'nothing';
}

function onOneLine(text: string): string {
  return printable(text.replaceAll(/\s+/g, ' ').trim());
}

/**
 * Seconds, or a date in one of three forms (RFC 9110 sections 10.2.3 and 5.6.7).
 * @returns 0 where it says nothing
 */
function retryAfterMs({ 'retry-after': after = '', date = '' }: Answer['headers']): number {
  if (/^[0-9]{1,9}$/.test(after)) return Number(after) * 1000;
  // The clock of a device may be wrong by years; the service's own date is good enough.
  const nowMs = dateMs(date) || Date.now();
  return Math.max(0, dateMs(after) - nowMs) || 0;
}

/** Each form begins with the day, and the oldest does not say that it means GMT. What else Date.parse would take is no date here. */
function dateMs(text: string): number {
  if (!/^[A-Z][a-z]{2}/.test(text)) return Number.NaN;
  return Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
}

const SHOWN_CHARACTERS = 300;
