/** The routes of reports and of the service itself, and the errors for requests without a route. */

import type { Limits } from '../config/limits.ts';
import { version } from '../config/names.ts';
import { batchPath } from '../event/item.ts';
import type { JsonLimits } from '../event/json-bytes.ts';
import { nearestName } from '../event/nearest.ts';
import { endpoints } from '../event/parameters.ts';
import { objectSchema, type Schema, TEXT } from '../event/schema.ts';
import { metricsType } from '../telemetry/metrics.ts';
import { batchTypes, reportBatch } from './batch.ts';
import { reportTo } from './handlers.ts';
import { type Handled, type Handler, type Head, Refusal, type Reply, unavailable } from './message.ts';
import { bodyReader, readQuery } from './request.ts';
import type { FoundRoute, Right, Route, RouteMatch } from './router.ts';

/** The routes of reports, below the prefix of a journal. @param strict see `reportTo` */
export function reportRoutesOf(limits: Limits, strict: string | undefined): readonly Route<Handler>[] {
  const reports: Route<Handler>[] = endpoints.map((endpoint) => ({
    needs: 'report',
    methods: ['POST'],
    path: endpoint.path,
    followedBy: 'key',
    bodyTypes: ['application/json'],
    handler: reportTo(endpoint, limits, strict),
  }));
  const batch: Route<Handler> = {
    needs: 'report',
    methods: ['POST'],
    path: batchPath,
    followedBy: 'slash',
    bodyTypes: batchTypes,
    acceptsGzip: true,
    handler: reportBatch(limits),
  };
  return [...reports, batch];
}

/** The sources of the replies of the service's own routes. */
export interface ServiceRouteParts {
  /** The reply of `/readyz`. */
  readonly readiness: () => Reply;
  /** @returns the body of `/openapi.json`, as JSON text */
  readonly contract: (routes: readonly Route<Handler>[]) => string;
  /** Resolves to the body of `/metrics`. Never rejects. */
  readonly showMetrics: () => Promise<string>;
  readonly limits: JsonLimits;
}

/**
 * @returns all routes of a service: first the service's own routes, which need no token and record nothing, then the others.
 *   `checkAccess` applies to all
 */
export function allRoutesOf(parts: ServiceRouteParts, others: readonly Route<Handler>[]): readonly Route<Handler>[] {
  const { readiness, contract, showMetrics } = parts;
  const readBody = bodyReader(parts.limits);
  let document: Reply | undefined; // built on the first request
  const readContract = () => {
    document ??= { kind: 'document', status: 200, body: Buffer.from(contract(routes)) };
    return document;
  };
  const serverInfo = () => (readiness().status === 200 ? SERVER_INFO : readiness());
  const readMetrics = async (): Promise<Reply> => {
    return { kind: 'body', status: 200, body: await showMetrics(), contentType: metricsType };
  };
  const readRoute = (
    path: string,
    outcome: () => Handled,
    summary: string,
    schema: Schema,
    type = 'application/json',
  ): Route<Handler> => ({
    needs: 'nothing',
    methods: ['GET', 'HEAD'],
    path,
    followedBy: 'nothing',
    bodyTypes: ['application/json'],
    handler: ({ body, query }) => {
      // Unused, but checked like in a report: a request inside a body must not seem to be accepted.
      readBody(body);
      readQuery(query);
      return outcome();
    },
    describe: () => ({ summary, content: { [type]: schema } }),
  });
  const routes: readonly Route<Handler>[] = [
    readRoute('/livez', () => answer(OK), 'Liveness: whether the process responds', health),
    readRoute('/readyz', () => answer(readiness()), 'Readiness: whether reports are accepted', health),
    readRoute('/server_info', () => answer(serverInfo()), PROBED, objectSchema({ assetlog_version: TEXT })),
    readRoute('/openapi.json', () => answer(readContract()), 'This document', {}),
    readRoute('/metrics', () => ({ kind: 'later', reply: readMetrics }), METRICS, TEXT, 'text/plain'),
    ...others,
  ];
  return routes;
}

function answer(reply: Reply): Handled {
  return { kind: 'answer', reply };
}

const health = objectSchema(
  { status: { ...TEXT, enum: ['ok', 'degraded'] } },
  {
    deployments: { type: 'object', additionalProperties: { type: 'string' } },
    files: { type: 'object', additionalProperties: { type: 'string' } },
    mode: { ...TEXT, const: 'test' },
  },
);
const PROBED = 'Readiness for the probes of Helm charts, with the version';
const METRICS = 'Metrics in the Prometheus text format';

/** Helm charts of the reference probe this path. */
const SERVER_INFO: Reply = { kind: 'body', status: 200, body: JSON.stringify({ assetlog_version: version }) };
const OK: Reply = { kind: 'body', status: 200, body: '{"status":"ok"}' };

/** @returns the route of hosted mode by which a client that may read asks for its own deployment */
export function deploymentReadiness(readinessFor: (deployment: string) => Reply): Route<Handler> {
  return {
    needs: 'read',
    methods: ['GET', 'HEAD'],
    path: '/readyz',
    followedBy: 'nothing',
    bodyTypes: ['application/json'],
    handler: ({ deployment = '', query }) => {
      readQuery(query); // unused, but a malformed query is refused
      return answer(readinessFor(deployment));
    },
    describe: () => ({ summary: 'Readiness of one deployment', content: { 'application/json': health } }),
  };
}

/**
 * The reply of `/readyz`: 503 if nothing can be recorded, 200 otherwise.
 * @param problem why nothing can be recorded
 * @param troubles problems by deployment; other deployments still record, so the service is ready but degraded
 */
export function readinessOf(
  problem: string | undefined,
  { deployments, files }: Readonly<Record<'deployments' | 'files', ReadonlyMap<string, string>>>,
): Reply {
  if (problem !== undefined) return unavailable(problem);
  if (deployments.size + files.size === 0) return OK;
  const shown = (troubles: ReadonlyMap<string, string>) =>
    troubles.size === 0 ? undefined : Object.fromEntries(troubles);
  const body = JSON.stringify({ status: 'degraded', deployments: shown(deployments), files: shown(files) });
  return { kind: 'body', status: 200, body };
}

/** @throws Refusal 404 or 405 */
export function requireRoute(
  match: RouteMatch<Handler>,
  { method, path }: Head,
  routes: readonly Route<Handler>[],
  pathPrefix: string,
  deployment: string | undefined,
): FoundRoute<Handler> {
  if (match.kind === 'found') return match;
  if (match.kind === 'unknown path') {
    throw nothingAt(path, routes, deployment === undefined ? pathPrefix : `${pathPrefix}/${deployment}`);
  }
  const allow = match.route.methods.join(', ');
  const use = match.route.page === undefined ? `use ${allow}` : `${advice(routes, pathPrefix)}`;
  throw new Refusal(405, `${method} is not allowed here; ${use}`, { headers: ['Allow', allow] });
}

function nothingAt(path: string, routes: readonly Route<Handler>[], prefix: string): Refusal {
  const meant = nearestPath(path, prefix, [...pathsOf(routes, 'report', 'POST'), ...pathsOf(routes, 'read', 'GET')]);
  const hint = meant === undefined ? '' : `did you mean ${prefix}${meant}? `;
  return new Refusal(404, `nothing is at this path; ${hint}${advice(routes, prefix)}`);
}

/** @returns the paths for a client: `POST a report to /report_asset_check/, …, or GET /events, …` */
function advice(routes: readonly Route<Handler>[], prefix: string): string {
  const readings = pathsOf(routes, 'read', 'GET');
  const listed = (paths: readonly string[]) => paths.map((one) => `${prefix}${one}`).join(', ');
  const orRead = readings.length === 0 ? '' : `, or GET ${listed(readings)}`;
  return `POST a report to ${listed(pathsOf(routes, 'report', 'POST'))}${orRead}`;
}

function pathsOf(routes: readonly Route<Handler>[], right: Right, method: string): string[] {
  return routes
    .filter(({ needs, page, methods }) => needs === right && page === undefined && methods.includes(method))
    .map((route) => pathOf(route));
}

/** @returns the path of a route in the form for clients: `/report_asset_check/`, but `/events` */
function pathOf({ path, followedBy }: Route<Handler>): string {
  return followedBy === 'nothing' ? path : `${path}/`;
}

/** @returns the path that is one edit away from the first component of a request's path: `/report_asset_check/` */
function nearestPath(path: string, prefix: string, paths: readonly string[]): string | undefined {
  const under = path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path;
  const end = under.indexOf('/', 1);
  const name = nearestName(end === -1 ? under : under.slice(0, end), paths.map(withoutSlash));
  return paths.find((known) => withoutSlash(known) === name);
}

function withoutSlash(path: string): string {
  return path.replace(/\/$/, '');
}
