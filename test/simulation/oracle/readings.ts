/** What readers are shown: only lines that are durable, as they are there, and what follows from them. */

import type { MachineJournal } from '../machine.ts';
import type { Delivered } from '../network.ts';
import type { JournalView, SeenLine } from './journal-view.ts';

const LINE = /\{"seq":(\d+),"id":"[^"]+".*?"crc":"[0-9a-f]{8}"\}/g;
const FILE = /^events-(\d{20})\.jsonl$/;

/** A journal when a request arrived: the oldest seq that it had, and the last event that was answered with 200. */
interface Arrived {
  readonly firstSeq: number;
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

const KINDS = { materialization: 'AssetMaterialization', observation: 'AssetObservation' } as const;

export class Readings {
  readonly #arrived = new WeakMap<Delivered, Arrived>();

  received(journal: MachineJournal, view: JournalView, request: Delivered): void {
    if (!isAbout(request, '/assets')) return;
    const firstSeqs = journal.disk.names().flatMap((name) => FILE.exec(name)?.slice(1).map(Number) ?? []);
    const lastSeq = [...view.acknowledged].reduce((last, seq) => Math.max(last, seq), 0);
    this.#arrived.set(request, { firstSeq: Math.min(...firstSeqs), lastSeq });
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

  /** @returns what is wrong with a whole reply of `GET /assets` */
  answers(
    view: JournalView,
    mayBeGone: (seq: number) => boolean,
    request: Delivered,
    text: string,
  ): string | undefined {
    const arrived = this.#arrived.get(request);
    if (arrived === undefined) return undefined;
    const { assets } = JSON.parse(text) as { assets: readonly AssetState[] };
    const states = new Map(assets.map((asset) => [asset.asset_key.join('/'), asset]));
    for (const [member, type] of Object.entries(KINDS)) {
      const lines = [...view.lines.values()].filter((line) => line.type === type && line.seq >= arrived.firstSeq);
      const keys = new Set([...states.keys(), ...lines.map(({ asset }) => asset)]);
      for (const key of keys) {
        const latest = states.get(key)?.[member as 'observation'];
        const problem = problemOf(
          latest,
          lines.filter(({ asset }) => asset === key),
          arrived,
          mayBeGone,
        );
        if (problem !== undefined) return `shows a wrong ${member} of ${key}: ${problem}`;
      }
    }
    return undefined;
  }
}

/** @param lines of the asset and the kind, also those that came or were removed since the request arrived */
function problemOf(
  latest: LatestOfKind | undefined,
  lines: readonly SeenLine[],
  { lastSeq }: Arrived,
  mayBeGone: (seq: number) => boolean,
): string | undefined {
  const certain = lines.filter(({ seq }) => seq <= lastSeq && !mayBeGone(seq));
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
