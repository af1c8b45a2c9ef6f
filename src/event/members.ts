/**
 * Reads the members of JSON objects. Known names are found by their bytes, without decoding them. A value is only a position in
 * the body until its text is needed.
 */

import { Json } from './json.ts';
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  type JsonBytes,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
} from './json-bytes.ts';
import { refuseJson } from './json-parser.ts';
import { allParameters, endpoints } from './parameters.ts';

/** The members in the slot of a line (`journal/line/slot.ts`) that this version writes. */
export const slotNames = ['origin', 'by', 'erased'] as const;

/** Members of a journal line that are ignored in an item of a batch. */
export const ignoredMembers = ['seq', 'id', 'time', ...slotNames, 'from', 'recorded', 'crc'] as const;

/** A hash table of names with linear probing: most names are found at their first slot. */
class NameTable {
  readonly names: readonly string[];
  readonly #bytes: readonly Buffer[];
  /** The index of a name plus 1; 0 for an empty slot. */
  readonly #slots = new Uint8Array(SLOTS);
  readonly #indexes: ReadonlyMap<string, number>;

  constructor(names: readonly string[]) {
    this.names = names;
    this.#bytes = names.map((name) => Buffer.from(name));
    this.#indexes = new Map(names.map((name, index) => [name, index]));
    for (const [index, bytes] of this.#bytes.entries()) {
      let slot = slotOf(bytes, 0, bytes.length);
      while (this.#slots[slot] !== 0) slot = (slot + 1) % SLOTS;
      this.#slots[slot] = index + 1;
    }
  }

  /** @returns the index of a name, -1 if it is not in the table */
  indexOf(name: string): number {
    return this.#indexes.get(name) ?? -1;
  }

  /** Like `indexOf`, for the bytes of a name between its quotes. A name with an escape is not found. */
  find(bytes: Buffer, start: number, end: number): number {
    for (let slot = slotOf(bytes, start, end); ; slot = (slot + 1) % SLOTS) {
      const index = this.#slots[slot]! - 1;
      if (index === -1 || isEqual(this.#bytes[index]!, bytes, start, end)) return index;
    }
  }
}

/** A power of two, several times the number of names. */
const SLOTS = 128;

/** Names differ most in their lengths, second and last bytes. */
function slotOf(bytes: Buffer, start: number, end: number): number {
  return (7 * (end - start) + 3 * bytes[start + 1]! + bytes[end - 1]!) & (SLOTS - 1);
}

function isEqual(name: Buffer, bytes: Buffer, start: number, end: number): boolean {
  if (name.length !== end - start) return false;
  for (let at = 0; at < name.length; at += 1) if (name[at] !== bytes[start + at]) return false;
  return true;
}

/** The names of all parameters, and of the other members of items in a batch. */
export const knownNames = new NameTable([
  ...allParameters(endpoints).map(({ name }) => name),
  ...['type', 'idempotency_key', 'tags', ...ignoredMembers],
]);

/** @returns the indexes in `knownNames` of all other names */
export function indexesExcept(names: readonly string[]): readonly number[] {
  return [...knownNames.names.keys()].filter((index) => !names.includes(knownNames.names[index]!));
}

/** The members of an object. The last value of a repeated name is used (RFC 8259 section 4 leaves it open). */
export class Members {
  /** By the index of their names in `knownNames`; undefined for a missing member. */
  readonly known: (Json | undefined)[] = ABSENT.slice();
  /** Members whose names are not in `knownNames`, by name. */
  others: Map<string, Json> | undefined;

  get(name: string): Json | undefined {
    return this.known[knownNames.indexOf(name)] ?? this.others?.get(name);
  }

  set(name: string, value: Json): void {
    const index = knownNames.indexOf(name);
    this.others ??= index === -1 ? new Map() : undefined;
    if (index === -1) this.others?.set(name, value);
    else this.known[index] = value;
  }

  /** @returns the names of the members: first the known names in the order of `knownNames` */
  names(): string[] {
    return [...knownNames.names.filter((_, index) => this.known[index] !== undefined), ...(this.others?.keys() ?? [])];
  }
}

const ABSENT: readonly undefined[] = knownNames.names.map(() => undefined);

/**
 * Parses an object into its members.
 * @param start offset of the object
 * @param end the end of the bytes, or the offset of a line feed
 * @returns undefined if the text is JSON but not an object
 * @throws JsonError if the text is not JSON, or exceeds the limits of `json`
 */
export function readMembers(json: JsonBytes, start = 0, end = json.bytes.length): Members | undefined {
  const at = json.spaceEnd(start);
  const members = json.bytes[at] === OPEN_BRACE ? new Members() : undefined;
  const stop = members === undefined ? json.valueEnd(at, 0) : membersEnd(json, at, members);
  if (!json.isLast(stop, end)) {
    refuseJson(json.text(start, end), json.limits.jsonDepthMax, { members: json.limits.bodyMembersMax });
  }
  return members;
}

/**
 * Parses an array of objects into the members of each. The array itself does not count for their depth.
 * @param elementsMax the maximum number of elements
 * @returns the members of each element, undefined for an element that is not an object; undefined if the text is JSON but not an
 *   array
 * @throws JsonError if the text is not JSON, has more elements, or exceeds the limits of `json`
 */
export function readObjects(json: JsonBytes, elementsMax: number): (Members | undefined)[] | undefined {
  const { bytes } = json;
  const { jsonDepthMax, bodyMembersMax } = json.limits;
  const at = json.spaceEnd(0);
  const objects = bytes[at] === OPEN_BRACKET ? [] : undefined;
  const stop = objects === undefined ? json.valueEnd(at, -1) : objectsEnd(json, at, elementsMax, objects);
  if (!json.isLast(stop, bytes.length)) {
    refuseJson(json.text(), jsonDepthMax + 1, { elements: elementsMax, elementMembers: bodyMembersMax });
  }
  return objects;
}

/**
 * @param members receives the members of the object at `start` @returns the offset after the object, or -1 if it is not valid
 */
function membersEnd(json: JsonBytes, start: number, members: Members): number {
  const { bytes } = json;
  const { bodyMembersMax } = json.limits;
  let at = json.spaceEnd(start + 1);
  if (bytes[at] === CLOSE_BRACE) return at + 1;
  for (let count = 0; count < bodyMembersMax && bytes[at] === QUOTE; count += 1) {
    const name = at + 1;
    const nameEnd = json.stringEnd(at);
    const colon = json.spaceEnd(nameEnd);
    const value = bytes[colon] === COLON ? json.spaceEnd(colon + 1) : -1;
    const end = json.valueEnd(value, 1);
    if (end === -1) return -1;
    const known = knownNames.find(bytes, name, nameEnd - 1);
    if (known !== -1) members.known[known] = new Json(json, value, end);
    else members.set(json.string(name, nameEnd - 1), new Json(json, value, end));
    at = json.spaceEnd(end);
    if (bytes[at] === CLOSE_BRACE) return at + 1;
    if (bytes[at] !== COMMA) return -1;
    at = json.spaceEnd(at + 1);
  }
  return -1;
}

/** @param objects receives the members of each element of the array at `start`, undefined for an element that is not an object */
function objectsEnd(json: JsonBytes, start: number, elementsMax: number, objects: (Members | undefined)[]): number {
  const { bytes } = json;
  let at = json.spaceEnd(start + 1);
  if (bytes[at] === CLOSE_BRACKET) return at + 1;
  while (objects.length < elementsMax) {
    const members = bytes[at] === OPEN_BRACE ? new Members() : undefined;
    objects.push(members);
    const end = members === undefined ? json.valueEnd(at, 0) : membersEnd(json, at, members);
    at = json.spaceEnd(end);
    if (bytes[at] === CLOSE_BRACKET) return at + 1;
    if (bytes[at] !== COMMA) return -1;
    at = json.spaceEnd(at + 1);
  }
  return -1;
}
