/** The last refused requests of an embedded service, as its clients saw them. */

import type { waitLimits } from '../config/limits.ts';
import { type RefusedRequest, targetPath } from '../telemetry/refusals.ts';

/** How many are kept, and how many of them the error of a wait lists: `{ refusedMax: 1_000, shownMax: 5, … }`. */
export type RefusedLimits = Pick<typeof waitLimits, 'refusedMax' | 'shownMax' | 'shownCharactersMax'>;

/** A refused request: `{ time: '2026-11-20T15:04:05.678Z', method: 'POST', path: '/report_asset_check/a', status: 400, … }`. */
export interface Refused {
  readonly time: string;
  readonly request_id: string;
  readonly method?: string;
  readonly path?: string;
  readonly query?: string;
  readonly status: number;
  readonly error: string;
}

/** Keeps the last refused requests: `refused.all()` is `[{ status: 400, … }]`. */
export class RefusedRequests {
  readonly #limits: RefusedLimits;
  #last: Refused[] = [];
  #count = 0;

  constructor(limits: RefusedLimits) {
    this.#limits = limits;
  }

  /** Keeps a refused request such as `{ id: '…', method: 'POST', url: '/report_asset_check/a', status: 400, error: '…', … }`. */
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

  /** @returns them in the order in which they came */
  all(): Refused[] {
    return [...this.#last];
  }

  /** Forgets all of them. */
  clear(): void {
    this.#last = [];
    this.#count = 0;
  }

  /** @returns the end of the error of a wait: their number and the last of them, or nothing */
  toString(): string {
    if (this.#count === 0) return '';
    const { shownMax, shownCharactersMax } = this.#limits;
    const lines = this.#last.slice(-shownMax).map(({ method, path, query, status, error }) => {
      const what = path === undefined ? '' : ` for ${method} ${path}${query === undefined ? '' : `?${query}`}`;
      return `  ${cut(`${status}${what}: ${error}`, shownCharactersMax)}\n`;
    });
    return `\nrefused requests: ${this.#count}, the last:\n${lines.join('')}`;
  }
}

/** @returns the text, with `…` in place of what is longer than so many characters: `cut('abc', 2)` is `ab…` */
export function cut(text: string, charactersMax: number): string {
  return text.length > charactersMax ? `${text.slice(0, charactersMax)}…` : text;
}
