/**
 * Posts to a hook with `staleAfter` each asset that has had no event for so long: once, and again only after it had one.
 *
 * The file `forward-NAME.stale` has a line for each of them with its last event, before it is posted and again afterwards: what a stop
 * or an outage interrupts is posted later, with the same key.
 */

import { type AssetStates, isStale, keyOf, latestEvent } from '../../assets/asset-state.ts';
import { BETWEEN_PARTS } from '../../event/asset-key.ts';
import { durationMs } from '../../event/moment.ts';
import { isMatch, type Searched } from '../../event/search.ts';
import { describe, unlessAbsent } from '../../journal/disk.ts';
import { replaceDurably } from '../../journal/file-io.ts';
import { forEachLine } from '../../journal/line/lines.ts';
import type { Destination } from '../destinations/destination.ts';
import type { DestinationSettings } from '../settings.ts';
import type { KnownAssets } from './alarms.ts';
import type { Sender } from './sender.ts';

/** An asset with its last event. */
interface Noted {
  readonly asset_key: readonly string[];
  readonly seq: number;
  readonly since: string;
  /** Whether the hook has it. */
  posted: boolean;
}

export class Stale {
  readonly #sender: Sender;
  readonly #assets: KnownAssets;
  /** By the names of the assets; undefined before the file was read. */
  #noted: ReadonlyMap<string, Noted> | undefined;
  /** What the file has. */
  #written = '';
  #nextMs = Number.NEGATIVE_INFINITY;
  /** What the hook did not take last, and since when all answers to it are failures. */
  #failing: Noted | undefined;
  #failingMs = 0;
  #looking: Promise<void> | undefined;

  constructor(sender: Sender, assets: KnownAssets) {
    this.#sender = sender;
    this.#assets = assets;
  }

  /** Looks for stale assets beside the pipe, if it is time. */
  check(): void {
    if (performance.now() >= this.#nextMs) this.#looking ??= this.#run();
  }

  /** Resolves when nothing is posted any more, after the traffic was closed. */
  async ended(): Promise<void> {
    await this.#looking;
  }

  async #run(): Promise<void> {
    const { notices, limits } = this.#sender;
    try {
      await this.#look();
    } catch (error) {
      notices.rated.warn('stale assets could not be posted; it is tried again', { reason: describe(error as Error) });
    }
    this.#nextMs = performance.now() + limits.staleCheckMs;
    this.#looking = undefined;
  }

  async #look(): Promise<void> {
    const { isLive, current } = this.#assets;
    const states = isLive ? current?.states : undefined;
    if (states === undefined) return; // it is being read
    const hook = this.#sender.openForRetry();
    try {
      this.#noted = await this.#find(states, this.#noted ?? (await this.#read()));
      await this.#write();
      for (const one of this.#noted.values()) if (!one.posted) await this.#post(hook, one);
    } finally {
      hook.close();
      await this.#write();
    }
  }

  /** @returns what is noted of assets that had no event since, and the stale assets that are not noted yet */
  async #find(states: AssetStates, noted: ReadonlyMap<string, Noted>): Promise<Map<string, Noted>> {
    const { settings, notices, limits } = this.#sender;
    const { assetKey, keyPrefix, keyStart } = settings.only ?? {};
    const untilMs = Date.now() - durationMs(settings.staleAfter!)!;
    const found = new Map<string, Noted>();
    let looked = 0;
    for (const asset of states.inOrder(undefined, assetKey ?? keyPrefix)) {
      looked += 1;
      if (looked % LOOKED_ASSETS === 0) await new Promise(setImmediate);
      const asset_key = keyOf(asset);
      if (!isMatch({ event: { asset_key } } as Searched, { assetKey, keyPrefix, keyStart })) continue;
      const { seq, timeMs } = latestEvent(asset);
      const since = new Date(timeMs).toISOString();
      const before = noted.get(asset.name);
      if (before?.seq === seq && before.since === since) found.set(asset.name, before);
      else if (!isStale(asset, untilMs)) continue;
      else if (found.size < limits.staleMax) found.set(asset.name, { asset_key, seq, since, posted: false });
      else notices.rated.warn('too many assets are stale, and some are not posted', { limit: limits.staleMax });
    }
    return found;
  }

  async #post(hook: Destination, noted: Noted): Promise<void> {
    const { traffic, notices, limits } = this.#sender;
    const { asset_key, seq, since } = noted;
    await traffic.pause(traffic.pace.turnMs());
    const asset = this.#assets.current?.states.find(asset_key);
    if (traffic.closing.aborted || asset === undefined || latestEvent(asset).seq !== seq) return;
    const note = JSON.stringify({ on: 'stale', since_seq: seq, since });
    const sent = await hook.post!(`stale/${seq}`, JSON.stringify({ asset_key }), note, traffic.signal);
    if (sent.kind === 'recorded') {
      noted.posted = true;
      return;
    }
    const nowMs = performance.now();
    const isFailure = sent.kind === 'in doubt' && sent.status !== undefined;
    if (!isFailure || this.#failing !== noted) this.#failingMs = nowMs;
    this.#failing = noted;
    const isLong = nowMs - this.#failingMs >= limits.hookFailingMs;
    if (sent.kind !== 'refused' && !isLong) throw new Error(sent.reason);
    notices.rated.warn('a hook does not take a stale asset, and is not told again', { seq, reason: sent.reason });
    noted.posted = true;
  }

  /** @throws the error of a system call */
  async #read(): Promise<Map<string, Noted>> {
    const { disk, settings, limits } = this.#sender;
    const noted = new Map<string, Noted>();
    const take = (chunk: Buffer, start: number, end: number) => {
      const one: Noted = JSON.parse(chunk.toString('utf8', start, end));
      noted.set(one.asset_key.join(BETWEEN_PARTS), one);
    };
    await forEachLine(disk.read(staleName(settings)), limits.assetLineBytesMax, take).catch(unlessAbsent(undefined));
    this.#written = textOf(noted);
    return noted;
  }

  /** Durably. @throws the error of a system call */
  async #write(): Promise<void> {
    const { disk, settings } = this.#sender;
    const text = textOf(this.#noted ?? new Map());
    if (this.#noted === undefined || text === this.#written) return;
    await replaceDurably(disk, staleName(settings), [Buffer.from(text)]);
    this.#written = text;
  }
}

function textOf(noted: ReadonlyMap<string, Noted>): string {
  return [...noted.values()].map((one) => `${JSON.stringify(one)}\n`).join('');
}

const staleName = ({ name }: DestinationSettings) => `forward-${name}.stale`;
/** So many are looked at in a turn. */
const LOOKED_ASSETS = 1_000;
