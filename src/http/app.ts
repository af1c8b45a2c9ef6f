/** The steps that each request passes, in order, and the route table. The first step that refuses decides the reply. */

import type { Limits } from '../config/limits.ts';
import type { Event } from '../event/event.ts';
import { batchPath } from '../event/item.ts';
import { nearestName } from '../event/nearest.ts';
import type { Endpoint } from '../event/parameters.ts';
import type { ConflictHandling, RecordedResult, RecordResult } from '../event/record-result.ts';
import type { Activity } from '../telemetry/activity.ts';
import { type Notices, oncePerName } from '../telemetry/log.ts';
import { type Metrics, metricsType } from '../telemetry/metrics.ts';
import { type BatchLimits, batchTypes, reportBatch } from './batch.ts';
import { type ParameterLimits, reportStrictlyTo, reportTo } from './handlers.ts';
import { readIdempotencyKey } from './idempotency.ts';
import {
  type App,
  type ErrorReply,
  type Handler,
  type Incoming,
  type LaterOutcome,
  OTHER_ROUTE,
  type Outcome,
  type Recordable,
  type RecordOutcome,
  Refusal,
  type Reply,
  type StreamReply,
  unavailable,
} from './message.ts';
import { checkBodyHeaders, checkExpect, type Head, readBody, readHead, readQuery } from './request.ts';
import { type FoundRoute, findRoute, type Prefix, type Right, type Route, type RouteMatch } from './router.ts';

/** What the steps of a request use: `{ takesKeys: true, pathPrefix: '/some/path', … }`. A test may replace each part. */
export interface AppParts {
  /** The endpoints that take reports. */
  readonly endpoints: readonly Endpoint[];
  /** Whether `Idempotency-Key` is looked at. If not, it is ignored. */
  readonly takesKeys: boolean;
  /** Empty, or begins with a slash and does not end with one: `/some/path`. */
  readonly pathPrefix: string;
  /** @throws Refusal for a request that a page of another site may have sent, unless it only opens the page of the service */
  readonly checkAccess: (head: Head, opensPage: boolean) => void;
  /** The headers that may hold a token, in lower case. */
  readonly tokenHeaders: ReadonlySet<string>;
  /**
   * Finds the journal that records a request's report.
   * @param needs the right that the request needs
   * @throws Refusal for a request that may not report there: 401, 403, 429
   */
  readonly findRecorder: (head: Head, incoming: Incoming, needs: 'report' | 'any right') => Recorder;
  /** The routes besides those of reports and of the service itself: those that read journals need the right `read`. */
  readonly readings: readonly Route<Handler>[];
  /** Finds the journal that a request may read. @throws Refusal for a request that may read none: 401, 403, 429 */
  readonly findReadable: (head: Head, incoming: Incoming) => Readable;
  /** See `Prefix`. */
  readonly namesDeployment: boolean;
  /** The reply of `/readyz`. */
  readonly readiness: () => Reply;
  /** The body of `/openapi.json`, as JSON text. */
  readonly contract: () => string;
  readonly limits: Limits;
  readonly metrics: Metrics;
  /** Free space of the disk in bytes, undefined if the system does not report it. */
  readonly freeBytes: () => number | undefined;
  readonly notices: Notices;
  /** Whether an unknown parameter is refused with 400. If not, it is ignored. */
  readonly strict?: boolean;
  /** What a service for tests adds. */
  readonly tests?: TestParts | undefined;
  /** Shows each recorded event on a terminal. */
  readonly activity: Pick<Activity, 'showsRecorded' | 'textOf' | 'recorded' | 'pathOf'>;
}

/** What a service for tests adds to the steps of a request: `{ routes, aroundRecord }`. */
export interface TestParts {
  readonly routes: readonly Route<Handler>[];
  /** @returns the function that records the events of reports, wrapped */
  readonly aroundRecord: (record: RecordReport) => RecordReport;
}

/**
 * Records the events of a report whose body has so many bytes, and calls `respond` once with the reply:
 * `record(outcome, recorder, 2, '/report_asset_check', respond, incoming)`.
 */
export type RecordReport = (
  outcome: RecordOutcome,
  recorder: Recorder,
  bodyBytes: number,
  route: string,
  respond: (reply: Reply) => void,
  incoming: Incoming,
) => void;

/** A journal, and the prefix of the paths whose reports it records: `{ prefix: '/some/path/prod', append, refusal }`. */
export interface Recorder {
  /** `AppParts.pathPrefix`, in hosted mode followed by the deployment's name: `/some/path/prod`. */
  readonly prefix: string;
  /** These two as in `Recordable`. */
  readonly deployment: string | undefined;
  begin(): void;
  /**
   * Records the events of a body of so many bytes, all of them or none; `done` then gets `{ kind: 'recorded' }`, for example.
   * @param done called once, when they are durable or refused; it must not retain them, since substrings keep the body alive
   * @param onConflict whether events whose idempotency keys belong to other events are left out instead
   */
  append(
    events: readonly Event[],
    bodyBytes: number,
    done: (result: RecordResult) => void,
    onConflict: ConflictHandling,
  ): void;
  /** @returns why a report with a body of so many bytes can not be recorded now: `the journal is being opened`; else undefined */
  refusal(bodyBytes: number): string | undefined;
}

/** A journal that a request may read: `{ deployment: 'prod', whileAllowed }`. */
export interface Readable {
  /** Undefined in local mode. */
  readonly deployment: string | undefined;
  /**
   * Begins to watch whether the journal may still be read, for a reply that takes long.
   * @param end called at most once, when it may not, perhaps at once: its token has expired, or lost the right
   * @returns the function that ends the watch
   */
  whileAllowed(end: () => void): () => void;
}

/** The routes that take reports, below the prefix of a journal, such as `/report_asset_check`. */
export function reportRoutesOf(
  endpoints: readonly Endpoint[],
  limits: ParameterLimits & BatchLimits,
  strict = false,
): readonly Route<Handler>[] {
  const handlerOf = strict ? reportStrictlyTo : reportTo;
  const reports: Route<Handler>[] = endpoints.map((endpoint) => ({
    needs: 'report',
    methods: ['POST'],
    path: endpoint.path,
    followedBy: 'key',
    bodyTypes: ['application/json'],
    handler: handlerOf(endpoint, limits),
  }));
  const batch: Route<Handler> = {
    needs: 'report',
    methods: ['POST'],
    path: batchPath,
    followedBy: 'slash',
    bodyTypes: batchTypes,
    handler: reportBatch(endpoints, limits),
  };
  return [...reports, batch];
}

/** The read-only routes, such as `/livez`. They need no token and record nothing; `checkAccess` applies to them as well. */
export function readRoutesOf({
  readiness,
  contract,
  metrics,
  freeBytes,
  limits,
}: Pick<AppParts, 'readiness' | 'contract' | 'metrics' | 'freeBytes' | 'limits'>): readonly Route<Handler>[] {
  let document: Reply | undefined; // built on the first request
  const readContract = () => {
    document ??= { kind: 'document', status: 200, body: Buffer.from(contract()) };
    return document;
  };
  const showMetrics = (): Reply => ({
    kind: 'body',
    status: 200,
    body: metrics.render(readiness().status === 200, freeBytes()),
    contentType: metricsType,
  });
  const readRoute = (path: string, answer: () => Reply): Route<Handler> => ({
    needs: 'nothing',
    methods: ['GET', 'HEAD'],
    path,
    followedBy: 'nothing',
    bodyTypes: ['application/json'],
    handler: ({ body, query }) => {
      // They are not used, but must be well-formed, as in a report: a request inside of a body must not look accepted.
      readBody(body, limits);
      readQuery(query);
      return { kind: 'answer', reply: answer() };
    },
  });
  return [
    readRoute('/livez', () => OK),
    readRoute('/readyz', readiness),
    readRoute('/openapi.json', readContract),
    readRoute('/metrics', showMetrics),
  ];
}

/**
 * @returns the function that the listener calls with the head of each request; it never throws, whatever the request contains.
 *   For a GET of `/livez` it returns `{ kind: 'receive', route: '/livez', receive }`
 */
export function createApp(parts: AppParts): App {
  const { takesKeys, pathPrefix, checkAccess, tokenHeaders, findRecorder, findReadable } = parts;
  const { limits, metrics, notices, activity } = parts;
  const reports = reportRoutesOf(parts.endpoints, parts.limits, parts.strict);
  const routes = [...readRoutesOf(parts), ...reports, ...parts.readings, ...(parts.tests?.routes ?? [])];
  const prefix: Prefix = { path: pathPrefix, namesDeployment: parts.namesDeployment };
  const isNew = oncePerName(limits.oncePerNameMax);
  const recordReport = parts.tests?.aroundRecord(record) ?? record;

  return (incoming) => {
    let route = OTHER_ROUTE;
    try {
      const head = readHead(incoming, tokenHeaders, limits); // 400, 431: HTTP syntax and framing
      const match = findRoute(routes, prefix, head.method, head.path);
      checkAccess(head, match.kind === 'found' && match.route.page !== undefined); // 403: a foreign Origin or Host
      const needs = neededFor(match);
      const recorder = needs === 'report' || needs === 'any right' ? findRecorder(head, incoming, needs) : undefined; // 401, 403, 429
      const readable = needs === 'read' ? findReadable(head, incoming) : undefined; // 401, 403, 429
      if (match.kind !== 'unknown path') route = match.route.path;
      const {
        keyPath,
        route: { handler, bodyTypes, bodyLimits = limits, refusal },
      } = found(match, head, routes, recorder); // 404, 405
      checkExpect(head); // 417
      if (head.bodyBytes) checkBodyHeaders(head, head.bodyBytes, bodyTypes, bodyLimits); // 413, 415, 400: before the upload
      if ((head.bodyBytes ?? 0) > limits.largeBodyBytes) {
        const bytes = head.bodyBytes ?? 0;
        const reason = recorder?.refusal(bytes) ?? refusal?.(bytes); // 503: what can not be recorded need not be uploaded
        if (reason !== undefined) return { kind: 'refuse', route, reply: unavailable(reason, limits) };
      }

      return {
        kind: 'receive',
        route,
        bodyLimits,
        receive: (bytes, respond) => {
          let outcome: Outcome;
          try {
            if (head.bodyBytes === undefined && bytes.length > 0)
              checkBodyHeaders(head, bytes.length, bodyTypes, bodyLimits);
            const isKeyed = takesKeys && head.method === 'POST';
            const idempotencyKey = isKeyed ? readIdempotencyKey(head.idempotencyKey) : undefined; // 400
            const { deployment } = readable ?? NO_DEPLOYMENT;
            outcome = handler({ keyPath, body: bytes, query: head.query, head, deployment, idempotencyKey }); // 400
          } catch (error) {
            respond(refuse(error, incoming));
            return;
          }
          if (outcome.kind === 'answer') {
            respond(outcome.reply);
          } else if (outcome.kind === 'later') {
            answerLater(outcome, head, incoming, readable, recorder).then(respond, (error) =>
              respond(refuse(error, incoming)),
            );
          } else {
            if (outcome.hiddenKey !== undefined || outcome.unknown !== undefined)
              logIgnored(outcome, head.path, incoming);
            // A route whose handler records needs the right to report, so there is a recorder.
            recordReport(outcome, recorder!, bytes.length, route, respond, incoming);
          }
        },
      };
    } catch (error) {
      return { kind: 'refuse', route, reply: refuse(error, incoming) };
    }
  };

  /** @param readable the journal that the request may read; its reply ends when it may not any more */
  async function answerLater(
    { reply }: LaterOutcome,
    head: Head,
    incoming: Incoming,
    readable: Readable | undefined,
    recorder: Recorder | undefined,
  ): Promise<Reply> {
    if (readable === undefined) return reply(incoming.ending, recorder && recordableOf(recorder));
    let isAllowed = true;
    const release = readable.whileAllowed(() => {
      isAllowed = false;
      incoming.endReply();
    });
    const found = await reply(incoming.ending).finally(release);
    if (!isAllowed) findReadable(head, incoming); // 401, 403: what was read meanwhile is not for this client
    return found.kind === 'stream' ? whileAllowed(readable, found, incoming) : found;
  }

  function record(
    { events, onConflict, replyTo, conflictReply }: RecordOutcome,
    recorder: Recorder,
    bodyBytes: number,
    route: string,
    respond: (reply: Reply) => void,
  ): void {
    // The callback must not retain an event: its substrings keep the whole body alive.
    const types = events.map(({ type }) => type);
    const lines = activity.showsRecorded ? events.map((event) => activity.textOf(event)) : NO_LINES;
    const done = (result: RecordResult) => {
      if (result.kind === 'refused') return respond(unavailable(result.reason, limits));
      if (result.kind === 'too large') return respond({ kind: 'error', status: 413, error: result.reason });
      if (result.kind === 'conflict') return respond(conflictReply(result.conflicts));
      count(types, lines, result);
      if (route === batchPath) metrics.recordedBatch(types.length - (result.conflicts?.length ?? 0));
      respond(replyTo(result));
    };
    recorder.append(events, bodyBytes, done, onConflict);
  }

  function recordableOf(recorder: Recorder): Recordable {
    return {
      deployment: recorder.deployment,
      begin: () => recorder.begin(),
      refusal: (bodyBytes) => recorder.refusal(bodyBytes),
      record: (events, bodyBytes, done) => {
        const types = events.map(({ type }) => type);
        const lines = activity.showsRecorded ? events.map((event) => activity.textOf(event)) : NO_LINES;
        const counted = (result: RecordResult) => {
          if (result.kind === 'recorded') count(types, lines, result);
          done(result);
        };
        recorder.append(events, bodyBytes, counted, 'refuse all');
      },
    };
  }

  /** Counts recorded events by their types, and shows them on a terminal. */
  function count(types: readonly Event['type'][], lines: readonly string[], result: RecordedResult): void {
    const old = result.replayed === undefined && result.conflicts === undefined ? NONE : notNew(result);
    types.forEach((type, index) => {
      if (!old.has(index)) metrics.events[type] += 1;
    });
    lines.forEach((line, index) => {
      if (!old.has(index)) activity.recorded(line);
    });
  }

  function refuse(error: unknown, { id }: Incoming): ErrorReply {
    if (!(error instanceof Refusal)) {
      // A defect of the service, not of the request: the client may retry (503), and the log has the stack trace.
      notices.error('a request met a defect of the service', {
        request_id: id,
        problem: String((error as Error)?.stack ?? error),
      });
      return unavailable('the service could not handle this request', limits);
    }
    return error.reply;
  }

  /** Logs what the request has and what was not recorded. */
  function logIgnored(
    { events, hiddenKey, unknown = [], misspelt = [] }: RecordOutcome,
    path: string,
    { id }: Incoming,
  ): void {
    if (hiddenKey !== undefined) {
      notices.warn('the asset key in the path won over another one in the same request', {
        request_id: id,
        path: activity.pathOf(path),
        recorded: events[0]?.assetKey,
        ignored: hiddenKey.slice(0, limits.shownCharactersMax),
      });
    }
    for (const { name, meant } of misspelt) {
      if (isNew(name)) notices.warn('an unknown parameter is ignored', { request_id: id, name, did_you_mean: meant });
    }
    for (const name of notices.debugging ? unknown : []) {
      const short = name.slice(0, limits.shownCharactersMax);
      if (isNew(short)) notices.debug('an unknown parameter is ignored', { request_id: id, name: short });
    }
  }
}

/** @returns the indexes of events that are neither counted nor shown: recorded before, or left out */
function notNew({ replayed = [], conflicts = [] }: RecordedResult): ReadonlySet<number> {
  return new Set([...replayed, ...conflicts.map(({ index }) => index)]);
}

/** @returns the reply, whose pieces end when the client may no longer read the journal */
function whileAllowed(readable: Readable, reply: StreamReply, incoming: Incoming): StreamReply {
  const pieces = async function* (ending: AbortSignal, onWait: () => void) {
    const release = readable.whileAllowed(() => incoming.endReply());
    try {
      yield* reply.pieces(ending, onWait);
    } finally {
      release();
    }
  };
  return { ...reply, pieces };
}

const NO_DEPLOYMENT = { deployment: undefined };
const NO_LINES: readonly string[] = [];
const NONE: ReadonlySet<number> = new Set();

const OK: Reply = { kind: 'body', status: 200, body: '{"status":"ok"}' };

/**
 * The reply of `/readyz`: 503 if nothing can be recorded, else 200 with the body `{"status":"ok"}`.
 * @param problem why nothing can be recorded, such as `the service is stopping`, or undefined
 * @param troubles problems by deployment; other deployments still record, so the service is ready but degraded:
 *   `{"status":"degraded","deployments":{"prod":"…"}}`
 */
export function readinessOf(
  problem: string | undefined,
  troubles: ReadonlyMap<string, string>,
  limits: Pick<Limits, 'retryAfterSeconds'>,
): Reply {
  if (problem !== undefined) return unavailable(problem, limits);
  if (troubles.size === 0) return OK;
  const body = JSON.stringify({ status: 'degraded', deployments: Object.fromEntries(troubles) });
  return { kind: 'body', status: 200, body };
}

/** An unknown path needs a right as well: in hosted mode a request without a token can not find out which paths exist. */
function neededFor(match: RouteMatch<Handler>): Right | 'any right' | 'nothing' {
  return match.kind === 'unknown path' ? 'any right' : match.route.needs;
}

/** @throws Refusal 404 or 405 */
function found(
  match: RouteMatch<Handler>,
  { method, path }: Head,
  routes: readonly Route<Handler>[],
  recorder: Recorder | undefined,
): FoundRoute<Handler> {
  if (match.kind === 'found') return match;
  if (match.kind === 'wrong method') {
    const allow = match.route.methods.join(', ');
    throw new Refusal(405, `${method} is not allowed here; use ${allow}`, { headers: ['Allow', allow] });
  }
  const prefix = recorder?.prefix ?? '';
  const pathsOf = (right: Right, use: string) =>
    routes
      .filter(({ needs, page, methods }) => needs === right && page === undefined && methods.includes(use))
      .map((route) => pathOf(route));
  const [reports, readings] = [pathsOf('report', 'POST'), pathsOf('read', 'GET')];
  const meant = nearestPath(path, prefix, [...reports, ...readings]);
  const hint = meant === undefined ? '' : `did you mean ${prefix}${meant}? `;
  const listed = (paths: readonly string[]) => paths.map((one) => `${prefix}${one}`).join(', ');
  const orRead = readings.length === 0 ? '' : `, or GET ${listed(readings)}`;
  throw new Refusal(404, `nothing is at this path; ${hint}POST a report to ${listed(reports)}${orRead}`);
}

/** @returns the path of a route as clients write it: `/report_asset_check/`, but `/events` */
function pathOf({ path, followedBy }: Route<Handler>): string {
  return followedBy === 'nothing' ? path : `${path}/`;
}

/** @returns which of the paths the first component of a request's path is one edit away from: `/report_asset_check/` */
function nearestPath(path: string, prefix: string, paths: readonly string[]): string | undefined {
  const under = path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path;
  const end = under.indexOf('/', 1);
  const name = nearestName(end === -1 ? under : under.slice(0, end), paths.map(withoutSlash));
  return paths.find((known) => withoutSlash(known) === name);
}

function withoutSlash(path: string): string {
  return path.replace(/\/$/, '');
}
