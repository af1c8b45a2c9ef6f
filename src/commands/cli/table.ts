/** Formats rows as a text table. Values come from clients, so control characters are escaped for a terminal. */

import { printable } from '../../telemetry/printable.ts';

/** The part of a text that is shown if it is too long: `start` gives `wareho…`, `end` gives `…orders`. */
type ShownPart = 'start' | 'end';

export interface Column {
  readonly title: string;
  /** Minimum width in terminal columns. A column with this member is never cut; other columns get narrower instead. */
  readonly whole?: number;
  /** The part of a value that is shown if the column is too narrow; the start by default. */
  readonly shownPart?: ShownPart;
}

/**
 * A table that is printed in pages, before the last row is known. If a later page needs a wider column, the column becomes wider,
 * and the rows from there on are aligned with each other. Rows that can be read twice are first passed to `widen`, so that all rows
 * are aligned. On a terminal that is too narrow each value is printed on a separate line.
 */
export class Table {
  readonly #columns: readonly Column[];
  readonly #width: number;
  readonly #isStacked: boolean;
  /** For each column, the width of its widest cell before cutting; at most the width of the terminal. */
  #wanted: number[];
  #widths: readonly number[] = [];
  #isFirst = true;

  /** @param width the width of the terminal in columns; `PIPE_COLUMNS` for a pipe */
  constructor(columns: readonly Column[], width: number = PIPE_COLUMNS) {
    this.#columns = columns;
    this.#width = width;
    const needed = columns.reduce((sum, { whole = NARROWEST }) => sum + whole + GAP.length, -GAP.length);
    this.#isStacked = width < Math.max(SIDE_BY_SIDE_MIN, needed);
    this.#wanted = columns.map(({ title, whole = 0 }) => Math.max(widthOf(title), whole));
  }

  /** @returns the rows as lines with their newlines; the first call puts the titles before them */
  print(rows: readonly (readonly string[])[]): string {
    if (rows.length === 0) return '';
    const cells = this.#cellsOf(rows);
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    if (this.#isStacked) return this.#stack(cells, isFirst);
    this.#grow(cells, isFirst);
    const titles = this.#columns.map(({ title }) => title);
    return (isFirst ? [titles, ...cells] : cells).map((row) => `${this.#line(row)}\n`).join('');
  }

  /**
   * Makes the columns as wide as rows require that are printed later, so that these rows and the rows before them are
   * aligned.
   */
  widen(rows: readonly (readonly string[])[]): void {
    this.#grow(this.#cellsOf(rows), true);
  }

  #cellsOf(rows: readonly (readonly string[])[]): string[][] {
    // A cell can have a mebibyte of text. Only the part that can be shown is processed.
    const lengthMax = STACKED_LINES_MAX * this.#width + NARROWEST;
    return rows.map((row) => row.map((cell) => printable(cell.slice(0, lengthMax))));
  }

  /** One line for each value that is not empty, and an empty line between two rows. */
  #stack(rows: readonly (readonly string[])[], isFirst: boolean): string {
    const titleWidth = Math.max(...this.#columns.map(({ title }) => widthOf(title)));
    const blocks = rows.map((row) =>
      this.#columns
        .map(({ title }, at) => ({ title, cell: row[at] ?? '' }))
        .filter(({ cell }) => cell !== '')
        .map(({ title, cell }) => `${fitTo(title, titleWidth)}${GAP}${cutTo(cell, STACKED_LINES_MAX * this.#width)}\n`)
        .join(''),
    );
    return `${isFirst ? '' : '\n'}${blocks.join('\n')}`;
  }

  #line(row: readonly string[]): string {
    const cells = row.map((cell, at) => {
      const width = this.#widths[at] ?? 0;
      const { whole, shownPart } = this.#columns[at]!;
      return whole === undefined ? fitTo(cell, width, shownPart) : cell.padEnd(width);
    });
    return cells.join(GAP).trimEnd();
  }

  /**
   * Widens the columns that require it. After the first page this happens in steps, so that a followed table does not move
   * at each row.
   */
  #grow(rows: readonly (readonly string[])[], isFirst: boolean): void {
    const step = isFirst ? 1 : GROWTH_COLUMNS;
    this.#wanted = this.#wanted.map((wanted, at) => {
      const needed = rows.reduce((most, row) => Math.max(most, widthOf(row[at] ?? '')), 0);
      return needed <= wanted ? wanted : Math.min(this.#width, Math.ceil(needed / step) * step);
    });
    this.#widths = this.#layOut([...this.#wanted]);
  }

  /** Narrows the widest column until all fit. The last column gets the width that is left. */
  #layOut(widths: number[]): number[] {
    const flexible = [...widths.keys()].filter((at) => this.#columns[at]?.whole === undefined);
    let left = this.#width - widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1));
    for (; left < 0; left += 1) {
      const widest = flexible.reduce((most, at) => (widths[at]! > widths[most]! ? at : most));
      if (widths[widest]! <= NARROWEST) break;
      widths[widest]! -= 1;
    }
    widths[widths.length - 1]! += Math.max(0, left);
    return widths;
  }
}

/** Each character counts as one column of a terminal. */
function widthOf(text: string): number {
  return Array.from(text).length;
}

/** Cuts a text that is wider than `widthMax` columns. */
function cutTo(text: string, widthMax: number, shownPart: ShownPart = 'start'): string {
  const characters = Array.from(text);
  if (characters.length <= widthMax) return text;
  if (shownPart === 'end') return `…${characters.slice(1 - widthMax).join('')}`;
  return `${characters.slice(0, widthMax - 1).join('')}…`;
}

/** @returns the text, cut or padded with spaces to exactly `width` columns */
function fitTo(text: string, width: number, shownPart?: ShownPart): string {
  const cut = cutTo(text, width, shownPart);
  return cut + ' '.repeat(width - widthOf(cut));
}

/** @returns a time to the second, as tables show it: `2026-11-20 15:19:45` for `2026-11-20T15:19:45.266Z` */
export function secondOf(time: string): string {
  return time.slice(0, 19).replace('T', ' ');
}

/** @returns a time to the minute: `2026-11-20 15:19` */
export function minuteOf(time: string): string {
  return time.slice(0, 16).replace('T', ' ');
}

/** Width of a table that goes into a pipe, since the width of the final display is unknown. */
export const PIPE_COLUMNS = 120;
const GAP = '  ';
/** Minimum width of a column that can be cut, in terminal columns. */
const NARROWEST = 6;
/** On a terminal with fewer columns each value is printed on a separate line. */
const SIDE_BY_SIDE_MIN = 80;
/** Maximum lines of one value on a narrow terminal. */
const STACKED_LINES_MAX = 3;
const GROWTH_COLUMNS = 4;
