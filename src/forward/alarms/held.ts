/**
 * How long a hook waits before it is sent a difference. All of this is in memory only.
 *
 * - A difference is posted once it has held for `alarmHeldMs`, regardless of changes of its severity in that time. After a quick flip,
 *   or a load of old results, only the final state is posted. A difference that comes and goes and never holds that long is posted
 *   after `alarmPauseMs`: otherwise a hook would never learn of two reporters of one check, one of which is broken.
 * - After a post the next one with the same key waits for `alarmPauseMs`, unless WARN becomes ERROR.
 */

import type { Limits } from '../../config/limits.ts';
import type { AlarmKind } from '../settings.ts';
import type { Change } from './difference.ts';

/** A key whose alarm differs from the one that the hook was sent. Times are from the monotonic clock. */
interface Difference {
  on: AlarmKind;
  /** The seq of the alarm that holds. If it changes, the alarm ended and started again between two looks. */
  sinceSeq: number | undefined;
  /** When it started to hold. */
  fromMs: number;
  /** When it was first seen. */
  firstMs: number;
  /** When it disappeared; undefined while it holds. */
  goneMs: number | undefined;
}

export class Held {
  readonly #limits: Limits;
  readonly #differences = new Map<string, Difference>();
  /** When each key was last posted, the oldest first. */
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
      // Either it comes and goes without holding any longer, or it is over.
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

  /** Whether a difference found by the last look has held for long enough. */
  hasHeld({ key }: Change, monoMs: number): boolean {
    const one = this.#differences.get(key);
    return one !== undefined && this.#heldMs(one) <= monoMs;
  }

  /** Whether the last post with its key was a short time ago. */
  isPaused({ key, now, before }: Change): boolean {
    const isRise = now?.severity === 'ERROR' && before?.severity === 'WARN';
    return !isRise && this.#posted.has(key);
  }

  /** Called when a difference was posted or noted. */
  settled(key: string): void {
    this.#differences.delete(key);
  }

  /** Called when a difference was posted and its answer is known. */
  posted(key: string, monoMs: number): void {
    this.settled(key);
    this.#posted.delete(key);
    this.#posted.set(key, monoMs);
    for (const old of this.#posted.keys()) if (this.#posted.size > this.#keysMax) this.#posted.delete(old);
  }

  /**
   * @returns when the next difference will have held for long enough, or its pause will end; infinite if that requires an event
   */
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

  /** Forgets keys without a current difference first. */
  #bound(present: ReadonlySet<string>): void {
    for (const key of this.#differences.keys()) {
      if (this.#differences.size <= this.#keysMax) return;
      if (!present.has(key)) this.#differences.delete(key);
    }
  }

  /** The current differences are at most the alarms that the hook was sent, and the same number again. */
  get #keysMax(): number {
    return 2 * this.#limits.alarmsMax;
  }
}
