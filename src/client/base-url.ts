/** The base URL of a service, as a user gives it on the command line. */

import type { Endpoint } from '../event/parameters.ts';
import { shellWord } from '../telemetry/printable.ts';

/**
 * Checks a URL. One that includes an endpoint is refused, since its kind and key could contradict those of the report.
 * @param text an absolute URL, such as `https://assets.example/prod/`
 * @returns the origin and the path without a slash at its end, such as `https://assets.example/prod`
 * @throws Error with a sentence for an endpoint, and for a user, a query or a fragment; it does not contain a password
 */
export function readBaseUrl(text: string, endpoints: readonly Endpoint[]): string {
  const { origin, pathname, username, password, search, hash } = new URL(text);
  const parts = pathname.split('/');
  const at = parts.findIndex((part) => endpoints.some(({ path }) => path === `/${part}`));
  const base = origin + (at === -1 ? pathname : parts.slice(0, at).join('/')).replace(/\/+$/, '');
  if (at !== -1) {
    throw new Error(`--url names the endpoint ${parts[at]}; give the URL of the service: --url ${shellWord(base)}`);
  }
  if (username + password + search + hash !== '') {
    throw new Error(
      '--url has a user, a query or a fragment; credentials for a proxy go into --token-file and --token-header',
    );
  }
  return base;
}
