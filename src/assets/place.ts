/**
 * When an event happened, as far as its clocks can be believed. The state of assets goes by this, whatever the order in which events
 * arrive: a report about January that arrives today does not replace the result of today.
 *
 * The first of these times counts that can be right: `event_time`, `recorded` (when a device recorded a forwarded event), `time` (when
 * it arrived here). If none can, the event is the newest by its arrival. The clock is never read here, so that each reading of a
 * journal leads to the same state.
 */

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
  const isBelieved = timeMs >= EARLIEST_MS;
  const latestMs = isBelieved ? timeMs + CLOCK_AHEAD_MS : Number.POSITIVE_INFINITY;
  if (eventTime !== undefined) {
    const at = Date.parse(eventTime);
    if (at >= EARLIEST_EVENT_MS && at <= latestMs)
      return { at: isBelieved ? Math.min(at, timeMs) : at, source, ownSeq: 0 };
  }
  if (recorded === undefined) return { at: isBelieved ? timeMs : undefined, source, ownSeq: sourceSeq ?? seq };
  const at = Date.parse(recorded);
  const isRight = at >= EARLIEST_MS && at <= latestMs;
  return { at: isRight ? (isBelieved ? Math.min(at, timeMs) : at) : undefined, source, ownSeq: sourceSeq ?? seq };
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

/** Clocks differ by so much without being wrong. */
export const CLOCK_AHEAD_MS = 15 * 60_000;
/** No journal is older than the program. */
export const EARLIEST_MS = Date.UTC(2024, 0, 1);
/** Sensors that were never set start in 1970, 1980 or 2000, and no report is about a run that old. */
const EARLIEST_EVENT_MS = Date.UTC(2001, 0, 2);
