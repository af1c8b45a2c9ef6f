/** What readers are shown: only lines that are durable, as they are there, and what follows from them. */

import type { Delivered } from '../network.ts';
import type { JournalView, SeenLine } from './journal-view.ts';

const LINE = /\{"seq":(\d+),"id":"[^"]+".*?"crc":"[0-9a-f]{8}"\}/g;

/** The last event of a journal that was answered with 200 when a request arrived. */
interface Arrived {
  readonly lastSeq: number;
}

/** The newest event of a kind in the state of an asset, with the number of all. */
interface LatestOfKind {
  readonly count: number;
  readonly seq: number;
  readonly partition: string;
}

interface AssetState {
  readonly asset_key: readonly string[];
  readonly materialization?: LatestOfKind;
  readonly observation?: LatestOfKind;
}

/** The reply: what was removed before the state had it is named. */
interface AssetsReply {
  readonly assets: readonly AssetState[];
  readonly since_seq?: number;
  readonly unseen?: readonly { readonly first: number; readonly last: number }[];
}

const KINDS = { materialization: 'AssetMaterialization', observation: 'AssetObservation' } as const;

export class Readings {
  readonly #arrived = new WeakMap<Delivered, Arrived>();

  received(view: JournalView, request: Delivered): void {
    if (!isAbout(request, '/assets')) return;
    const lastSeq = [...view.acknowledged].reduce((last, seq) => Math.max(last, seq), 0);
    this.#arrived.set(request, { lastSeq });
  }

  /**
   * A service sends a piece of a reply, and the view has what is durable now.
   * @returns what is wrong with a line in it
   */
  sends(view: JournalView, request: Delivered, text: string): string | undefined {
    if (!isAbout(request, '/events')) return undefined;
    for (const [line, digits] of text.matchAll(LINE)) {
      const seq = Number(digits);
      if (view.lines.get(seq)?.text !== line) return `shows event ${seq}, which is not durable as it is shown`;
      view.shown.add(seq);
    }
    return undefined;
  }

  /** @returns what is wrong with a whole reply of `GET /assets`: what retention removed stays, unless the reply names it */
  answers(
    view: JournalView,
    mayBeGone: (seq: number) => boolean,
    request: Delivered,
    text: string,
  ): string | undefined {
    const arrived = this.#arrived.get(request);
    if (arrived === undefined) return undefined;
    const { assets, since_seq: since = 1, unseen = [] } = JSON.parse(text) as AssetsReply;
    const isCounted = (seq: number) => seq >= since && !unseen.some(({ first, last }) => first <= seq && seq <= last);
    const all = [...view.lines.values()];
    const leftOut = all.find(({ seq }) => !isCounted(seq) && !mayBeGone(seq));
    if (leftOut !== undefined) return `does not count event ${leftOut.seq}, which is there`;
    const states = new Map(assets.map((asset) => [asset.asset_key.join('/'), asset]));
    for (const [member, type] of Object.entries(KINDS)) {
      const lines = all.filter((line) => line.type === type && isCounted(line.seq));
      const keys = new Set([...states.keys(), ...lines.map(({ asset }) => asset)]);
      for (const key of keys) {
        const latest = states.get(key)?.[member as 'observation'];
        const problem = problemOf(
          latest,
          lines.filter(({ asset }) => asset === key),
          arrived,
          (seq) => view.mayHaveLost(seq, seq),
        );
        if (problem !== undefined) return `shows a wrong ${member} of ${key}: ${problem}`;
      }
    }
    return undefined;
  }
}

/** @param lines of the asset and the kind, also those that came since the request arrived */
function problemOf(
  latest: LatestOfKind | undefined,
  lines: readonly SeenLine[],
  { lastSeq }: Arrived,
  mayBeLost: (seq: number) => boolean,
): string | undefined {
  const certain = lines.filter(({ seq }) => seq <= lastSeq && !mayBeLost(seq));
  const { count, seq, partition } = latest ?? { count: 0, seq: 0, partition: undefined };
  if (count < certain.length || count > lines.length)
    return `it counts ${count}, and there are from ${certain.length} to ${lines.length}`;
  if (latest === undefined) return undefined;
  const newest = certain.at(-1)?.seq ?? 0;
  if (seq < newest) return `event ${seq} is shown as the latest, and ${newest} is there`;
  return lines.find((line) => line.seq === seq)?.mark === partition ? undefined : `event ${seq} is another one`;
}

function isAbout({ method, target }: Delivered, path: string): boolean {
  return method === 'GET' && target.split('?', 1)[0]!.endsWith(path);
}
