/** Hosted mode: the tokens of a deployment, their expiry, and a search in constant time. */

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Limits } from '../config/limits.ts';
import { readEventTime } from '../event/event-time.ts';
import type { Right } from '../http/router.ts';
import { findFirstIndex } from '../journal/first-index.ts';
import type { Notices } from '../telemetry/log.ts';
import type { JournalLimits } from './limits-of-journals.ts';

/** The content of a valid deployments file. */
export interface Deployments {
  /** The tokens of each deployment, by its name. */
  readonly tokensOf: ReadonlyMap<string, readonly Token[]>;
  /** The greatest number of tokens of any deployment. Every check makes this many comparisons, so its time reveals nothing. */
  readonly tokensMax: number;
  /** Whether each line has the name of the token of its report. */
  readonly recordTokens?: boolean;
  /** The limits of the journals that have their own limits, by deployment. */
  readonly limitsOf?: ReadonlyMap<string, JournalLimits>;
}

/** One token of a deployment. The token itself is stored nowhere. */
export interface Token {
  /** Names the client for operators. Names can occur more than once. */
  readonly name: string;
  /** SHA-256 of the token's bytes: 32 bytes. */
  readonly sha256: Buffer;
  /** The token is invalid from this time on, in milliseconds since 1970; undefined if it does not expire. */
  readonly notAfterMs: number | undefined;
  /** The rights of its clients; at least one. */
  readonly may: readonly Right[];
}

/**
 * Finds a valid token of a deployment. Compares in constant time, against timing attacks: the time depends neither on whether the
 * deployment exists, nor on how many tokens it has, nor on the position of the first different byte.
 * @param token the text that was sent; undefined if none was sent
 * @param nowMs milliseconds since 1970
 * @param needs if several entries have the same token, an entry with this right is preferred
 * @returns the token, with the right or without it; undefined if the token is missing, wrong or expired, or the
 *   deployment is unknown
 */
export function findToken(
  { tokensOf, tokensMax }: Pick<Deployments, 'tokensOf' | 'tokensMax'>,
  name: string,
  token: string | undefined,
  nowMs: number,
  needs: Right | 'any right',
): Token | undefined {
  const digest = sha256(token ?? '');
  const tokens = tokensOf.get(name) ?? [];
  let good: Token | undefined;
  for (let index = 0; index < tokensMax; index += 1) {
    const candidate = tokens[index] ?? NO_TOKEN;
    const same = timingSafeEqual(candidate.sha256, digest);
    if (same && token !== undefined && isValid(candidate, nowMs) && (good === undefined || has(candidate, needs)))
      good = candidate;
  }
  return good;
}

/**
 * @param digest the SHA-256 of a token that `findToken` found before
 * @returns whether the token still has the right: false after its expiry, and after its entry lost the right or was
 * removed
 */
export function stillMay(
  { tokensOf }: Deployments,
  name: string,
  digest: Buffer,
  right: Right,
  nowMs: number,
): boolean {
  const mayStill = (token: Token) => token.sha256.equals(digest) && has(token, right) && isValid(token, nowMs);
  return tokensOf.get(name)?.some(mayStill) === true;
}

function isValid({ notAfterMs = Number.POSITIVE_INFINITY }: Token, nowMs: number): boolean {
  return nowMs < notAfterMs;
}

function has({ may }: Token, needs: Right | 'any right'): boolean {
  return needs === 'any right' || may.includes(needs);
}

/** A token is `valid` until it is `expiring`, which it is shortly before its expiry. */
export type TokenState = 'valid' | 'expiring' | 'expired';

/**
 * @param soonMs how long before its expiry a token is `expiring`
 * @returns the tokens in each state, in the order of the file, as `prod/ci`
 */
export function tokensByState(
  { tokensOf }: Deployments,
  nowMs: number,
  soonMs: number,
): Readonly<Record<TokenState, string[]>> {
  const found = { valid: [] as string[], expiring: [] as string[], expired: [] as string[] };
  for (const [deployment, tokens] of tokensOf) {
    for (const token of tokens) {
      const state = !isValid(token, nowMs) ? 'expired' : isValid(token, nowMs + soonMs) ? 'valid' : 'expiring';
      found[state].push(`${deployment}/${token.name}`);
    }
  }
  return found;
}

/** @returns a function that counts the tokens in each state at a time in ms since 1970, in logarithmic time until they change */
export function tokenCounter(
  deployments: () => Deployments,
  soonMs: number,
): (nowMs: number) => Readonly<Record<TokenState, number>> {
  const endOf = ({ notAfterMs = Number.MAX_SAFE_INTEGER }: Token) => notAfterMs;
  let sorted: Deployments | undefined;
  let ends: number[] = [];
  const endedAt = (ms: number) => findFirstIndex(ends, (end) => end > ms);
  return (nowMs) => {
    if (sorted !== deployments()) {
      sorted = deployments();
      ends = [...sorted.tokensOf.values()].flatMap((tokens) => tokens.map(endOf)).sort((one, other) => one - other);
    }
    const expired = endedAt(nowMs);
    const soon = endedAt(nowMs + soonMs);
    return { valid: ends.length - soon, expiring: soon - expired, expired };
  };
}

interface ReportParts {
  readonly limits: Limits;
  readonly notices: Notices;
}

/** Warns of tokens that have expired or expire soon. */
export function reportTokenEnds(deployments: Deployments, { limits, notices }: ReportParts): void {
  const { expired, expiring } = tokensByState(deployments, Date.now(), limits.tokenExpiringMs);
  if (expired.length + expiring.length === 0) return;
  const named = (names: string[]) => names.slice(0, limits.tokensNamedMax).join(', ') || undefined;
  notices.warn('tokens have expired or expire within 14 days; assetlog token prints new ones', {
    expired_count: expired.length,
    expired: named(expired),
    expiring_count: expiring.length,
    expiring: named(expiring),
  });
}

/**
 * @returns a function that tests whether a text is a token of any deployment, including expired ones. It is used for the text of
 * refused requests
 */
export function tokenTest(deployments: () => Deployments): (text: string) => boolean {
  let indexed: Deployments | undefined;
  let digests = new Set<number>();
  return (text) => {
    const current = deployments();
    if (indexed !== current) {
      // Six bytes are enough to recognise a digest, and need less memory.
      digests = new Set([...current.tokensOf.values()].flat().map((token) => startOf(token.sha256)));
      indexed = current;
    }
    return digests.has(startOf(sha256(text)));
  };
}

function startOf(digest: Buffer): number {
  return digest.readUIntBE(0, 6);
}

/** @returns a new token of 256 random bits, and its SHA-256 as 64 hexadecimal digits */
export function newToken(): { token: string; digest: string } {
  const token = `asl_${randomBytes(32).toString('base64url')}`;
  return { token, digest: sha256(token).toString('hex') };
}

/** The texts that `readNotAfter` accepts, such as `2027-01-31`. Completes the sentence "must be …". */
export const NOT_AFTER =
  'a day that exists, such as 2027-01-31 (until its end in UTC), or a time such as 2027-01-31T12:00:00Z';

/**
 * Reads when a token expires: a day, which is valid until its end in UTC, or a time with seconds and zone (RFC 3339 section 5.6).
 * @param text such as `2027-01-31` or `2027-01-31T12:00:00+01:00`
 * @returns the first millisecond since 1970 at which the token is invalid, `1_801_440_000_000` for `2027-01-31`; undefined if the
 *   text is not such a day or time, or does not exist
 */
export function readNotAfter(text: string): number | undefined {
  const isDay = text.length === 'YYYY-MM-DD'.length;
  const time = readEventTime(isDay ? `${text}T00:00:00Z` : text);
  if (time.kind === 'wrong') return undefined;
  return Date.parse(time.utc) + (isDay ? DAY_MS : 0);
}

const DAY_MS = 86_400_000;

/** Used for the comparison if a deployment has no more tokens. No text is known to have this SHA-256. */
const NO_TOKEN: Token = { name: '', sha256: Buffer.alloc(32), notAfterMs: 0, may: [] };

/**
 * @param text the value of a header as Node returns it (latin1): each character is one sent byte
 * @returns the SHA-256 (32 bytes), which begins with `e3b0c442` for an empty text
 */
export function sha256(text: string): Buffer {
  return createHash('sha256').update(text, 'latin1').digest();
}
