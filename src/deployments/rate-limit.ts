/** A rate limit on failures: an address with too many failures within a window must wait for the end of the window. */

import type { Limits } from '../config/limits.ts';

/**
 * Counts by address, in fixed windows. At most `failedAddressesMax` addresses are remembered; the oldest window is evicted first.
 */
export class FailureRate {
  readonly #limits: Limits;
  readonly #windows = new Map<string, { count: number; readonly endMs: number }>();

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /**
   * Counts one failure.
   * @param nowMs milliseconds since 1970
   * @returns `count`: the failures of the address in its window, from 1; `waitMs`: the rest of the window if the count exceeds the
   *   limit, otherwise 0
   */
  add(address: string, nowMs: number): { readonly count: number; readonly waitMs: number } {
    const window = this.#windowOf(address, nowMs);
    window.count += 1;
    const waitMs = window.count > this.#limits.failuresMax ? window.endMs - nowMs : 0;
    return { count: window.count, waitMs };
  }

  #windowOf(address: string, nowMs: number): { count: number; readonly endMs: number } {
    const current = this.#windows.get(address);
    if (current !== undefined && current.endMs > nowMs) return current;
    this.#windows.delete(address);
    const [oldest] = this.#windows.size >= this.#limits.failedAddressesMax ? this.#windows.keys() : [];
    if (oldest !== undefined) this.#windows.delete(oldest);
    const window = { count: 0, endMs: nowMs + this.#limits.failuresMs };
    this.#windows.set(address, window);
    return window;
  }
}
