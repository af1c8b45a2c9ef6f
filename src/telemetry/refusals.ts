/**
 * The last refused requests, in memory: the requests of each journal for `GET /refusals`, and those that an embedding test
 * reads.
 */

import type { Limits } from '../config/limits.ts';
import type { DeploymentCounts } from './deployment-counts.ts';
import { findTokens, type IsToken, masked, maskedReason } from './masked.ts';
import { shortened } from './printable.ts';

/** The facts about a refused request. */
export interface RefusalFacts {
  /** The `request_id` of the reply, a UUID. */
  readonly id: string;
  /** Undefined if the bytes were not a request. */
  readonly method?: string | undefined;
  /** The target as it was sent; only its path is logged. Undefined if the bytes were not a request. */
  readonly url?: string | undefined;
  readonly status: number;
  /** The error that the client got. It can quote a query, metadata or JSON, so it is neither logged nor shown to others. */
  readonly error: string;
  /** The same error, without text that must not be logged. */
  readonly problem: string;
  /** @returns the reason, which the client does not get: `expired token ci` */
  readonly cause?: (() => string) | undefined;
  /** The IP address of the peer, a client or its proxy: `127.0.0.1`. */
  readonly peer?: string | undefined;
  /** All headers: name, value, name, value … */
  readonly headers?: readonly string[] | undefined;
  /** In hosted mode the name of the valid token. */
  readonly tokenName?: string | undefined;
}

/** A refused request in the form of `GET /refusals`. */
export interface ListedRefusal {
  /** When it was refused, in the form of a line's `time`. */
  readonly time: string;
  readonly request_id: string;
  /** Undefined if the bytes were not a request. */
  readonly method: string | undefined;
  /** Shortened and without the query: `/report_asset_check/a`. Undefined if the bytes were not a request. */
  readonly path: string | undefined;
  readonly status: number;
  /** Like in the log: without query, metadata and token. */
  readonly error: string;
  /** The reason, which the client did not get: `expired token ci`. */
  readonly reason: string | undefined;
  /** The client's address if trusted proxies passed it on, otherwise the peer's. */
  readonly address: string;
  /** In hosted mode the name of the valid token. */
  readonly token_name: string | undefined;
  /** See `traceparentIn`. */
  readonly traceparent: string | undefined;
}

/** A refused request as its client saw it. Only a program that embeds the service reads it: its query and its error can be secret. */
export interface SeenRefusal {
  readonly time: string;
  readonly request_id: string;
  /** Absent, like `path` and `query`, if the bytes were not a request. */
  readonly method?: string;
  readonly path?: string;
  readonly query?: string;
  readonly status: number;
  readonly error: string;
}

export interface RefusalsOptions {
  /** @returns the client's address, from the peer address of its connection and the raw headers (name, value, name, value …) */
  readonly addressOf: (peer: string, headers: readonly string[]) => string;
  readonly nowMs: () => number;
  /** Number of requests that are also kept as their clients saw them. */
  readonly seenMax: number;
  readonly limits: Limits;
  /** Undefined without `--deployment-metrics`. */
  readonly counts?: DeploymentCounts | undefined;
}

/**
 * Keeps the last `limits.refusalsKeptMax` refused requests of each journal with a valid token, and as many without one. In hosted mode a request belongs to the deployment
 * that its path names, so that a reader of one deployment learns nothing about another. A request without a deployment is not kept.
 */
export class Refusals {
  /**
   * @returns the deployment whose readers see a refusal: the existing deployment that a path such as `/prod/report_asset_check/a`
   *   names, otherwise undefined. Local mode has one journal and no such function
   */
  deploymentIn: ((path: string) => string | undefined) | undefined;
  /** Set in hosted mode: its tokens are masked in paths. */
  isToken: IsToken = () => false;
  readonly #options: RefusalsOptions;
  /** The requests of clients with a valid token, and those of other clients, which never displace the former. */
  readonly #own = new Kept();
  readonly #others = new Kept();
  #seen: SeenRefusal[] = [];
  #seenCount = 0;

  constructor(options: RefusalsOptions) {
    this.#options = options;
  }

  /**
   * Keeps a refused request. `of` includes it only later, since the time of a 401 must not reveal whether its
   * deployment exists.
   */
  add(request: RefusalFacts): void {
    if (this.#options.seenMax > 0) this.#see(request);
    setImmediate(() => this.#keep(request));
  }

  #see({ id, method, url, status, error }: RefusalFacts): void {
    const { nowMs, seenMax } = this.#options;
    const query = url === undefined ? undefined : /\?([^#]*)/.exec(url)?.[1];
    this.#seen.push({
      time: new Date(nowMs()).toISOString(),
      request_id: id,
      ...(method !== undefined && { method }),
      ...(url !== undefined && { path: targetPath(url) }),
      ...(query !== undefined && { query }),
      status,
      error,
    });
    this.#seenCount += 1;
    if (this.#seen.length > seenMax) this.#seen.shift();
  }

  #keep({ id, method, url, status, problem, cause, peer = '', headers = [], tokenName }: RefusalFacts): void {
    const { addressOf, nowMs, limits, counts } = this.#options;
    const path = url === undefined ? undefined : targetPath(url);
    const deployment = this.deploymentIn?.(path ?? '');
    if (deployment === undefined && this.deploymentIn !== undefined) return;
    if (deployment !== undefined) counts?.refused(deployment, status);
    const tokens = findTokens(path ?? '', this.isToken, limits.loggedPathCharactersMax);
    const kept = tokenName === undefined ? this.#others : this.#own;
    const refusal = {
      time: new Date(nowMs()).toISOString(),
      request_id: id,
      method,
      path: path === undefined ? undefined : shortenedCopy(masked(path, tokens), limits.loggedPathCharactersMax),
      status,
      error: shortenedCopy(maskedReason(problem, tokens, this.isToken), limits.refusalErrorCharactersMax),
      reason: cause?.(),
      address: addressOf(peer, headers),
      token_name: tokenName,
      traceparent: traceparentIn(headers),
    };
    kept.add(deployment, refusal, limits.refusalsKeptMax, limits.refusalsOfAllMax / 2);
  }

  /**
   * @param deployment undefined in local mode
   * @returns its refused requests, the newest first
   */
  of(deployment: string | undefined): readonly ListedRefusal[] {
    const all = [...this.#own.of(deployment), ...this.#others.of(deployment)];
    return all.sort((a, b) => (a.time < b.time ? 1 : a.time === b.time ? 0 : -1));
  }

  /**
   * @returns the last `seenMax` requests of all journals in the order of their arrival, and the number of all requests
   */
  seen(): { readonly last: readonly SeenRefusal[]; readonly count: number } {
    return { last: this.#seen, count: this.#seenCount };
  }

  clear(): void {
    this.#own.clear();
    this.#others.clear();
    this.#seen = [];
    this.#seenCount = 0;
  }
}

/** The last refusals by deployment. */
class Kept {
  /** Oldest first; the deployment with the newest refusal is last. */
  readonly #lists = new Map<string | undefined, ListedRefusal[]>();
  #count = 0;

  add(deployment: string | undefined, refusal: ListedRefusal, max: number, ofAllMax: number): void {
    const list = this.#lists.get(deployment) ?? [];
    this.#lists.delete(deployment);
    this.#lists.set(deployment, list);
    list.push(refusal);
    this.#count += 1;
    if (list.length > max) {
      list.shift();
      this.#count -= 1;
    }
    while (this.#count > ofAllMax) {
      const [[oldest, dropped] = []] = this.#lists;
      this.#lists.delete(oldest);
      this.#count -= dropped?.length ?? 0;
    }
  }

  /** @returns the refusals, newest first */
  of(deployment: string | undefined): readonly ListedRefusal[] {
    return (this.#lists.get(deployment) ?? []).toReversed();
  }

  clear(): void {
    this.#lists.clear();
    this.#count = 0;
  }
}

/** @returns the trace context that a client sent (W3C, `traceparent`); undefined if it is missing, malformed or repeated */
export function traceparentIn(headers: readonly string[]): string | undefined {
  const values = headers.filter((_, at) => at % 2 === 1 && headers[at - 1]!.toLowerCase() === 'traceparent');
  const [value = ''] = values;
  // Copied, since the value would keep the whole head in memory.
  return values.length === 1 && TRACEPARENT.test(value) ? Buffer.from(value).toString() : undefined;
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** @returns the path of a request's target, without authority, query and fragment: `/a` for `http://localhost/a?x=1` */
export function targetPath(url: string): string {
  return url.replace(/^[a-z]+:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '');
}

/** A substring would keep the whole text in memory, which can be a request's target of 16 KB. */
function shortenedCopy(text: string, charactersMax: number): string {
  return Buffer.from(shortened(text, charactersMax)).toString();
}
