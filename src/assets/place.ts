/**
 * When an event happened, as far as its clocks can be believed. This determines the state of assets, whatever the order in which
 * events arrive: a report about January that arrives today does not replace today's result.
 *
 * The first of the following times that can be right counts: `event_time`, `recorded` (when a device recorded a forwarded event),
 * `time` (when it arrived here). If none can be right, the event counts as the newest when it arrives. The clock is never read here,
 * so each reading of a journal results in the same state.
 */

import { believedEventMs, believedRecordingMs, CLOCK_AHEAD_MS, EARLIEST_MS } from '../event/event-time.ts';
import type { Reported } from '../journal/line/reported.ts';

/** The position of an event in the order of events. */
export interface EventPlace {
  /** When it happened, in ms since 1970; undefined if none of its clocks can be right. */
  readonly at: number | undefined;
  /**
   * The journal in which its order is known: the id of the journal from which it was forwarded, undefined for this
   * journal.
   */
  readonly source: string | undefined;
  /**
   * Its seq in that journal; 0 if its sender reported when it happened, since the order of a journal is then
   * irrelevant.
   */
  readonly ownSeq: number;
}

/** The stored place of the last event of some kind. `at` is 0 if unknown. */
export interface KeptPlace {
  at: number;
  source: string | undefined;
  ownSeq: number;
}

/**
 * @param timeMs the `time` of its line
 * @param source the source of the event, as a text that can be kept in memory
 */
export function placeOf(seq: number, timeMs: number, event: Reported, source: string | undefined): EventPlace {
  const { eventTime, sourceSeq, recorded } = event;
  const at = believedEventMs(eventTime, timeMs);
  if (at !== undefined) return { at, source, ownSeq: 0 };
  return { at: believedRecordingMs(recorded, timeMs), source, ownSeq: sourceSeq ?? seq };
}

/**
 * @param kept the place of the last event; undefined if there is none
 * @param timeMs the `time` of the line of the new event
 * @returns whether the new event replaces it
 */
export function isLater(kept: KeptPlace | undefined, place: EventPlace, timeMs: number): boolean {
  if (kept === undefined) return true;
  // The order of a journal is never doubted, so events that a device sends again change nothing.
  if (place.ownSeq > 0 && kept.ownSeq > 0 && place.source === kept.source) return place.ownSeq > kept.ownSeq;
  if (place.at === undefined) return true;
  if (timeMs >= EARLIEST_MS && kept.at > timeMs) return true; // the clock of the last event was ahead
  return place.at >= kept.at;
}

/** @returns a copy, which does not change with the original */
export function copyPlace({ at, source, ownSeq }: KeptPlace): KeptPlace {
  return { at, source, ownSeq };
}

/**
 * Stores the place of an event instead of the place of an earlier one. An unknown time hides nothing, so the previous time is
 * kept.
 */
export function keepPlace(kept: KeptPlace, { at, source, ownSeq }: EventPlace): void {
  if (at !== undefined) kept.at = at;
  kept.source = source;
  kept.ownSeq = ownSeq;
}

/**
 * @param aliveMs when the last event of an asset happened
 * @returns for how long it has been silent, in ms; infinite if that time is ahead of the clock and so proves nothing
 */
export function silentMs(aliveMs: number, nowMs: number): number {
  return aliveMs > nowMs + CLOCK_AHEAD_MS ? Number.POSITIVE_INFINITY : Math.max(0, nowMs - aliveMs);
}
