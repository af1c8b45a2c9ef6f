/** The line itself: what happens to a request, in order, and the route table. The first step that refuses decides. */

import type { Limits } from '../config/limits.ts';
import type { Event } from '../event/event.ts';
import type { Endpoint } from '../event/parameters.ts';
import { type Notices, oncePerName } from '../telemetry/log.ts';
import { type Metrics, metricsType } from '../telemetry/metrics.ts';
import { type ParameterLimits, reportTo } from './handlers.ts';
import {
  type App,
  type Failure,
  type Handler,
  type Incoming,
  OTHER_ROUTE,
  Refusal,
  type Reply,
  unavailable,
} from './message.ts';
import { checkBodyHeaders, checkExpect, type Head, readBody, readHead, readQuery } from './request.ts';
import { findRoute, type Match, type Prefix, type Route } from './router.ts';

export interface AppParts {
  /** What can be reported. */
  readonly endpoints: readonly Endpoint[];
  /** Empty, or begins with a slash and does not end in one. */
  readonly pathPrefix: string;
  /** @throws Refusal for a request that may not report */
  readonly checkAccess: (head: Head) => void;
  /** The headers that may hold a token, in lower case. */
  readonly tokenHeaders: ReadonlySet<string>;
  /** Where what a request reports is recorded. @throws Refusal for a request that may not report there */
  readonly findSite: (head: Head, incoming: Incoming) => Site;
  /** See `Prefix`. */
  readonly namesDeployment: boolean;
  /** What `/readyz` answers. */
  readonly readiness: () => Reply;
  /** What `/openapi.json` answers, as JSON text. */
  readonly contract: () => string;
  readonly limits: Limits;
  readonly metrics: Metrics;
  /** Free space of the disk, undefined where the system does not tell. */
  readonly freeBytes: () => number | undefined;
  readonly notices: Notices;
}

/** A journal, and the paths of the reports that go there. */
export interface Site {
  /** As `AppParts.pathPrefix`, with what leads to this journal. */
  readonly prefix: string;
  /** Calls `done` when the event of a body of so many bytes is durable, or with why it could not be recorded. */
  append(event: Event, bodyBytes: number, done: (failure: string | undefined) => void): void;
  /** Why no report with a body of so many bytes could be recorded now, or undefined. */
  refusal(bodyBytes: number): string | undefined;
}

/** What is under the prefix of a journal. */
export function routesOf(endpoints: readonly Endpoint[], limits: ParameterLimits): readonly Route<Handler>[] {
  return endpoints.map((endpoint) => ({
    needs: 'journal',
    methods: ['POST'],
    path: endpoint.path,
    takesKey: true,
    handler: reportTo(endpoint, limits),
  }));
}

/** What anybody may ask who gets past the doors for web pages: no token is needed, and nothing is recorded. */
export function questionsOf({
  readiness,
  contract,
  metrics,
  freeBytes,
}: Pick<AppParts, 'readiness' | 'contract' | 'metrics' | 'freeBytes'>): readonly Route<Handler>[] {
  let document: Reply | undefined; // made when it is first asked for
  const readContract = () => {
    document ??= { status: 200, body: contract() };
    return document;
  };
  const showMetrics = () => ({
    status: 200,
    body: metrics.render(readiness().status === 200, freeBytes()),
    contentType: metricsType,
  });
  const question = (path: string, answer: () => Reply): Route<Handler> => ({
    needs: 'nothing',
    methods: ['GET', 'HEAD'],
    path,
    takesKey: false,
    handler: () => ({ reply: answer() }),
  });
  return [
    question('/livez', () => OK),
    question('/readyz', readiness),
    question('/openapi.json', readContract),
    question('/metrics', showMetrics),
  ];
}

/** @returns the function that the listener calls with each head; it never throws, whatever the request holds */
export function createApp(parts: AppParts): App {
  const { pathPrefix, checkAccess, tokenHeaders, findSite, limits, metrics, notices } = parts;
  const routes = [...questionsOf(parts), ...routesOf(parts.endpoints, parts.limits)];
  const prefix: Prefix = { path: pathPrefix, namesDeployment: parts.namesDeployment };
  const isNew = oncePerName(limits.oncePerNameMax);

  return (incoming) => {
    let route = OTHER_ROUTE;
    try {
      const head = readHead(incoming, tokenHeaders, limits); // 400, 431: HTTP itself
      checkAccess(head); // 403: a foreign page or Host
      const match = findRoute(routes, prefix, head.method, head.path);
      const site = needsJournal(match) ? findSite(head, incoming) : undefined; // 401, 429
      if (match.kind !== 'unknown path') route = match.route.path;
      const { handler, keyPath } = found(match, head, routes, site); // 404, 405
      checkExpect(head); // 417
      if (head.bodyBytes) checkBodyHeaders(head, head.bodyBytes, limits); // 413, 415, 400: before the upload
      if ((head.bodyBytes ?? 0) > limits.largeBodyBytes) {
        const reason = site?.refusal(head.bodyBytes ?? 0); // 503: what can not be recorded need not be sent
        if (reason !== undefined) return { kind: 'refuse', route, reply: unavailable(reason, limits) };
      }

      return {
        kind: 'receive',
        route,
        receive: (bytes, respond) => {
          let outcome: ReturnType<Handler>;
          try {
            if (head.bodyBytes === undefined && bytes.length > 0) checkBodyHeaders(head, bytes.length, limits);
            outcome = handler({ keyPath, body: readBody(bytes, limits), query: readQuery(head.query) }); // 400
          } catch (error) {
            respond(refuse(error, incoming));
            return;
          }
          if (outcome.hiddenKey !== undefined || outcome.unknown !== undefined) tell(outcome, head.path, incoming);
          const { event, reply } = outcome;
          if (event === undefined || site === undefined) {
            respond(reply);
            return;
          }
          const { type } = event; // who waits must not hold the event: its strings hold the body that they were cut from
          site.append(event, bytes.length, (failure) => {
            if (failure !== undefined) return respond(unavailable(failure, limits));
            metrics.events[type] += 1;
            respond(reply);
          });
        },
      };
    } catch (error) {
      return { kind: 'refuse', route, reply: refuse(error, incoming) };
    }
  };

  function refuse(error: unknown, { id }: Incoming): Failure {
    if (!(error instanceof Refusal)) {
      // Our mistake, not the client's: it is told to come back, and the operator is told everything.
      notices.error('a request met a defect of the service', {
        request_id: id,
        problem: String((error as Error)?.stack ?? error),
      });
      return unavailable('the service could not handle this request', limits);
    }
    if (error.reply.status === 403 && isNew(error.message))
      notices.warn('a request was refused', { request_id: id, problem: error.message });
    return error.reply;
  }

  function tell({ event, hiddenKey, unknown = [] }: ReturnType<Handler>, path: string, { id }: Incoming): void {
    if (hiddenKey !== undefined) {
      notices.warn('the asset key in the path won over another one in the same request', {
        request_id: id,
        path,
        recorded: event?.assetKey,
        ignored: hiddenKey.slice(0, limits.shownCharactersMax),
      });
    }
    for (const name of notices.debugging ? unknown : []) {
      const short = name.slice(0, limits.shownCharactersMax);
      if (isNew(short)) notices.debug('an unknown parameter is ignored', { request_id: id, name: short });
    }
  }
}

const OK: Reply = { status: 200, body: '{"status":"ok"}' };

/**
 * What `/readyz` answers.
 * @param problem why nothing can be recorded, or undefined
 * @param troubles of single deployments; the others go on, so the service is ready
 */
export function readinessOf(
  problem: string | undefined,
  troubles: ReadonlyMap<string, string>,
  limits: Pick<Limits, 'retryAfterSeconds'>,
): Reply {
  if (problem !== undefined) return unavailable(problem, limits);
  if (troubles.size === 0) return OK;
  return { status: 200, body: JSON.stringify({ status: 'degraded', deployments: Object.fromEntries(troubles) }) };
}

/** An unknown path as well: in hosted mode a request without a token does not learn which paths there are. */
function needsJournal(match: Match<Handler>): boolean {
  return match.kind === 'unknown path' || match.route.needs === 'journal';
}

/** @throws Refusal 404 or 405 */
function found(
  match: Match<Handler>,
  { method }: Head,
  routes: readonly Route<Handler>[],
  site: Site | undefined,
): { handler: Handler; keyPath: string | undefined } {
  if (match.kind === 'found') return { handler: match.route.handler, keyPath: match.keyPath };
  if (match.kind === 'wrong method') {
    const allow = match.route.methods.join(', ');
    throw new Refusal(405, `${method} is not allowed here; use ${allow}`, { headers: ['Allow', allow] });
  }
  const reports = routes.filter(({ needs }) => needs === 'journal');
  const paths = reports.map(({ path }) => `${site?.prefix ?? ''}${path}/`);
  throw new Refusal(404, `nothing is at this path; POST a report to ${paths.join(', ')}`);
}
