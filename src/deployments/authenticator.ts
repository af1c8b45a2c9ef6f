/** Hosted mode: authentication of clients by the tokens of a deployment, with a rate limit on failures and a log of them. */

import type { Limits } from '../config/limits.ts';
import { type Head, type Incoming, Refusal } from '../http/message.ts';
import type { Right } from '../http/router.ts';
import type { Notices } from '../telemetry/log.ts';
import type { IsToken } from '../telemetry/masked.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { FailureLog, shownReason } from './failure-log.ts';
import { FailureRate } from './rate-limit.ts';
import { type Deployments, findToken } from './tokens.ts';

/**
 * @param pathPrefix the prefix of the paths of all deployments; empty if there is none
 * @returns the first component of the path, which can be the name of a deployment: `prod` for `/prod/report_asset_check/`; empty
 *   for a path without the prefix
 */
export function deploymentIn(path: string, pathPrefix: string): string {
  return belowPrefix(path, pathPrefix).split('/', 1)[0] ?? '';
}

/** @returns empty if the path is not below the prefix */
function belowPrefix(path: string, pathPrefix: string): string {
  return path.startsWith(`${pathPrefix}/`) ? path.slice(pathPrefix.length + 1) : '';
}

export interface AuthenticatorParts {
  readonly pathPrefix: string;
  /** @returns the current deployments. Called for each request, since a reload can change them. */
  readonly deployments: () => Deployments;
  /** Name of the header that carries the token, for the text of a 401 and for `WWW-Authenticate`. */
  readonly tokenHeader: string;
  /** @returns the client's address, from the peer address of its connection and the raw headers (name, value, name, value …) */
  readonly clientAddress: (peer: string, headers: readonly string[]) => string;
  readonly limits: Limits;
  readonly metrics: Metrics;
  readonly notices: Notices;
  readonly isToken: IsToken;
  readonly nowMs: () => number;
}

/**
 * Finds the deployment that a request may report to, or read: the first component of its path, compared without decoding. An
 * unknown deployment, a missing token and a wrong token get the same 401, so a client cannot find out which deployments exist. An
 * address with too many failures gets 429 (RFC 6585 section 4). A valid token is always accepted, because many clients might
 * share an address; if it lacks the right that the request requires, the reply is a 403 that depends only on this right.
 * @returns a check that returns the deployment's name, `'prod'` for `/prod/report_asset_check/` with a token of `prod`, or throws
 *   Refusal 401, 403 or 429.
 */
export function createAuthenticator({
  pathPrefix,
  deployments,
  tokenHeader,
  clientAddress,
  limits,
  metrics,
  notices,
  isToken,
  nowMs,
}: AuthenticatorParts) {
  const failures = new FailureRate(limits);
  const log = new FailureLog(limits, notices, isToken);
  const error = `no valid token for this path in ${tokenHeader} or as Authorization: Bearer: it is missing, wrong, expired, or for another deployment; paths start with ${pathPrefix}/NAME/`;
  // Also sent in a 429: another token helps, and waiting does not (RFC 9110 section 11.6.1).
  const challenge = ['WWW-Authenticate', `Bearer realm="assetlog", ${tokenHeader} realm="assetlog"`];

  return ({ path, token }: Head, incoming: Incoming, needs: Right | 'any right'): string => {
    const { socket, fields } = incoming;
    const now = nowMs();
    const name = deploymentIn(path, pathPrefix);
    const known = deployments();
    const valid = findToken(known, name, token, now, needs);
    if (valid !== undefined) {
      incoming.tokenName = valid.name;
      metrics.deployments?.used(name, valid.sha256, now);
      if (needs === 'any right' || valid.may.includes(needs)) return name;
      throw new Refusal(
        403,
        `this token may not ${needs}; its entry in the deployments file needs "${needs}" in "may"`,
      );
    }

    const address = clientAddress(socket?.remoteAddress ?? '', fields.raw);
    const { count, waitMs } = failures.add(address, now);
    metrics.authFailures += 1;
    const below = belowPrefix(path, pathPrefix);
    const failure = { id: incoming.id, address, count, path: below, deployment: name, token };
    log.add(failure, known, now);
    const cause = () => shownReason(failure, known, now);
    if (waitMs === 0) throw new Refusal(401, error, { headers: challenge, cause });
    const retryAfter = ['Retry-After', String(Math.ceil(waitMs / 1000))];
    throw new Refusal(429, 'too many requests without a good token came from this address', {
      headers: [...challenge, ...retryAfter],
      cause,
    });
  };
}
