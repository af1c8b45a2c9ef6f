/**
 * For how long a hook waits before it hears of a difference. All of it is in memory only.
 *
 * - A difference is posted once it has held for `alarmHeldMs`, whatever its severity meanwhile: a quick flip, or a load of old results,
 *   is posted as what it ends with. One that comes and goes and never holds so long is posted after `alarmPauseMs` of this: otherwise
 *   two reporters of one check, one of them broken, would never be heard.
 * - After a post the next one of the same key waits for `alarmPauseMs`, unless WARN becomes ERROR.
 */

import type { Limits } from '../../config/limits.ts';
import type { AlarmKind } from '../settings.ts';
import type { Change } from './difference.ts';

/** A key whose alarm is another one than the hook has heard of. Times are of the monotonic clock. */
interface Difference {
  on: AlarmKind;
  /** Of what holds: it shows that the alarm ended and began again between two looks. */
  sinceSeq: number | undefined;
  /** Since when it holds. */
  fromMs: number;
  /** When it was there first. */
  firstMs: number;
  /** Since when it is not there; undefined while it is. */
  goneMs: number | undefined;
}

export class Held {
  readonly #limits: Limits;
  readonly #differences = new Map<string, Difference>();
  /** When a key was posted last, the oldest first. */
  readonly #posted = new Map<string, number>();

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Called with all differences at each look. */
  follow(changes: readonly Change[], monoMs: number): void {
    const { alarmHeldMs, alarmPauseMs } = this.#limits;
    const present = new Set(changes.map(({ key }) => key));
    for (const [key, one] of this.#differences) {
      if (present.has(key)) continue;
      one.goneMs ??= monoMs;
      // It came and went no longer, or it is over.
      if (one.goneMs - one.fromMs >= alarmHeldMs || monoMs - one.goneMs >= alarmPauseMs) this.#differences.delete(key);
    }
    for (const { key, on, now } of changes) {
      const one = this.#differences.get(key);
      const sinceSeq = now?.sinceSeq;
      const isOther = one === undefined || one.on !== on || one.sinceSeq !== sinceSeq;
      if (one === undefined || (isOther && (one.goneMs ?? monoMs) - one.fromMs >= alarmHeldMs))
        this.#differences.set(key, { on, sinceSeq, fromMs: monoMs, firstMs: monoMs, goneMs: undefined });
      else if (isOther || one.goneMs !== undefined)
        Object.assign(one, { on, sinceSeq, fromMs: monoMs, goneMs: undefined });
    }
    this.#bound(present);
    for (const [key, atMs] of this.#posted) if (monoMs - atMs >= alarmPauseMs) this.#posted.delete(key);
  }

  /** Whether a difference of the last look has held for long enough. */
  hasHeld({ key }: Change, monoMs: number): boolean {
    const one = this.#differences.get(key);
    return one !== undefined && this.#heldMs(one) <= monoMs;
  }

  /** Whether the last post about its key was a short time ago. */
  isPaused({ key, now, before }: Change): boolean {
    const isRise = now?.severity === 'ERROR' && before?.severity === 'WARN';
    return !isRise && this.#posted.has(key);
  }

  /** A difference was posted, or noted. */
  settled(key: string): void {
    this.#differences.delete(key);
  }

  /** A difference was posted, and its answer is known. */
  posted(key: string, monoMs: number): void {
    this.settled(key);
    this.#posted.delete(key);
    this.#posted.set(key, monoMs);
    for (const old of this.#posted.keys()) if (this.#posted.size > this.#keysMax) this.#posted.delete(old);
  }

  /** @returns when the next difference will have held for long enough, or its pause will end; infinite if that needs an event */
  dueMs(monoMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [key, one] of this.#differences) {
      if (one.goneMs !== undefined) continue;
      const pausedMs = (this.#posted.get(key) ?? Number.NEGATIVE_INFINITY) + this.#limits.alarmPauseMs;
      for (const atMs of [this.#heldMs(one), pausedMs]) if (atMs > monoMs) nextMs = Math.min(nextMs, atMs);
    }
    return nextMs;
  }

  #heldMs({ fromMs, firstMs }: Difference): number {
    const { alarmHeldMs, alarmPauseMs } = this.#limits;
    return Math.min(fromMs + alarmHeldMs, Math.max(fromMs, firstMs + alarmPauseMs));
  }

  /** Keys that do not differ now leave first. */
  #bound(present: ReadonlySet<string>): void {
    for (const key of this.#differences.keys()) {
      if (this.#differences.size <= this.#keysMax) return;
      if (!present.has(key)) this.#differences.delete(key);
    }
  }

  /** Differences of now are at most the alarms that the hook has heard of and as many others. */
  get #keysMax(): number {
    return 2 * this.#limits.alarmsMax;
  }
}
