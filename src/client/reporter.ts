/** Sends reports to one service: one in a request, or many if the service accepts batches. */

import type { Limits } from '../config/limits.ts';
import { batchPath } from '../event/item.ts';
import { type BatchItem, batchesOf, batchHeaders, readBatchReply } from './batch.ts';
import { type HttpReply, openClient, type ProxyRoute, type TokenHeader } from './connection.ts';
import {
  acceptReport,
  type Delivery,
  type DeliveryFailure,
  deliver,
  judgeNoReply,
  neverInDoubt,
  type Permission,
  type RetryPolicy,
  retry,
} from './delivery.ts';
import { documentOf, type FeatureSearch, type Features, readFeatures } from './features.ts';
import { gzipHeader, pack } from './packed.ts';
import type { Submission } from './submission.ts';

export interface ReporterOptions {
  /** The base URL: `https://assets.example/prod`. */
  readonly base: string;
  /** Sent with each request to the service, like the token. */
  readonly headers: Readonly<Record<string, string>>;
  readonly token: TokenHeader | undefined;
  readonly route?: ProxyRoute | undefined;
  /** Timeout of one attempt: see `HttpCall`. */
  readonly timeoutMs: number;
  readonly retry: RetryPolicy;
  readonly limits: Limits;
}

/** Sends reports to one service, over one connection at a time. */
export class Reporter {
  readonly #options: ReporterOptions;
  readonly #client: ReturnType<typeof openClient>;
  #features: Features | undefined;
  /** Whether a compressed batch was not understood, for example by a proxy. */
  #isUnpacked = false;

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#client = openClient(new URL(options.base).protocol, options.limits, undefined, options.route);
  }

  /** Whether the service is known to record a report with an idempotency key once; false before its features were looked up. */
  get knowsKeys(): boolean {
    return this.#features?.keys === true;
  }

  /** Finds the features of the service, with retries. */
  find(): Promise<{ readonly kind: 'found'; readonly features: Features } | DeliveryFailure> {
    return retry(() => this.#search(), this.#options.retry);
  }

  /** Sends one report, with retries; a report in doubt is retried only if it has a key and the service knows keys. */
  send({ endpoint, body, idempotencyKey }: Submission): Promise<Delivery> {
    const headers = {
      'Content-Type': 'application/json',
      ...(idempotencyKey !== undefined && { 'Idempotency-Key': quoted(idempotencyKey) }),
    };
    return deliver(
      {
        attempt: () => this.#post(`${endpoint.path}/`, headers, body, this.#options.limits.replyBytesMax),
        accept: acceptReport,
        mayRepeat: async () => (idempotencyKey === undefined ? { kind: 'no' } : this.#mayRepeat()),
      },
      this.#options.retry,
    );
  }

  /**
   * Sends reports in order, in batches if the service accepts them; `find` must be called first. If the service knows keys, all
   * items must have one.
   * @returns the deliveries of the reports in order. A failure of a whole batch is the same object for all of its reports.
   *   After a failure other than a refusal the caller decides whether to continue.
   */
  async *sendAll(items: readonly BatchItem[]): AsyncGenerator<readonly Delivery[]> {
    const { limits } = this.#options;
    // Without keys no item can be sent again, so each wrong item must be named in the reply.
    const linesMax = this.knowsKeys ? limits.groupLinesMax : Math.min(limits.groupLinesMax, limits.batchErrorsMax);
    for (const batch of batchesOf(items, linesMax, limits)) {
      if (this.#features?.batch === true) yield* this.#sendBatch(batch);
      else yield* this.#sendEach(batch);
    }
  }

  close(): void {
    this.#client.close();
  }

  async *#sendEach(batch: readonly BatchItem[]): AsyncGenerator<readonly Delivery[]> {
    for (const item of batch) {
      let submission: Submission;
      try {
        submission = item.single();
      } catch (error) {
        yield [{ kind: 'refused', reason: (error as Error).message }];
        continue;
      }
      yield [await this.send(submission)];
    }
  }

  async *#sendBatch(batch: readonly BatchItem[]): AsyncGenerator<readonly Delivery[]> {
    if (batch.length === 0) return;
    const found = await this.#deliverBatch(batch);
    switch (found.kind) {
      case 'none recorded':
        return yield* this.#withoutRefused(batch, found.reasons);
      case 'some recorded': {
        const { reasons, isComplete } = found;
        const known = isComplete ? batch.length : Math.max(...reasons.keys()) + 1;
        yield batch.slice(0, known).map((_, index) => refusedOrRecorded(reasons.get(index)));
        const rest = batch.slice(known);
        if (this.knowsKeys) return yield* this.#sendBatch(rest);
        const doubt: Delivery = { kind: 'in doubt', reason: 'answers 207 without naming each wrong item' };
        return yield rest.map(() => doubt);
      }
      case 'refused': // for example 413, for too many bytes in one request; a report alone, without its type and key, might be small enough
        if (batch.length === 1) return yield* this.#sendEach(batch);
        yield* this.#sendBatch(batch.slice(0, batch.length / 2));
        return yield* this.#sendBatch(batch.slice(batch.length / 2));
      default:
        return yield batch.map(() => found);
    }
  }

  /** Nothing of a batch was recorded: sends it again without the refused items. */
  async *#withoutRefused(
    batch: readonly BatchItem[],
    reasons: ReadonlyMap<number, string>,
  ): AsyncGenerator<readonly Delivery[]> {
    let at = 0;
    const nextRefused = (): Delivery[] => {
      const refused: Delivery[] = [];
      for (let reason = reasons.get(at); reason !== undefined; reason = reasons.get(at)) {
        refused.push({ kind: 'refused', reason });
        at += 1;
      }
      return refused;
    };
    for await (const deliveries of this.#sendBatch(batch.filter((_, index) => !reasons.has(index)))) {
      const merged: Delivery[] = [];
      for (const delivery of deliveries) {
        merged.push(...nextRefused(), delivery);
        at += 1;
      }
      yield merged;
    }
    yield nextRefused();
  }

  #deliverBatch(batch: readonly BatchItem[]) {
    const body = Buffer.from(batch.map(({ text }) => text).join('\n')); // Node writes bytes with less work than text
    return deliver(
      {
        attempt: () => this.#postBatch(body, batch.length),
        accept: (reply) => readBatchReply(reply, batch.length),
        mayRepeat: () => this.#mayRepeat(),
      },
      this.#options.retry,
    );
  }

  /**
   * Sends a batch compressed if the service announces that it decompresses it; otherwise, or if that fails, sends it
   * uncompressed.
   */
  async #postBatch(body: Buffer, count: number): Promise<HttpReply> {
    const { limits } = this.#options;
    const send = (bytes: Buffer, more = {}) =>
      this.#post(`${batchPath}/`, { ...batchHeaders, ...more }, bytes, limits.longReplyBytesMax);
    const packed = this.#features?.gzip === true && !this.#isUnpacked ? pack(body, limits) : undefined;
    if (packed === undefined) return send(body);
    const reply = await send(packed, gzipHeader);
    if (reply.status !== 415 && !(reply.status === 400 && readBatchReply(reply, count) === undefined)) return reply;
    this.#isUnpacked = true;
    return send(body);
  }

  async #mayRepeat(): Promise<Permission> {
    const found = await this.#search();
    if (found.kind === 'again') return found;
    return { kind: found.kind === 'found' && found.features.keys ? 'yes' : 'no' };
  }

  async #search(): Promise<FeatureSearch> {
    if (this.#features !== undefined) return { kind: 'found', features: this.#features };
    const { base, headers, token, timeoutMs, limits } = this.#options;
    const document = documentOf(base, token !== undefined);
    const call = {
      method: 'GET',
      ...(!document.isAbove && { headers, token }), // another service might answer above the base URL, so it gets no token
      timeoutMs,
      replyBytesMax: limits.longReplyBytesMax,
    } as const;
    const found = await this.#client.call(document.url, call).then(
      (reply) => readFeatures(reply, document),
      (error) => neverInDoubt(judgeNoReply(error)),
    );
    if (found.kind === 'found') this.#features = found.features;
    return found;
  }

  #post(
    path: string,
    headers: Readonly<Record<string, string>>,
    body: string | Buffer,
    replyBytesMax: number,
  ): Promise<HttpReply> {
    const { base, token, timeoutMs } = this.#options;
    const all = { ...this.#options.headers, ...headers };
    const call = { method: 'POST', headers: all, token, body, timeoutMs, replyBytesMax } as const;
    return this.#client.call(new URL(`${base}${path}`), call);
  }
}

const recorded: Delivery = { kind: 'recorded' };

function refusedOrRecorded(reason: string | undefined): Delivery {
  return reason === undefined ? recorded : { kind: 'refused', reason };
}

/** @returns a string of RFC 8941 section 3.3.3, the form of the header in its draft */
function quoted(key: string): string {
  return `"${key.replaceAll(/["\\]/g, '\\$&')}"`;
}
