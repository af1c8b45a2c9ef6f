/** The states of the assets of all journals of a service, in limited memory, and their figures for the metrics. */

import type { Limits } from '../config/limits.ts';
import { BETWEEN_PARTS, keyText } from '../event/asset-key.ts';
import type { Disk } from '../journal/disk.ts';
import type { Notices } from '../telemetry/log.ts';
import type { AssetFigures } from '../telemetry/metrics.ts';
import { AssetStates } from './asset-state.ts';
import { type FoldedJournal, JournalAssets } from './journal-assets.ts';
import { silentMs } from './place.ts';

export interface AllAssetsOptions {
  /** The keys of `--watch-asset`, each with the first parts of its assets' keys. In hosted mode the first part is the deployment. */
  readonly keys: readonly (readonly string[])[];
  readonly isHosted: boolean;
  /** @returns the disk of a deployment's journal; the deployment is undefined in local mode */
  readonly openDisk: (deployment: string | undefined) => Disk;
  readonly journalOf: (deployment: string | undefined) => FoldedJournal;
  /** See `OwnProgress.nextSeq`. */
  readonly nextSeq: (folder: string) => number | undefined;
  readonly turn: () => Promise<void>;
  readonly notices: Notices;
  readonly limits: Limits;
}

export class AllAssets implements AssetFigures {
  readonly #options: AllAssetsOptions;
  /** By deployment, in the order of their last requests. */
  readonly #all = new Map<string | undefined, JournalAssets>();
  readonly #memory = { bytes: 0, refused: 0 };
  /** By watched key: when the asset that has been silent longest last had an event. */
  readonly #oldestMs = new Map<string, number>();
  /** When `findOldest` looks again. */
  #lookMs = 0;

  constructor(options: AllAssetsOptions) {
    this.#options = options;
  }

  /** @param deployment undefined in local mode @returns the same object each time, until `forget` */
  of(deployment: string | undefined): JournalAssets {
    let one = this.#all.get(deployment);
    if (one === undefined) {
      const { openDisk, journalOf, nextSeq, turn, notices, limits } = this.#options;
      const disk = openDisk(deployment);
      one = new JournalAssets({
        disk,
        journal: journalOf(deployment),
        nextSeq: () => nextSeq(disk.folder),
        newStates: () => this.#newStates(deployment),
        turn,
        notices: deployment === undefined ? notices : notices.with({ deployment }),
        limits,
      });
    }
    this.#all.delete(deployment);
    this.#all.set(deployment, one);
    return one;
  }

  /** Forgets the state of a removed deployment, since its folder can have another journal when the name is used again. */
  forget(deployment: string): void {
    this.#all.get(deployment)?.close();
    this.#all.get(deployment)?.drop();
    this.#all.delete(deployment);
  }

  /** Ends the readings in progress. */
  close(): void {
    for (const one of this.#all.values()) one.close();
  }

  /** The deployments with watched keys; in local mode undefined. */
  get watched(): readonly (string | undefined)[] {
    return [...new Set(this.#options.keys.map((key) => this.#split(key)[0]))];
  }

  /**
   * @param nowMs in ms since 1970
   * @returns by key of `--watch-asset` the seconds since the last event of the asset that has been silent longest, as of
   *   `findOldest`; Infinity if there is no asset. A key is left out until its assets are known
   */
  ages(nowMs: number): ReadonlyMap<string, number> {
    return new Map([...this.#oldestMs].map(([key, aliveMs]) => [key, silentMs(aliveMs, nowMs) / 1000]));
  }

  /**
   * Finds under each watched key the asset that has been silent longest. However often it is called, it looks again only after a
   * pause that grows with the duration of a look.
   * @param turn called after each thousand assets
   */
  async findOldest(turn: () => Promise<void>): Promise<void> {
    if (performance.now() < this.#lookMs) return;
    this.#lookMs = Number.POSITIVE_INFINITY;
    const beganMs = performance.now();
    try {
      for (const key of this.#options.keys) {
        const [deployment, prefix] = this.#split(key);
        const states = this.#all.get(deployment)?.lastKnown?.states;
        if (states !== undefined) this.#oldestMs.set(keyText(key), await oldestIn(states, prefix, turn));
      }
    } finally {
      const nowMs = performance.now();
      this.#lookMs = nowMs + LOOK_SHARE * (nowMs - beganMs);
    }
  }

  get refused(): number {
    return this.#memory.refused;
  }

  get unsaved(): number {
    return [...this.#all.values()].filter(({ isUnsaved }) => isUnsaved).length;
  }

  #split(key: readonly string[]): [deployment: string | undefined, prefix: readonly string[]] {
    return this.#options.isHosted ? [key[0], key.slice(1)] : [undefined, key];
  }

  #newStates(deployment: string | undefined): AssetStates {
    const own = this.#options.keys.map((key) => this.#split(key)).filter(([name]) => name === deployment);
    return new AssetStates({
      limits: this.#options.limits,
      memory: this.#memory,
      hasSpace: () => this.#hasSpace(deployment),
      watched: own.map(([, prefix]) => prefix),
    });
  }

  /**
   * Whether a journal may get another asset. At the limit, the states of journals that are not open are dropped first, since their
   * files have them. Then the journal with the largest state gets no more assets, and a little later none does.
   */
  #hasSpace(deployment: string | undefined): boolean {
    const { assetBytesMax } = this.#options.limits;
    if (this.#memory.bytes <= assetBytesMax) return true;
    for (const [name, one] of this.#all) {
      if (this.#memory.bytes <= assetBytesMax) return true;
      if (!one.isBusy && one.bytes > 0 && !this.watched.includes(name)) one.drop();
    }
    if (this.#memory.bytes > assetBytesMax * (1 + OTHERS_SHARE)) return false;
    const own = this.#all.get(deployment)?.bytes ?? 0;
    return [...this.#all.values()].some(({ bytes }) => bytes > own);
  }
}

/** The share of the memory that journals other than the largest may use beyond it. */
const OTHERS_SHARE = 1 / 8;
/** A look at the ages waits at least this many times as long as the last one took. */
const LOOK_SHARE = 20;

/**
 * @returns when the asset under a key that has been silent longest last had an event; infinite if there is none, or it
 * is unknown
 */
async function oldestIn(states: AssetStates, prefix: readonly string[], turn: () => Promise<void>): Promise<number> {
  if (states.leftOut.has(prefix.join(BETWEEN_PARTS))) return Number.POSITIVE_INFINITY;
  const nowMs = Date.now();
  let [oldestMs, looked] = [Number.POSITIVE_INFINITY, 0];
  for (const { aliveMs } of states.inOrder(undefined, prefix)) {
    if (silentMs(aliveMs, nowMs) === Number.POSITIVE_INFINITY) return aliveMs;
    oldestMs = Math.min(oldestMs, aliveMs);
    looked += 1;
    if (looked % LOOKED_ASSETS === 0) await turn();
  }
  return oldestMs;
}

const LOOKED_ASSETS = 1_000;
