/** Plots of an asset over time, drawn as SVG: a number, the results of a check, or days. Positions are in percent, so all sizes fit. */

import { historyLimits } from '../../../config/limits.ts';
import type { CheckSeries, Day, NumberSeries } from '../../../history/history.ts';
import type { CheckOutcome, PastEvent } from '../../../history/past-event.ts';
import { placeOn, scaleOf } from '../../../history/scale.ts';
import {
  checkSentence,
  daysSentence,
  dayText,
  momentText,
  numberSentence,
  pointText,
  resultText,
} from '../../../history/words.ts';
import { type Content, element } from './dom.ts';

/** The description of a drawn plot. */
interface Drawing {
  /** The sentence for a screen reader. */
  readonly sentence: string;
  readonly heightPx: number;
  readonly shapes: readonly SVGElement[];
  /** In the order of the arrow keys. */
  readonly marks: readonly Mark[];
}

/** A point of a plot that the pointer and the arrow keys can reach. */
interface Mark {
  /** In percent of the width. */
  readonly x: number;
  readonly yPx: number;
  readonly text: string;
  /** Does not change when the plot is drawn again. */
  readonly id: number | string;
  /** The seq of the event that a click opens; undefined if there is none. */
  readonly seq: number | undefined;
}

/** A figure that remains the same element when it is drawn again, so that focus and pointer remain on it. */
export class Plot {
  readonly element: HTMLElement;
  readonly #caption = element('figcaption');
  #captioned = '';
  readonly #svg = svg('svg', { role: 'slider', tabindex: '0', 'aria-valuemin': '1' });
  readonly #marker = svg('circle', { class: 'marker', r: '6' });
  readonly #said = element('p', { class: 'said', hidden: '' });
  #marks: readonly Mark[] = [];
  /** The index of the mark that is pointed at. */
  #active = -1;
  #drawn = '';

  /** @param open shows the event with a seq */
  constructor(open: (seq: number) => void) {
    this.element = element('figure', {}, this.#caption, this.#svg, this.#said);
    this.#svg.addEventListener('pointermove', (event) => this.#point(this.#nearest(event)));
    this.#svg.addEventListener('pointerleave', () => this.#point(-1));
    this.#svg.addEventListener('blur', () => this.#point(-1));
    const openActive = () => {
      const seq = this.#marks[this.#active]?.seq;
      if (seq !== undefined) open(seq);
    };
    this.#svg.addEventListener('click', (event) => {
      if (event.detail > 0) this.#point(this.#nearest(event));
      openActive();
    });
    this.#svg.addEventListener('keydown', (event) => {
      const last = this.#marks.length - 1;
      const at = this.#active === -1 ? last + 1 : this.#active;
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
      if (to !== undefined) this.#point(Math.min(Math.max(to, 0), last));
      else if (event.key === 'Enter') openActive();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  /** @param key a text that changes only if the caption changes */
  setCaption(key: string, caption: readonly Content[]): void {
    if (key === this.#captioned) return;
    this.#captioned = key;
    this.#caption.replaceChildren(...caption);
  }

  /** @param key a text that changes only if the drawing changes */
  draw(key: string, make: () => Drawing): void {
    if (key === this.#drawn) return;
    this.#drawn = key;
    const pointed = this.#marks[this.#active]?.id;
    const { sentence, heightPx, shapes, marks } = make();
    this.#marks = marks;
    this.#svg.replaceChildren(...shapes, this.#marker);
    set(this.#svg, { height: `${heightPx}`, 'aria-label': sentence, 'aria-valuemax': `${marks.length}` });
    this.#point(pointed === undefined ? -1 : marks.findIndex(({ id }) => id === pointed));
  }

  #point(index: number): void {
    this.#active = index;
    const mark = this.#marks[index];
    const { x, yPx, text } = mark ?? { x: 0, yPx: 0, text: '' };
    this.#said.textContent = text;
    this.#said.hidden = mark === undefined;
    set(this.#marker, { cx: `${x}%`, cy: `${yPx}`, visibility: mark === undefined ? 'hidden' : 'visible' });
    const last = this.#marks.length;
    const said = mark ?? this.#marks.at(-1);
    set(this.#svg, { 'aria-valuenow': `${mark === undefined ? last : index + 1}`, 'aria-valuetext': said?.text ?? '' });
  }

  #nearest({ clientX, clientY }: MouseEvent): number {
    const { left, top, width } = this.#svg.getBoundingClientRect();
    const far = ({ x, yPx }: Mark) => {
      const row = Math.abs(yPx - (clientY - top)) > ROW_PX ? 1e6 : 0; // for a strip with several rows
      return row + Math.abs((x / 100) * width - (clientX - left));
    };
    const least = this.#marks.reduce((best, mark) => Math.min(best, far(mark)), Number.POSITIVE_INFINITY);
    return this.#marks.findIndex((mark) => far(mark) === least);
  }
}

/** @returns a line with a point for each value, a gap for a value that is not a number, and a scale */
export function drawNumber(series: NumberSeries): Drawing {
  const { points } = series;
  const values = points.flatMap(({ value = [] }) => value);
  const scale = scaleOf(values.length === 0 ? [0] : values); // there is no value if all are too large for a double
  const times = points.map(({ event }) => event.atMs);
  const [from = 0, to = 0] = [times[0], times.at(-1)];
  const yOf = (value: number) => BOTTOM_PX - placeOn(scale, value) * (BOTTOM_PX - TOP_PX);
  const marks = points.map((point) => ({
    x: LEFT + (from === to ? 0.5 : (point.event.atMs - from) / (to - from)) * (100 - LEFT - 1),
    yPx: yOf(point.value ?? scale.low),
    text: pointText(point),
    id: point.event.seq,
    seq: point.event.seq,
  }));
  const shapes: SVGElement[] = scale.ticks.flatMap(({ value, text }) => {
    const y = `${yOf(value)}`;
    return [svg('line', { class: 'grid', x1: '0', x2: '100%', y1: y, y2: y }), label({ x: '0', y, dy: '-3' }, text)];
  });
  let path = '';
  let isGap = true;
  for (const [index, { value }] of points.entries()) {
    const { x, yPx } = marks[index] as Mark;
    if (value !== undefined) path += `${isGap ? 'M' : 'L'}${x.toFixed(2)} ${yPx.toFixed(2)}`;
    isGap = value === undefined;
  }
  const stretched = {
    viewBox: `0 0 100 ${HEIGHT_PX}`,
    preserveAspectRatio: 'none',
    width: '100%',
    height: `${HEIGHT_PX}`,
  };
  shapes.push(svg('svg', stretched, svg('path', { class: 'line', d: path, 'vector-effect': 'non-scaling-stroke' })));
  for (const [index, { value }] of points.entries()) {
    const { x, yPx } = marks[index] as Mark;
    const kind = value === undefined ? 'other' : 'point';
    shapes.push(svg('circle', { class: kind, cx: `${x.toFixed(2)}%`, cy: yPx.toFixed(2), r: '2' }));
  }
  return {
    sentence: numberSentence(series),
    heightPx: HEIGHT_PX,
    shapes: [...shapes, ...ends(momentText(from).slice(5, 16), from === to ? '' : momentText(to).slice(5, 16))],
    marks,
  };
}

/** @returns a strip of results, the newest at its end: a dot is a pass, a triangle a warning, a bar a failure */
export function drawCheck(check: CheckSeries, shown: readonly PastEvent[], hasAll: boolean): Drawing {
  const columns = historyLimits.results;
  const rows = Math.ceil(shown.length / columns);
  const marks = shown.map((event, index) => {
    const slot = rows * columns - shown.length + index;
    return {
      x: (((slot % columns) + 0.5) * 100) / columns,
      yPx: (Math.floor(slot / columns) + 0.5) * ROW_PX,
      text: resultText(event),
      id: event.seq,
      seq: event.seq,
    };
  });
  const shapes = marks.map(({ x, yPx }, index) => {
    const outcome = shown[index]?.outcome ?? 'failed';
    return svg(
      'svg',
      { x: `${x}%`, y: `${yPx}`, overflow: 'visible' },
      svg('path', { class: outcome, d: SHAPES[outcome] }),
    );
  });
  return { sentence: checkSentence(check, shown, hasAll), heightPx: rows * ROW_PX, shapes, marks };
}

/** @returns a bar for each day, a frame for a day without events, and nothing for a day that was not read */
export function drawDays(days: readonly Day[]): Drawing {
  const most = Math.max(1, ...days.map(({ count }) => count));
  const width = 100 / days.length;
  const marks = days.map((day, index) => ({
    x: (index + 0.5) * width,
    yPx: BASE_PX,
    text: dayText(day),
    id: day.date,
    seq: day.last?.seq,
  }));
  const shapes = days.flatMap(({ count, isKnown }, index) => {
    if (count === 0 && !isKnown) return [];
    const height = count === 0 ? 8 : 4 + (count / most) * (BASE_PX - 8);
    const x = { x: `${(index + 0.15) * width}%`, width: `${0.7 * width}%` };
    return [svg('rect', { class: count === 0 ? 'hole' : 'day', ...x, y: `${BASE_PX - height}`, height: `${height}` })];
  });
  const labels = ends(days[0]?.date.slice(5) ?? '', days.at(-1)?.date.slice(5) ?? '', DAYS_PX);
  return { sentence: daysSentence(days), heightPx: DAYS_PX, shapes: [...shapes, ...labels], marks };
}

const HEIGHT_PX = 120;
const [TOP_PX, BOTTOM_PX] = [16, 98];
/** The space for the texts of the scale, in percent of the width. */
const LEFT = 14;
const ROW_PX = 22;
const DAYS_PX = 72;
const BASE_PX = 54;
const SHAPES: Readonly<Record<CheckOutcome, string>> = {
  passed: 'M-2.2 0a2.2 2.2 0 1 0 4.4 0a2.2 2.2 0 1 0 -4.4 0',
  warning: 'M-3.2 4.5h6.4l-3.2 -8z',
  failed: 'M-2.2 -9h4.4v18h-4.4z',
};

/** @returns the texts at both ends of the time axis */
function ends(from: string, to: string, heightPx = HEIGHT_PX): SVGElement[] {
  const y = `${heightPx - 4}`;
  return [label({ x: '0', y }, from), label({ x: '100%', y, 'text-anchor': 'end' }, to)];
}

function label(attributes: Readonly<Record<string, string>>, text: string): SVGElement {
  return svg('text', attributes, text);
}

function svg<Name extends keyof SVGElementTagNameMap>(
  name: Name,
  attributes: Readonly<Record<string, string>>,
  ...content: readonly Content[]
): SVGElementTagNameMap[Name] {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  set(made, attributes);
  made.append(...content);
  return made;
}

function set(to: Element, attributes: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(attributes)) to.setAttribute(name, value);
}
