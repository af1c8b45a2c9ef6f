import { inLargestUnit } from '../../../event/moment.ts';

/** @returns the age of a time in words: `119 min ago`; `in 3 h` for a future time */
export function ageOf(time: string, nowMs = Date.now()): string {
  const seconds = Math.floor((nowMs - Date.parse(time)) / 1_000);
  const span = inLargestUnit(Math.abs(seconds));
  return seconds < 0 ? `in ${span}` : `${span} ago`;
}
