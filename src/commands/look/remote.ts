/** Reads the journal of a service over HTTP, for `assetlog events --url` and `assetlog assets --url`. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { AssetJson } from '../../assets/asset-json.ts';
import { readBaseUrl } from '../../client/base-url.ts';
import { type HttpReply, openReply } from '../../client/connection.ts';
import {
  type DeliveryFailure,
  judge,
  judgeNoReply,
  neverInDoubt,
  onOneLine,
  retry,
  type SafeToRetry,
} from '../../client/delivery.ts';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { BETWEEN_PARTS } from '../../event/asset-key.ts';
import { type Filter, queryOf } from '../../event/search.ts';
import { LineCutter, type OnLine } from '../../journal/line/lines.ts';
import { dropLarge } from '../../journal/look/newest-lines.ts';
import type { Line } from '../../journal/look/reading.ts';
import type { SourceQuery, SourceState } from '../../journal/look/source-state.ts';
import { type Output, refuseError } from '../cli/command.ts';
import { type Caller, callerOf, type ServiceOptions } from '../cli/service-options.ts';
import { readAsset, readGap, readLine, readSourceState } from './checked-reply.ts';
import type { AssetQuery, FollowOptions, JournalSource, JournalSources } from './source.ts';

/**
 * Opens the journal of a service and runs `act`, like `withLocalJournals` for a folder. Failures are reported on standard error.
 * @param follow if given, requests are retried until the signal aborts
 * @returns 0 if all was read, 1 if the service refuses or sends something other than a journal, 2 for a wrong URL or token file,
 *   5 if the token file cannot be read now, 75 if it was unavailable
 */
export async function withServiceJournal(
  values: ServiceOptions,
  output: Output,
  follow: AbortSignal | undefined,
  act: (sources: JournalSources) => Promise<ExitCode | undefined>,
): Promise<ExitCode> {
  let journal: RemoteJournal;
  try {
    const base = readBaseUrl(values.url);
    journal = new RemoteJournal(base, await callerOf(values, output), values, output, follow);
  } catch (error) {
    return refuseError(output, error as Error);
  }
  try {
    return (await act({ kind: 'journal', all: [journal], added: async () => [] })) ?? exitCodes.done;
  } catch (error) {
    output.progress('');
    const { message, syscall } = error as NodeJS.ErrnoException;
    const isFailure = error instanceof ServiceFailure;
    output.complain(isFailure ? message : `the reply of ${values.url} could not be shown: ${message}`);
    // The error of standard output names a system call.
    return isFailure ? error.exitCode : syscall === undefined ? exitCodes.refused : exitCodes.diskFailed;
  }
}

/** The service refuses, or was unavailable for too long. */
export class ServiceFailure extends Error {
  readonly exitCode: ExitCode;

  constructor(reason: string, exitCode: ExitCode) {
    super(reason);
    this.exitCode = exitCode;
  }
}

/** A reply with the requested media type. */
type ReadingReply = { readonly kind: 'long'; readonly chunks: AsyncIterable<Buffer> } | Removed;

/** Retention removed the events up to `seq`. */
interface Removed {
  readonly kind: 'removed';
  readonly seq: number;
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

class RemoteJournal implements JournalSource {
  readonly deployment = undefined;
  readonly #base: string;
  readonly #caller: Caller;
  readonly #options: ServiceOptions;
  readonly #output: Output;
  readonly #follow: AbortSignal | undefined;
  #isOutageReported = false;

  constructor(base: string, caller: Caller, options: ServiceOptions, output: Output, follow: AbortSignal | undefined) {
    this.#base = base;
    this.#caller = caller;
    this.#options = options;
    this.#output = output;
    this.#follow = follow;
  }

  /** If the connection breaks, continues after the last line that arrived: no line is lost or repeated. */
  async *read(filter: Filter, follow?: FollowOptions): AsyncGenerator<readonly Line[]> {
    const signal = follow?.signal;
    const linesMax = signal === undefined ? PAGE_EVENTS : undefined;
    const position = { seq: filter.afterSeq ?? 0 };
    let wait = this.#startBackoff();
    let removals = 0;
    while (!signal?.aborted) {
      const before = position.seq;
      const query = { ...queryOf(filter), after_seq: before, limit: linesMax };
      const opened = await this.#open('/events', query, linesMax === undefined ? STREAM : LINES);
      if (opened.kind === 'removed') {
        removals += 1;
        this.#checkRemoved(opened.seq, before, removals);
        this.#output.complain(goneText(before + 1, opened.seq));
        position.seq = opened.seq;
        continue;
      }
      removals = 0;
      let count = 0;
      let problem = 'ends its replies';
      try {
        for await (const lines of this.#linesIn(opened.chunks, position, linesMax)) {
          count += lines.length;
          yield lines;
        }
        if (linesMax !== undefined) {
          if (await this.#isLastPage(count, position.seq)) return;
          continue;
        }
      } catch (error) {
        problem = problemOf(error);
      }
      if (count === linesMax) continue;
      if (position.seq !== before) wait = this.#startBackoff();
      await wait(problem);
    }
  }

  /**
   * Whether a page with `count` events is the last one. A shorter page might have ended early because retention removed the
   * events after it.
   */
  async #isLastPage(count: number, seq: number): Promise<boolean> {
    if (count === PAGE_EVENTS) return false;
    return count === 0 || !(await this.#isRemovedAfter(seq));
  }

  async #isRemovedAfter(seq: number): Promise<boolean> {
    const opened = await this.#open('/events', { after_seq: seq, limit: 1 }, LINES);
    if (opened.kind === 'removed') return true;
    for await (const _ of opened.chunks) break; // closes the reply
    return false;
  }

  /** Reads a complete reply, and reads it again if the connection breaks. */
  async newest(count: number, filter: Filter): Promise<readonly Line[]> {
    const wait = this.#startBackoff();
    let { afterSeq } = filter;
    for (let removals = 1; ; ) {
      const opened = await this.#open(
        '/events',
        { ...queryOf(filter), after_seq: afterSeq || undefined, last: count },
        LINES,
      );
      if (opened.kind === 'removed') {
        this.#checkRemoved(opened.seq, afterSeq ?? 0, removals);
        removals += 1;
        afterSeq = opened.seq;
        continue;
      }
      try {
        const lines: Line[] = [];
        for await (const some of this.#linesIn(opened.chunks, { seq: 0 }, count)) {
          lines.push(...some);
          dropLarge(lines, limits.lastBytesMax);
        }
        return lines;
      } catch (error) {
        await wait(problemOf(error));
      }
    }
  }

  async hasEvent(filter: Filter): Promise<boolean> {
    return (await this.newest(1, filter)).length > 0;
  }

  /** If the connection breaks, continues after the last asset that arrived. */
  async *assets({ keyPrefix, keyBeginsWith, failing, stale }: AssetQuery): AsyncGenerator<readonly AssetJson[]> {
    const keys = queryOf({ keyPrefix, keyStart: keyBeginsWith });
    const filter = { ...keys, failing: failing || undefined, stale };
    let last: AssetJson | undefined;
    for (let wait = this.#startBackoff(); ; ) {
      const query = { ...filter, after_key: last && JSON.stringify(last.asset_key) };
      let count = 0;
      try {
        for await (const some of this.#assetsIn(await this.#open('/assets', query, LINES), last)) {
          count += some.length;
          last = some.at(-1);
          yield some;
        }
        if (count < PAGE_EVENTS) return;
        wait = this.#startBackoff();
      } catch (error) {
        const problem = problemOf(error);
        if (count > 0) wait = this.#startBackoff();
        await wait(problem);
      }
    }
  }

  /**
   * Yields the assets of a reply, including those that arrived before its connection broke. @param after the last asset of the
   * previous reply
   */
  async *#assetsIn(opened: ReadingReply, after: AssetJson | undefined): AsyncGenerator<readonly AssetJson[]> {
    if (opened.kind === 'removed') throw this.#notAService('410');
    let last = after;
    let count = 0;
    let some: AssetJson[] = [];
    const add = (line: Buffer, start: number, end: number) => {
      const asset = readAsset(line.toString('utf8', start, end));
      if (asset === undefined) throw this.#notAService('with a line that is not an asset');
      if (last !== undefined && orderOf(asset) <= orderOf(last))
        throw this.#notAService('with assets that are not in order');
      count += 1;
      if (count > PAGE_EVENTS) throw this.#notAService(`with more than ${PAGE_EVENTS} assets in a reply`);
      last = asset;
      some.push(asset);
    };
    let bytes = 0;
    try {
      for await (const chunk of this.#cut(opened.chunks, add, limits.assetLineBytesMax)) {
        bytes += chunk.length;
        if (bytes <= limits.lineBytesMax || some.length === 0) continue;
        yield some; // in parts, since an asset can have thousands of checks
        some = [];
        bytes = 0;
      }
    } catch (error) {
      if (some.length > 0 && !(error instanceof ServiceFailure)) yield some;
      throw error;
    }
    if (some.length > 0) yield some;
  }

  async sourceNames(): Promise<ReadonlyMap<string, string> | undefined> {
    const found = await this.sources({}).catch((error: Error) => {
      if (error instanceof ServiceFailure && error.exitCode === exitCodes.refused) return []; // an older service has no sources
      throw error;
    });
    return found.length === 0 ? undefined : new Map(found.map(({ id, name }) => [id, name ?? id]));
  }

  async sources({ silentMs, isStopped }: SourceQuery): Promise<readonly SourceState[]> {
    const silent = silentMs === undefined ? undefined : silentMs % 1000 === 0 ? `${silentMs / 1000}s` : `${silentMs}ms`;
    for (const wait = this.#startBackoff(); ; ) {
      const opened = await this.#open('/sources', { silent, stopped: isStopped === true ? true : undefined }, LINES);
      if (opened.kind === 'removed') throw this.#notAService('410');
      const found: SourceState[] = [];
      const add = (bytes: Buffer, start: number, end: number) => {
        const source = readSourceState(bytes.toString('utf8', start, end));
        if (source === undefined) throw this.#notAService('with a line that is not a source');
        found.push(source);
        if (found.length > limits.forwardSourcesMax) throw this.#notAService('with too many sources');
      };
      try {
        for await (const _ of this.#cut(opened.chunks, add, limits.lineBytesMax));
        return found;
      } catch (error) {
        await wait(problemOf(error));
      }
    }
  }

  /** @param position the seq of the last line that was yielded; a line up to it is skipped */
  async *#linesIn(
    reply: AsyncIterable<Buffer>,
    position: { seq: number },
    linesMax: number | undefined,
  ): AsyncGenerator<readonly Line[]> {
    let lines: Line[] = [];
    let event = '';
    let count = 0;
    const add = (bytes: Buffer, start: number, end: number) => {
      const line = readLine(bytes, start, end);
      if (line === undefined) throw this.#notAService('with a line that is not an event');
      count += 1;
      if (linesMax !== undefined && count > linesMax) {
        throw this.#notAService(`with more than ${linesMax} events in a reply`);
      }
      if (line.seq <= position.seq) return;
      position.seq = line.seq;
      lines.push(line);
    };
    const addField = (bytes: Buffer, start: number, end: number) => {
      const colon = bytes.indexOf(': ', start);
      const name = colon === -1 || colon > end ? '' : bytes.toString('latin1', start, colon);
      if (name === 'event') event = bytes.toString('latin1', colon + 2, end);
      if (name !== 'data') return;
      if (event !== 'gap' && event !== 'reset') return add(bytes, colon + 2, end);
      if (event === 'reset') {
        position.seq = 0;
        return this.#output.complain('the journal was emptied, and starts again with seq 1');
      }
      const gap = readGap(bytes.toString('utf8', colon + 2, end));
      if (gap === undefined) throw this.#notAService('with an event "gap" that names no range of events');
      this.#output.complain(goneText(gap.first, gap.last));
    };
    for await (const _ of this.#cut(reply, linesMax === undefined ? addField : add, limits.lineBytesMax)) {
      if (lines.length > 0) yield lines;
      lines = [];
    }
  }

  /**
   * @param times the number of consecutive replies of this kind
   * @throws ServiceFailure for more than `removalsMax`, or for a seq that does not advance
   */
  #checkRemoved(seq: number, before: number, times: number): void {
    if (seq > before && times <= limits.removalsMax) return;
    throw this.#notAService(`410 to after_seq=${before} for the ${times}. time in a row, and names ${seq}`);
  }

  /** Passes each line to `onLine`. @returns the chunks */
  async *#cut(chunks: AsyncIterable<Buffer>, onLine: OnLine, lineBytesMax: number): AsyncGenerator<Buffer> {
    const cutter = new LineCutter(onLine, lineBytesMax);
    for await (const chunk of chunks) {
      cutter.push(chunk);
      if (cutter.carriedBytes > lineBytesMax) throw this.#notAService(`with a line of more than ${lineBytesMax} bytes`);
      yield chunk;
    }
  }

  /** @returns a function that waits after an incomplete reply, and throws ServiceFailure after `retryFor` */
  #startBackoff(): (problem: string) => Promise<void> {
    const untilMs = performance.now() + this.#options.retryFor;
    let pauseMs: number = limits.retryMs;
    return async (problem) => {
      if (this.#follow === undefined && performance.now() > untilMs) throw this.#unavailable(problem);
      await sleep((pauseMs * (1 + Math.random())) / 2, undefined, { signal: this.#follow }).catch(() => {}); // aborted
      pauseMs = Math.min(2 * pauseMs, limits.retryMsMax);
    };
  }

  /** Sends a request until a reply has the media type `accept`. @throws ServiceFailure */
  async #open(path: string, query: Query, accept: string): Promise<ReadingReply> {
    const url = new URL(`${this.#base}${path}`);
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, String(value));
    const { timeout, retryFor } = this.#options;
    const signal = this.#follow;
    const idleMs = accept === STREAM ? Math.max(timeout, STREAM_IDLE_MS) : timeout;
    const found = await retry<ReadingReply | DeliveryFailure>(
      async () => {
        const result = await openReply({ url, ...this.#caller, accept, idleMs, signal }, limits)
          .then((reply) => (reply.kind === 'long' ? reply : this.#judge(reply)))
          .catch(judgeNoReply);
        return neverInDoubt(result);
      },
      {
        retryForMs: signal === undefined ? retryFor : Number.POSITIVE_INFINITY,
        stopped: signal ?? NEVER,
        limits,
        onWait: (reason, waitMs) => this.#reportWait(reason, waitMs),
      },
    );
    this.#output.progress('');
    this.#isOutageReported = false;
    if (found.kind === 'long' || found.kind === 'removed') return found;
    if (found.kind === 'unavailable') throw this.#unavailable(found.reason);
    throw new ServiceFailure(`${this.#base} ${found.reason}`, exitCodes.refused);
  }

  #judge(reply: HttpReply): ReadingReply | DeliveryFailure | SafeToRetry {
    const { status, headers, body } = reply;
    const seq = status === 410 && Number(/continue with after_seq=(\d+)/.exec(body)?.[1]);
    if (Number.isSafeInteger(seq) && seq) return { kind: 'removed', seq };
    if (status === 200) throw this.#notAService(`200 with ${onOneLine(headers['content-type'] ?? 'no media type')}`);
    const found = judge(reply);
    if (status !== 404) return found;
    return {
      ...found,
      reason: `${found.reason}; a service of an older version has no such endpoint: read its folder with --data`,
    };
  }

  /** While a service is followed, each outage is reported once. */
  #reportWait(reason: string, waitMs: number): void {
    this.#output.progress(`${this.#base} ${reason}; again in ${(waitMs / 1000).toFixed(1)} s`);
    if (this.#follow === undefined || this.#isOutageReported) return;
    this.#isOutageReported = true;
    this.#output.complain(`${this.#base} ${reason}; it is tried again until it answers`);
  }

  #unavailable(reason: string): ServiceFailure {
    return new ServiceFailure(`${this.#base} ${reason}; try again later`, exitCodes.tryLater);
  }

  #notAService(what: string): ServiceFailure {
    return new ServiceFailure(`${this.#base} answers ${what}; is this the address of a service?`, exitCodes.refused);
  }
}

/** @returns the problem of a broken reply @throws ServiceFailure if the error is of this type */
function problemOf(error: unknown): string {
  if (error instanceof ServiceFailure) throw error;
  return `sent no complete reply: ${(error as Error).message}`;
}

function goneText(first: number, last: number): string {
  return `the events ${first} to ${last} are no longer in the journal`;
}

const LINES = 'application/x-ndjson';
const STREAM = 'text/event-stream';
/** The most events or assets in a reply of a service. */
const PAGE_EVENTS = 1_000;
/** A service sends at least a comment every 15 s. */
const STREAM_IDLE_MS = 45_000;
const NEVER = new AbortController().signal;

/** @returns a text that sorts like the key of an asset */
function orderOf({ asset_key }: AssetJson): string {
  return asset_key.join(BETWEEN_PARTS);
}
