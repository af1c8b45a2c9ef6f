/**
 * `GET /`: a page for browsers that shows recorded events. The page itself holds no data: it requests the routes that read, with
 * the token that its user enters. A client that does not accept HTML gets the paths of the service as JSON.
 */

import { createHash } from 'node:crypto';
import { batchPath } from '../../event/item.ts';
import type { JsonLimits } from '../../event/json-bytes.ts';
import { endpoints } from '../../event/parameters.ts';
import { TEXT } from '../../event/schema.ts';
import type { BodyReply, DocumentReply, Handler } from '../message.ts';
import { acceptsHtml, bodyReader, readQuery } from '../request.ts';
import type { Route, RouteDescription } from '../router.ts';

export interface PageOptions {
  readonly version: string;
  /** See `AppParts.pathPrefix`. */
  readonly pathPrefix: string;
  /** Hosted mode: the header with the token, such as `Service-Cloud-Api-Token`. Undefined in local mode. */
  readonly tokenHeader: string | undefined;
  readonly limits: JsonLimits;
}

/**
 * @returns the routes of the page. In local mode it needs the right to read, so that the error of a service with `--no-read` is
 *   shown. In hosted mode it needs no token, and is also below the name of any deployment, even an unknown one
 */
export function pageRoutes(options: PageOptions): readonly Route<Handler>[] {
  const readBody = bodyReader(options.limits);
  const hosted = options.tokenHeader !== undefined;
  let page: Promise<DocumentReply> | undefined; // built on the first request
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
      readBody(body); // unused, but checked like in each request
      readQuery(query);
      const isHtml = acceptsHtml(fields.accept);
      if (isHtml && !path.endsWith('/')) return { kind: 'answer', reply: redirectToSlash(path, query) };
      if (isHtml) return { kind: 'later', reply: readPage };
      const links = JSON.stringify(linksOf(options, where === 'below any name'));
      return { kind: 'answer', reply: { kind: 'body', status: 200, body: links, headers: VARY } };
    },
    ...(where === 'at the root' && { describe }),
  });
  return hosted ? [row('at the root'), row('below any name')] : [row('at the root')];
}

function describe(): RouteDescription {
  const summary = 'The page for browsers, or the paths of the service';
  return { summary, content: { 'application/json': { type: 'object' }, 'text/html': TEXT } };
}

/** The reply to a client that does not accept HTML. The page also gets the paths of the service from it. */
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

/** The location is relative, like all addresses on the page, since a proxy might have changed the host. */
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

/** @returns the hash source (CSP Level 3, section 2.3.1) that allows an inline element of the page */
function hashOf(name: string, html: string): string {
  const text = html.slice(html.indexOf(`<${name}>`) + name.length + 2, html.indexOf(`</${name}>`));
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** The result of `packPage`, defined by the build. Compressed, so that the file of the program is small. */
declare const ASSETLOG_PAGE: string;

async function loadPage(): Promise<string> {
  if (typeof ASSETLOG_PAGE === 'string') {
    const { brotliDecompressSync } = process.getBuiltinModule('node:zlib'); // loaded only if needed, since loading costs time
    return brotliDecompressSync(Buffer.from(ASSETLOG_PAGE, 'base64')).toString();
  } else {
    const { buildPage } = await import('./build.ts'); // when the program runs from its source
    return buildPage();
  }
}
