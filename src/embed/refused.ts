/** The last refused requests of an embedded service, as its clients saw them. */

import type { waitLimits } from '../config/limits.ts';
import { shortened } from '../telemetry/printable.ts';
import { type RefusedRequest, targetPath } from '../telemetry/refusals.ts';

/** Number of requests that are kept, and that the error of a wait lists. */
export type RefusedLimits = Pick<typeof waitLimits, 'refusedMax' | 'shownMax' | 'shownCharactersMax'>;

export interface Refused {
  readonly time: string;
  readonly request_id: string;
  readonly method?: string;
  readonly path?: string;
  readonly query?: string;
  readonly status: number;
  readonly error: string;
}

export class RefusedRequests {
  readonly #limits: RefusedLimits;
  #last: Refused[] = [];
  #count = 0;

  constructor(limits: RefusedLimits) {
    this.#limits = limits;
  }

  add({ id, method, url, status, error }: RefusedRequest): void {
    const query = url === undefined ? undefined : /\?([^#]*)/.exec(url)?.[1];
    this.#count += 1;
    this.#last.push({
      time: new Date().toISOString(),
      request_id: id,
      ...(method !== undefined && { method }),
      ...(url !== undefined && { path: targetPath(url) }),
      ...(query !== undefined && { query }),
      status,
      error,
    });
    if (this.#last.length > this.#limits.refusedMax) this.#last.shift();
  }

  /** @returns the requests in the order of their arrival */
  all(): Refused[] {
    return [...this.#last];
  }

  clear(): void {
    this.#last = [];
    this.#count = 0;
  }

  /** @returns the end of the error of a wait: the number of requests and the last ones; empty without requests */
  toString(): string {
    if (this.#count === 0) return '';
    const { shownMax, shownCharactersMax } = this.#limits;
    const lines = this.#last.slice(-shownMax).map(({ method, path, query, status, error }) => {
      const what = path === undefined ? '' : ` for ${method} ${path}${query === undefined ? '' : `?${query}`}`;
      return `  ${shortened(`${status}${what}: ${error}`, shownCharactersMax)}\n`;
    });
    return `\nrefused requests: ${this.#count}, the last:\n${lines.join('')}`;
  }
}
