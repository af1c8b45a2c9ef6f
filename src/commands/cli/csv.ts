/** CSV records. Values come from clients, so formulas are made harmless for spreadsheets. */

/**
 * Formats one CSV record (RFC 4180), protected against formula injection: a text that a spreadsheet would read as a formula gets
 * a leading apostrophe, which marks it as text. So does a part of a text that would start a cell if semicolons or tabs were the
 * separators, as in many locales. A spreadsheet with such a separator treats quotes in the middle of a cell as text, so it splits
 * inside them, even at line ends.
 * @param cells undefined is an empty cell
 * @returns the record with CR LF at its end: `7,"a,b",,'=1+1\r\n` for `[7, 'a,b', undefined, '=1+1']`
 */
export function csvRecord(cells: readonly (string | number | boolean | undefined)[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`;
}

const FORMULA = /^(?:[\t\r\n]|[\s"]*[=+\-@＝＋－＠])/;
const STARTS_FORMULA = /[=+\-@＝＋－＠]/;
/**
 * A separator of some locale, and the characters that a reader might skip after it. Nothing follows the `*`, so the expression never
 * backtracks.
 */
const OTHER_SEPARATOR = /[;\t\r\n][\s"]*/g;
const NEEDS_QUOTES = /[",;\t\r\n]/;

function csvCell(cell: string | number | boolean | undefined): string {
  if (typeof cell !== 'string') return cell === undefined ? '' : String(cell);
  const inert = cell.replace(OTHER_SEPARATOR, (separator, at: number) =>
    STARTS_FORMULA.test(cell.charAt(at + separator.length)) ? `${separator}'` : separator,
  );
  const text = FORMULA.test(cell) ? `'${inert}` : inert;
  return NEEDS_QUOTES.test(text) || text === '' ? `"${text.replaceAll('"', '""')}"` : text;
}
