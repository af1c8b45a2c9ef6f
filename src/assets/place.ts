/**
 * When an event happened, as far as its clocks can be believed. The state of assets goes by this, whatever the order in which events
 * arrive: a report about January that arrives today does not replace the result of today.
 *
 * The first of these times counts that can be right: `event_time`, `recorded` (when a device recorded a forwarded event), `time` (when
 * it arrived here). If none can, the event is the newest by its arrival. The clock is never read here, so that each reading of a
 * journal leads to the same state.
 */

import { believedEventMs, believedRecordingMs, CLOCK_AHEAD_MS, EARLIEST_MS } from '../event/event-time.ts';
import type { Reported } from '../journal/line/reported.ts';

/** Where an event belongs. */
export interface EventPlace {
  /** When it happened, in ms since 1970; undefined if no clock of it can be believed. */
  readonly at: number | undefined;
  /** The journal that its order is known of: the id that it was forwarded from, undefined for this one. */
  readonly source: string | undefined;
  /** Its seq in that journal; 0 if its sender said when it happened, so that the order of a journal says nothing. */
  readonly ownSeq: number;
}

/** The place of the last event of something, as it is kept. `at` is 0 if it is unknown. */
export interface KeptPlace {
  at: number;
  source: string | undefined;
  ownSeq: number;
}

/**
 * @param timeMs the `time` of its line
 * @param source that of the event, as a text that may be kept
 */
export function placeOf(seq: number, timeMs: number, event: Reported, source: string | undefined): EventPlace {
  const { eventTime, sourceSeq, recorded } = event;
  const at = believedEventMs(eventTime, timeMs);
  if (at !== undefined) return { at, source, ownSeq: 0 };
  return { at: believedRecordingMs(recorded, timeMs), source, ownSeq: sourceSeq ?? seq };
}

/**
 * @param kept of the last event; undefined without one
 * @param timeMs the `time` of the line of the new event
 * @returns whether the new event replaces it
 */
export function isLater(kept: KeptPlace | undefined, place: EventPlace, timeMs: number): boolean {
  if (kept === undefined) return true;
  // The order of a journal is never doubted, and what a device sends again changes nothing.
  if (place.ownSeq > 0 && kept.ownSeq > 0 && place.source === kept.source) return place.ownSeq > kept.ownSeq;
  if (place.at === undefined) return true;
  if (timeMs >= EARLIEST_MS && kept.at > timeMs) return true; // the clock of the last event was ahead
  return place.at >= kept.at;
}

/** @returns a copy, which does not change with the original */
export function copyPlace({ at, source, ownSeq }: KeptPlace): KeptPlace {
  return { at, source, ownSeq };
}

/** Keeps the place of an event in place of that of an earlier one. An unknown time hides nothing, so it keeps the time before. */
export function keepPlace(kept: KeptPlace, { at, source, ownSeq }: EventPlace): void {
  if (at !== undefined) kept.at = at;
  kept.source = source;
  kept.ownSeq = ownSeq;
}

/**
 * @param aliveMs when the last event of an asset happened
 * @returns for how long it has been silent, in ms; infinite if that time is ahead of the clock and proves nothing
 */
export function silentMs(aliveMs: number, nowMs: number): number {
  return aliveMs > nowMs + CLOCK_AHEAD_MS ? Number.POSITIVE_INFINITY : Math.max(0, nowMs - aliveMs);
}
