/** Walks a route table: the table is the server. Knows no HTTP objects. */

export interface Route<Handler> {
  readonly methods: readonly string[];
  readonly path: string;
  /** Whether an asset key may follow the path; such a path may also end in a slash. */
  readonly takesKey: boolean;
  readonly handler: Handler;
}

export type Match<Handler> =
  /** `path`: of the route. `keyPath`: what follows the slash after the path, raw; undefined where nothing does. */
  | { readonly kind: 'found'; readonly path: string; readonly handler: Handler; readonly keyPath: string | undefined }
  | { readonly kind: 'wrong method'; readonly path: string; readonly allow: string }
  | { readonly kind: 'unknown path' };

/**
 * @param path raw: compared byte for byte, since `.`, `..` and `%2F` may be parts of a key
 * @param prefix what every path is under; empty, or begins with a slash and does not end in one
 */
export function findRoute<Handler>(
  routes: readonly Route<Handler>[],
  prefix: string,
  method: string,
  path: string,
): Match<Handler> {
  if (!path.startsWith(prefix)) return UNKNOWN_PATH;
  for (const route of routes) {
    if (!path.startsWith(route.path, prefix.length)) continue;
    const end = prefix.length + route.path.length;
    const bare = path.length === end;
    if (!bare && !(route.takesKey && path[end] === '/')) continue;
    if (!route.methods.includes(method))
      return { kind: 'wrong method', path: route.path, allow: route.methods.join(', ') };
    const keyPath = path.length > end + 1 ? path.slice(end + 1) : undefined;
    return { kind: 'found', path: route.path, handler: route.handler, keyPath };
  }
  return UNKNOWN_PATH;
}

const UNKNOWN_PATH = { kind: 'unknown path' } as const;
