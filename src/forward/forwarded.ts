/** One journal that is forwarded: its links to its destinations, and what they share. */

import type { Config } from '../config/config.ts';
import { unlessAbsent } from '../journal/disk.ts';
import { contentsOf } from '../journal/segments.ts';
import type { Ack } from './acks.ts';
import { Ledger } from './ledger/ledger.ts';
import { Link, type LinkOptions } from './pipe/link.ts';
import type { DestinationSettings } from './settings.ts';

export interface ForwardedOptions
  extends Pick<
    LinkOptions,
    | 'deployment'
    | 'disk'
    | 'progress'
    | 'source'
    | 'through'
    | 'limits'
    | 'notices'
    | 'onForwarded'
    | 'openClient'
    | 'sourceName'
  > {
  readonly config: Pick<Config, 'ack' | 'retainBytes'>;
  /** Of the journal, for the destination that `config.ack` names. */
  readonly ack?: Ack | undefined;
}

export class Forwarded {
  /** By the names of the destinations. */
  readonly links = new Map<string, Link>();
  readonly #options: ForwardedOptions;
  /** By the names of the destinations: a changed destination has the same. */
  readonly #ledgers = new Map<string, Ledger>();
  /** Ends of links whose destination was removed or changed. */
  readonly #closing = new Set<Promise<void>>();
  /** The files of the journal, as of the last `check`. */
  #segments: readonly { readonly firstSeq: number; readonly bytes: number }[] = [];
  /** First seq of the file with the first event that a destination needed then. */
  #passedSeq = 0;

  constructor(options: ForwardedOptions) {
    this.#options = options;
  }

  /** Whether all links have ended: the folder can have another journal afterwards. */
  get isOver(): boolean {
    return this.links.size + this.#closing.size === 0;
  }

  /** Begins links to destinations that are new, and ends those to others. @param wanted by their names */
  update(wanted: ReadonlyMap<string, DestinationSettings>): void {
    for (const [name, link] of this.links) {
      const now = wanted.get(name);
      if (now !== undefined && JSON.stringify(now) === JSON.stringify(link.options.settings)) continue;
      this.links.delete(name);
      const closed: Promise<void> = link.close().then(() => void this.#closing.delete(closed));
      this.#closing.add(closed);
    }
    const { config, ack, source: openSource, ...shared } = this.#options;
    // One that was changed begins after the one before it has ended: both write the same files.
    const ended = this.ended();
    const source = () => ended.then(openSource);
    for (const [name, settings] of wanted) {
      if (this.links.has(name)) continue;
      const ledger = this.#ledgerOf(name);
      const own = { settings, source, ledger, ack: name === config.ack ? ack : undefined };
      if (own.ack !== undefined) own.ack.ledger = ledger;
      this.links.set(name, new Link({ ...shared, ...own }));
    }
  }

  /** Resolves when the links that were to end have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#closing);
  }

  /**
   * Looks at the folder, once the journal is open, and lets each link do so.
   * @param heldFrom called after the links; returns the first event that may not be removed
   * @returns whether it is in another file than at the last call, so that more files may be removed
   * @throws the error of a system call
   */
  async check(heldFrom: () => number | undefined): Promise<boolean> {
    const { disk, progress } = this.#options;
    if (progress.nextSeq(disk.folder) === undefined) return false;
    const names = await disk.list();
    for (const link of this.links.values()) await link.check(names);
    const { segments } = contentsOf(names);
    const known = new Map(this.#segments.slice(0, -1).map(({ firstSeq, bytes }) => [firstSeq, bytes]));
    this.#segments = [];
    const now = [];
    for (const { name, firstSeq } of segments) {
      const bytes = known.get(firstSeq) ?? (await disk.size(name).catch(unlessAbsent(0)));
      now.push({ firstSeq, bytes });
    }
    this.#segments = now;
    const fromSeq = heldFrom() ?? Number.POSITIVE_INFINITY;
    const passedSeq = segments.findLast(({ firstSeq }) => firstSeq <= fromSeq)?.firstSeq ?? 0;
    const hasMoved = passedSeq > this.#passedSeq;
    this.#passedSeq = passedSeq;
    return hasMoved;
  }

  /** @returns the bytes of the files with events that a destination lacks */
  heldBytes(link: Link): number {
    const { lag_events, seq } = link.status;
    if (seq === null || lag_events === 0) return 0;
    const at = this.#segments.findLastIndex(({ firstSeq }) => firstSeq <= seq + 1);
    return this.#segments.slice(Math.max(0, at)).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  #ledgerOf(name: string): Ledger {
    let ledger = this.#ledgers.get(name);
    if (ledger === undefined) {
      const { disk, limits, config } = this.#options;
      const { deadLetterBytesMax, deadLetterRetainPercent } = limits;
      const { retainBytes = Number.POSITIVE_INFINITY } = config;
      const letterBytesMax = Math.min(deadLetterBytesMax, Math.floor((retainBytes * deadLetterRetainPercent) / 100));
      ledger = new Ledger({ disk, name, letterBytesMax, limits });
      this.#ledgers.set(name, ledger);
    }
    return ledger;
  }
}
