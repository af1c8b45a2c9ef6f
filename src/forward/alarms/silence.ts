/**
 * The silent assets of a journal, for a hook. An asset is silent if its last event happened longer than `staleAfter` ago:
 *
 * - No asset becomes silent for `alarmGraceMs` after the service started to run, since devices deliver their backlog first.
 * - A time that is ahead of the clock, or from before journals existed, is meaningless. The time of such an asset counts from when the
 *   service started to run, and what the hook was sent about it remains valid until the asset has an event.
 * - While the clock is not set, no silence starts or ends.
 */

import type { Asset, AssetStates } from '../../assets/asset-state.ts';
import type { Limits } from '../../config/limits.ts';
import { CLOCK_AHEAD_MS, EARLIEST_MS } from '../../event/event-time.ts';
import { type Alarm, alarmKey, type ToldAlarm, type ToldAlarms } from './alarm.ts';
import { Chosen } from './chosen.ts';
import type { AlarmMoment } from './clock.ts';
import { type AlarmRules, hears } from './rules.ts';

/** The result of a search through all assets. */
interface Found {
  /** The first assets, by name, of which the hook has not been sent an alarm. */
  readonly names: readonly string[];
  /** The number of other assets without a sent alarm. */
  readonly others: number;
  /** When the next search is due, by the monotonic clock, unless the service was stopped in the meantime. */
  readonly nextMs: number;
  readonly quietFromMs: number;
}

export class Silence {
  readonly #rules: AlarmRules;
  readonly #limits: Limits;
  #found: Found | undefined;

  constructor(rules: AlarmRules, limits: Limits) {
    this.#rules = rules;
    this.#limits = limits;
  }

  /**
   * @returns the current alarm of an asset for which the hook was sent an alarm; undefined if the asset is no longer
   * silent
   */
  stillSilent(states: AssetStates, before: ToldAlarm, at: AlarmMoment): Alarm | undefined {
    const asset = states.get(before.asset);
    if (!hears(this.#rules, 'stale') || asset === undefined || !this.#rules.covers(asset.name)) return undefined;
    if (at.nowMs < EARLIEST_MS) return before;
    const isUnchanged = isUnknown(asset, at) && before.sinceSeq === asset.aliveSeq;
    return isUnchanged || this.#silentFromMs(asset, at) <= at.monoMs ? silenceOf(asset) : undefined;
  }

  /**
   * Finds the silent assets for which the hook was sent no alarm. All assets are searched only when one of them can have become
   * silent; other looks check only the assets found before.
   * @param isNoted whether they are only noted. Then assets also count that are not silent yet only because the service has just
   * started
   * @returns the first of them, and the number of others
   */
  *look(
    states: AssetStates,
    told: ToldAlarms,
    at: AlarmMoment,
    isNoted = false,
  ): Generator<void, { readonly silent: readonly Alarm[]; readonly others: number }> {
    if (!hears(this.#rules, 'stale') || at.nowMs < EARLIEST_MS) return { silent: [], others: 0 };
    if (isNoted || this.#isDue(at)) this.#found = yield* this.#search(states, told, at, isNoted);
    const { names, others } = this.#found!;
    const silent: Alarm[] = [];
    for (const name of names) {
      const asset = states.get(name);
      if (asset !== undefined && this.#becomesSilentMs(asset, at, isNoted) <= at.monoMs && !isTold(asset, told))
        silent.push(silenceOf(asset));
    }
    if (isNoted) this.#found = undefined;
    return { silent, others };
  }

  #isDue({ monoMs, quietFromMs }: AlarmMoment): boolean {
    const found = this.#found;
    return found === undefined || found.quietFromMs !== quietFromMs || found.nextMs <= monoMs;
  }

  *#search(states: AssetStates, told: ToldAlarms, at: AlarmMoment, isNoted: boolean): Generator<void, Found> {
    const chosen = new Chosen(this.#limits.alarmsMax);
    let [looked, count, firstMs] = [0, 0, Number.POSITIVE_INFINITY];
    for (const asset of states.inOrder(undefined, this.#rules.keyPrefix)) {
      looked += 1;
      if (looked % ASSETS_A_TURN === 0) yield;
      if (!this.#rules.covers(asset.name)) continue;
      const fromMs = this.#becomesSilentMs(asset, at, isNoted);
      if (fromMs > at.monoMs) firstMs = Math.min(firstMs, fromMs);
      else if (!isTold(asset, told)) {
        count += 1;
        const alarm = silenceOf(asset);
        if (chosen.accepts(alarm)) chosen.add(alarm);
      }
    }
    const names = chosen.taken().map(({ asset }) => asset);
    const others = count - names.length;
    const { staleCheckMs, staleCheckMsMax } = this.#limits;
    // A new asset cannot become stale before that, unless its first event arrives late.
    const untilNextMs = others > 0 ? 0 : Math.min(firstMs - at.monoMs, this.#rules.staleMs, staleCheckMsMax);
    const nextMs = at.monoMs + Math.max(untilNextMs, staleCheckMs);
    return { names, others, nextMs, quietFromMs: at.quietFromMs };
  }

  /** @returns when an asset without a sent alarm counts as silent unless it has an event, by the monotonic clock */
  #becomesSilentMs(asset: Asset, at: AlarmMoment, isNoted: boolean): number {
    const graceEndMs = isNoted ? Number.NEGATIVE_INFINITY : at.quietFromMs + this.#limits.alarmGraceMs;
    return Math.max(graceEndMs, this.#silentFromMs(asset, at));
  }

  #silentFromMs(asset: Asset, at: AlarmMoment): number {
    const { staleMs } = this.#rules;
    return staleMs + (isUnknown(asset, at) ? at.quietFromMs : asset.aliveMs - at.nowMs + at.monoMs);
  }
}

/** Whether the time of the last event of an asset is meaningless, because a clock was ahead or not set. */
function isUnknown({ aliveMs }: Asset, { nowMs }: AlarmMoment): boolean {
  return aliveMs > nowMs + CLOCK_AHEAD_MS || aliveMs < EARLIEST_MS;
}

function isTold({ name }: Asset, told: ToldAlarms): boolean {
  return told.has(alarmKey({ asset: name, check: undefined, partition: undefined }));
}

function silenceOf({ name, aliveMs, aliveSeq }: Asset): Alarm {
  const subject = { asset: name, check: undefined, partition: undefined };
  return { on: 'stale', ...subject, severity: undefined, sinceMs: aliveMs, sinceSeq: aliveSeq };
}

const ASSETS_A_TURN = 1_000;
