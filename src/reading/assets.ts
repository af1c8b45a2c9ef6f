/** `GET /assets`: the state of each asset, in the form of `assetlog assets --json`. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { AllAssets } from '../assets/all-assets.ts';
import { assetSchema, assetTexts } from '../assets/asset-json.ts';
import { type Asset, isAskedFor, keyOf } from '../assets/asset-state.ts';
import { failingSeverity } from '../assets/check-state.ts';
import type { Kept } from '../assets/state-file.ts';
import type { Limits } from '../config/limits.ts';
import { startsWith } from '../event/asset-key.ts';
import { integerFrom, listSchema, objectSchema } from '../event/schema.ts';
import { type Handler, type Reply, unavailableRefusal } from '../http/message.ts';
import type { RouteDescription } from '../http/router.ts';
import type { GoneRange } from '../journal/segments.ts';
import { endingAfter } from '../waiting/ending-after.ts';
import type { ReadableJournals, ReadingParts, SharedByReadings } from './journals.ts';
import {
  booleanParameter,
  choiceParameter,
  described,
  durationParameter,
  keyParameter,
  keyStartParameter,
  numberParameter,
  parametersReader,
  type QueryTable,
} from './query.ts';
import { listContent, listReply } from './texts.ts';

interface AssetsQuery {
  readonly key_prefix: readonly string[] | undefined;
  readonly key_begins_with: readonly string[] | undefined;
  readonly failing: boolean;
  readonly stale: number | undefined;
  readonly after_key: readonly string[] | undefined;
  readonly limit: number;
  readonly sort: 'key' | 'state';
}

function assetsParameters({ readAssetsMax }: Limits): QueryTable<AssetsQuery> {
  return {
    key_prefix: described('only assets whose key begins with these parts', keyParameter),
    key_begins_with: described('the same, whose last part can be incomplete', keyStartParameter),
    failing: described('only assets with a failing check, and of their checks only these', booleanParameter(false)),
    stale: described('only assets without an event for this time', durationParameter),
    after_key: described('only assets after this one', keyParameter),
    limit: described('at most so many', numberParameter(readAssetsMax, 1, readAssetsMax)),
    sort: described(
      'by state: errors first, then warnings, then the longest silent',
      choiceParameter(['key', 'state']),
    ),
  };
}

/** @returns the description of `GET /assets` */
export function describeAssets(limits: Limits): RouteDescription {
  const range = objectSchema({ first: integerFrom(1), last: integerFrom(1) });
  const missing = { since_seq: integerFrom(1), unseen: listSchema(range), refused: integerFrom(1) };
  return {
    summary: 'Read the state of each asset',
    query: assetsParameters(limits),
    content: listContent('assets', assetSchema(), missing),
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
        const kept = await assets.upToDate(request.deployment, ending);
        const { first } = await journals.of(request.deployment).range();
        const { shared } = journals;
        const list = () => assetsOf(kept, query, shared);
        const textsOf = (asset: Asset) => assetTexts(asset, first, query.failing);
        return listReply('assets', list, request.head.fields.accept, shared, limits, noteOf(kept), textsOf);
      },
    };
  };
}

/** @returns the members of the document in addition to the assets: what the state lacks, if anything */
function noteOf({ states, sinceSeq, unseen }: Kept): object {
  return {
    ...(sinceSeq > 1 && { since_seq: sinceSeq }),
    ...(unseen.length > 0 && { unseen: unseen.map(({ first, last }: GoneRange) => ({ first, last })) }),
    ...(states.refused > 0 && { refused: states.refused }),
  };
}

/** Yields the matching assets. Only a few are checked in each turn. */
async function* assetsOf(
  kept: Kept,
  query: AssetsQuery,
  shared: Pick<SharedByReadings, 'turns'>,
): AsyncGenerator<Asset> {
  const found = matching(kept, query, shared);
  let left = query.limit;
  for await (const asset of query.sort === 'key' ? found : byState(found, query.limit)) {
    yield asset;
    left -= 1;
    if (left === 0) return;
  }
}

async function* matching(
  { states }: Kept,
  { key_begins_with: start, key_prefix, after_key, failing, stale }: AssetsQuery,
  { turns }: Pick<SharedByReadings, 'turns'>,
): AsyncGenerator<Asset> {
  let looked = 0;
  const nowMs = Date.now();
  const whole = start !== undefined && start.length > 1 ? start.slice(0, -1) : undefined;
  for (const asset of states.inOrder(after_key, key_prefix ?? whole)) {
    looked += 1;
    if (looked % LOOKED_ASSETS === 0) await turns.take();
    if (!isAskedFor(asset, { failing, staleMs: stale }, nowMs)) continue;
    if (start !== undefined && !startsWith(keyOf(asset), start)) continue;
    yield asset;
  }
}

/** @returns the first assets in the order of their states; only a few are held at a time */
async function* byState(assets: AsyncIterable<Asset>, limit: number): AsyncGenerator<Asset> {
  let first: { readonly asset: Asset; readonly rank: number; readonly aliveMs: number }[] = [];
  const prune = () => {
    first = first.sort((a, b) => b.rank - a.rank || a.aliveMs - b.aliveMs).slice(0, limit);
  };
  for await (const asset of assets) {
    first.push({ asset, rank: rankOf(asset), aliveMs: asset.aliveMs });
    if (first.length >= 2 * limit + LOOKED_ASSETS) prune();
  }
  prune();
  for (const { asset } of first) yield asset;
}

/** @returns 2 if a check fails with an error, 1 if only other checks fail, 0 otherwise */
function rankOf(asset: Asset): number {
  if (asset.failing === 0) return 0;
  for (const check of asset.checks!.values()) if (failingSeverity(check) === 'ERROR') return 2;
  return 1;
}

const LOOKED_ASSETS = 1_000;

export interface AssetReadingsOptions {
  readonly journals: ReadableJournals;
  readonly assets: AllAssets;
  readonly limits: Limits;
}

/** The states for readings. They wait until the journal can be read and its state was read. */
export class AssetReadings {
  readonly #options: AssetReadingsOptions;
  readonly #closing = new AbortController();

  constructor(options: AssetReadingsOptions) {
    this.#options = options;
  }

  /**
   * Resolves to the state of the assets of a journal, including everything that was durable at the call.
   * @param deployment undefined in local mode
   * @throws Refusal 503 if reading it takes longer than `limits.assetsWaitMs`
   */
  async upToDate(deployment: string | undefined, ending: AbortSignal): Promise<Kept> {
    const { journals, assets, limits } = this.#options;
    const journal = await journals.whenReadable(deployment, ending);
    const one = assets.of(deployment);
    if (one.isLive) return one.current!;
    const stopped = AbortSignal.any([ending, this.#closing.signal]);
    await one.whenCurrent(endingAfter(limits.assetsWaitMs, stopped));
    if (one.current !== undefined) return one.current;
    const { last } = await journal.range();
    const share = last > 0 ? ` (${Math.floor((100 * (one.lastSeq ?? 0)) / last)} % so far)` : '';
    throw unavailableRefusal(`the journal is being read to find the state of its assets${share}; ask again`);
  }

  /** Waits for at most `limits.watchWaitMs` until the assets of `--watch-asset` are known. Never rejects. */
  async update(): Promise<void> {
    const { assets, journals, limits } = this.#options;
    if (assets.watched.length === 0) return;
    const late = new AbortController();
    const { signal } = late;
    const known = assets.watched.map(async (deployment) => {
      if (assets.of(deployment).current !== undefined) return;
      await journals.whenReadable(deployment, signal);
      await assets.of(deployment).whenCurrent(signal);
    });
    const looked = Promise.allSettled(known).then(() => assets.findOldest(() => journals.shared.turns.take()));
    const waited = sleep(limits.watchWaitMs, undefined, { signal, ref: false });
    await Promise.race([looked, waited]).catch(() => {});
    late.abort();
    waited.catch(() => {}); // aborted
  }

  close(): void {
    this.#closing.abort();
  }
}
