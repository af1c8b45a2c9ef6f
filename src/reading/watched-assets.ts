/**
 * How old the assets of `--watch-asset` are, for a metric. The journal is read when the metric is: from its first line after a start,
 * and then what was recorded since. So a report costs nothing more, and a restart forgets nothing.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import { hasPrefix, keyText } from '../event/asset-key.ts';
import { AssetStates, latestEvent } from '../journal/look/asset-state.ts';
import { readJournal } from '../journal/look/reader.ts';
import type { Notices } from '../telemetry/log.ts';
import type { WatchedFigures } from '../telemetry/metrics.ts';
import type { ReadableJournals } from './journals.ts';

export interface WatchedAssetsOptions {
  /** Each with the parts that the keys of its assets begin with. In hosted mode the first part is the deployment. */
  readonly keys: readonly (readonly string[])[];
  readonly isHosted: boolean;
  readonly journals: ReadableJournals;
  readonly notices: Notices;
  readonly limits: Limits;
}

export class WatchedAssets implements WatchedFigures {
  readonly #options: WatchedAssetsOptions;
  /** By deployment. */
  readonly #journals = new Map<string | undefined, WatchedJournal>();
  readonly #closing = new AbortController();
  #reading: Promise<unknown> | undefined;

  constructor(options: WatchedAssetsOptions) {
    this.#options = options;
    for (const key of options.keys) {
      const [deployment, prefix] = this.#split(key);
      const journal = this.#journals.get(deployment) ?? new WatchedJournal(options, deployment);
      journal.prefixes.push(prefix);
      this.#journals.set(deployment, journal);
    }
  }

  #split(key: readonly string[]): [deployment: string | undefined, prefix: readonly string[]] {
    return this.#options.isHosted ? [key[0], key.slice(1)] : [undefined, key];
  }

  async update(): Promise<void> {
    const { signal } = this.#closing;
    this.#reading ??= Promise.all([...this.#journals.values()].map((journal) => journal.read(signal))).finally(() => {
      this.#reading = undefined;
    });
    const late = new AbortController();
    const waited = sleep(this.#options.limits.watchWaitMs, undefined, { signal: late.signal, ref: false });
    await Promise.race([this.#reading, waited]);
    late.abort();
    waited.catch(() => {}); // aborted
  }

  ages(nowMs: number): ReadonlyMap<string, number> {
    const ages = new Map<string, number>();
    for (const key of this.#options.keys) {
      const [deployment, prefix] = this.#split(key);
      const timeMs = this.#journals.get(deployment)?.oldestMs(prefix);
      if (timeMs !== undefined) ages.set(keyText(key), Math.max(0, (nowMs - timeMs) / 1000));
    }
    return ages;
  }

  /** Ends what is being read. */
  close(): void {
    this.#closing.abort();
  }
}

class WatchedJournal {
  readonly prefixes: (readonly string[])[] = [];
  readonly #options: WatchedAssetsOptions;
  readonly #deployment: string | undefined;
  #states = new AssetStates('time');
  /** The last line that was read, and the first one that the journal had then. */
  #seq = 0;
  #firstSeq = 1;
  #isKnown = false;
  #replaced: AbortSignal | undefined;
  #problem = '';

  constructor(options: WatchedAssetsOptions, deployment: string | undefined) {
    this.#options = options;
    this.#deployment = deployment;
  }

  /** Never rejects: after an error, the next call continues. */
  async read(signal: AbortSignal): Promise<void> {
    try {
      await this.#read(signal);
      this.#isKnown = true;
      this.#problem = '';
    } catch (error) {
      const { message: problem } = error as Error;
      if (signal.aborted || problem === this.#problem) return;
      this.#problem = problem;
      this.#options.notices.warn('the assets of --watch-asset could not be read', { problem });
    }
  }

  async #read(signal: AbortSignal): Promise<void> {
    const { journals, limits } = this.#options;
    const journal = await journals.whenReadable(this.#deployment, signal);
    const { first, last } = await journal.range();
    if (journal.replaced !== this.#replaced) this.#startOver(); // by the test mode
    this.#replaced = journal.replaced;
    const [keyPrefix, ...others] = this.prefixes;
    const filter = { afterSeq: this.#seq, untilSeq: last, keyPrefix: others.length === 0 ? keyPrefix : undefined };
    const once = AbortSignal.abort();
    const reading = { filter, seek: true, follow: once, progress: journal.progress(), limits };
    for await (const lines of readJournal(journal.diskFor({ signal }), reading, journal.remarks())) {
      for (const { seq, event } of lines) {
        if (this.prefixes.some((parts) => hasPrefix(event.asset_key, parts))) this.#states.take(event, undefined);
        this.#seq = seq;
      }
      if (this.#states.bytes <= limits.assetBytesMax) continue;
      this.#startOver();
      throw new Error('they take too much memory; give keys of fewer assets');
    }
    this.#seq = last;
    this.#firstSeq = first;
  }

  #startOver(): void {
    this.#states = new AssetStates('time');
    this.#seq = 0;
    this.#isKnown = false;
  }

  /**
   * @returns when the asset that was not heard of for longest had its last event, in ms since 1970, and -Infinity without any asset;
   *   undefined as long as the journal was not read. An asset without an event that is left counts as none, as after a restart
   */
  oldestMs(prefix: readonly string[]): number | undefined {
    if (!this.#isKnown) return undefined;
    let oldestMs = Number.POSITIVE_INFINITY;
    for (const asset of this.#states.inOrder(undefined, prefix.length === 0 ? undefined : prefix)) {
      const { seq, timeMs } = latestEvent(asset);
      if (seq >= this.#firstSeq) oldestMs = Math.min(oldestMs, timeMs);
    }
    return oldestMs === Number.POSITIVE_INFINITY ? Number.NEGATIVE_INFINITY : oldestMs;
  }
}
