/** Finds the route of a request in the route table. */

import type { Limits } from '../config/limits.ts';
import { deploymentName } from '../config/names.ts';
import type { Schema } from '../event/schema.ts';

/** The rights of a token: what a client may do with the journal of a deployment. */
export const rights = ['report', 'read', 'forward', 'erase'] as const;
export type Right = (typeof rights)[number];

/** A row of the route table. */
export interface Route<Handler> {
  /** The right that it needs. In hosted mode, the path of a route that needs a right comes after the name of a deployment. */
  readonly needs: Right | 'nothing';
  /** The methods of the route, in upper case. */
  readonly methods: readonly string[];
  /** Without a prefix and a last slash: `/report_asset_check`. */
  readonly path: string;
  /**
   * The rest of the path: `slash` for an optional slash, `key` for an optional slash and asset key. A component is required, and
   * follows a slash.
   */
  readonly followedBy: 'nothing' | 'slash' | 'key' | 'one component' | 'two components';
  /** The media types of the bodies that it accepts, in lower case. */
  readonly bodyTypes: readonly string[];
  /** Whether its bodies can have `Content-Encoding: gzip`. */
  readonly acceptsGzip?: boolean;
  /** The limits of its bodies, compressed and decompressed, if they differ from the limits of reports. */
  readonly bodyLimits?: Pick<Limits, 'bodyBytesMax' | 'uploadBytesMax'>;
  /**
   * Called before the upload of a body larger than `largeBodyBytes`.
   * @returns why the service does not accept a body of `bodyBytes` now; undefined if it does
   */
  readonly refusal?: (bodyBytes: number) => string | undefined;
  /**
   * Set for the page for browsers. `below any name` is the page below the name of a deployment, even an unknown one. With another
   * method it does not match, so that a client without a token gets the same 401 as for any other path.
   */
  readonly page?: 'at the root' | 'below any name';
  readonly handler: Handler;
  /**
   * Called when the OpenAPI document is first requested. Missing for reports, which the document derives from their table.
   */
  readonly describe?: () => RouteDescription;
}

/** The description of a route in the OpenAPI document, in addition to its row. */
export interface RouteDescription {
  readonly summary: string;
  readonly description?: string;
  /** The parameters of its query, by name. */
  readonly query?: Readonly<Record<string, { readonly schema: Schema; readonly what?: string }>>;
  /**
   * Other parameters in the form of OpenAPI. The parameters in the path follow the path of the route, in this order.
   */
  readonly parameters?: readonly Schema[];
  /** The schema of the body of a PUT or POST, with an example. Its media types are `Route.bodyTypes`. */
  readonly body?: { readonly schema: Schema; readonly example?: unknown };
  /** The schemas of its reply by media type, the default first. */
  readonly content: Readonly<Record<string, Schema>>;
  /** The statuses of the route in addition to the statuses of every route. */
  readonly also?: readonly (409 | 410)[];
}

/** The result of `findRoute`: a route, or why none matches. */
export type RouteMatch<Handler> =
  | FoundRoute<Handler>
  | { readonly kind: 'wrong method'; readonly route: Route<Handler> }
  | { readonly kind: 'unknown path' };

export interface FoundRoute<Handler> {
  readonly kind: 'found';
  readonly route: Route<Handler>;
  /** The raw text after the path of the route and a slash: `warehouse/orders`; undefined if it is empty. */
  readonly keyPath: string | undefined;
}

/** The part of a request's path before the path of a route. */
export interface Prefix {
  /** Prefix of every path: empty, or a path that starts with a slash and does not end with one: `/some/path`. */
  readonly path: string;
  /** Whether the paths of routes that need a right come after one more component, the name of a deployment (hosted mode). */
  readonly namesDeployment: boolean;
}

/**
 * Finds the first route that matches; the order of the table is the precedence.
 * @param path the raw path, compared byte by byte, since `.`, `..` and `%2F` can be parts of a key
 * @returns the route, or why none matches. In hosted mode the name of the deployment is not checked
 */
export function findRoute<Handler>(
  routes: readonly Route<Handler>[],
  prefix: Prefix,
  method: string,
  path: string,
): RouteMatch<Handler> {
  if (!path.startsWith(prefix.path)) return UNKNOWN_PATH;
  const start = prefix.path.length;
  const journalStart = prefix.namesDeployment ? endOfComponent(path, start) : start;
  for (const route of routes) {
    const from = route.needs === 'nothing' && route.page !== 'below any name' ? start : journalStart;
    const end = from + route.path.length;
    if (!path.startsWith(route.path, from) || !fits(route, path, end)) continue;
    if (!route.methods.includes(method)) {
      if (route.page === 'below any name') continue;
      return { kind: 'wrong method', route };
    }
    if (route.page === 'below any name' && !deploymentName.test(path.slice(start + 1, from))) continue;
    const keyPath = path.length > end + 1 ? path.slice(end + 1) : undefined;
    return { kind: 'found', route, keyPath };
  }
  return UNKNOWN_PATH;
}

/** @param end the offset of the first character after the path of the route */
function fits(route: Route<unknown>, path: string, end: number): boolean {
  return path.length === end ? canEnd(route) : canContinue(route, path, end);
}

function canEnd({ followedBy }: Route<unknown>): boolean {
  return followedBy === 'nothing' || followedBy === 'slash' || followedBy === 'key';
}

/** @param end the offset of the first character after the path of the route */
function canContinue(route: Route<unknown>, path: string, end: number): boolean {
  const { followedBy } = route;
  if (followedBy === 'nothing' || path[end] !== '/') return false;
  if (canEnd(route)) return followedBy === 'key' || path.length === end + 1;
  return path.slice(end + 1).split('/').length === (followedBy === 'one component' ? 1 : 2);
}

const UNKNOWN_PATH = { kind: 'unknown path' } as const;

/** @param start the offset of the slash before a component @returns the offset of the component's end */
function endOfComponent(path: string, start: number): number {
  const end = path.indexOf('/', start + 1);
  return end === -1 ? path.length : end;
}
