/** Protects against cross-site requests: a page of another site must neither report nor read through the operator's browser. */

import { isIP } from 'node:net';
import { type Head, quotingRefusal, type Refusal, shown } from './message.ts';

/** The names of this service. */
export interface AccessOptions {
  /** The address that the listener is bound to. */
  readonly address: string;
  /** Further host names of this service, in lower case and without a port. */
  readonly allowedHosts: readonly string[];
  /**
   * Whether other host names (but not IP addresses) are refused on an address other than loopback, even without `allowedHosts`.
   */
  readonly onlyKnownHosts?: boolean;
}

/**
 * Refuses the requests that a page of another site could send: an Origin that is not this server, a Sec-Fetch-Site other than
 * same-origin and none, and a Host that is not this service (DNS rebinding). In a request that did not come from a page, Host is
 * checked only if the names of the service are known, which is the case on loopback or with --allowed-host.
 *
 * The only accepted request from another site is a link to the page of the service (`opensPage`): the page contains no data,
 * shows none in a frame, and the other site cannot read it.
 * @returns a check that throws Refusal 403
 */
export function createAccess(options: AccessOptions): (head: Head, opensPage: boolean) => void {
  const ownNames = new Set(['localhost', '127.0.0.1', '[::1]', hostOf(options.address), ...options.allowedHosts]);
  const isLocalOnly = isLoopback(options.address);
  // On other addresses its names, such as `assetlog.default.svc`, are known only from --allowed-host.
  const hasKnownNames = isLocalOnly || options.allowedHosts.length > 0 || options.onlyKnownHosts === true;
  const isOwn = (authority: string) => ownNames.has(nameOf(authority));

  const refuse = (sent: string, problem: (value: string) => string): Refusal =>
    quotingRefusal(403, shown(sent), 'logged', problem);

  return ({ method, authority, navigates, fields: { origin, fetchSite } }, opensPage) => {
    const isUnknown = authority !== undefined && !isOwn(authority);
    if (hasKnownNames && isUnknown && (isLocalOnly || !isAddress(authority))) {
      throw refuse(
        authority,
        (host) => `Host ${host} is not this service; use localhost, or allow it with --allowed-host`,
      );
    }
    if (origin !== undefined && !isSameServer(origin, authority)) {
      throw refuse(origin, (value) => `Origin ${value} is not this service: web pages of other sites are refused`);
    }
    // DNS rebinding: a foreign page has the same origin if the owner of its host name lets the name resolve to this
    // service. An IP address cannot be rebound.
    const isOfPage = origin !== undefined || fetchSite === 'same-origin'; // a GET of the same origin has no Origin
    if (isOfPage && isUnknown && !isAddress(authority)) {
      throw refuse(authority, (host) => `Host ${host} is not this service; let its pages use it with --allowed-host`);
    }
    const isForeign = fetchSite !== undefined && fetchSite !== 'none' && fetchSite !== 'same-origin';
    if (isForeign && !(opensPage && navigates && method === 'GET')) {
      throw refuse(fetchSite, (site) => `Sec-Fetch-Site is ${site}: web pages of other sites are refused`);
    }
  };
}

/**
 * @param address from a socket or from the configuration
 * @returns whether only this machine can reach it: true for `127.0.0.1` and `::ffff:127.0.0.1`
 */
export function isLoopback(address: string): boolean {
  return /^(::ffff:)?127\.[0-9.]+$/i.test(address) || address === '::1' || address === 'localhost';
}

/** @returns the address as the host of a URL: IPv6 in brackets */
export function hostOf(address: string): string {
  return isIP(address) === 6 ? `[${address}]` : address;
}

/** The scheme is not compared: with a TLS proxy, the origin of a page has https and this listener serves http. */
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
