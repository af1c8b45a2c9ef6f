/** How long ago a time is, in words. */

import { inLargestUnit } from '../../../event/moment.ts';

/** @returns how long ago a time is: `119 min ago`; `in 3 h` for one that is to come */
export function ageOf(time: string, nowMs = Date.now()): string {
  const seconds = Math.floor((nowMs - Date.parse(time)) / 1_000);
  const span = inLargestUnit(Math.abs(seconds));
  return seconds < 0 ? `in ${span}` : `${span} ago`;
}
