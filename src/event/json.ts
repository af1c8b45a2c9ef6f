/**
 * A lossless JSON parser (RFC 8259). `JSON.parse` followed by `JSON.stringify` rounds 2^53+1, turns 1e400 into null and
 * 1.0 into 1, and drops repeated members, but a report has to be recorded as it was sent. This parser therefore checks the
 * grammar and keeps the text of each value, without the white space between tokens.
 *
 * Its errors have the line and column, and name common mistakes such as `True` for `true`.
 */

import { cutShort, JsonError, mistakeInName, mistakeInString, mistakeInValue, shownAt } from './json-mistakes.ts';

/** RFC 8259 section 3, with true and false as one kind. */
export type JsonKind = 'null' | 'boolean' | 'number' | 'string' | 'array' | 'object';

export interface Json {
  readonly kind: JsonKind;
  /** As sent, without the white space between tokens. */
  readonly text: string;
}

/**
 * Parses a text that is one JSON value.
 * @param depthMax how deep arrays and objects may nest; one that contains no other has depth 1
 * @throws JsonError if the text is not JSON or nests deeper
 */
export function readJson(text: string, depthMax: number): Json {
  const reader = new Reader(text, depthMax);
  reader.skipSpace();
  const value = reader.takeValue();
  reader.end();
  return value;
}

/**
 * Parses an object into its members. The last value of a repeated name is used (RFC 8259 section 4 leaves it open).
 * @param depthMax how deep arrays and objects may nest; the object itself has depth 1
 * @param countMax how many members it may have; each occurrence of a repeated name counts
 * @returns undefined if the text is JSON but not an object
 * @throws JsonError if the text is not JSON, nests deeper or has more members
 */
export function readMembers(text: string, depthMax: number, countMax: number): Map<string, Json> | undefined {
  const reader = new Reader(text, depthMax, countMax);
  if (!reader.beginsWith(OPEN_BRACE)) return undefined;
  const members = new Map<string, Json>();
  reader.object(members);
  reader.end();
  return members;
}

/**
 * Parses an array of objects into the members of each.
 * @param depthMax how deep arrays and objects may nest; the array itself has depth 1
 * @param membersMax how many members one object may have
 * @param elementsMax how many elements the array may have
 * @returns for each element its members, undefined for one that is not an object; undefined if the text is JSON but not an array
 * @throws JsonError
 */
export function readObjects(
  text: string,
  depthMax: number,
  membersMax: number,
  elementsMax: number,
): (Map<string, Json> | undefined)[] | undefined {
  const reader = new Reader(text, depthMax, membersMax);
  if (!reader.beginsWith(OPEN_BRACKET)) return undefined;
  const objects = reader.objects(elementsMax);
  reader.end();
  return objects;
}

/** @returns the value of a JSON string, unquoted and unescaped */
export function stringOf(value: Json): string {
  return unquote(value.text);
}

/** @returns the strings of a JSON array, or undefined if an element is not a string */
export function stringsOf({ text }: Json): string[] | undefined {
  if (text.includes('\\')) {
    const elements: unknown[] = JSON.parse(text);
    return elements.every((element) => typeof element === 'string') ? elements : undefined;
  }
  // Without escapes, the next quote always ends the string.
  const strings: string[] = [];
  let at = 1;
  while (text[at] === '"') {
    const end = text.indexOf('"', at + 1);
    strings.push(text.slice(at + 1, end));
    at = end + 2; // past the comma or the closing bracket
  }
  return at >= text.length || text === '[]' ? strings : undefined;
}

const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const UPPER_E = 0x45;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const LOWER_E = 0x65;
const LOWER_F = 0x66;
const LOWER_N = 0x6e;
const LOWER_T = 0x74;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

const ESCAPE_OR_CONTROL = /[\\\u0000-\u001f]/;
const ESCAPES = new Set(['"', '\\', '/', 'b', 'f', 'n', 'r', 't']);

/** A parser with a cursor over one text. The value being read is `#pieces` and then the text from `#from` to the cursor. */
class Reader {
  readonly #text: string;
  readonly #depthMax: number;
  readonly #countMax: number;
  /** No escape or control character in the text, so each string ends at the next quote: faster to search than to read through. */
  readonly #plain: boolean;
  #at = 0;
  #depth = 0;
  /** The parts of the value being read that precede omitted white space. */
  #pieces: string[] = [];
  #from = 0;

  constructor(text: string, depthMax: number, countMax = 0) {
    this.#text = text;
    this.#depthMax = depthMax;
    this.#countMax = countMax;
    this.#plain = !ESCAPE_OR_CONTROL.test(text);
  }

  at(code: number): boolean {
    return this.#text.charCodeAt(this.#at) === code;
  }

  /** @returns whether the text begins with this character after white space; if not, reads it to its end. @throws JsonError */
  beginsWith(code: number): boolean {
    this.skipSpace();
    if (this.at(code)) return true;
    this.takeValue();
    this.end();
    return false;
  }

  /** Parses the value at the cursor. @returns it with its text */
  takeValue(): Json {
    if (this.#pieces.length > 0) this.#pieces = [];
    this.#from = this.#at;
    const kind = this.#value();
    const tail = this.#text.slice(this.#from, this.#at);
    if (this.#pieces.length === 0) return { kind, text: tail };
    // Joined, since repeated concatenation takes many times the memory of the text.
    this.#pieces.push(tail);
    return { kind, text: this.#pieces.join('') };
  }

  skipSpace(): void {
    const start = this.#at;
    if (this.#text.charCodeAt(start) > SPACE) return;
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== SPACE && code !== LINE_FEED && code !== CARRIAGE_RETURN && code !== TAB) break;
      this.#at += 1;
    }
    if (this.#at === start) return;
    this.#pieces.push(this.#text.slice(this.#from, start));
    this.#from = this.#at;
  }

  /** Parses an object. @param members receives the members of the object, if given */
  object(members?: Map<string, Json>): void {
    const opened = this.#open();
    let count = 0; // each occurrence of a repeated name counts
    this.skipSpace();
    if (this.at(CLOSE_BRACE)) {
      this.#close();
      return;
    }
    for (;;) {
      if (!this.at(QUOTE)) this.#refuse(mistakeInName(this.#text, this.#at, opened));
      const start = this.#at;
      this.#string();
      const end = this.#at;
      this.skipSpace();
      if (!this.at(COLON))
        this.#refuse(this.#ended() ? cutShort('an object', this.#text) : 'a colon is missing after a member name');
      this.#at += 1;
      this.skipSpace();
      if (members === undefined) {
        this.#value();
      } else {
        if (count === this.#countMax) this.#refuse(`there are more than ${this.#countMax} members`, start);
        count += 1;
        members.set(this.#name(start, end), this.takeValue());
      }
      this.skipSpace();
      if (this.at(CLOSE_BRACE)) {
        this.#close();
        return;
      }
      this.#comma('an object', CLOSE_BRACE);
    }
  }

  /** Checks that only white space follows the value. @throws JsonError */
  end(): void {
    this.skipSpace();
    if (this.#ended()) return;
    if (this.at(COMMA) || this.at(CLOSE_BRACE) || this.at(CLOSE_BRACKET)) {
      this.#refuse(`there is a ${shownAt(this.#text, this.#at)} too many after the value`);
    }
    this.#refuse('there is more text after the value; send one value');
  }

  #value(): JsonKind {
    switch (this.#text.charCodeAt(this.#at)) {
      case QUOTE:
        this.#string();
        return 'string';
      case OPEN_BRACE:
        this.object();
        return 'object';
      case OPEN_BRACKET:
        this.#array();
        return 'array';
      case LOWER_T:
        this.#literal('true');
        return 'boolean';
      case LOWER_F:
        this.#literal('false');
        return 'boolean';
      case LOWER_N:
        this.#literal('null');
        return 'null';
      default:
        this.#number();
        return 'number';
    }
  }

  #name(start: number, end: number): string {
    return this.#plain ? this.#text.slice(start + 1, end - 1) : unquote(this.#text.slice(start, end));
  }

  /** Parses an array of objects. @returns the members of each element, undefined for one that is not an object */
  objects(elementsMax: number): (Map<string, Json> | undefined)[] {
    const objects: (Map<string, Json> | undefined)[] = [];
    this.#array(() => {
      if (objects.length === elementsMax) this.#refuse(`there are more than ${elementsMax} elements`);
      if (!this.at(OPEN_BRACE)) {
        this.#value();
        objects.push(undefined);
        return;
      }
      const members = new Map<string, Json>();
      this.object(members);
      objects.push(members);
    });
    return objects;
  }

  /** @param element parses the element at the cursor, if given */
  #array(element?: () => void): void {
    const opened = this.#open();
    this.skipSpace();
    if (this.at(CLOSE_BRACKET)) {
      this.#close();
      return;
    }
    for (;;) {
      if (this.#ended()) this.#refuse(cutShort('an array', this.#text, opened));
      if (element === undefined) this.#value();
      else element();
      this.skipSpace();
      if (this.at(CLOSE_BRACKET)) {
        this.#close();
        return;
      }
      this.#comma('an array', CLOSE_BRACKET);
    }
  }

  /** @returns the offset at which the array or object begins */
  #open(): number {
    const opened = this.#at;
    this.#depth += 1;
    if (this.#depth > this.#depthMax) this.#refuse(`it nests deeper than ${this.#depthMax} levels`);
    this.#at += 1;
    return opened;
  }

  #close(): void {
    this.#depth -= 1;
    this.#at += 1;
  }

  #comma(inside: string, closing: number): void {
    const comma = this.#at;
    if (!this.at(COMMA)) {
      if (this.#ended()) this.#refuse(cutShort(inside, this.#text));
      const end = String.fromCharCode(closing);
      this.#refuse(`expected a comma or ${end} in ${inside}, found ${shownAt(this.#text, this.#at)}`);
    }
    this.#at += 1;
    this.skipSpace();
    if (this.at(closing)) {
      this.#refuse(`trailing comma before ${String.fromCharCode(closing)}; JSON allows none, remove it`, comma);
    }
    if (this.at(COMMA)) this.#refuse('two commas in a row; remove one');
  }

  #string(): void {
    const text = this.#text;
    const start = this.#at;
    if (this.#plain) {
      const end = text.indexOf('"', start + 1);
      if (end === -1) this.#refuseOpenString(start);
      this.#at = end + 1;
      return;
    }
    let at = start + 1;
    for (;;) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) break;
      if (code === BACKSLASH) {
        at = this.#escape(at);
      } else if (code >= SPACE) {
        at += 1;
      } else if (at >= text.length) {
        this.#refuseOpenString(start);
      } else {
        this.#refuse(mistakeInString(text, at), at);
      }
    }
    this.#at = at + 1;
  }

  /** @returns the offset after the escape that begins at `at` */
  #escape(at: number): number {
    const text = this.#text;
    if (ESCAPES.has(text.charAt(at + 1))) return at + 2;
    if (!/^u[0-9a-fA-F]{4}$/.test(text.slice(at + 1, at + 6))) this.#refuse(mistakeInString(text, at), at);
    return at + 6;
  }

  #literal(word: string): void {
    const end = this.#at + word.length;
    if (!this.#text.startsWith(word, this.#at) || isWord(this.#text.charCodeAt(end)))
      this.#refuse(mistakeInValue(this.#text, this.#at));
    this.#at = end;
  }

  #number(): void {
    const text = this.#text;
    const start = this.#at;
    let at = text.charCodeAt(start) === MINUS ? start + 1 : start;
    if (!isDigit(text.charCodeAt(at))) this.#refuse(mistakeInValue(this.#text, this.#at));
    if (text.charCodeAt(at) === ZERO && isDigit(text.charCodeAt(at + 1))) {
      this.#refuse('a number may not begin with 0; remove the zero or send a string', start);
    }
    at = digitsEnd(text, at);
    if (text.charCodeAt(at) === DOT) {
      if (!isDigit(text.charCodeAt(at + 1))) this.#refuse('a digit is missing after the decimal point', at);
      at = digitsEnd(text, at + 1);
    }
    const exponent = text.charCodeAt(at);
    if (exponent === LOWER_E || exponent === UPPER_E) {
      const sign = text.charCodeAt(at + 1);
      const digits = sign === PLUS || sign === MINUS ? at + 2 : at + 1;
      if (!isDigit(text.charCodeAt(digits))) this.#refuse('a digit is missing in the exponent', at);
      at = digitsEnd(text, digits);
    }
    this.#at = at;
    if (isWord(text.charCodeAt(at))) this.#refuse(`unexpected ${shownAt(this.#text, this.#at)} after a number`);
  }

  #ended(): boolean {
    return this.#at >= this.#text.length;
  }

  #refuseOpenString(start: number): never {
    this.#refuse('this string is never closed; its closing double quote is missing', start);
  }

  #refuse(problem: string, offset = this.#at): never {
    throw new JsonError(problem, this.#text, offset);
  }
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE;
}

/** Whether the character code is a letter, a digit, `_` or `$`. */
function isWord(code: number): boolean {
  return (
    isDigit(code) || (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a) || code === 0x5f || code === 0x24
  );
}

function digitsEnd(text: string, at: number): number {
  let end = at;
  while (isDigit(text.charCodeAt(end))) end += 1;
  return end;
}

function unquote(quoted: string): string {
  return quoted.includes('\\') ? JSON.parse(quoted) : quoted.slice(1, -1);
}
