/**
 * The life of a request, in the order of the steps that can refuse it: `decide` after its head has arrived, `receive` after its
 * body has arrived, `conclude` after its handler has returned. The first step that refuses decides the reply.
 */

import type { Limits } from '../config/limits.ts';
import type { Activity } from '../telemetry/activity.ts';
import { type Notices, oncePerName } from '../telemetry/log.ts';
import { type CountedParts, countingRecorder, type RecordReport, reportRecorder } from './counted.ts';
import { readIdempotencyKey } from './idempotency.ts';
import {
  type Acknowledgements,
  type App,
  type CutReply,
  type ErrorReply,
  type Handled,
  type Handler,
  type Head,
  type HeadDecision,
  type Incoming,
  type LaterHandled,
  OTHER_ROUTE,
  type Recorder,
  type RecordHandled,
  Refusal,
  type Reply,
  type StreamReply,
  unavailable,
} from './message.ts';
import { acceptsHtml, checkBodyHeaders, checkExpect, headReader, isGzip, type TokenHeaders } from './request.ts';
import { type FoundRoute, findRoute, type Prefix, type Right, type Route, type RouteMatch } from './router.ts';
import { allRoutesOf, reportRoutesOf, requireRoute, type ServiceRouteParts } from './routes.ts';

/** The parts that the steps of a request use. A test can replace each part. */
export interface AppParts extends ServiceRouteParts, Pick<CountedParts, 'metrics'> {
  /** Whether `Idempotency-Key` is used; otherwise it is ignored. */
  readonly acceptsKeys: boolean;
  /** Empty, or a path that starts with a slash and does not end with one: `/some/path`. */
  readonly pathPrefix: string;
  /** @throws Refusal for a request that a page of another site might have sent, unless it only opens the page of the service */
  readonly checkAccess: (head: Head, opensPage: boolean) => void;
  /** Empty in local mode. */
  readonly tokenHeaders: TokenHeaders;
  /**
   * Finds the journal that records a request's report.
   * @throws Refusal for a request that may not report there: 401, 403, 429
   */
  readonly findRecorder: (head: Head, incoming: Incoming, needs: Exclude<Right, 'read'> | 'any right') => Recorder;
  /** Further routes. The routes that read journals require the right `read`. */
  readonly readings: readonly Route<Handler>[];
  /** Finds the journal that a request may read. @throws Refusal for a request that may read none: 401, 403, 429 */
  readonly findReadable: (head: Head, incoming: Incoming) => Readable;
  /** See `Prefix`. */
  readonly namesDeployment: boolean;
  /** Resolves when it is a reading's turn: see `Turns`. */
  readonly turn: () => Promise<void>;
  readonly limits: Limits;
  readonly notices: Notices;
  /** Why an unknown parameter is refused with 400, for the error. If undefined, it is ignored. */
  readonly strict?: string | undefined;
  /** Set with `--ack`. */
  readonly acks?: Acknowledgements | undefined;
  /** Set only in a service for tests. */
  readonly tests?: TestParts | undefined;
  /** Shows each recorded event on a terminal. */
  readonly activity: CountedParts['activity'] & Pick<Activity, 'pathOf' | 'nameOf'>;
}

/** Additions of a service for tests. */
export interface TestParts {
  readonly routes: readonly Route<Handler>[];
  /**
   * Called with each request whose body may be received.
   * @param record records the events of its report
   * @returns the function that is called instead, or the reply if the body is not to be received
   */
  readonly around: (incoming: Incoming, route: string, record: RecordReport) => RecordReport | CutReply;
}

/** A journal that a request may read. */
export interface Readable {
  /** Undefined in local mode. */
  readonly deployment: string | undefined;
  /**
   * Watches whether the client may still read the journal, during a long reply.
   * @param end called at most once, possibly immediately, when the token has expired or has lost the right
   * @returns a function that stops watching
   */
  whileAllowed(end: () => void): () => void;
}

/** @returns the function that the listener calls with the head of each request; it never throws */
export function createApp(parts: AppParts): App {
  const steps = new Steps(parts);
  return (incoming) => steps.decide(incoming);
}

/** A request whose head passed the first step. */
interface Accepted {
  readonly incoming: Incoming;
  readonly head: Head;
  readonly found: FoundRoute<Handler>;
  readonly recorder: Recorder | undefined;
  readonly readable: Readable | undefined;
  readonly record: RecordReport;
}

type Respond = (reply: Reply) => void;

class Steps {
  readonly #limits: Limits;
  readonly #parts: AppParts;
  readonly #routes: readonly Route<Handler>[];
  readonly #prefix: Prefix;
  readonly #record: RecordReport;
  readonly #readHead: (incoming: Incoming) => Head;
  readonly #isNewName: (name: string) => boolean;

  constructor(parts: AppParts) {
    const { limits, strict, readings, tests, acks } = parts;
    this.#limits = limits;
    this.#parts = parts;
    this.#readHead = headReader(parts.tokenHeaders, limits);
    const reports = reportRoutesOf(limits, strict);
    this.#routes = allRoutesOf(parts, [...reports, ...readings, ...(tests?.routes ?? [])]);
    this.#prefix = { path: parts.pathPrefix, namesDeployment: parts.namesDeployment };
    this.#record = reportRecorder(parts, acks);
    this.#isNewName = oncePerName(limits.oncePerNameMax);
  }

  /** The first step: all checks that do not need the body. */
  decide(incoming: Incoming): HeadDecision {
    const { checkAccess, findRecorder, findReadable, tests } = this.#parts;
    const limits = this.#limits;
    let route = OTHER_ROUTE;
    try {
      const head = this.#readHead(incoming); // 400, 431: HTTP syntax and framing
      const match = this.#find(head);
      checkAccess(head, match.kind === 'found' && match.route.page !== undefined); // 403: a foreign Origin or Host
      const needs = requiredRight(match);
      const records = needs !== 'read' && needs !== 'nothing';
      const recorder = records ? findRecorder(head, incoming, needs) : undefined; // 401, 403, 429
      const readable = needs === 'read' ? findReadable(head, incoming) : undefined; // 401, 403, 429
      if (match.kind !== 'unknown path') route = match.route.path;
      const found = requireRoute(match, head, this.#routes, this.#prefix.path, recorder?.deployment); // 404, 405
      checkExpect(head); // 417
      const bodyBytes = head.bodyBytes ?? 0;
      if (bodyBytes > 0) this.#checkBody(head, found, bodyBytes); // 413, 415, 400: before the upload
      const isLarge = bodyBytes > limits.largeBodyBytes;
      const reason = isLarge ? (recorder?.refusal(bodyBytes) ?? found.route.refusal?.(bodyBytes)) : undefined; // 503
      if (reason !== undefined) return { kind: 'refuse', route, reply: unavailable(reason) };
      const record = tests === undefined ? this.#record : tests.around(incoming, route, this.#record);
      if (typeof record !== 'function') return { kind: 'refuse', route, reply: record };
      const request: Accepted = { incoming, head, found, recorder, readable, record };
      const receive = (body: Buffer, respond: Respond) => this.#receive(request, body, respond);
      const { bodyLimits = limits, acceptsGzip = false } = found.route;
      return { kind: 'receive', route, bodyLimits, isPacked: acceptsGzip && isGzip(head.fields), receive };
    } catch (error) {
      return { kind: 'refuse', route, reply: this.#refuse(error, incoming) };
    }
  }

  /** Also finds a page without its last slash: for browsers any page, for other clients only the page at the root. */
  #find({ method, path, fields }: Head): RouteMatch<Handler> {
    const match = findRoute(this.#routes, this.#prefix, method, path);
    if (match.kind !== 'unknown path' || path.endsWith('/')) return match;
    const below = findRoute(this.#routes, this.#prefix, method, `${path}/`);
    const isPage = below.kind === 'found' && below.route.page !== undefined;
    return isPage && (path === this.#prefix.path || acceptsHtml(fields.accept)) ? below : match;
  }

  /** The second step, after the body has arrived. @param body empty if the request has none */
  #receive(request: Accepted, body: Buffer, respond: Respond): void {
    const { incoming, head, found, readable } = request;
    let outcome: Handled;
    try {
      if (head.bodyBytes === undefined && body.length > 0) this.#checkBody(head, found, body.length); // 413, 415, 400
      const { query, fields } = head;
      const isKeyed = this.#parts.acceptsKeys && head.method === 'POST';
      const idempotencyKey = isKeyed ? readIdempotencyKey(fields.idempotencyKey) : undefined; // 400
      const deployment = readable?.deployment;
      const { tokenName } = incoming;
      outcome = found.route.handler({
        keyPath: found.keyPath,
        body,
        query,
        head,
        deployment,
        tokenName,
        idempotencyKey,
      }); // 400
    } catch (error) {
      respond(this.#refuse(error, incoming));
      return;
    }
    this.#conclude(request, outcome, respond);
  }

  /** The last step: replies, or records events and then replies. */
  #conclude(request: Accepted, outcome: Handled, respond: Respond): void {
    const { incoming, head, found, recorder, record } = request;
    switch (outcome.kind) {
      case 'answer':
        respond(outcome.reply);
        return;
      case 'later':
        this.#answerLater(outcome, request).then(respond, (error) => respond(this.#refuse(error, incoming)));
        return;
      case 'record':
        if (outcome.hidesKey === true || outcome.unknown !== undefined) this.#logIgnored(outcome, head.path, incoming);
        // A route whose handler records needs the right to report, so there is a recorder.
        record(outcome, recorder!, found.route.path, respond);
    }
  }

  /** Waits for a late reply, in the share of time of readings. It ends early if the client loses the right to read. */
  async #answerLater({ reply }: LaterHandled, request: Accepted): Promise<Reply> {
    const { head, found, incoming, readable, recorder } = request;
    // A reply that reads a journal takes its own turns.
    const isOther = readable === undefined ? found.route.methods.includes('GET') : found.route.page !== undefined;
    if (isOther) await this.#parts.turn();
    if (readable === undefined) return reply(incoming.ending, recorder && countingRecorder(recorder, this.#parts));
    let isAllowed = true;
    const release = readable.whileAllowed(() => {
      isAllowed = false;
      incoming.endReply();
    });
    const decided = await reply(incoming.ending).finally(release);
    if (!isAllowed) this.#parts.findReadable(head, incoming); // 401, 403: this client must not get the result
    return decided.kind === 'stream' ? whileAllowed(readable, decided, incoming) : decided;
  }

  /** @throws Refusal 413, 415 or 400 */
  #checkBody(head: Head, { route }: FoundRoute<Handler>, bytes: number): void {
    checkBodyHeaders(head, bytes, route, route.bodyLimits ?? this.#limits);
  }

  #refuse(error: unknown, { id }: Incoming): ErrorReply {
    if (error instanceof Refusal) return error.reply;
    const { code = '', message } = error as NodeJS.ErrnoException;
    if (SYSTEM_ERROR.test(code)) {
      this.#parts.notices.rated.error('a request failed because of a disk error', { request_id: id, problem: message });
      return unavailable('the disk could not be read; send the request again later');
    }
    // A defect of the service, not of the request: 503, so that the client retries. The stack trace is in the log.
    this.#parts.notices.rated.error('a request failed because of a defect of the service', {
      request_id: id,
      problem: String((error as Error)?.stack ?? error),
    });
    return unavailable('the service could not handle this request');
  }

  /** Logs the parameters and the key of a request that were not recorded. */
  #logIgnored({ hidesKey, unknown = [], misspelt = [] }: RecordHandled, path: string, { id }: Incoming): void {
    const { notices, activity } = this.#parts;
    if (hidesKey === true) {
      const message = 'the asset key in the path overrides another key in the same request';
      notices.rated.warn(message, { request_id: id, path: activity.pathOf(path) });
    }
    const message = 'an unknown parameter is ignored';
    for (const { name, meant } of misspelt) {
      if (this.#isNewName(name)) notices.rated.warn(message, { request_id: id, name, did_you_mean: meant });
    }
    for (const unshortened of notices.isDebug ? unknown : []) {
      const name = activity.nameOf(unshortened);
      if (this.#isNewName(name)) notices.debug(message, { request_id: id, name });
    }
  }
}

/** Matches codes of the system such as `EIO`. Codes of Node start with `ERR_`. */
const SYSTEM_ERROR = /^E[A-Z0-9]+$/;

/** Even an unknown path needs a right: in hosted mode a request without a token cannot find out which paths exist. */
function requiredRight(match: RouteMatch<Handler>): Right | 'any right' | 'nothing' {
  if (match.kind === 'wrong method' && match.route.page !== undefined) return 'nothing';
  return match.kind === 'unknown path' ? 'any right' : match.route.needs;
}

/** @returns a stream that ends when the client loses the right to read the journal */
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
