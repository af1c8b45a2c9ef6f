/**
 * Formats rows as a text table or as CSV. Values come from clients, so control characters are escaped for a terminal and formulas
 * are defused for a spreadsheet.
 */

import { printable } from '../telemetry/printable.ts';

export interface Column {
  readonly title: string;
  /** Minimum width in columns. A column with this member is never cut; other columns get narrower instead. */
  readonly whole?: number;
}

/** A table that is printed in pages, before the last row is known. The rows of the first page decide the column widths. */
export class Table {
  readonly #columns: readonly Column[];
  readonly #width: number;
  #widths: readonly number[] | undefined;

  /** @param width of the terminal, in columns */
  constructor(columns: readonly Column[], width: number) {
    this.#columns = columns;
    this.#width = width;
  }

  /** @returns the rows as lines with their newlines; the first call puts the titles before them */
  print(rows: readonly (readonly string[])[]): string {
    if (rows.length === 0) return '';
    // A cell may have a mebibyte of text. Only as much of it is processed as can be shown.
    const lengthMax = 2 * this.#width + NARROWEST;
    const cut = rows.map((row) => row.map((cell) => printable(cell.slice(0, lengthMax))));
    const isFirst = this.#widths === undefined;
    this.#widths ??= this.#layOut(cut);
    const titles = this.#columns.map(({ title }) => title);
    return (isFirst ? [titles, ...cut] : cut).map((row) => `${this.#line(row)}\n`).join('');
  }

  #line(row: readonly string[]): string {
    const cells = row.map((cell, at) => {
      const width = this.#widths?.[at] ?? 0;
      return this.#columns[at]?.whole === undefined ? fit(cell, width) : cell.padEnd(width);
    });
    return cells.join(GAP).trimEnd();
  }

  /** Narrows the widest column until all fit. The last column gets the width that is left. */
  #layOut(rows: readonly (readonly string[])[]): number[] {
    const widths = this.#columns.map(({ title, whole = 0 }, at) =>
      rows.reduce((most, row) => Math.max(most, widthOf(row[at] ?? '')), Math.max(title.length, whole)),
    );
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

/**
 * One CSV record (RFC 4180), protected against formula injection: a text that a spreadsheet would take for a formula gets an
 * apostrophe before it, which marks it as text. So does a part of a text that would begin a cell if semicolons or tabs were the
 * separators, as in many locales. A spreadsheet with such a separator treats quotes in the middle of a cell as text, and so
 * splits inside them, also at line ends.
 * @param cells undefined is an empty cell
 * @returns the record with CR LF at its end
 */
export function csvRecord(cells: readonly (string | number | boolean | undefined)[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`;
}

const GAP = '  ';
const NARROWEST = 6;
const FORMULA = /^(?:[\t\r\n]|[\s"]*[=+\-@＝＋－＠])/;
const BEGINS_FORMULA = /[=+\-@＝＋－＠]/;
/** A separator of some locale, and what a reader may skip after it. Nothing follows the `*`, so no text makes it backtrack. */
const OTHER_SEPARATOR = /[;\t\r\n][\s"]*/g;
const NEEDS_QUOTES = /[",;\t\r\n]/;
/** Combining marks, which are drawn over the character before them. */
const NO_WIDTH = /^[\p{Mn}\p{Me}]$/u;
/** Characters that take two columns: an approximation of Unicode's East Asian Width (UAX #11), and emoji. */
const TWO_WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}$/u;
const PLAIN = /^[\x20-\x7e]*$/;

function csvCell(cell: string | number | boolean | undefined): string {
  if (typeof cell !== 'string') return cell === undefined ? '' : String(cell);
  const inert = cell.replace(OTHER_SEPARATOR, (separator, at: number) =>
    BEGINS_FORMULA.test(cell.charAt(at + separator.length)) ? `${separator}'` : separator,
  );
  const text = FORMULA.test(cell) ? `'${inert}` : inert;
  return NEEDS_QUOTES.test(text) || text === '' ? `"${text.replaceAll('"', '""')}"` : text;
}

function characterWidth(character: string): number {
  if (NO_WIDTH.test(character)) return 0;
  return TWO_WIDE.test(character) ? 2 : 1;
}

function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += characterWidth(character);
  return width;
}

/** @returns the text with exactly this width in columns: padded with spaces, or cut with an ellipsis */
function fit(text: string, width: number): string {
  const own = widthOf(text);
  if (own <= width) return text + ' '.repeat(width - own);
  let kept = '';
  let left = width - 1;
  for (const character of text) {
    left -= characterWidth(character);
    if (left < 0) return `${kept}…${' '.repeat(left + characterWidth(character))}`;
    kept += character;
  }
  return kept;
}
