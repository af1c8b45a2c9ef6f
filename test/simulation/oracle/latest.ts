/**
 * Which event of an asset is the latest, by the clocks that can be believed. It reads the rule on its own, without a file of the
 * service.
 */

import { nameOf, type SeenLine } from './journal-view.ts';

/** Clocks may differ by so much. */
const AHEAD_MS = 15 * 60_000;
/** Before, no clock of a service is right; a sensor that was never set says 1970, 1980 or 2000. */
const SERVICE_FROM = '2024-01-01T00:00:00.000Z';
const SENSOR_FROM = '2001-01-02T00:00:00.000Z';

/** Where an event is in the order. */
interface Place {
  readonly line: SeenLine;
  readonly atMs: number | undefined;
  /** The seq in the journal that recorded it first; 0 if its sender said when it happened. */
  readonly ownSeq: number;
}

/** @param lines all that were ever recorded of an asset and a kind of event. @returns the seq of the latest; 0 if there is none */
export function latestOf(lines: readonly SeenLine[]): number {
  let latest: Place | undefined;
  let latestMs = 0;
  for (const line of [...lines].sort((a, b) => a.seq - b.seq)) {
    const place = placeOf(line);
    if (latest !== undefined && !replaces(place, latest, latestMs)) continue;
    latest = place;
    latestMs = place.atMs ?? latestMs; // a time that cannot be right hides nothing
  }
  return latest?.line.seq ?? 0;
}

function replaces({ line, atMs, ownSeq }: Place, latest: Place, latestMs: number): boolean {
  const isOfOneJournal = nameOf(line)?.[0] === nameOf(latest.line)?.[0];
  if (isOfOneJournal && ownSeq > 0 && latest.ownSeq > 0) return ownSeq > latest.ownSeq;
  if (atMs === undefined) return true;
  const isAhead = line.time >= SERVICE_FROM && latestMs > Date.parse(line.time);
  return isAhead || atMs >= latestMs;
}

function placeOf(line: SeenLine): Place {
  const { report, time, recorded, seq } = line;
  const claimed = believed(report.event_time, SENSOR_FROM, time);
  if (claimed !== undefined) return { line, atMs: claimed, ownSeq: 0 };
  return { line, atMs: believed(recorded ?? time, SERVICE_FROM, time), ownSeq: nameOf(line)?.[1] ?? seq };
}

/** @returns a time that can be right, which is not after the arrival; undefined if it cannot be */
function believed(claimed: string | undefined, from: string, arrived: string): number | undefined {
  const [atMs, arrivedMs] = [Date.parse(claimed ?? ''), Date.parse(arrived)];
  if (!(atMs >= Date.parse(from))) return undefined;
  if (arrived < SERVICE_FROM) return atMs;
  return atMs <= arrivedMs + AHEAD_MS ? Math.min(atMs, arrivedMs) : undefined;
}
