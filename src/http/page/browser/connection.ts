/** Keeps the page connected to its service: retries with exponential backoff and jitter, and reports its state. */

import { pageLimits } from '../../../config/limits.ts';
import { RefusedError } from './service.ts';

export type ConnectionState =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'live' }
  /** The service does not answer, or refuses temporarily. */
  | { readonly kind: 'waiting'; readonly seconds: number; readonly reason: string }
  /** A retry would not help: 401, 403 and other errors of the request. */
  | { readonly kind: 'refused'; readonly status: number; readonly error: string }
  /** The page is hidden. */
  | { readonly kind: 'paused' };

/** One attempt, which lasts as long as its connection. It calls `live` when the service has answered. */
export type Attempt = (signal: AbortSignal, live: () => void) => Promise<void>;

/** Repeats an attempt until it is stopped or refused. */
export class Connection {
  readonly #onState: (state: ConnectionState) => void;
  #abort: AbortController | undefined;
  /** The shortest wait before a retry. The service can set it (`retry:` of Server-Sent Events). */
  retryMs: number = pageLimits.retryMs;

  constructor(onState: (state: ConnectionState) => void) {
    this.#onState = onState;
  }

  start(attempt: Attempt): void {
    this.#abort?.abort();
    this.#abort = new AbortController();
    void this.#run(attempt, this.#abort.signal);
  }

  stop(): void {
    if (this.#abort === undefined) return;
    this.#abort.abort();
    this.#abort = undefined;
    this.#onState({ kind: 'paused' });
  }

  /** Never rejects. */
  async #run(attempt: Attempt, signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; failures += 1) {
      this.#onState({ kind: 'connecting' });
      let retryAfterMs = 0;
      let reason = 'The service ended the connection';
      try {
        await attempt(signal, () => {
          failures = 0;
          this.#onState({ kind: 'live' });
        });
      } catch (error) {
        reason = 'The service does not answer';
        if (error instanceof RefusedError) {
          const { status, message } = error;
          if (status < 500 && status !== 429) {
            if (!signal.aborted) this.#onState({ kind: 'refused', status, error: message });
            return;
          }
          reason = message;
          retryAfterMs = error.retryAfterMs ?? 0;
        }
      }
      if (signal.aborted) return;
      const backoffMs = Math.min(this.retryMs * 2 ** failures, pageLimits.retryMsMax) * (0.5 + Math.random() / 2);
      const waitMs = Math.max(backoffMs, retryAfterMs);
      this.#onState({ kind: 'waiting', seconds: Math.ceil(waitMs / 1_000), reason });
      await sleep(waitMs, signal);
    }
  }
}

/** @returns a controller that the signal aborts too. (`AbortSignal.any` is newer than the oldest browsers of the page.) */
export function abortedWith(signal: AbortSignal): AbortController {
  const made = new AbortController();
  if (signal.aborted) made.abort();
  signal.addEventListener('abort', () => made.abort(), { once: true });
  return made;
}

/** Resolves after a time, or when the signal aborts. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
