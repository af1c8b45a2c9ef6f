/** The additions of `serve --test` to a service: resets of the journal, faults, and the routes of both. */

import type { Limits } from '../config/limits.ts';
import { batchPath } from '../event/item.ts';
import { endpoints } from '../event/parameters.ts';
import type { Schema } from '../event/schema.ts';
import type { TestParts } from '../http/app.ts';
import type { RecordReport } from '../http/counted.ts';
import {
  type BodyReply,
  bodyOf,
  type CutReply,
  type Handler,
  type Incoming,
  Refusal,
  type Reply,
  type StreamReply,
  type WholeReply,
} from '../http/message.ts';
import { bodyReader, readQuery } from '../http/request.ts';
import type { Route, RouteDescription } from '../http/router.ts';
import type { Notices } from '../telemetry/log.ts';
import { Waiters } from '../waiting/waiters.ts';
import { FaultsError, SEED_MAX, statusesWithoutBody } from './fault.ts';
import { Faults, type Met } from './faults.ts';

export interface TestModeOptions {
  readonly limits: Limits;
  readonly notices: Notices;
  /** Empties the journal and all state derived from it; its next event has seq 1. Calls run one after the other. @throws Error */
  readonly startOver: () => Promise<void>;
}

export class TestMode implements TestParts {
  readonly faults: Faults;
  readonly routes: readonly Route<Handler>[];
  readonly #options: TestModeOptions;
  readonly #held = new Waiters();

  constructor(options: TestModeOptions) {
    const { limits } = options;
    this.#options = options;
    this.faults = new Faults(limits);
    this.routes = [
      this.#route('/test/reset', ['POST'], describeReset, () => this.reset()),
      this.#route('/test/faults', ['GET', 'HEAD', 'PUT', 'POST', 'DELETE'], describeFaults, async (method, value) => {
        if (method === 'PUT') this.#change(() => this.faults.set(value ?? {}));
        if (method === 'POST') this.#change(() => this.faults.addAll(value ?? {}));
        if (method === 'DELETE') this.faults.clear();
      }),
    ];
  }

  /**
   * Removes all faults, sends the replies that they hold back, and restarts the journal: a report that is acknowledged later is in
   * the new journal, whose first seq is 1.
   * @throws Error if the journal could not be emptied
   */
  async reset(): Promise<void> {
    this.faults.clear();
    this.#held.wake();
    await this.#options.startOver();
  }

  /** @returns the reply of `/readyz`, with the mode if it is 200 */
  named(reply: Reply): Reply {
    return reply.kind === 'body'
      ? { ...reply, body: JSON.stringify({ ...JSON.parse(reply.body), mode: 'test' }) }
      : reply;
  }

  around(incoming: Incoming, route: string, record: RecordReport): RecordReport | CutReply {
    if (!reportTypes.has(route)) return record;
    const decided = this.faults.meetHead(reportTypes.get(route));
    if (typeof decided !== 'number') {
      this.#log(decided, incoming);
      return dropped;
    }
    return (outcome, recorder, _route, respond) => {
      const path = incoming.url?.split('?', 1)[0] ?? '';
      const met = this.faults.meet({ path, events: outcome.events, isBatch: route === batchPath }, decided);
      const answer = met === undefined ? respond : this.#answerWith(met, respond, incoming);
      if (met?.effect.recorded === false) return answer(OK);
      record(outcome, recorder, route, answer);
    };
  }

  /** @returns the function that answers a report that met a fault, given the reply without the fault */
  #answerWith(met: Met, respond: (reply: Reply) => void, incoming: Incoming): (reply: Reply) => void {
    this.#log(met, incoming);
    return (reply) => {
      const changed = changedReply(met, reply, incoming);
      const sent = met.bodyDelayMs > 0 && isWhole(changed) ? this.#slowed(changed, met.bodyDelayMs, incoming) : changed;
      if (met.delayMs === 0) return respond(sent);
      void this.#hold(met.delayMs, incoming.ending).then(() => respond(sent));
    };
  }

  /** @returns a reply that holds back the second half of its body */
  #slowed(reply: WholeReply, delayMs: number, incoming: Incoming): StreamReply {
    const { status, contentType = 'application/json', headers = [] } = reply;
    const body = Buffer.from(bodyOf(reply, incoming));
    const half = Math.ceil(body.length / 2);
    const hold = (ending: AbortSignal) => this.#hold(delayMs, ending);
    const pieces = async function* (ending: AbortSignal) {
      yield body.subarray(0, half);
      await hold(ending);
      yield body.subarray(half);
    };
    return { kind: 'stream', status, contentType, headers, pieces };
  }

  /** Waits for the delay, a reset or the end of the reply, but does not wait if too many replies already do. */
  async #hold(delayMs: number, ending: AbortSignal): Promise<void> {
    const { delayedRepliesMax } = this.#options.limits;
    if (this.#held.size < delayedRepliesMax) {
      await this.#held.wait(ending, delayMs);
      return;
    }
    this.#options.notices.rated.warn('too many replies are held back; this reply is sent at once', {
      delayedRepliesMax,
    });
  }

  #change(set: () => void): void {
    set();
    const { seed, faults } = this.faults.show();
    this.#options.notices.info('faults were set', { seed, faults: faults.length });
  }

  #log({ index, effect, delayMs, bodyDelayMs }: Met, { id, method, url }: Incoming): void {
    this.#options.notices.info('a report met a fault', {
      request_id: id,
      fault: index,
      method,
      path: url?.split('?', 1)[0],
      status: effect.status,
      delay_ms: delayMs || undefined,
      body_delay_ms: bodyDelayMs || undefined,
      drop: effect.drop,
      recorded: effect.recorded,
    });
  }

  #route(
    path: string,
    methods: readonly string[],
    describe: () => RouteDescription,
    act: (method: string, value: unknown) => Promise<void>,
  ): Route<Handler> {
    const readBody = bodyReader(this.#options.limits);
    const handler: Handler = ({ body, query, head }) => {
      const members = readBody(body);
      readQuery(query);
      const value =
        members && Object.fromEntries(members.names().map((name) => [name, JSON.parse(members.get(name)!.text)]));
      const reply = async () => {
        await act(head.method, value).catch(refuse);
        return path === '/test/faults' ? { ...OK, body: JSON.stringify(this.faults.show()) } : OK;
      };
      return { kind: 'later', reply };
    };
    return { needs: 'nothing', methods, path, followedBy: 'slash', bodyTypes: ['application/json'], handler, describe };
  }
}

function describeReset(): RouteDescription {
  return {
    summary: 'Restart the journal at seq 1, without faults and refusals',
    content: { 'application/json': { type: 'object', maxProperties: 0 } },
  };
}

function describeFaults(): RouteDescription {
  const faults: Schema = {
    type: 'object',
    properties: {
      seed: { type: 'integer', minimum: 0, maximum: SEED_MAX },
      faults: { type: 'array', items: { type: 'object', required: ['then'] } },
    },
  };
  // biome-ignore lint/suspicious/noThenProperty: the name in the JSON; its value is no function that could be called
  const example = { faults: [{ match: { type: 'check' }, times: 2, then: { status: 503 } }] };
  return {
    summary: 'The faults that reports meet; PUT replaces them, POST adds some',
    body: { schema: { ...faults, required: ['faults'] }, example },
    content: { 'application/json': faults },
  };
}

/** @throws Refusal 400 for invalid faults, 503 for a journal that could not be emptied */
function refuse(error: Error): never {
  throw new Refusal(error instanceof FaultsError ? 400 : 503, error.message);
}

/** The type of the event that each report route records; undefined for a batch. */
const reportTypes: ReadonlyMap<string, string | undefined> = new Map<string, string | undefined>([
  ...endpoints.map(({ path, type }) => [path, type] as const),
  [batchPath, undefined],
]);

const OK: BodyReply = { kind: 'body', status: 200, body: '{}' };
const dropped: CutReply = { kind: 'cut', status: 200, reply: OK, sent: 'reset' };

function isWhole(reply: Reply): reply is WholeReply {
  return reply.kind === 'body' || reply.kind === 'error';
}

/** @param reply the reply without the fault */
function changedReply({ effect }: Met, reply: Reply, incoming: Incoming): Reply {
  if (!isWhole(reply)) return reply; // reports never get such a reply
  const { status, drop } = effect;
  if (drop === 'request') return dropped;
  if (drop === 'reply') return { kind: 'cut', status: reply.status, reply, sent: 'nothing' };
  const isLost = effect.recorded && reply.kind === 'error'; // a report that could not be recorded gets the reason instead
  const sent = status === undefined || isLost ? reply : replyOf(effect, status, incoming);
  return drop === 'half' ? { kind: 'cut', status: sent.status, reply: sent, sent: 'half' } : sent;
}

function replyOf(effect: Met['effect'], status: number, { id }: Incoming): WholeReply {
  const { body, html, retry_after: retryAfter } = effect;
  const given = Object.entries(effect.headers ?? {});
  if (retryAfter !== undefined) given.push(['Retry-After', String(retryAfter)]);
  const isType = ([name]: readonly [string, string]) => name.toLowerCase() === 'content-type';
  const headers = given.filter((header) => !isType(header)).flat();
  const typed = (contentType: string) =>
    ({ kind: 'body', status, headers, contentType: given.find(isType)?.[1] ?? contentType }) as const;
  if (statusesWithoutBody.includes(status)) return { ...typed('text/plain'), body: '' };
  if (html === true) {
    const page = `<html>\r\n<head><title>${status}</title></head>\r\n<body>\r\n<center><h1>${status}</h1></center>\r\n</body>\r\n</html>\r\n`;
    return { ...typed('text/html'), body: typeof body === 'string' ? body : page };
  }
  if (typeof body === 'string') return { ...typed('text/plain; charset=utf-8'), body };
  const error = { error: `the service was set to answer ${status} here, by /test/faults`, request_id: id };
  return { ...typed('application/json'), body: JSON.stringify(body ?? error) };
}
