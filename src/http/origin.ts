/** Who may report. A page in the operator's browser may not, whatever it makes the browser send. */

import { isIP } from 'node:net';
import { Refusal, shown } from './message.ts';
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
