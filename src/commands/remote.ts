/** Reads the journal of a service over HTTP: the source of `assetlog events --url` and `assetlog assets --url`. */

import { setTimeout as sleep } from 'node:timers/promises';
import { readBaseUrl } from '../client/base-url.ts';
import { openReply } from '../client/connection.ts';
import { type Again, type Failure, judge, judgeNoReply, retry } from '../client/delivery.ts';
import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import { limits } from '../config/limits.ts';
import { endpoints } from '../event/parameters.ts';
import { type Asset, assetOf, keyOf } from '../journal/asset-state.ts';
import type { Filter } from '../journal/filter.ts';
import { LineCutter } from '../journal/lines.ts';
import { Line } from '../journal/reader.ts';
import { readForm, timeOf } from '../journal/record.ts';
import type { Output } from './command.ts';
import type { Following, Position, Source, Sources } from './reading.ts';
import { type ServiceOptions, serviceHeaders } from './service-options.ts';

/**
 * Opens the journal of a service and runs `act`, as `lookAt` does for a folder. Failures are reported on standard error.
 * @param follow as for `lookAt`: it is tried without end to reach the service, until the signal aborts
 * @returns 0 if all was read, 1 if the service refuses, 2 for a wrong URL or token file, 75 if it was unavailable
 */
export async function lookAtService(
  values: ServiceOptions,
  output: Output,
  follow: AbortSignal | undefined,
  act: (sources: Sources) => Promise<ExitCode | undefined>,
): Promise<ExitCode> {
  let journal: RemoteJournal;
  try {
    const base = readBaseUrl(values.url, endpoints);
    journal = new RemoteJournal(base, await serviceHeaders(values, output), values, output, follow);
  } catch (error) {
    output.complain((error as Error).message);
    return exitCodes.configuration;
  }
  try {
    return (await act({ kind: 'journal', all: [journal], added: async () => [] })) ?? exitCodes.done;
  } catch (error) {
    output.progress('');
    const isFailure = error instanceof ServiceFailure;
    output.complain(
      isFailure ? error.message : `what ${values.url} sent could not be shown: ${(error as Error).message}`,
    );
    return isFailure ? error.exitCode : exitCodes.diskFailed;
  }
}

/** The service refuses, or was unavailable for too long. */
class ServiceFailure extends Error {
  readonly exitCode: ExitCode;

  constructor(reason: string, exitCode: ExitCode) {
    super(reason);
    this.exitCode = exitCode;
  }
}

/** A reply with the media type that was asked for; or the first events were removed, up to the seq. */
type Opened =
  | { readonly kind: 'opened'; readonly reply: LongReply }
  | { readonly kind: 'removed'; readonly seq: number };

type LongReply = Awaited<ReturnType<typeof openReply>>;
type Query = Readonly<Record<string, string | number | boolean | undefined>>;

class RemoteJournal implements Source {
  readonly deployment = undefined;
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #options: ServiceOptions;
  readonly #output: Output;
  readonly #follow: AbortSignal | undefined;
  #isAway = false;

  constructor(
    base: string,
    headers: Readonly<Record<string, string>>,
    options: ServiceOptions,
    output: Output,
    follow: AbortSignal | undefined,
  ) {
    this.#base = base;
    this.#headers = headers;
    this.#options = options;
    this.#output = output;
    this.#follow = follow;
  }

  readonly readAgain = (filter: Filter) => this.read(filter);

  /** Continues after the last line that it has, when the connection breaks: no line is lost, and none comes twice. */
  async *read(filter: Filter, following?: Following): AsyncGenerator<readonly Line[]> {
    const signal = following?.signal;
    const position = { seq: filter.afterSeq ?? 0 };
    let progressMs = performance.now();
    for (let pauseMs: number = limits.retryMs; !signal?.aborted; ) {
      const before = position.seq;
      const query = { ...queryOf(filter), after_seq: before, ...(signal === undefined && { limit: PAGE_EVENTS }) };
      const opened = await this.#open('/events', query, signal === undefined ? LINES : STREAM);
      if (opened.kind === 'removed') {
        this.#output.complain(goneText(before + 1, opened.seq));
        position.seq = opened.seq;
        continue;
      }
      let count = 0;
      let reason = 'ends its replies';
      try {
        for await (const lines of this.#linesIn(opened.reply, position, signal !== undefined)) {
          count += lines.length;
          yield lines;
        }
        if (signal === undefined && count < PAGE_EVENTS) return;
      } catch (error) {
        if (error instanceof ServiceFailure) throw error;
        reason = `sent no complete reply: ${(error as Error).message}`;
      }
      if (signal === undefined && count === PAGE_EVENTS) continue;
      if (position.seq !== before) [pauseMs, progressMs] = [limits.retryMs, performance.now()];
      if (signal === undefined && performance.now() - progressMs > this.#options.retryFor)
        throw this.#unavailable(reason);
      await sleep((pauseMs * (1 + Math.random())) / 2, undefined, { signal }).catch(() => {}); // aborted
      pauseMs = Math.min(2 * pauseMs, limits.retryMsMax);
    }
  }

  async newest(count: number, filter: Filter): Promise<readonly Position[]> {
    const { afterSeq, ...rest } = filter;
    const query = { ...queryOf(rest), ...(afterSeq ? { after_seq: afterSeq } : {}), last: count };
    const found: Position[] = [];
    const opened = await this.#open('/events', query, LINES);
    if (opened.kind === 'removed') return this.newest(count, { ...filter, afterSeq: opened.seq });
    for await (const lines of this.#linesIn(opened.reply, { seq: 0 }, false)) {
      for (const { bytes, start, seq } of lines) found.push({ seq, time: timeOf(bytes, start, seq) });
    }
    return found;
  }

  async size(): Promise<{ events: number; lastSeq: number }> {
    const { next_after_seq: lastSeq } = await this.#json({ after_seq: Number.MAX_SAFE_INTEGER, limit: 1 });
    const [first] = (await this.#json({ limit: 1 })).events;
    return { events: first === undefined ? 0 : lastSeq - first.seq + 1, lastSeq };
  }

  async *assets({ keyPrefix, failing }: { keyPrefix?: readonly string[] | undefined; failing?: boolean }) {
    let after: readonly string[] | undefined;
    for (;;) {
      const query = { key_prefix: keyPrefix && JSON.stringify(keyPrefix), failing: failing || undefined };
      const text = await this.#text('/assets', { ...query, after_key: after && JSON.stringify(after) }, LINES);
      const page = text
        .split('\n')
        .slice(0, -1)
        .map((line): Asset => assetOf(JSON.parse(line)));
      yield page;
      if (page.length < PAGE_EVENTS) return;
      after = keyOf(page.at(-1)!);
    }
  }

  /** @param position the seq of the last line that was yielded; a line up to it is left out */
  async *#linesIn(
    reply: AsyncIterable<Buffer>,
    position: { seq: number },
    isStream: boolean,
  ): AsyncGenerator<readonly Line[]> {
    let lines: Line[] = [];
    let event = '';
    const add = (bytes: Buffer, start: number, end: number) => {
      const seq = readForm(bytes, start, end)?.seq;
      if (seq === undefined) throw this.#foreign('with a line that is no event');
      if (seq <= position.seq) return;
      position.seq = seq;
      lines.push(new Line(bytes, start, end, seq));
    };
    const addField = (bytes: Buffer, start: number, end: number) => {
      const colon = bytes.indexOf(': ', start);
      const name = colon === -1 || colon > end ? '' : bytes.toString('latin1', start, colon);
      if (name === 'event') event = bytes.toString('latin1', colon + 2, end);
      if (name !== 'data') return;
      if (event !== 'gap' && event !== 'reset') return add(bytes, colon + 2, end);
      if (event === 'reset') position.seq = 0;
      const { first, last } = JSON.parse(bytes.toString('utf8', colon + 2, end));
      this.#output.complain(event === 'gap' ? goneText(first, last) : 'the journal began anew with seq 1');
    };
    const cutter = new LineCutter(isStream ? addField : add);
    for await (const chunk of reply) {
      cutter.push(chunk);
      if (lines.length > 0) yield lines;
      lines = [];
    }
  }

  async #json(query: Query) {
    return JSON.parse(await this.#text('/events', query, 'application/json'));
  }

  /** The whole body of a reply; the request is repeated if the connection breaks. */
  async #text(path: string, query: Query, accept: string): Promise<string> {
    const untilMs = performance.now() + this.#options.retryFor;
    for (;;) {
      const opened = await this.#open(path, query, accept);
      if (opened.kind === 'removed') throw this.#foreign('410');
      const chunks: Buffer[] = [];
      try {
        for await (const chunk of opened.reply) chunks.push(chunk);
        return Buffer.concat(chunks).toString();
      } catch (error) {
        if (performance.now() > untilMs) throw this.#unavailable(`sent no complete reply: ${(error as Error).message}`);
        await sleep(limits.retryMs);
      }
    }
  }

  /** Sends a request until it is answered with the media type `accept`. @throws ServiceFailure */
  async #open(path: string, query: Query, accept: string): Promise<Opened> {
    const url = new URL(`${this.#base}${path}`);
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, String(value));
    const { timeout, retryFor } = this.#options;
    const signal = this.#follow;
    const headers = { ...this.#headers, Accept: accept };
    const idleMs = accept === STREAM ? Math.max(timeout, STREAM_IDLE_MS) : timeout;
    const found = await retry<Opened | Failure>(
      async () => {
        const result = await openReply({ url, headers, idleMs, signal })
          .then((reply) => this.#judge(reply, accept))
          .catch(judgeNoReply);
        // Reading changes nothing, so that it may be repeated whatever became of it.
        return result.kind === 'in doubt' ? { kind: 'again', reason: result.reason, afterMs: 0 } : result;
      },
      {
        retryForMs: signal === undefined ? retryFor : Number.POSITIVE_INFINITY,
        stopped: signal ?? NEVER,
        limits,
        onWait: (reason, waitMs) => this.#waits(reason, waitMs),
      },
    );
    this.#output.progress('');
    this.#isAway = false;
    if (found.kind === 'opened' || found.kind === 'removed') return found;
    if (found.kind === 'unavailable') throw this.#unavailable(found.reason);
    throw new ServiceFailure(`${this.#base} ${found.reason}`, exitCodes.refused);
  }

  async #judge(reply: LongReply, accept: string): Promise<Opened | Failure | Again> {
    const { statusCode: status = 0, headers } = reply;
    if (status === 200 && headers['content-type']?.startsWith(accept)) return { kind: 'opened', reply };
    let body = '';
    for await (const chunk of reply) {
      body += chunk;
      if (body.length > limits.replyBytesMax) break;
    }
    const seq = status === 410 && Number(/continue with after_seq=(\d+)/.exec(body)?.[1]);
    if (seq) return { kind: 'removed', seq };
    if (status === 200) throw this.#foreign(`200 with ${headers['content-type'] ?? 'no media type'}`);
    const found = judge({ status, headers, body });
    if (status !== 404) return found;
    return { ...found, reason: `${found.reason}; an older version answers so, whose journal only its folder shows` };
  }

  /** While a service is followed, an outage is reported once. */
  #waits(reason: string, waitMs: number): void {
    this.#output.progress(`${this.#base} ${reason}; again in ${(waitMs / 1000).toFixed(1)} s`);
    if (this.#follow === undefined || this.#isAway) return;
    this.#isAway = true;
    this.#output.complain(`${this.#base} ${reason}; it is tried again until it answers`);
  }

  #unavailable(reason: string): ServiceFailure {
    return new ServiceFailure(`${this.#base} ${reason}; try again later`, exitCodes.tryLater);
  }

  #foreign(what: string): ServiceFailure {
    return new ServiceFailure(`${this.#base} answers ${what}; is this the address of a service?`, exitCodes.refused);
  }
}

function goneText(first: number, last: number): string {
  return `the events ${first} to ${last} are not there any more`;
}

function queryOf({ type, assetKey, keyPrefix, partition, checkName, passed, since, until }: Filter): Query {
  const key = assetKey && JSON.stringify(assetKey);
  const prefix = keyPrefix && JSON.stringify(keyPrefix);
  return { key, key_prefix: prefix, type, check: checkName, passed, partition, since, until };
}

const LINES = 'application/x-ndjson';
const STREAM = 'text/event-stream';
/** Events or assets in a reply: the most that a service sends. */
const PAGE_EVENTS = 1_000;
/** A service sends at least a comment every 15 s. */
const STREAM_IDLE_MS = 45_000;
const NEVER = new AbortController().signal;
