/** Finds the route of a request in the route table. Does not depend on `node:http`. */

import { deploymentName } from '../config/config.ts';
import type { Limits } from '../config/limits.ts';

/** What a client may do with the journal of a deployment. */
export const rights = ['report', 'read', 'forward'] as const;
export type Right = (typeof rights)[number];

/** A row of the route table. */
export interface Route<Handler> {
  /** The right that it needs. In hosted mode, the name of a deployment precedes the path of a route that needs one. */
  readonly needs: Right | 'nothing';
  /** The methods that it takes, in upper case. */
  readonly methods: readonly string[];
  /** Without a prefix and without a last slash: `/report_asset_check`. */
  readonly path: string;
  /**
   * What may follow the path: `slash` for a last slash, `key` for that or a slash and an asset key. One or two components must
   * follow it, each after a slash.
   */
  readonly followedBy: 'nothing' | 'slash' | 'key' | 'one component' | 'two components';
  /** The media types of the bodies that it takes, in lower case. */
  readonly bodyTypes: readonly string[];
  /** What its bodies may take, if not the same as those of reports. */
  readonly bodyLimits?: Pick<Limits, 'bodyBytesMax' | 'uploadBytesMax'>;
  /**
   * Asked before the upload of a large body.
   * @returns why a body of so many bytes is not taken now; undefined if it is
   */
  readonly refusal?: (bodyBytes: number) => string | undefined;
  /**
   * Set for the page for browsers. `below any name` is the page below the name of a deployment, whether there is one or not: with
   * another method there is no route, so that a client without a token gets the same 401 as for any other path.
   */
  readonly page?: 'at the root' | 'below any name';
  readonly handler: Handler;
}

/** What `findRoute` found, or why no route matches. */
export type RouteMatch<Handler> =
  | FoundRoute<Handler>
  | { readonly kind: 'wrong method'; readonly route: Route<Handler> }
  | { readonly kind: 'unknown path' };

/** The route that matches a request. */
export interface FoundRoute<Handler> {
  readonly kind: 'found';
  readonly route: Route<Handler>;
  /** The raw text after the path of the route and a slash, such as `warehouse/orders`; undefined if it is empty. */
  readonly keyPath: string | undefined;
}

/** The part of a request's path before the path of a route. */
export interface Prefix {
  /** Prefix of every path: empty, or begins with a slash and does not end with one, such as `/some/path`. */
  readonly path: string;
  /** Hosted mode: whether one more component, the name of a deployment, precedes the routes that need a right. */
  readonly namesDeployment: boolean;
}

/**
 * Finds the first route that matches; the order of the table is the precedence.
 * @param path raw: compared byte for byte, since `.`, `..` and `%2F` may be parts of a key
 * @returns the route, or why none matches; in hosted mode the name of the deployment is not checked
 */
export function findRoute<Handler>(
  routes: readonly Route<Handler>[],
  prefix: Prefix,
  method: string,
  path: string,
): RouteMatch<Handler> {
  if (!path.startsWith(prefix.path)) return UNKNOWN_PATH;
  const begin = prefix.path.length;
  const journalBegin = prefix.namesDeployment ? endOfComponent(path, begin) : begin;
  for (const route of routes) {
    const from = route.needs === 'nothing' && route.page !== 'below any name' ? begin : journalBegin;
    if (!path.startsWith(route.path, from)) continue;
    const end = from + route.path.length;
    if (path.length === end ? !mayEnd(route) : !mayFollow(route, path, end)) continue;
    if (!route.methods.includes(method)) {
      if (route.page === 'below any name') continue;
      return { kind: 'wrong method', route };
    }
    if (route.page === 'below any name' && !deploymentName.test(path.slice(begin + 1, from))) continue;
    const keyPath = path.length > end + 1 ? path.slice(end + 1) : undefined;
    return { kind: 'found', route, keyPath };
  }
  return UNKNOWN_PATH;
}

function mayEnd({ followedBy }: Route<unknown>): boolean {
  return followedBy === 'nothing' || followedBy === 'slash' || followedBy === 'key';
}

/** Whether the path may continue after the path of the route. @param end the offset of the first character that follows */
function mayFollow(route: Route<unknown>, path: string, end: number): boolean {
  const { followedBy } = route;
  if (followedBy === 'nothing' || path[end] !== '/') return false;
  if (mayEnd(route)) return followedBy === 'key' || path.length === end + 1;
  return path.slice(end + 1).split('/').length === (followedBy === 'one component' ? 1 : 2);
}

const UNKNOWN_PATH = { kind: 'unknown path' } as const;

/** @param begin the offset of the slash before the component. @returns the offset of the component's end */
function endOfComponent(path: string, begin: number): number {
  const end = path.indexOf('/', begin + 1);
  return end === -1 ? path.length : end;
}
