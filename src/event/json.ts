/**
 * A lossless JSON parser (RFC 8259). `JSON.parse` followed by `JSON.stringify` rounds 2^53+1, turns 1e400 into null and
 * 1.0 into 1, and drops repeated members, but a report has to be recorded as it was sent. This parser therefore checks the
 * grammar and keeps the text of each value, without the white space between tokens.
 *
 * What is JSON is read here, as bytes, and what is not is read again by `json-parser.ts`, whose errors have the line and column, and
 * name common mistakes such as `True` for `true`.
 */

import {
  bytesOf,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  type JsonBytes,
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
  /** The text, or the bytes of a long one. */
  readonly sent: string | Buffer;

  /** @param end of the value, which was the last one that was looked for */
  constructor(json: JsonBytes, start: number, end: number) {
    this.kind = kindOf(json.bytes[start]!);
    this.sent = json.compacted(start, end);
  }

  get text(): string {
    return this.sent.toString();
  }
}

/**
 * Parses a text that is one JSON value.
 * @param depthMax how deep arrays and objects may nest; one that contains no other has depth 1
 * @throws JsonError if the text is not JSON or nests deeper
 */
export function readJson(text: string, depthMax: number): Json {
  const json = bytesOf(text);
  const start = json.spaceEnd(0);
  const end = json.valueEnd(start, depthMax);
  if (!isLast(json, end, json.bytes.length)) refuseJson(text, depthMax, {});
  return new Json(json, start, end);
}

/**
 * Parses an object into its members. The last value of a repeated name is used (RFC 8259 section 4 leaves it open).
 * @param depthMax how deep arrays and objects may nest; the object itself has depth 1
 * @param countMax how many members it may have; each occurrence of a repeated name counts
 * @param start of the object in the bytes, and @param end its end: that of the bytes, or a line feed
 * @returns undefined if the text is JSON but not an object
 * @throws JsonError if the text is not JSON, nests deeper or has more members
 */
export function readMembers(
  json: JsonBytes,
  depthMax: number,
  countMax: number,
  start = 0,
  end = json.bytes.length,
): Map<string, Json> | undefined {
  const at = json.spaceEnd(start);
  const members = json.bytes[at] === OPEN_BRACE && depthMax > 0 ? new Map<string, Json>() : undefined;
  const stop = members === undefined ? json.valueEnd(at, depthMax) : membersEnd(json, at, depthMax, countMax, members);
  if (!isLast(json, stop, end)) refuseJson(json.text(start, end), depthMax, { members: countMax });
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
  json: JsonBytes,
  depthMax: number,
  membersMax: number,
  elementsMax: number,
): (Map<string, Json> | undefined)[] | undefined {
  const { bytes } = json;
  const at = json.spaceEnd(0);
  const objects = bytes[at] === OPEN_BRACKET && depthMax > 0 ? [] : undefined;
  const stop =
    objects === undefined
      ? json.valueEnd(at, depthMax)
      : objectsEnd(json, at, depthMax, membersMax, elementsMax, objects);
  if (!isLast(json, stop, bytes.length)) {
    refuseJson(json.text(), depthMax, { elements: elementsMax, elementMembers: membersMax });
  }
  return objects;
}

/** @returns the value of a JSON string, unquoted and unescaped */
export function stringOf(value: Json): string {
  return unescaped(value.text.slice(1, -1));
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

/** Whether a value was found that ends there, with nothing but white space up to `end`. */
function isLast(json: JsonBytes, valueEnd: number, end: number): boolean {
  return valueEnd === end || json.spaceEnd(valueEnd) === end;
}

/** @param members receives the members of the object at `start`. @returns as the functions of `JsonBytes` */
function membersEnd(
  json: JsonBytes,
  start: number,
  depthMax: number,
  countMax: number,
  members: Map<string, Json>,
): number {
  const { bytes } = json;
  let at = json.spaceEnd(start + 1);
  if (bytes[at] === CLOSE_BRACE) return at + 1;
  for (let count = 0; count < countMax && bytes[at] === QUOTE; count += 1) {
    const name = at;
    const nameEnd = json.stringEnd(name);
    const colon = json.spaceEnd(nameEnd);
    const value = bytes[colon] === COLON ? json.spaceEnd(colon + 1) : -1;
    const end = json.valueEnd(value, depthMax - 1);
    if (end === -1) return -1;
    members.set(unescaped(json.text(name + 1, nameEnd - 1)), new Json(json, value, end));
    at = json.spaceEnd(end);
    if (bytes[at] === CLOSE_BRACE) return at + 1;
    if (bytes[at] !== COMMA) return -1;
    at = json.spaceEnd(at + 1);
  }
  return -1;
}

/** @param objects receives the members of each element of the array at `start`, undefined for one that is not an object */
function objectsEnd(
  json: JsonBytes,
  start: number,
  depthMax: number,
  membersMax: number,
  elementsMax: number,
  objects: (Map<string, Json> | undefined)[],
): number {
  const { bytes } = json;
  let at = json.spaceEnd(start + 1);
  if (bytes[at] === CLOSE_BRACKET) return at + 1;
  while (objects.length < elementsMax) {
    const members = bytes[at] === OPEN_BRACE && depthMax > 1 ? new Map<string, Json>() : undefined;
    objects.push(members);
    const end =
      members === undefined ? json.valueEnd(at, depthMax - 1) : membersEnd(json, at, depthMax - 1, membersMax, members);
    at = json.spaceEnd(end);
    if (bytes[at] === CLOSE_BRACKET) return at + 1;
    if (bytes[at] !== COMMA) return -1;
    at = json.spaceEnd(at + 1);
  }
  return -1;
}

/** @param first byte of the value */
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

/** @param inner a JSON string without its quotes */
function unescaped(inner: string): string {
  return inner.includes('\\') ? JSON.parse(`"${inner}"`) : inner;
}
