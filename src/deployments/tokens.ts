/** Whose token may report to which deployment. */

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Endpoint } from '../event/parameters.ts';
import { type Incoming, Refusal } from '../http/message.ts';
import type { Head } from '../http/request.ts';
import { FailureRate, type RateLimits } from './rate-limit.ts';

export interface Deployments {
  readonly tokensOf: ReadonlyMap<string, readonly Token[]>;
  /** Of the deployment that has most of them. */
  readonly tokensMax: number;
}

export interface Token {
  readonly name: string;
  /** SHA-256 of the token's bytes. */
  readonly sha256: Buffer;
  /** Milliseconds since 1970 from which on it is no good; undefined for never. */
  readonly notAfterMs: number | undefined;
}

/**
 * Whether a token is good for a deployment. Takes as long for an unknown deployment as for one with many tokens, and as
 * long wherever the first difference is.
 * @param token as it was sent; undefined where none was
 */
export function mayReport(
  { tokensOf, tokensMax }: Deployments,
  name: string,
  token: string | undefined,
  nowMs: number,
): boolean {
  const digest = sha256(token ?? '');
  const tokens = tokensOf.get(name) ?? [];
  let good = false;
  for (let index = 0; index < tokensMax; index += 1) {
    const { sha256: known, notAfterMs } = tokens[index] ?? NOBODY;
    const same = timingSafeEqual(known, digest);
    if (same && token !== undefined && nowMs < (notAfterMs ?? Number.POSITIVE_INFINITY)) good = true;
  }
  return good;
}

/** @returns a fresh token of 256 random bits, and its SHA-256 as hexadecimal digits */
export function newToken(): { token: string; digest: string } {
  const token = `asl_${randomBytes(32).toString('base64url')}`;
  return { token, digest: sha256(token).toString('hex') };
}

/** What is compared where there are no more tokens; no text is known to have this SHA-256. */
const NOBODY: Token = { name: '', sha256: Buffer.alloc(32), notAfterMs: 0 };

/** @param text as a header has it: each character is a byte that was sent */
export function sha256(text: string): Buffer {
  return createHash('sha256').update(text, 'latin1').digest();
}

export interface TokenDoor {
  /** What every path is under. */
  readonly pathPrefix: string;
  /** Named in a refusal. */
  readonly endpoints: readonly Endpoint[];
  /** Those of this moment: the file may be read again. */
  readonly deployments: () => Deployments;
  /** How the header is called in a refusal. */
  readonly tokenHeader: string;
  /** Of the client: by the address of its connection and the headers (name, value, name, value …). */
  readonly clientAddress: (peer: string, headers: readonly string[]) => string;
  readonly limits: RateLimits;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
}

/**
 * Finds the deployment that a request may report to: the first component of its path, compared as it stands. That there is
 * no such deployment, no token and a wrong one look the same (401). An address that fails again and again gets 429, but for
 * a good token: many clients may share an address.
 * @returns a check that throws Refusal 401 or 429
 */
export function createTokenDoor({
  pathPrefix,
  endpoints,
  deployments,
  tokenHeader,
  clientAddress,
  limits,
  nowMs,
}: TokenDoor) {
  const failures = new FailureRate(limits);
  const paths = endpoints.map(({ path }) => `${pathPrefix}/NAME${path}/`);
  const error = `this needs a token of the deployment NAME in the header ${tokenHeader}, and a path that begins with ${paths.join(', ')}`;
  const headers = ['WWW-Authenticate', `${tokenHeader} realm="assetlog"`];

  return ({ path, token }: Head, { socket, fields }: Incoming): string => {
    const now = nowMs();
    const under = path.startsWith(`${pathPrefix}/`) ? path.slice(pathPrefix.length + 1) : '';
    const [name = ''] = under.split('/', 1);
    if (mayReport(deployments(), name, token, now)) return name;

    const waitMs = failures.add(clientAddress(socket?.remoteAddress ?? '', fields.raw), now);
    if (waitMs === 0) throw new Refusal(401, error, { headers });
    const retryAfter = ['Retry-After', String(Math.ceil(waitMs / 1000))];
    throw new Refusal(429, 'too many requests without a good token came from this address', { headers: retryAfter });
  };
}
