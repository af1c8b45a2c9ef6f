/** Who may report. A page in the operator's browser may not, whatever it makes the browser send. */

import { isIP } from 'node:net';
import type { Limits } from '../config/config.ts';
import { type Deployments, mayReport } from '../deployments/file.ts';
import type { Endpoint } from '../event/parameters.ts';
import { type Incoming, Refusal, shown } from './message.ts';
import type { Head } from './request.ts';

export interface Doors {
  /** The address the listener is bound to. */
  readonly address: string;
  /** Further names of this service, in lower case and without a port. */
  readonly allowedHosts: readonly string[];
}

/**
 * Refuses what a foreign page could send: an Origin that is not this server, a fetch that its browser calls foreign, and a
 * Host that is not this service (DNS rebinding) while its names are known: on loopback, or with --allowed-host.
 * @returns a check that throws Refusal 403
 */
export function createAccess(doors: Doors): (head: Head) => void {
  const ownNames = new Set(['localhost', '127.0.0.1', '[::1]', hostOf(doors.address), ...doors.allowedHosts]);
  const onlyThisMachine = isLoopback(doors.address);
  // On other addresses this service can not know its names, such as that of a Kubernetes Service, until it is given one.
  const namesAreKnown = onlyThisMachine || doors.allowedHosts.length > 0;
  const isOwn = (authority: string) => ownNames.has(nameOf(authority));
  let lastGood: string | undefined; // most requests name the same Host, so it is looked at once

  return ({ authority, origin, fetchSite }) => {
    if (namesAreKnown && authority !== undefined && authority !== lastGood) {
      if (!isOwn(authority) && (onlyThisMachine || !isAddress(authority))) {
        throw new Refusal(
          403,
          `Host ${shown(authority)} is not this service; use localhost, or allow it with --allowed-host`,
        );
      }
      lastGood = authority;
    }
    if (origin !== undefined && !isSameServer(origin, authority)) {
      throw new Refusal(403, `Origin ${shown(origin)} may not report: web pages of other sites are refused`);
    }
    // A page on a name that its owner lets point here is of the same origin (DNS rebinding). An address can not be rebound.
    if (origin !== undefined && authority !== undefined && !isOwn(authority) && !isAddress(authority)) {
      throw new Refusal(403, `Host ${shown(authority)} is not this service; let its pages report with --allowed-host`);
    }
    if (fetchSite !== undefined && fetchSite !== 'none' && fetchSite !== 'same-origin') {
      throw new Refusal(403, `Sec-Fetch-Site ${shown(fetchSite)} may not report: web pages of other sites are refused`);
    }
  };
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
  readonly limits: Limits;
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
  const failures = new Map<string, { count: number; untilMs: number }>();
  const paths = endpoints.map(({ path }) => `${pathPrefix}/NAME${path}/`);
  const error = `this needs a token of the deployment NAME in the header ${tokenHeader}, and a path that begins with ${paths.join(', ')}`;
  const headers = ['WWW-Authenticate', `${tokenHeader} realm="assetlog"`];

  return ({ path, token }: Head, { socket, fields }: Incoming): string => {
    const now = nowMs();
    const under = path.startsWith(`${pathPrefix}/`) ? path.slice(pathPrefix.length + 1) : '';
    const [name = ''] = under.split('/', 1);
    if (mayReport(deployments(), name, token, now)) return name;

    const waitMs = failed(clientAddress(socket?.remoteAddress ?? '', fields.raw), now);
    if (waitMs === 0) throw new Refusal(401, error, { headers });
    const retryAfter = ['Retry-After', String(Math.ceil(waitMs / 1000))];
    throw new Refusal(429, 'too many requests without a good token came from this address', { headers: retryAfter });
  };

  /** @returns how long the address has to wait, 0 while it has failed only now and then */
  function failed(address: string, now: number): number {
    let seen = failures.get(address);
    if (seen === undefined || seen.untilMs <= now) {
      failures.delete(address);
      const [oldest] = failures.size >= limits.failedAddressesMax ? failures.keys() : [];
      if (oldest !== undefined) failures.delete(oldest);
      seen = { count: 0, untilMs: now + limits.failuresMs };
      failures.set(address, seen);
    }
    seen.count += 1;
    return seen.count > limits.failuresMax ? seen.untilMs - now : 0;
  }
}

/** @param address as a socket tells it, or as it was configured */
export function isLoopback(address: string): boolean {
  return /^(::ffff:)?127\.[0-9.]+$/i.test(address) || address === '::1' || address === 'localhost';
}

/** An address as it stands in a URL: IPv6 in brackets. */
export function hostOf(address: string): string {
  return isIP(address) === 6 ? `[${address}]` : address;
}

/** The scheme is left out of the comparison: behind a TLS proxy the page sees https and this listener sees http. */
function isSameServer(origin: string, authority: string | undefined): boolean {
  const [, scheme, own] = /^(https?):\/\/([^/]+)$/.exec(origin.toLowerCase()) ?? [];
  if (own === undefined || authority === undefined) return false;
  const defaultPort = scheme === 'https' ? /:443$/ : /:80$/;
  return own.replace(defaultPort, '') === authority.toLowerCase().replace(defaultPort, '');
}

function isAddress(authority: string): boolean {
  return isIP(nameOf(authority).replace(/^\[(.*)\]$/, '$1')) !== 0;
}

function nameOf(authority: string): string {
  return authority.toLowerCase().replace(/:[0-9]*$/, '');
}
