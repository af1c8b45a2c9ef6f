/** Statistics over many rounds, and their texts. */

export interface Spread {
  readonly median: number;
  /** The quartiles: half of the rounds lie between them. */
  readonly low: number;
  readonly high: number;
}

/** @returns undefined if there are no numbers */
export function spreadOf(numbers: readonly number[]): Spread | undefined {
  if (numbers.length === 0) return undefined;
  const sorted = numbers.toSorted((a, b) => a - b);
  return { median: quantile(sorted, 0.5), low: quantile(sorted, 0.25), high: quantile(sorted, 0.75) };
}

export function medianOf(numbers: readonly number[]): number {
  return spreadOf(numbers)?.median ?? Number.NaN;
}

/** @param sorted ascending and not empty; positions between two numbers are interpolated */
export function quantile(sorted: readonly number[], share: number): number {
  const at = (sorted.length - 1) * share;
  const below = sorted[Math.floor(at)]!;
  const above = sorted[Math.ceil(at)]!;
  return below + (above - below) * (at - Math.floor(at));
}

/** Two significant digits, however small the ratio is: 1.26, 0.74, 0.0031. */
export function ratioText(ratio: number): string {
  if (!Number.isFinite(ratio)) return '–';
  return ratio >= 0.0995 ? ratio.toFixed(2) : ratio.toPrecision(2);
}

export function spreadText(spread: Spread | undefined): string {
  return spread === undefined ? '–' : `${ratioText(spread.low)} – ${ratioText(spread.high)}`;
}

/** 29872.3 → 29,872 */
export function countText(count: number): string {
  return Number.isFinite(count) ? Math.round(count).toLocaleString('en-US') : '–';
}

/** 1 round, 5 rounds */
export function countOf(count: number, noun: string): string {
  return `${countText(count)} ${noun}${count === 1 ? '' : 's'}`;
}

export function millisecondsText(ms: number): string {
  return Number.isFinite(ms) ? `${ms < 10 ? ms.toPrecision(2) : Math.round(ms)} ms` : '–';
}

export function microsecondsText(us: number): string {
  return Number.isFinite(us) ? `${us.toFixed(1)} µs` : '–';
}

export function mebibytesText(bytes: number): string {
  return Number.isFinite(bytes) ? `${Math.round(bytes / 1024 / 1024)} MiB` : '–';
}

/** A table as markdown, aligned so that it reads as text too. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) => Math.max(3, ...[head, ...rows].map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) => `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(' | ')} |`;
  return [line(head), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...rows.map(line)].join('\n');
}
