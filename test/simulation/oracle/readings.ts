/** What readers are shown: only lines that are durable, as they are there, and what follows from them. */

import { TYPES } from '../../support/strict-event.ts';
import type { Delivered } from '../../world/network.ts';
import { type JournalView, nameOf, type SeenLine } from './journal-view.ts';
import { latestOf } from './latest.ts';

const LINE = /\{"seq":(\d+),"id":"[^"]+".*?"crc":"[0-9a-f]{8}"\}/g;
const KINDS = ['materialization', 'observation', 'check'] as const;

/** The newest event of a kind in the state of an asset, with the number of all. */
interface Latest {
  readonly count: number;
  readonly seq: number;
  /** None if the event was erased. */
  readonly partition?: string;
  readonly time: string;
  /** The next ones are of a check. */
  readonly passed?: boolean;
  readonly severity?: string;
  readonly failing?: boolean;
  readonly failed_partitions?: readonly { readonly partition: string; readonly severity: string }[];
  readonly failed_partitions_beyond?: number;
}

/** The state of an asset. Clients report one check of each. */
interface AssetState {
  readonly asset_key: readonly string[];
  readonly materialization?: Latest;
  readonly observation?: Latest;
  readonly checks: readonly Latest[];
}

/** The reply of `GET /assets`: what was removed before the state had it is named. */
interface AssetsReply {
  readonly assets: readonly AssetState[];
  readonly since_seq?: number;
  readonly unseen?: readonly { readonly first: number; readonly last: number }[];
}

export class Readings {
  /** By request: the last event that was answered with 200 when it arrived. */
  readonly #arrived = new WeakMap<Delivered, number>();

  received(view: JournalView, request: Delivered): void {
    if (isAbout(request, '/assets')) this.#arrived.set(request, Math.max(0, ...view.acknowledged));
  }

  /**
   * A service sends a piece of a reply, and the view has what is durable now.
   * @returns what is wrong with a line in it
   */
  sends(view: JournalView, request: Delivered, text: string): string | undefined {
    if (!isAbout(request, '/events')) return undefined;
    for (const [line, digits] of text.matchAll(LINE)) {
      const seq = Number(digits);
      // A start whose disk was full: the file with erased lines may not be durable yet.
      const isSure = view.erasing.size === 0;
      if (isSure && view.lines.get(seq)?.text !== line)
        return `shows event ${seq}, which is not durable as it is shown`;
      view.shown.add(seq);
    }
    return undefined;
  }

  /** @returns what is wrong with a whole reply of `GET /assets`: what retention removed stays, unless the reply names it */
  answers(view: JournalView, isRestored: boolean, request: Delivered, text: string): string | undefined {
    const arrived = this.#arrived.get(request);
    if (arrived === undefined || view.erasing.size > 0) return undefined;
    const { assets, since_seq: since = 1, unseen = [] } = JSON.parse(text) as AssetsReply;
    const isCounted = ({ seq }: SeenLine) =>
      seq >= since && !unseen.some(({ first, last }) => first <= seq && seq <= last);
    const all = [...view.lines.values()];
    // A backup has the files of before its state began again, which retention had removed from the journal.
    const leftOut = isRestored
      ? undefined
      : all.find((line) => !isCounted(line) && !view.mayBeGone(line.seq, line.seq));
    if (leftOut !== undefined) return `does not count event ${leftOut.seq}, which is there`;
    const states = new Map(assets.map((asset) => [asset.asset_key.join('/'), asset]));
    for (const kind of KINDS) {
      const lines = all.filter((line) => line.report.type === TYPES[kind] && isCounted(line));
      for (const key of new Set([...states.keys(), ...lines.map(({ asset }) => asset)])) {
        const ofAsset = lines.filter(({ asset }) => asset === key);
        const certain = ofAsset.filter(({ seq }) => seq <= arrived && !view.mayHaveLost(seq, seq));
        const state = states.get(key);
        const problem = wrongLatest(kind === 'check' ? state?.checks[0] : state?.[kind], ofAsset, certain);
        if (problem !== undefined) return `shows a wrong ${kind} of ${key}: ${problem}`;
        const failing = kind === 'check' ? wrongFailures(state?.checks[0], ofAsset, certain) : undefined;
        if (failing !== undefined) return `shows wrong failures of ${key}: ${failing}`;
      }
    }
    return undefined;
  }
}

/**
 * @param lines of the asset and the kind, also those that came since the request arrived
 * @param certain those that were answered before, and that no repair has lost
 */
function wrongLatest(
  latest: Latest | undefined,
  lines: readonly SeenLine[],
  certain: readonly SeenLine[],
): string | undefined {
  const { count, seq, partition } = latest ?? { count: 0, seq: 0 };
  if (count < certain.length || count > lines.length)
    return `it counts ${count}, and there are from ${certain.length} to ${lines.length}`;
  if (latest === undefined) return undefined;
  const isCertain = count === lines.length && count === certain.length;
  const last = isCertain ? latestOf(lines) : seq;
  if (seq !== last) return `event ${seq} is shown as the latest, and it is ${last}`;
  const shown = lines.find((one) => one.seq === seq);
  // The times of removed events are not known. The events of one journal go by its order if their senders say no times.
  const seqOf = (line: SeenLine) => nameOf(line)?.[1] ?? line.seq;
  const newest = Math.max(0, ...certain.filter((one) => sourceOf(one) === sourceOf(shown)).map(seqOf));
  const isAlone = new Set(lines.map(sourceOf)).size === 1 && lines.every(({ report }) => !report.event_time);
  if (isAlone && (shown === undefined ? seq : seqOf(shown)) < newest)
    return `event ${seq} is shown as the latest, and ${newest} is there`;
  const { time, passed, severity } = latest;
  const { time: recorded, report } = shown ?? {};
  if (
    report?.partition !== partition ||
    recorded !== time ||
    report?.passed !== passed ||
    report?.severity !== severity
  )
    return `event ${seq} is another one`;
  return undefined;
}

/**
 * Each result is of another partition, so that no pass ends a failure: all of them fail, as far as the state has space. A pass that was
 * erased ends none either.
 */
function wrongFailures(
  { failing, failed_partitions: shown = [], failed_partitions_beyond: beyond = 0 }: Partial<Latest> = {},
  lines: readonly SeenLine[],
  certain: readonly SeenLine[],
): string | undefined {
  const hasName = ({ report }: SeenLine) => report.passed === false && report.partition !== undefined;
  const failed = new Map(lines.filter(hasName).map((line) => [line.mark, line]));
  const least = new Set(certain.filter(hasName).map(({ mark }) => mark)).size;
  const other = shown.find(({ partition, severity }) => failed.get(partition)?.report.severity !== severity);
  if (other !== undefined) return `${other.partition} is shown as failed`;
  const isBeyond = failed.size > FAILED_PARTITIONS_MAX;
  if (failing === true && shown.length + beyond === 0) return 'nothing of it fails';
  if (isBeyond || beyond > 0) return undefined; // a pass of an unknown partition counts as that of one of them
  return shown.length >= least ? undefined : `${shown.length} partitions fail, and there are at least ${least}`;
}

function sourceOf(line: SeenLine | undefined): string | undefined {
  return line && nameOf(line)?.[0];
}

const FAILED_PARTITIONS_MAX = 100;

function isAbout({ method, target }: Delivered, path: string): boolean {
  return method === 'GET' && target.split('?', 1)[0]!.endsWith(path);
}
