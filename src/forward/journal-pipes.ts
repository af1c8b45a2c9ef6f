/** The pipes of one journal to its destinations, its hooks with `on`, and their shared state. */

import type { Config } from '../config/options-of-service.ts';
import { unlessAbsent } from '../journal/disk.ts';
import { contentsOf } from '../journal/segments.ts';
import type { Ack } from './acks.ts';
import { AlarmHook } from './alarms/alarm-hook.ts';
import type { AlarmClock } from './alarms/clock.ts';
import { Ledger } from './ledger/ledger.ts';
import { Pipe } from './pipe/pipe.ts';
import type { ForwardedJournal, ForwardingParts } from './pipe/sender.ts';
import type { DestinationSettings } from './settings.ts';

interface JournalPipesOptions extends ForwardingParts, ForwardedJournal {
  readonly config: Pick<Config, 'ack' | 'retainBytes'>;
  /** Used for the destination that `config.ack` names. */
  readonly ack: Ack | undefined;
  /** Used for the hooks with `on`. */
  readonly clock: AlarmClock;
}

export class JournalPipes {
  /** Pipes by the name of the destination. */
  readonly pipes = new Map<string, Pipe>();
  readonly hooks = new Map<string, AlarmHook>();
  readonly #options: JournalPipesOptions;
  /** Ledgers by the name of the destination. A changed destination keeps its ledger. */
  readonly #ledgers = new Map<string, Ledger>();
  /** The ends of pipes whose destination was removed or changed. */
  readonly #closing = new Set<Promise<void>>();
  /** The files of the journal at the last look, without those that were removed since then. */
  #segments: readonly { readonly firstSeq: number; readonly bytes: number }[] = [];
  /** The last event that retention has removed since that look started; 0 if it removed none. */
  #removedSeq = 0;

  constructor(options: JournalPipesOptions) {
    this.#options = options;
  }

  /** Whether all pipes have ended, so that the folder can get another journal. */
  get isOver(): boolean {
    return this.pipes.size + this.hooks.size + this.#closing.size === 0;
  }

  /** All pipes, and all hooks with `on`. */
  get all(): readonly (Pipe | AlarmHook)[] {
    return [...this.pipes.values(), ...this.hooks.values()];
  }

  /**
   * Starts pipes to new destinations, and ends pipes to destinations that are gone. @param wanted the destinations by
   * name
   */
  update(wanted: ReadonlyMap<string, DestinationSettings>): void {
    for (const one of this.all) {
      const { name } = one.settings;
      const now = wanted.get(name);
      if (now !== undefined && JSON.stringify(now) === JSON.stringify(one.settings)) continue;
      this.pipes.delete(name);
      this.hooks.delete(name);
      const closed: Promise<void> = one.close().then(() => void this.#closing.delete(closed));
      this.#closing.add(closed);
    }
    const { config, ack, clock, ...shared } = this.#options;
    const after = this.ended();
    for (const [name, settings] of wanted) {
      if (this.pipes.has(name) || this.hooks.has(name)) continue;
      if (settings.on !== undefined) {
        this.hooks.set(name, new AlarmHook({ ...shared, settings, clock, after }));
        continue;
      }
      const ledger = this.#ledgerOf(name);
      const firstSeq = () => this.#firstSeq;
      const own = { settings, firstSeq, after, ledger, ack: name === config.ack ? ack : undefined };
      if (own.ack !== undefined) own.ack.ledger = ledger;
      this.pipes.set(name, new Pipe({ ...shared, ...own }));
    }
  }

  /** Ends all pipes. They keep holding events back until `act` is done, and are then forgotten. @throws the errors of `act` */
  async closedFor<Result>(act: () => Promise<Result>): Promise<Result> {
    await Promise.all(this.all.map((one) => one.close()));
    try {
      return await act();
    } finally {
      this.pipes.clear();
      this.hooks.clear();
    }
  }

  /** Like `Follower.removing`. @throws the error of a system call */
  async removing(firstSeq: number): Promise<void> {
    for (const pipe of this.pipes.values()) await pipe.removing(firstSeq);
  }

  /** Like `Follower.removed`. */
  removed(last: number): void {
    const gone = { first: this.#firstSeq, last };
    this.#removedSeq = last;
    this.#segments = this.#segments.filter(({ firstSeq }) => firstSeq > last);
    for (const pipe of this.pipes.values()) pipe.removed(gone);
  }

  get #firstSeq(): number {
    return this.#segments[0]?.firstSeq ?? this.#removedSeq + 1;
  }

  /** Resolves when all pipes that are being ended have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#closing);
  }

  /** Lets each pipe look, once the journal is open, and measures its files. @throws the error of a system call */
  async look(): Promise<void> {
    const { disk, progress } = this.#options;
    if (progress.nextSeq(disk.folder) === undefined) return;
    for (const one of this.all) await one.look();
    await this.#findSegments();
  }

  async #findSegments(): Promise<void> {
    const { disk } = this.#options;
    this.#removedSeq = 0;
    const { segments } = contentsOf(await disk.list());
    const known = new Map(this.#segments.slice(0, -1).map(({ firstSeq, bytes }) => [firstSeq, bytes]));
    const now = [];
    for (const { name, firstSeq } of segments) {
      const bytes = known.get(firstSeq) ?? (await disk.size(name).catch(unlessAbsent(0)));
      now.push({ firstSeq, bytes });
    }
    this.#segments = now.filter(({ firstSeq }) => firstSeq > this.#removedSeq);
  }

  /** @returns the bytes of the files that contain events which a destination does not have yet */
  heldBytes(pipe: Pipe): number {
    const { lag_events, seq } = pipe.status;
    if (seq === null || lag_events === 0) return 0;
    const at = this.#segments.findLastIndex(({ firstSeq }) => firstSeq <= seq + 1);
    return this.#segments.slice(Math.max(0, at)).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  #ledgerOf(name: string): Ledger {
    let ledger = this.#ledgers.get(name);
    if (ledger === undefined) {
      const { disk, limits, config, notices } = this.#options;
      const { deadLetterBytesMax, deadLetterRetainPercent } = limits;
      const { retainBytes = Number.POSITIVE_INFINITY } = config;
      const letterBytesMax = Math.min(deadLetterBytesMax, Math.floor((retainBytes * deadLetterRetainPercent) / 100));
      ledger = new Ledger({ disk, name, letterBytesMax, limits, notices: notices.with({ destination: name }) });
      this.#ledgers.set(name, ledger);
    }
    return ledger;
  }
}
