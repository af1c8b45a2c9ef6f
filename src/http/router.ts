/** Walks a route table: the table is the server. Knows no HTTP objects. */

export interface Route<Handler> {
  /** A report needs a journal: in hosted mode its path begins with the name of a deployment. */
  readonly needs: 'journal' | 'nothing';
  readonly methods: readonly string[];
  readonly path: string;
  /** Whether an asset key may follow the path; such a path may also end in a slash. */
  readonly takesKey: boolean;
  readonly handler: Handler;
}

export type Match<Handler> =
  /** `keyPath`: what follows the slash after the path of the route, raw; undefined if nothing does. */
  | { readonly kind: 'found'; readonly route: Route<Handler>; readonly keyPath: string | undefined }
  | { readonly kind: 'wrong method'; readonly route: Route<Handler> }
  | { readonly kind: 'unknown path' };

/** What is before the path of a route. */
export interface Prefix {
  /** Of every path, for example `/some/path`. Empty, or begins with a slash and does not end in one. */
  readonly path: string;
  /** Whether one more component, the name of a deployment, precedes the routes that need a journal. */
  readonly namesDeployment: boolean;
}

/**
 * @param path raw: compared byte for byte, since `.`, `..` and `%2F` may be parts of a key
 * @returns whether there is such a route; in hosted mode the name of the deployment is not checked
 */
export function findRoute<Handler>(
  routes: readonly Route<Handler>[],
  prefix: Prefix,
  method: string,
  path: string,
): Match<Handler> {
  if (!path.startsWith(prefix.path)) return UNKNOWN_PATH;
  const begin = prefix.path.length;
  const journalBegin = prefix.namesDeployment ? endOfComponent(path, begin) : begin;
  for (const route of routes) {
    const from = route.needs === 'journal' ? journalBegin : begin;
    if (!path.startsWith(route.path, from)) continue;
    const end = from + route.path.length;
    const bare = path.length === end;
    if (!bare && !(route.takesKey && path[end] === '/')) continue;
    if (!route.methods.includes(method)) return { kind: 'wrong method', route };
    const keyPath = path.length > end + 1 ? path.slice(end + 1) : undefined;
    return { kind: 'found', route, keyPath };
  }
  return UNKNOWN_PATH;
}

const UNKNOWN_PATH = { kind: 'unknown path' } as const;

/** @param begin where the slash before the component is */
function endOfComponent(path: string, begin: number): number {
  const end = path.indexOf('/', begin + 1);
  return end === -1 ? path.length : end;
}
