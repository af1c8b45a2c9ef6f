/** `GET /assets`: the state of each asset, as `assetlog assets --json` shows it. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import { startsWith } from '../event/asset-key.ts';
import { type Handler, Refusal, type Reply, unavailableRefusal } from '../http/message.ts';
import { type AssetStates, assetJson, isFailing, isStale, keyOf } from '../journal/look/asset-state.ts';
import type { ReadableJournals, ReadingParts, SharedByReadings } from './journals.ts';
import { LiveAssets } from './live-assets.ts';
import {
  booleanParameter,
  described,
  durationParameter,
  keyParameter,
  keyStartParameter,
  numberParameter,
  parametersReader,
  type QueryTable,
} from './query.ts';
import { listReply } from './texts.ts';

interface AssetsQuery {
  readonly key_prefix: readonly string[] | undefined;
  readonly key_begins_with: readonly string[] | undefined;
  readonly failing: boolean;
  readonly stale: number | undefined;
  readonly after_key: readonly string[] | undefined;
  readonly limit: number;
}

export function assetsParameters({ readAssetsMax }: Pick<Limits, 'readAssetsMax'>): QueryTable<AssetsQuery> {
  return {
    key_prefix: described('only assets whose key begins with these parts', keyParameter),
    key_begins_with: described('the same, whose last part may be incomplete', keyStartParameter),
    failing: described('only assets with a check whose latest result is that it failed', booleanParameter(false)),
    stale: described('only assets without an event for so long', durationParameter),
    after_key: described('only assets after this one', keyParameter),
    limit: described('at most so many', numberParameter(readAssetsMax, 1, readAssetsMax)),
  };
}

/** @returns the handler of `GET /assets`; it throws Refusal 400 for a wrong query */
export function readAssets({ assets, journals, limits, metrics }: ReadingParts): Handler {
  const readQuery = parametersReader(assetsParameters(limits), limits);
  return (request) => {
    const query = readQuery(request);
    return {
      kind: 'later',
      reply: async (ending): Promise<Reply> => {
        journals.shared.checkMemory();
        metrics.read('assets');
        const states = await assets.upToDate(request.deployment, ending);
        const { shared } = journals;
        return listReply('assets', () => assetsOf(states, query, shared), request.head.fields.accept, shared, limits);
      },
    };
  };
}

/** Yields assets in their JSON form. Few are looked at in a turn. */
async function* assetsOf(
  states: AssetStates,
  query: AssetsQuery,
  { turns }: Pick<SharedByReadings, 'turns'>,
): AsyncGenerator<object> {
  let left = query.limit;
  let looked = 0;
  const start = query.key_begins_with;
  const staleMs = query.stale === undefined ? undefined : Date.now() - query.stale;
  const whole = start !== undefined && start.length > 1 ? start.slice(0, -1) : undefined;
  for (const asset of states.inOrder(query.after_key, query.key_prefix ?? whole)) {
    looked += 1;
    if (looked % LOOKED_ASSETS === 0) await turns.take();
    if (query.failing && !isFailing(asset)) continue;
    if (staleMs !== undefined && !isStale(asset, staleMs)) continue;
    if (start !== undefined && !startsWith(keyOf(asset), start)) continue;
    left -= 1;
    yield assetJson(asset, 'time');
    if (left === 0) return;
  }
}

const LOOKED_ASSETS = 1_000;

export interface AssetMemoryOptions {
  readonly journals: ReadableJournals;
  readonly limits: Limits;
}

/** For all journals that were asked for, in bounded memory. */
export class AssetMemory {
  readonly #options: AssetMemoryOptions;
  /** By deployment; the one that was asked for last is the last one. */
  readonly #live = new Map<string | undefined, LiveAssets>();
  /** The deployments whose states do not fit into the memory, and until when they are not tried again. */
  readonly #tooLarge = new Map<string | undefined, number>();

  constructor(options: AssetMemoryOptions) {
    this.#options = options;
  }

  /**
   * Resolves to the states of the assets of a journal, with all that was durable when it was called.
   * @param deployment undefined in local mode
   * @throws Refusal 503 if they are being built for longer than `limits.assetsWaitMs`, or take more than `limits.assetBytesMax`
   */
  async upToDate(deployment: string | undefined, ending: AbortSignal): Promise<AssetStates> {
    const { journals, limits } = this.#options;
    const journal = await journals.whenReadable(deployment, ending);
    if ((this.#tooLarge.get(deployment) ?? 0) > performance.now()) throw tooLarge(limits);
    const live =
      this.#live.get(deployment) ?? new LiveAssets({ journal, onGrowth: () => this.#makeSpace(deployment), limits });
    this.#live.delete(deployment);
    this.#live.set(deployment, live);
    const late = new AbortController();
    const built = live.upToDate();
    const waited = sleep(limits.assetsWaitMs, undefined, { signal: AbortSignal.any([ending, late.signal]) }).catch(
      () => {}, // the request or the service ends, or the states are there
    );
    try {
      const states = await Promise.race([built, waited]);
      if (states !== undefined) return states;
    } finally {
      late.abort();
      built.catch(() => {}); // of a reading that fails after the reply; the next request reads again
    }
    const said = await journal.progress().durable();
    const share = said.kind === 'before' ? ` (${Math.floor((100 * live.lastSeq) / said.seq)} % so far)` : '';
    throw unavailableRefusal(`the journal is being read to find the state of its assets${share}; ask again`);
  }

  /** Ends what is being read. */
  close(): void {
    for (const live of this.#live.values()) live.drop(unavailableRefusal('the service is stopping'));
    this.#live.clear();
  }

  /** Begins anew with the first lines: the journals that were read were replaced. */
  startOver(): void {
    for (const live of this.#live.values()) live.startOver();
    this.#tooLarge.clear();
  }

  /** Forgets the states of the journals that were not asked for longest, and at last those of the one that grows. */
  #makeSpace(growing: string | undefined): void {
    const { limits } = this.#options;
    const bytes = () => [...this.#live.values()].reduce((sum, live) => sum + live.bytes, 0);
    for (const [deployment, live] of this.#live) {
      if (bytes() <= limits.assetBytesMax) return;
      if (deployment === growing) continue;
      live.drop(unavailableRefusal('the state of the assets of other deployments needed the memory; ask again'));
      this.#live.delete(deployment);
    }
    if (bytes() <= limits.assetBytesMax) return;
    this.#live.get(growing)?.drop(tooLarge(limits));
    this.#live.delete(growing);
    this.#tooLarge.set(growing, performance.now() + limits.assetsAgainMs);
  }
}

function tooLarge({ assetBytesMax, assetsAgainMs }: Limits): Refusal {
  const memory = `${Math.floor(assetBytesMax / 1024 / 1024)} MiB`;
  const error = `the state of the assets takes more than ${memory} of memory; use assetlog assets in the folder of the journal`;
  return new Refusal(503, error, { headers: ['Retry-After', String(assetsAgainMs / 1000)] });
}
