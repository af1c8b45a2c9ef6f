/** The scale of a plot: steps of 1, 2 or 5 times a power of ten, and the texts of its ticks. */

export interface Scale {
  readonly low: number;
  readonly high: number;
  /** From low to high. There is one tick if all values are the same. */
  readonly ticks: readonly Tick[];
}

export interface Tick {
  readonly value: number;
  /** The text for a person: `2.5M`, `0.02`, `3E20`. */
  readonly text: string;
}

/**
 * @param values at least one; all are finite @returns the scale with the smallest steps such that at most `STEPS_MAX`
 * cover all values
 */
export function scaleOf(values: readonly number[]): Scale {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const size = Math.max(Math.abs(low), Math.abs(high));
  // If the values are closer to each other than this, ticks between them would show the rounding error of a double.
  if (high - low <= size * 1e-13) return { low, high: low, ticks: [{ value: low, text: textOf(low, size, 6) }] };
  const rough = high / STEPS_MAX - low / STEPS_MAX;
  const exponent = Math.floor(Math.log10(rough));
  const least = values.every(Number.isInteger) ? 1 : 0;
  const steps = [1, 2, 5, 10, 20].map((factor) => Math.max(least, Number(`${factor}e${exponent}`)));
  const step = steps.find((one) => Math.ceil(high / one) - Math.floor(low / one) <= STEPS_MAX) ?? 0;
  const [first, last] = [Math.floor(low / step), Math.ceil(high / step)];
  const ends = [first * step, last * step];
  const tickAt = (digits: number) => (value: number) => ({ value, text: textOf(value, size, digits) });
  if (!ends.every(Number.isFinite)) return { low, high, ticks: [low, high].map(tickAt(3)) };
  const digits = Math.floor(Math.log10(size)) - Math.floor(Math.log10(step)) + 2;
  const all = Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
  return { low: first * step, high: last * step, ticks: all.map(tickAt(digits)) };
}

/** @returns where a value is on the scale: 0 at the low end, 1 at the high end, 0.5 if both are the same */
export function placeOn({ low, high }: Pick<Scale, 'low' | 'high'>, value: number): number {
  const place = (value / 2 - low / 2) / (high / 2 - low / 2); // divided by two, since the difference of two doubles can be infinite
  return Number.isFinite(place) ? Math.min(1, Math.max(0, place)) : 0.5;
}

/** @param size the size of the largest value of the scale, so that all its texts have the same form */
function textOf(value: number, size: number, digits: number): string {
  if (value === 0) return '0';
  const notation = size >= 1e15 || size < 1e-3 ? 'scientific' : size >= 1e4 ? 'compact' : 'standard';
  return value.toLocaleString('en', { notation, maximumSignificantDigits: Math.min(15, digits) });
}

const STEPS_MAX = 4;
