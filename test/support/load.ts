/** Clients that report without a pause, and what became of their reports. */

import { eventually, HANG_MS } from './tools.ts';

export class Load {
  /** The keys of the reports that got a 200. */
  readonly acknowledged = new Set<string>();
  /** Replies by status; 0 counts connections that ended without a reply. */
  readonly statuses = new Map<number, number>();
  isRunning = true;
  readonly #ended: Promise<unknown>;

  /** @param report reports while `isRunning`, and calls `add` with each reply */
  constructor(clients: number, report: (client: number, load: Load) => Promise<void>) {
    this.#ended = Promise.all(Array.from({ length: clients }, (_, client) => report(client, this)));
  }

  add(key: string, status: number): void {
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
    if (status === 200) this.acknowledged.add(key);
  }

  /** Waits for more acknowledged reports. */
  async goesOn(count: number): Promise<void> {
    const before = this.acknowledged.size;
    await eventually(`${count} more reports arrive`, () => this.acknowledged.size >= before + count, HANG_MS);
  }

  /** Waits for the report of each client that is on its way. */
  readonly stop = async (): Promise<void> => {
    this.isRunning = false;
    await this.#ended;
  };
}
