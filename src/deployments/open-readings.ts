/** Hosted mode: ends the replies that are still being sent when their token may no longer read. */

import type { Limits } from '../config/limits.ts';
import { type Deployments, stillMay } from './tokens.ts';

/** A reply that is sent for a long time, such as a stream of events. */
export interface OpenReading {
  readonly deployment: string;
  /** The SHA-256 of its token. */
  readonly digest: Buffer;
  /** Called at most once, when its token may no longer read the deployment. */
  readonly end: () => void;
}

/** The replies that are being sent. A token loses its right by a reload of the deployments file, or because it expires. */
export class OpenReadings {
  readonly #open = new Set<OpenReading>();
  readonly #deployments: () => Deployments;
  readonly #checkMs: number;
  #checking: NodeJS.Timeout | undefined;

  /** @param deployments returns the current deployments; called at each check */
  constructor(deployments: () => Deployments, { rightsCheckMs }: Limits) {
    this.#deployments = deployments;
    this.#checkMs = rightsCheckMs;
  }

  /**
   * Adds a reply, and checks its right at once, since the token might have lost it after the request arrived.
   * @returns the function to call when the reply is complete
   */
  add(reading: OpenReading): () => void {
    this.#open.add(reading);
    this.#check(reading);
    // Used for tokens that expire. One interval for all replies, which uses the wall clock, since a timer would be late after a
    // jump of the clock.
    this.#checking ??= setInterval(() => this.checkAll(), this.#checkMs).unref();
    return () => this.#open.delete(reading);
  }

  /** Ends the replies whose tokens may no longer read. Called after a change of the deployments. */
  checkAll(): void {
    for (const reading of this.#open) this.#check(reading);
    if (this.#open.size > 0) return;
    clearInterval(this.#checking);
    this.#checking = undefined;
  }

  #check(reading: OpenReading): void {
    const { deployment, digest, end } = reading;
    if (stillMay(this.#deployments(), deployment, digest, 'read', Date.now())) return;
    this.#open.delete(reading);
    end();
  }
}
