/** The comparison as an SVG that needs nothing: no script, no font of its own, legible on light and on dark. */

import { ratioText } from './figures.ts';

export interface Bar {
  readonly name: string;
  /** Undefined where a figure is void. */
  readonly ratio: number | undefined;
  readonly low: number;
  readonly high: number;
}

export interface Chart {
  readonly title: string;
  /** What the numbers are. */
  readonly axis: string;
  readonly groups: readonly { readonly label: string; readonly bars: readonly Bar[] }[];
  /** The name of the bars that the chart is about. */
  readonly emphasis: string;
  readonly caption: readonly string[];
}

const WIDTH = 840;
const LEFT = 252;
const RIGHT = 64;
const TOP = 66;
const ROW = 21;
const BAR = 13;
const GROUP_HEAD = 30;
const AXIS = 52;
const CAPTION_LINE = 16;
/** The least that is drawn of a bar: a trace that says where its number belongs. */
const BAR_WIDTH_MIN = 1.5;

const STYLE = `
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .paper { fill: #ffffff; }
  .title { font-size: 17px; font-weight: 600; }
  .group { font-weight: 600; }
  .quiet { fill: #59636e; font-size: 12px; }
  .grid { stroke: #d1d9e0; }
  .ceiling { stroke: #59636e; stroke-dasharray: 4 3; }
  .value { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round; }
  .bar { fill: #9aa7b4; }
  .range { stroke: #59636e; stroke-width: 1.5; }
  .own .bar { fill: #1f6feb; }
  .own text { font-weight: 600; }
  .own .range { stroke: #0b3d91; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .paper { fill: #0d1117; }
    .quiet { fill: #9198a1; }
    .grid { stroke: #2f363d; }
    .ceiling, .range { stroke: #b1bac4; }
    .value { stroke: #0d1117; }
    .bar { fill: #57606a; }
    .own .bar { fill: #4493f8; }
    .own .range { stroke: #cae0ff; }
  }`;

export function drawChart(chart: Chart): string {
  const max = axisMax(chart.groups.flatMap(({ bars }) => bars));
  const rows = chart.groups.reduce((sum, { bars }) => sum + GROUP_HEAD + bars.length * ROW, 0);
  const bottom = TOP + rows + 8;
  const height = bottom + AXIS + chart.caption.length * CAPTION_LINE + 10;
  const body = [
    `<rect class="paper" width="${WIDTH}" height="${height}" rx="6"/>`,
    text(24, 34, chart.title, 'title'),
    ...axis(max, bottom),
    text(place(max / 2, max), bottom + 38, chart.axis, 'quiet', 'middle'),
    ...groups(chart, max),
    ...chart.caption.map((line, index) => text(24, bottom + AXIS + 10 + index * CAPTION_LINE, line, 'quiet')),
  ];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<title>${escapeText(chart.title)}</title>`,
    `<style>${STYLE}\n</style>`,
    ...body,
    '</svg>',
    '',
  ].join('\n');
}

/** @returns the first quarter at or above everything that is drawn, and above the ceiling at 1 */
export function axisMax(bars: readonly Bar[]): number {
  const highest = Math.max(1, ...bars.map(({ ratio, high }) => (ratio === undefined ? 0 : high)));
  return Math.ceil(highest * 4) / 4;
}

/** @returns where a ratio is, from the left edge of the picture */
export function place(ratio: number, max: number): number {
  return LEFT + ((WIDTH - LEFT - RIGHT) * ratio) / max;
}

function axis(max: number, bottom: number): string[] {
  const step = max > 2 ? 0.5 : 0.25;
  const steps = Array.from({ length: Math.floor(max / step) + 1 }, (_, index) => index * step);
  return [
    ...steps.flatMap((ratio) => [
      ratio === 1 ? '' : line('grid', place(ratio, max), TOP - 8, place(ratio, max), bottom),
      text(place(ratio, max), bottom + 18, String(ratio), 'quiet', 'middle'),
    ]),
    line('ceiling', place(1, max), TOP - 8, place(1, max), bottom),
    text(place(1, max), TOP - 13, 'bare = 1', 'quiet', 'middle'),
  ].filter((element) => element !== '');
}

function groups({ groups, emphasis }: Chart, max: number): string[] {
  const elements: string[] = [];
  let y = TOP;
  for (const { label, bars } of groups) {
    elements.push(text(24, y + 20, label, 'group'));
    y += GROUP_HEAD;
    for (const bar of bars) {
      elements.push(`<g${bar.name === emphasis ? ' class="own"' : ''}>`, ...drawBar(bar, y, max), '</g>');
      y += ROW;
    }
  }
  return elements;
}

function drawBar({ name, ratio, low, high }: Bar, y: number, max: number): string[] {
  const middle = y + ROW / 2;
  const label = text(LEFT - 10, middle + 4.5, name, '', 'end');
  if (ratio === undefined) return [label, text(LEFT + 6, middle + 4.5, 'void', 'quiet')];
  const width = Math.max(BAR_WIDTH_MIN, place(ratio, max) - LEFT);
  const end = Math.max(LEFT + width, place(high, max));
  return [
    label,
    `<rect class="bar" x="${LEFT}" y="${round(middle - BAR / 2)}" width="${round(width)}" height="${BAR}"/>`,
    line('range', place(low, max), middle, place(high, max), middle),
    text(end + 6, middle + 4.5, ratioText(ratio), 'value'),
  ];
}

function line(name: string, x1: number, y1: number, x2: number, y2: number): string {
  return `<line class="${name}" x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}"/>`;
}

function text(x: number, y: number, content: string, name = '', anchor = ''): string {
  const attributes = `${name && ` class="${name}"`}${anchor && ` text-anchor="${anchor}"`}`;
  return `<text x="${round(x)}" y="${round(y)}"${attributes}>${escapeText(content)}</text>`;
}

function round(length: number): number {
  return Math.round(length * 10) / 10;
}

function escapeText(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
