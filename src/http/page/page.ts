/**
 * `GET /`: a page for browsers that shows what a service recorded. The page holds no data: it asks the routes that read, with the
 * token that its user types in. A client that does not accept HTML gets the paths of the service as JSON.
 */

import { createHash } from 'node:crypto';
import type { Limits } from '../../config/limits.ts';
import { batchPath } from '../../event/item.ts';
import { endpoints } from '../../event/parameters.ts';
import type { BodyReply, DocumentReply, Handler } from '../message.ts';
import { acceptsHtml, readBody, readQuery } from '../request.ts';
import type { Route } from '../router.ts';

/** What the page and its JSON say about the service. */
export interface PageOptions {
  readonly version: string;
  /** As `AppParts.pathPrefix`. */
  readonly pathPrefix: string;
  /** Hosted mode: the header with the token, such as `Service-Cloud-Api-Token`. Undefined in local mode. */
  readonly tokenHeader: string | undefined;
  readonly limits: Limits;
}

/**
 * @returns the routes of the page. In local mode it needs the right to read, so that a service on which reading is off says so. In
 *   hosted mode it needs no token, and is below each name of a deployment as well, whether there is such a deployment or not
 */
export function pageRoutes(options: PageOptions): readonly Route<Handler>[] {
  const hosted = options.tokenHeader !== undefined;
  let page: Promise<DocumentReply> | undefined; // made when it is first asked for
  const readPage = () => {
    page ??= loadPage().then(replyWith);
    return page;
  };
  const row = (where: 'at the root' | 'below any name'): Route<Handler> => ({
    needs: hosted ? 'nothing' : 'read',
    methods: ['GET', 'HEAD'],
    path: '/',
    followedBy: 'nothing',
    bodyTypes: ['application/json'],
    page: where,
    handler: ({ body, query, head: { path, fields } }) => {
      readBody(body, options.limits); // not used, but well-formed, as in each request
      readQuery(query, options.limits);
      const isHtml = acceptsHtml(fields.accept);
      if (isHtml && !path.endsWith('/')) return { kind: 'answer', reply: redirectToSlash(path, query) };
      if (isHtml) return { kind: 'later', reply: readPage };
      const links = JSON.stringify(linksOf(options, where === 'below any name'));
      return { kind: 'answer', reply: { kind: 'body', status: 200, body: links, headers: VARY } };
    },
  });
  return hosted ? [row('at the root'), row('below any name')] : [row('at the root')];
}

/** The reply to a client that does not accept HTML, from which the page also learns how the service is addressed. */
function linksOf({ version, pathPrefix, tokenHeader }: PageOptions, isBelowName: boolean): object {
  const below = tokenHeader === undefined ? pathPrefix : `${pathPrefix}/{deployment_name}`;
  return {
    service: 'assetlog',
    version,
    token_header: tokenHeader,
    below_deployment: isBelowName || undefined,
    links: {
      report: [...endpoints.map(({ path }) => `${below}${path}/`), `${below}${batchPath}/`],
      events: `${below}/events`,
      assets: `${below}/assets`,
      sources: `${below}/sources`,
      refusals: `${below}/refusals`,
      openapi: `${pathPrefix}/openapi.json`,
      metrics: `${pathPrefix}/metrics`,
      livez: `${pathPrefix}/livez`,
      readyz: `${pathPrefix}/readyz`,
    },
  };
}

/** The addresses that the page uses are relative to its own. So is this one, since a proxy may have changed the host. */
function redirectToSlash(path: string, query: string): BodyReply {
  const location = `./${path.slice(path.lastIndexOf('/') + 1)}/${query === '' ? '' : `?${query}`}`;
  return { kind: 'body', status: 301, body: '{}', headers: ['Location', location, ...VARY] };
}

const VARY = ['Vary', 'Accept'];

function replyWith(html: string): DocumentReply {
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf('script', html)}`,
    `style-src ${hashOf('style', html)}`,
    'img-src data:',
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
  return {
    kind: 'document',
    status: 200,
    contentType: 'text/html; charset=utf-8',
    headers: ['Content-Security-Policy', policy, 'Referrer-Policy', 'no-referrer', ...VARY],
    body: Buffer.from(html),
  };
}

/** @returns the source of the Content-Security-Policy (CSP Level 3, section 2.3.1) that allows an inline element of the page */
function hashOf(name: string, html: string): string {
  const text = html.slice(html.indexOf(`<${name}>`) + name.length + 2, html.indexOf(`</${name}>`));
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** Put here by `build.ts`: the page as `packPage` makes it, so that the file of the program is short. */
declare const ASSETLOG_PAGE: string;

async function loadPage(): Promise<string> {
  if (typeof ASSETLOG_PAGE === 'string') {
    const { brotliDecompressSync } = process.getBuiltinModule('node:zlib'); // loaded only if needed, since that takes time
    return brotliDecompressSync(Buffer.from(ASSETLOG_PAGE, 'base64')).toString();
  } else {
    const { buildPage } = await import('./build.ts'); // from the source
    return buildPage();
  }
}
