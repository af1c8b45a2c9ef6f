/** The base URL of a service, in the form in which a user gives it on the command line. */

import { endpoints } from '../event/parameters.ts';
import { shellWord } from '../telemetry/printable.ts';

/**
 * Checks a URL. A URL with an endpoint is refused, since its kind and key could contradict the report.
 * @returns the origin and the path without a slash at its end
 * @throws Error with a sentence for an endpoint, a login, a query or a fragment; the sentence does not contain the password
 */
export function readBaseUrl(text: string): string {
  const { base, endpoint, hasQuery } = parseBaseUrl(text);
  if (endpoint !== undefined) {
    throw new Error(`--url names the endpoint ${endpoint}; give the URL of the service: --url ${shellWord(base)}`);
  }
  if (hasLogin(text)) {
    throw new Error(
      '--url has a login before its host; leave it out, and write its header, such as "Basic …", into the file of --token-file, with --token-header Authorization',
    );
  }
  if (hasQuery) throw new Error('--url has a query or a fragment; leave it out: a token goes into --token-file');
  return base;
}

/** Whether a URL's host name refers to this machine, to which requests never go through a proxy. */
export function isLocal(hostname: string): boolean {
  return /^((.*\.)?localhost\.?|127(\.\d+){3}|0\.0\.0\.0|\[::1?\]|\[::ffff:7f[0-9a-f]{2}:[0-9a-f]+\])$/i.test(hostname);
}

/** What is required of a proxy's URL. */
export const PROXY_WANTED = 'must be a URL such as http://proxy.example:3128';

/** @returns undefined for a text that is not a proxy's URL, because it lacks `http://` or has a path */
export function readProxyUrl(text: unknown): URL | undefined {
  if (typeof text !== 'string' || !/^http:\/\/[^/?#\\\s]+\/?$/i.test(text)) return undefined;
  return URL.canParse(text) ? new URL(text) : undefined;
}

export interface BaseUrl {
  /** The origin and the path, up to an endpoint and without a slash at its end. */
  readonly base: string;
  /** The endpoint that the URL has, such as `report_asset_check`. */
  readonly endpoint: string | undefined;
  /** Whether the URL has a query or a fragment. */
  readonly hasQuery: boolean;
}

export function parseBaseUrl(text: string): BaseUrl {
  const { origin, pathname, search, hash } = new URL(text);
  const parts = pathname.split('/');
  const at = parts.findIndex((part) => endpoints.some(({ path }) => path === `/${part}`));
  return {
    base: origin + (at === -1 ? pathname : parts.slice(0, at).join('/')).replace(/\/+$/, ''),
    endpoint: parts[at],
    hasQuery: search + hash !== '',
  };
}

/** Whether a URL has a user or a password, even one with a character that ends the host, such as `/`. */
export function hasLogin(url: string): boolean {
  if (!URL.canParse(url)) return url.includes('@');
  const { username, password } = new URL(url);
  return username + password !== '';
}
