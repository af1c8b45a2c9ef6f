/** Explains the first mistake of a text that is not JSON, with line and column, for its author. */

/**
 * A text that is not JSON, is nested too deeply or has too many members. `message` is a clause without the position.
 */
export class JsonError extends Error {
  /** The line of the mistake, from `1`. Lines end at a line feed. */
  readonly line: number;
  /** The column of the mistake in its line, from `1`, in code points. */
  readonly column: number;

  /** @param offset of the mistake in `text`, from 0, in UTF-16 code units */
  constructor(problem: string, text: string, offset: number) {
    super(problem);
    const { line, column } = positionAt(text, offset);
    this.line = line;
    this.column = column;
  }
}

/** Literals of other languages that are not JSON, each with its replacement. */
const USUAL_MISTAKES: ReadonlyMap<string, string> = new Map([
  ['True', 'JSON writes true in lower case'],
  ['TRUE', 'JSON writes true in lower case'],
  ['False', 'JSON writes false in lower case'],
  ['FALSE', 'JSON writes false in lower case'],
  ['None', 'JSON writes null for "no value"'],
  ['NULL', 'JSON writes null in lower case'],
  ['Null', 'JSON writes null in lower case'],
  ['nil', 'JSON writes null for "no value"'],
  ['undefined', 'JSON writes null for "no value"'],
  ['NaN', 'JSON has no NaN; send null or a string'],
  ['nan', 'JSON has no NaN; send null or a string'],
  ['Infinity', 'JSON has no Infinity; send null or a string'],
  ['inf', 'JSON has no Infinity; send null or a string'],
]);

/** @returns the mistake at `at`, where a value should start */
export function mistakeInValue(text: string, at: number): string {
  if (at >= text.length) return 'the text ends where a value should be';
  const first = text[at];
  const word = wordAt(text, first === '-' || first === '+' ? at + 1 : at);
  if (word !== '') {
    const mistake = USUAL_MISTAKES.get(word);
    return `${word} is not a JSON value${mistake === undefined ? '; a string needs double quotes' : `: ${mistake}`}`;
  }
  if (first === '+') return 'a number cannot start with +; remove it';
  if (first === '.') return 'a number cannot start with a decimal point; write 0 before it';
  return mistakeInQuote(text, at, 'a value');
}

/**
 * @param opened the offset at which the object starts
 * @returns the mistake at `at`, where the name of a member should start
 */
export function mistakeInName(text: string, at: number, opened: number): string {
  if (at >= text.length) return mistakeAtEnd('an object', text, opened);
  const word = wordAt(text, at);
  return word === ''
    ? mistakeInQuote(text, at, 'a member name in double quotes')
    : `the member name ${word} needs double quotes`;
}

/** @returns the mistake at `at` in a string, where there is neither its end nor a valid character or escape */
export function mistakeInString(text: string, at: number): string {
  const code = text.charCodeAt(at);
  if (text[at] !== '\\') {
    const escaped = JSON.stringify(text.charAt(at)).slice(1, -1);
    return `unescaped control character ${codePointName(code)} in a string; write it as ${escaped}`;
  }
  const letter = text.charAt(at + 1);
  if (letter === '') return 'the text ends inside a string';
  if (letter === 'u') return '\\u needs exactly four hexadecimal digits';
  return `JSON knows no escape \\${printable(letter)} in a string; a backslash itself is \\\\`;
}

/** Whether a text is UTF-16, as written by PowerShell: it starts with a byte order mark, or an ASCII character in two bytes. */
export function isUtf16(bytes: Uint8Array): boolean {
  const [first, second] = [bytes[0]!, bytes[1]!];
  return bytes.length > 1 && (first + second === 0xff + 0xfe || (first === 0) !== (second === 0));
}

/** @param opened the offset at which the object or array starts, if the message is to contain it */
export function mistakeAtEnd(inside: string, text: string, opened?: number): string {
  if (opened === undefined) return `the text ends inside ${inside}`;
  const { line, column } = positionAt(text, opened);
  return `the text ends inside ${inside} that started at line ${line}, column ${column}`;
}

/** @returns the character at `at`, escaped for printing on one line */
export function shownAt(text: string, at: number): string {
  const code = text.codePointAt(at);
  return code === undefined ? 'the end' : printable(String.fromCodePoint(code));
}

function mistakeInQuote(text: string, at: number, expected: string): string {
  const shown = shownAt(text, at);
  if (shown === "'") return 'single quotes; JSON strings are written in double quotes';
  if (/^[\u201c-\u201f\u2018-\u201b\u00ab\u00bb`]$/.test(shown)) {
    return `typographic quote ${shown}; JSON strings are written in straight double quotes`;
  }
  if (shown === '/' || shown === '#') return 'JSON has no comments; remove it';
  return `expected ${expected}, found ${shown}`;
}

/** @returns the identifier at `at`, cut to 31 characters: enough to recognise a common mistake */
function wordAt(text: string, at: number): string {
  return /^[A-Za-z_$][A-Za-z0-9_$]{0,30}/.exec(text.slice(at, at + 32))?.[0] ?? '';
}

function positionAt(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf('\n') + 1;
  let line = 1;
  for (let at = before.indexOf('\n'); at !== -1; at = before.indexOf('\n', at + 1)) line += 1;
  let column = 1;
  for (const _ of before.slice(lineStart)) column += 1;
  return { line, column };
}

function printable(character: string): string {
  const code = character.codePointAt(0) as number;
  return /^[\p{L}\p{M}\p{N}\p{P}\p{S}]$/u.test(character) ? character : codePointName(code);
}

function codePointName(code: number): string {
  return `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
}
