/**
 * Checks the received bytes of a JSON text, and finds the ends of its values. Every report passes through here, so it decodes
 * nothing and creates no object: the grammar of JSON is ASCII, and in UTF-8 other bytes are only in strings. `json-parser.ts`
 * explains errors.
 *
 * Each function whose name ends in `End` returns the offset after the element that starts at `start`, or -1 if none starts there.
 */

import { isAscii } from 'node:buffer';

export interface JsonLimits {
  /** The greatest depth of arrays and objects. An array or object without another inside has depth 1. */
  readonly jsonDepthMax: number;
  /** The most members of an object that is read member by member. Each occurrence of a repeated name counts. */
  readonly bodyMembersMax: number;
}

/** The bytes of a JSON text: valid UTF-8, without a byte order mark. */
export class JsonBytes {
  readonly bytes: Buffer;
  readonly limits: JsonLimits;
  /** The byte that counts as white space in addition: a line feed, or a space where line feeds end values. */
  readonly #lineFeed: number;
  readonly isAscii: boolean;
  /** Each byte as one character: the text itself if all bytes are ASCII. V8 slices it without a copy. */
  readonly #latin1: string;
  /** Each value at its offset in `bytes`, without the white space between its tokens. */
  readonly #compact: Buffer;
  /** Bytes of white space between the tokens of the last value that `valueEnd` found. */
  omitted = 0;
  /** Whether a string in that value has a backslash. */
  hasEscape = false;

  /** @param isLines whether a line feed ends each value */
  constructor(bytes: Buffer, limits: JsonLimits, isLines = false) {
    this.bytes = bytes;
    this.limits = limits;
    this.#lineFeed = isLines ? SPACE : LINE_FEED;
    this.isAscii = isAscii(bytes);
    this.#latin1 = bytes.toString('latin1');
    this.#compact = Buffer.allocUnsafe(bytes.length);
  }

  text(start = 0, end = this.bytes.length): string {
    return this.isAscii ? this.#latin1.slice(start, end) : this.bytes.toString('utf8', start, end);
  }

  /** @param start after the opening quote @param end before the closing quote @returns the string, unescaped */
  string(start: number, end: number): string {
    const inner = this.text(start, end);
    return inner.includes('\\') ? JSON.parse(`"${inner}"`) : inner;
  }

  /** @returns a value without the white space between its tokens. @param end the end of the value minus `omitted` */
  compacted(start: number, end: number): string {
    return this.#compact.toString(this.isAscii ? 'latin1' : 'utf8', start, end);
  }

  /** Like `compacted`, but copies the value to a target. @returns the offset after it in the target */
  copyCompacted(start: number, end: number, target: Buffer, at: number): number {
    const compact = this.#compact;
    const length = end - start;
    // For a short value a loop is faster than a call of Node.
    if (length > LOOP_BYTES_MAX) compact.copy(target, at, start, end);
    else for (let index = 0; index < length; index += 1) target[at + index] = compact[start + index]!;
    return at + length;
  }

  /** Whether a value ends at `valueEnd` (not -1), followed only by white space up to `end`. */
  isLast(valueEnd: number, end: number): boolean {
    return valueEnd === end || this.spaceEnd(valueEnd) === end;
  }

  /** @param around how many of the arrays and objects around the value count for its depth */
  valueEnd(start: number, around: number): number {
    this.omitted = 0;
    this.hasEscape = false;
    this.#compact[start] = this.bytes[start]!;
    return this.#valueEnd(start, this.limits.jsonDepthMax - around);
  }

  /** @returns the offset after any white space at `start`, even if there is none */
  spaceEnd(start: number): number {
    const { bytes } = this;
    let at = start;
    for (;;) {
      const byte = bytes[at]!;
      if (byte > SPACE) return at;
      if (byte !== SPACE && byte !== this.#lineFeed && byte !== CARRIAGE_RETURN && byte !== TAB) return at;
      at += 1;
    }
  }

  stringEnd(start: number): number {
    const { bytes } = this;
    const compact = this.#compact;
    const omitted = this.omitted;
    for (let at = start + 1; at !== -1; at = this.#copiedEnd(at, escapeEnd(bytes, at))) {
      let byte = bytes[at]!;
      // V8 optimizes a loop better if it contains no other loop.
      while (byte >= SPACE && byte !== QUOTE && byte !== BACKSLASH) {
        compact[at - omitted] = byte;
        at += 1;
        byte = bytes[at]!;
      }
      compact[at - omitted] = byte;
      if (byte === QUOTE) return at + 1;
      if (byte !== BACKSLASH) break; // also after the last byte
      this.hasEscape = true;
    }
    return -1;
  }

  /** Like `valueEnd`, for a value inside a value. */
  #valueEnd(start: number, depthMax: number): number {
    const { bytes } = this;
    const first = bytes[start];
    switch (first) {
      case QUOTE:
        return this.stringEnd(start);
      case OPEN_BRACE:
      case OPEN_BRACKET:
        return depthMax === 0 ? -1 : this.#nestedEnd(start, depthMax - 1, first + TO_CLOSING);
      case LOWER_T:
        return this.#copiedEnd(start, this.#wordEnd(start, 'true'));
      case LOWER_F:
        return this.#copiedEnd(start, this.#wordEnd(start, 'false'));
      case LOWER_N:
        return this.#copiedEnd(start, this.#wordEnd(start, 'null'));
      default:
        return this.#copiedEnd(start, numberEnd(bytes, start));
    }
  }

  /** @param depthMax the limit for its elements or members @param closing the closing bracket or brace */
  #nestedEnd(start: number, depthMax: number, closing: number): number {
    const { bytes } = this;
    let at = this.#tokenStart(start + 1);
    if (bytes[at] === closing) return at + 1;
    for (;;) {
      if (closing === CLOSE_BRACE) {
        if (bytes[at] !== QUOTE) return -1;
        at = this.#tokenStart(this.stringEnd(at));
        if (bytes[at] !== COLON) return -1;
        at = this.#tokenStart(at + 1);
      }
      at = this.#tokenStart(this.#valueEnd(at, depthMax));
      if (bytes[at] === closing) return at + 1;
      if (bytes[at] !== COMMA) return -1;
      at = this.#tokenStart(at + 1);
    }
  }

  #wordEnd(start: number, word: string): number {
    return this.#latin1.startsWith(word, start) ? start + word.length : -1;
  }

  /** Copies the first byte of the next token. @returns its offset */
  #tokenStart(start: number): number {
    const at = this.spaceEnd(start);
    this.omitted += at - start;
    this.#compact[at - this.omitted] = this.bytes[at]!;
    return at;
  }

  /** Copies all bytes of a token except the first. */
  #copiedEnd(start: number, end: number): number {
    for (let at = start + 1; at < end; at += 1) this.#compact[at - this.omitted] = this.bytes[at]!;
    return end;
  }
}

export function jsonBytesOf(text: string, limits: JsonLimits): JsonBytes {
  return new JsonBytes(Buffer.from(text), limits);
}

function escapeEnd(bytes: Buffer, start: number): number {
  const letter = bytes[start + 1]!;
  if (letter !== LOWER_U) return ESCAPED.has(letter) ? start + 2 : -1;
  for (let at = start + 2; at < start + 6; at += 1) {
    const byte = bytes[at]!;
    const letter = byte | LOWER;
    if (!isDigit(byte) && !(letter >= LOWER_A && letter <= LOWER_F)) return -1;
  }
  return start + 6;
}

function numberEnd(bytes: Buffer, start: number): number {
  const first = bytes[start] === MINUS ? start + 1 : start;
  let at = bytes[first] === ZERO ? first + 1 : digitsEnd(bytes, first);
  if (bytes[at] === DOT) at = digitsEnd(bytes, at + 1);
  if ((bytes[at]! | LOWER) === LOWER_E) {
    const sign = bytes[at + 1];
    at = digitsEnd(bytes, sign === PLUS || sign === MINUS ? at + 2 : at + 1);
  }
  return at;
}

/** @returns the offset after at least one digit */
function digitsEnd(bytes: Buffer, start: number): number {
  let at = start;
  while (isDigit(bytes[at]!)) at += 1;
  return at === start ? -1 : at;
}

export function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE;
}

const LOOP_BYTES_MAX = 64;
const TAB = 0x09;
export const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
export const QUOTE = 0x22;
const PLUS = 0x2b;
export const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
export const ZERO = 0x30;
const NINE = 0x39;
export const COLON = 0x3a;
export const OPEN_BRACKET = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_BRACKET = 0x5d;
const LOWER_A = 0x61;
const LOWER_E = 0x65;
export const LOWER_F = 0x66;
export const LOWER_N = 0x6e;
export const LOWER_T = 0x74;
const LOWER_U = 0x75;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;
/** The difference of character codes between a closing and an opening bracket or brace. */
const TO_CLOSING = 2;
/** This bit turns an ASCII letter into lower case. */
const LOWER = 0x20;
const ESCAPED: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));
