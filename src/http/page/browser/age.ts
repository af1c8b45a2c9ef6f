/** How long ago a time is, in words. */

/** @returns how long ago a time is in the largest unit of which there are two: `119 min ago`; `in 3 h` for one that is to come */
export function ageOf(time: string, nowMs = Date.now()): string {
  const seconds = Math.floor((nowMs - Date.parse(time)) / 1_000);
  const [unit = 's', divisor = 1] = UNITS.find(([, divisor]) => Math.abs(seconds) >= 2 * divisor) ?? [];
  const count = Math.floor(Math.abs(seconds) / divisor);
  return seconds < 0 ? `in ${count} ${unit}` : `${count} ${unit} ago`;
}

const UNITS: readonly (readonly [string, number])[] = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
];
