/**
 * Which results of checks a hook with `on` gets, by the state of the assets: each failure, a result that differs from the one before,
 * a pass after failures. A result that has changed again is not posted: it is out of date.
 *
 * The answer for an event can change at each later event, so that it is asked for again directly before a request. While the state is
 * being read after a start, the hook waits.
 */

import { runJson } from '../../assets/asset-json.ts';
import type { Check } from '../../assets/asset-state.ts';
import type { JournalAssets } from '../../assets/journal-assets.ts';
import type { Limits } from '../../config/limits.ts';
import { describe } from '../../journal/disk.ts';
import type { Line } from '../../journal/look/reading.ts';
import { endingAfter } from '../../waiting/ending-after.ts';
import type { AlarmKind } from '../settings.ts';

/** What the hooks of a journal need of its assets. */
export type KnownAssets = Pick<JournalAssets, 'isLive' | 'current' | 'whenCurrent'>;

export interface AlarmsOptions {
  readonly on: readonly AlarmKind[];
  readonly assets: KnownAssets;
  readonly limits: Limits;
}

export class Alarms {
  readonly #options: AlarmsOptions;

  constructor(options: AlarmsOptions) {
    this.#options = options;
  }

  /** Whether the hook gets the result of a check; true until the state has it. */
  isWanted(line: Line): boolean {
    return !this.#knows(line) || this.noteOf(line) !== undefined;
  }

  /**
   * Waits until the state has an event, but not for long.
   * @returns why it does not; undefined if it does
   */
  async problemWith(line: Line, signal: AbortSignal): Promise<string | undefined> {
    if (this.#knows(line)) return undefined;
    const { assets, limits } = this.#options;
    try {
      await assets.whenCurrent(endingAfter(limits.assetsWaitMs, signal));
    } catch (error) {
      return `the state of the assets cannot be read: ${describe(error as Error)}`;
    }
    return this.#knows(line) ? undefined : 'the state of the assets is being read';
  }

  /** @returns why the hook gets a result that the state has, as a JSON object; undefined if it does not get it */
  noteOf({ seq, event }: Line): string | undefined {
    const { passed = false, asset_key, check_name = '' } = event;
    const check = this.#options.assets.current?.states.find(asset_key)?.checks?.get(check_name);
    const on = this.#kindOf(seq, passed, check);
    if (on === undefined) return undefined;
    const isSame = check !== undefined && check.passed === passed;
    const before = isSame && check.before && { passed: !passed, ...runJson(check.before) };
    return JSON.stringify({ on, ...(isSame && runJson(check)), ...(before && { before }) });
  }

  /** @param check undefined if the memory has no space for it: then each failure counts as a change, since none may be missed */
  #kindOf(seq: number, passed: boolean, check: Check | undefined): AlarmKind | undefined {
    const { on } = this.#options;
    const holds = check === undefined ? !passed : check.sinceSeq === seq;
    const kinds: readonly (readonly [AlarmKind, boolean])[] = [
      ['recovered', holds && passed && check?.before !== undefined],
      ['changed', holds && (!passed || check?.before !== undefined)],
      ['failed', !passed],
    ];
    return kinds.find(([kind, isSo]) => isSo && on.includes(kind))?.[0];
  }

  #knows({ seq }: Line): boolean {
    const { isLive, current } = this.#options.assets;
    return isLive && current !== undefined && current.seq >= seq;
  }
}
