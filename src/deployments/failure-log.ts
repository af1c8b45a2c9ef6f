/** Logs why requests have no valid token. The client gets the same 401 for every reason; only the operator learns it. */

import type { Limits } from '../config/limits.ts';
import { shownCharactersMax } from '../event/shown.ts';
import type { Notices } from '../telemetry/log.ts';
import { findTokens, type IsToken, masked } from '../telemetry/masked.ts';
import { type Deployments, sha256 } from './tokens.ts';

/** A request without a valid token. */
export interface AuthenticationFailure {
  /** Id of the request. */
  readonly id: string;
  readonly address: string;
  /** Number of failures of the address within `failuresMs`, including this one. */
  readonly count: number;
  /** The path below the prefix. */
  readonly path: string;
  /** The first component of the path, which might not be a deployment. */
  readonly deployment: string;
  /** The text that was sent; undefined if none was sent. It is never logged. */
  readonly token: string | undefined;
}

/**
 * Logs the first failure of an address in each window of `failuresMs`, at most `failuresLoggedMax` of them; counts the others.
 */
export class FailureLog {
  readonly #limits: Limits;
  readonly #notices: Notices;
  readonly #isToken: IsToken;
  #windowStartMs = 0;
  #logged = 0;
  /** Failures since the last entry. */
  #omitted = 0;

  constructor(limits: Limits, notices: Notices, isToken: IsToken) {
    this.#limits = limits;
    this.#notices = notices;
    this.#isToken = isToken;
  }

  /**
   * Logs a failure or counts it. The reason is searched for after this returns, so the time of a 401 does not depend on it.
   * @param deployments to search for the reason
   * @param nowMs milliseconds since 1970
   */
  add(failure: AuthenticationFailure, deployments: Deployments, nowMs: number): void {
    const { failuresMs, failuresLoggedMax } = this.#limits;
    if (Math.abs(nowMs - this.#windowStartMs) >= failuresMs) [this.#windowStartMs, this.#logged] = [nowMs, 0];
    if (failure.count > 1 || this.#logged >= failuresLoggedMax) {
      this.#omitted += 1;
      return;
    }
    this.#logged += 1;
    const omitted = this.#omitted;
    this.#omitted = 0;
    setImmediate(() => this.#write(failure, deployments, nowMs, omitted));
  }

  #write(failure: AuthenticationFailure, deployments: Deployments, nowMs: number, omitted: number): void {
    const { id, address, path } = failure;
    const tokens = findTokens(path, this.#isToken, shownCharactersMax); // a token with slashes is more than the first component
    this.#notices.warn('a request without a valid token was refused', {
      request_id: id,
      address,
      deployment: masked(path, tokens).split('/', 1)[0]!.slice(0, shownCharactersMax),
      ...reasonOf(failure, deployments, nowMs),
      omitted_since: omitted > 0 ? omitted : undefined,
    });
  }
}

/** The fields of the log entry. `token_name` is the name in the deployments file, `belongs_to` the deployment of the token. */
type Reason = {
  readonly reason:
    | 'missing token'
    | 'unknown deployment'
    | 'unknown token'
    | 'expired token'
    | 'token of another deployment';
  readonly token_name?: string;
  readonly belongs_to?: string;
};

/**
 * @returns the reason as the readers of the deployment may see it, without anything about other deployments: `expired token ci`
 */
export function shownReason(failure: AuthenticationFailure, deployments: Deployments, nowMs: number): string {
  const { reason, token_name } = ownReason(failure, deployments, nowMs);
  return token_name === undefined ? reason : `${reason} ${token_name}`;
}

/** @returns why a token was not valid at `nowMs`. Compares every token of all deployments, so call it rarely */
function reasonOf(failure: AuthenticationFailure, deployments: Deployments, nowMs: number): Reason {
  const own = ownReason(failure, deployments, nowMs);
  if (own.reason !== 'unknown token') return own;
  const digest = sha256(failure.token!);
  for (const [name, tokens] of deployments.tokensOf) {
    const other = tokens.find(({ sha256: known }) => known.equals(digest));
    if (other !== undefined) return { reason: 'token of another deployment', token_name: other.name, belongs_to: name };
  }
  return own;
}

/** Like `reasonOf`, but compares only the tokens of the deployment itself. */
function ownReason({ deployment, token }: AuthenticationFailure, { tokensOf }: Deployments, nowMs: number): Reason {
  if (token === undefined) return { reason: 'missing token' };
  const tokens = tokensOf.get(deployment);
  if (tokens === undefined) return { reason: 'unknown deployment' };
  const digest = sha256(token);
  const own = tokens.find(({ sha256: known }) => known.equals(digest));
  const isExpired = own !== undefined && nowMs >= (own.notAfterMs ?? Number.POSITIVE_INFINITY);
  return isExpired ? { reason: 'expired token', token_name: own.name } : { reason: 'unknown token' };
}
