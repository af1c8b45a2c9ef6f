/** The queue of a journal: the entries that wait for the next batch, and the pause before that batch (`--commit-delay`). */

import type { JournalOptions } from './options.ts';
import type { QueueEntry } from './queue-entry.ts';
import { type Batch, takeBatch } from './state.ts';

/**
 * The entries of one journal, in the order of arrival. A pause starts with the first entry of a batch. It ends after `commitDelayMs`,
 * when `limits.commitDelayBytes` wait, when events of another journal arrive, whose sender waits for each reply, or when `hurry` is
 * called.
 */
export class Queue {
  readonly #options: Pick<JournalOptions, 'commitDelayMs' | 'limits'>;
  readonly #onDue: () => void;
  #entries: QueueEntry[] = [];
  #lineBytes = 0;
  /** Undefined unless there is a pause. */
  #pause: NodeJS.Timeout | undefined;

  /** @param onDue called when a pause is over */
  constructor(options: Pick<JournalOptions, 'commitDelayMs' | 'limits'>, onDue: () => void) {
    this.#options = options;
    this.#onDue = onDue;
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /** Whether entries wait, and no pause prevents their batch. */
  get isDue(): boolean {
    return !this.isEmpty && this.#pause === undefined;
  }

  push(entry: QueueEntry): void {
    const { commitDelayMs, limits } = this.#options;
    const ms = this.isEmpty ? (commitDelayMs?.() ?? 0) : 0;
    this.#entries.push(entry);
    this.#lineBytes += entry.lineBytes;
    if (ms > 0) this.#pause = setTimeout(() => this.hurry(), ms);
    if (entry.ids !== undefined || this.#lineBytes >= limits.commitDelayBytes) this.hurry();
  }

  /** Ends the pause, if there is one. */
  hurry(): void {
    if (this.#pause === undefined) return;
    this.#endPause();
    this.#onDue();
  }

  /** Takes the next batch, even during a pause, which then ends: see `takeBatch`. */
  take(bytesMax: number, linesMax: number): Batch {
    const { batch, rest } = takeBatch(this.#entries, bytesMax, linesMax);
    this.#entries = rest;
    for (const { lineBytes } of batch.entries) this.#lineBytes -= lineBytes;
    this.#endPause();
    return batch;
  }

  /** Takes all entries. */
  drain(): QueueEntry[] {
    this.#endPause();
    this.#lineBytes = 0;
    return this.#entries.splice(0);
  }

  #endPause(): void {
    clearTimeout(this.#pause);
    this.#pause = undefined;
  }
}
