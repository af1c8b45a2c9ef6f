/**
 * A lossless JSON parser (RFC 8259). `JSON.parse` followed by `JSON.stringify` rounds 2^53+1, turns 1e400 into null and 1.0
 * into 1, and drops repeated members, but a report must be recorded as it was sent. This parser therefore checks the grammar
 * and keeps the text of each value, without the white space between tokens. `json-parser.ts` explains why a text is not JSON.
 */

import {
  type JsonBytes,
  jsonBytesOf,
  LOWER_F,
  LOWER_N,
  LOWER_T,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
} from './json-bytes.ts';
import { refuseJson } from './json-parser.ts';

/** RFC 8259 section 3, with true and false as one kind. */
export type JsonKind = 'null' | 'boolean' | 'number' | 'string' | 'array' | 'object';

/** A value as sent, without the white space between its tokens. */
export class Json {
  readonly kind: JsonKind;
  readonly source: JsonBytes;
  readonly start: number;
  readonly end: number;
  /** Bytes of white space between its tokens, which only `source` has. */
  readonly omitted: number;
  /** Whether it is or contains a string with a backslash. */
  readonly hasEscape: boolean;

  /** @param end the last result of `source.valueEnd` */
  constructor(source: JsonBytes, start: number, end: number) {
    this.kind = kindOf(source.bytes[start]!);
    this.source = source;
    this.start = start;
    this.end = end;
    this.omitted = source.omitted;
    this.hasEscape = source.hasEscape;
  }

  /** The text of the value. Even a short text keeps the whole body in memory. */
  get text(): string {
    const { source, start, end, omitted } = this;
    return omitted === 0 ? source.text(start, end) : source.compacted(start, end - omitted);
  }
}

/**
 * Parses a text that is one JSON value.
 * @param depthMax the maximum depth of arrays and objects; an array or object without another inside has depth 1
 * @throws JsonError if the text is not JSON or nests deeper
 */
export function readJson(text: string, depthMax: number): Json {
  const json = jsonBytesOf(text, { jsonDepthMax: depthMax, bodyMembersMax: Number.POSITIVE_INFINITY });
  const start = json.spaceEnd(0);
  const end = json.valueEnd(start, 0);
  if (!json.isLast(end, json.bytes.length)) refuseJson(text, depthMax, {});
  return new Json(json, start, end);
}

/** @returns the value of a JSON string, unquoted and unescaped */
export function stringOf({ source, start, end, hasEscape }: Json): string {
  return hasEscape ? source.string(start + 1, end - 1) : source.text(start + 1, end - 1);
}

/** @returns the strings of a JSON array, or undefined if an element is not a string */
export function stringsOf({ text, hasEscape }: Json): string[] | undefined {
  if (hasEscape) {
    const elements: unknown[] = JSON.parse(text);
    return elements.every((element) => typeof element === 'string') ? elements : undefined;
  }
  // Without escapes, the next quote always ends the string.
  const strings: string[] = [];
  let at = 1;
  while (text[at] === '"') {
    const end = text.indexOf('"', at + 1);
    strings.push(text.slice(at + 1, end));
    at = end + 2; // after the comma or the closing bracket
  }
  return at >= text.length || text === '[]' ? strings : undefined;
}

/** @param first the first byte of the value */
function kindOf(first: number): JsonKind {
  switch (first) {
    case QUOTE:
      return 'string';
    case OPEN_BRACE:
      return 'object';
    case OPEN_BRACKET:
      return 'array';
    case LOWER_T:
    case LOWER_F:
      return 'boolean';
    case LOWER_N:
      return 'null';
    default:
      return 'number';
  }
}
