/** Rows of text for a person, and for a spreadsheet. What outsiders sent can neither steer a terminal nor become a formula. */

import { printable } from '../telemetry/printable.ts';

export interface Column {
  readonly title: string;
  /** Never cut; other columns give way. Its cells are at least so wide. */
  readonly whole?: number;
}

/** A table that begins to be printed before its last row is known: the first rows decide how wide the columns are. */
export class Table {
  readonly #columns: readonly Column[];
  readonly #width: number;
  #widths: readonly number[] | undefined;

  /** @param width of the terminal */
  constructor(columns: readonly Column[], width: number) {
    this.#columns = columns;
    this.#width = width;
  }

  /** @returns lines with their newlines, and before the first of all the titles */
  print(rows: readonly (readonly string[])[]): string {
    if (rows.length === 0) return '';
    // Of a mebibyte of text no more is looked at than can be shown.
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

  /** Takes from the widest column until all fit; the last one gets what is left. */
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
 * One record of RFC 4180. A text with which a spreadsheet would begin to calculate gets an apostrophe before it, which is what
 * spreadsheets take for "this is text". So does a part of a text that would begin a cell if semicolons or tabs separated them, as
 * they do in many locales: such a reader takes quotes in the middle of its cell for text, and splits inside of them, also at line ends.
 * @param cells undefined is an empty cell
 */
export function csvRecord(cells: readonly (string | number | boolean | undefined)[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`;
}

const GAP = '  ';
const NARROWEST = 6;
const FORMULA = /^(?:[\t\r\n]|[\s"]*[=+\-@＝＋－＠])/;
const BEGINS_FORMULA = /[=+\-@＝＋－＠]/;
/** A separator of some locale, and what a reader may skip after it. Without a condition at its end, so that no text makes it slow. */
const OTHER_SEPARATOR = /[;\t\r\n][\s"]*/g;
const NEEDS_QUOTES = /[",;\t\r\n]/;
/** Written over the character before them. */
const NO_WIDTH = /^[\p{Mn}\p{Me}]$/u;
/** East Asian characters and emoji take two columns: an approximation of Unicode's East Asian Width. */
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

/** Exactly so wide: padded, or cut with an ellipsis. */
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
