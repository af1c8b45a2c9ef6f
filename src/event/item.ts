/**
 * Reads one item of a batch: a JSON object with the parameters of one report and its `type`. A line of the journal is an item
 * as well. The batch endpoint and `assetlog report --from` read the same form.
 */

import { type Json, readMembers, stringOf } from './json.ts';
import { bytesOf, type JsonBytes } from './json-bytes.ts';
import { JsonError } from './json-mistakes.ts';
import { didYouMean } from './nearest.ts';
import { type Endpoint, endpoints, findEndpoint, type Parameter } from './parameters.ts';

/** The path of the batch endpoint, without its trailing slash. */
export const batchPath = '/report_asset_batch';

/** Members of a journal line that an item may have and that are ignored. */
export const ignoredMembers = ['seq', 'id', 'time', 'from', 'recorded', 'crc'] as const;

export interface Item {
  readonly endpoint: Endpoint;
  /** The members that are parameters of the endpoint. A tag is among them under its own name. */
  readonly parameters: ReadonlyMap<string, Json>;
  /** The member `idempotency_key` of the item, not checked; undefined if it is absent or null. */
  readonly idempotencyKey: Json | undefined;
}

export interface ItemLimits {
  /** The item itself has depth 1. */
  readonly jsonDepthMax: number;
  readonly bodyMembersMax: number;
}

/** A malformed item. `message` is a clause about the item, such as `its "type" is missing; write check`. */
export class ItemError extends Error {}

/** @throws ItemError as `readItemMembers` */
export function readItemText(text: string, limits: ItemLimits): Map<string, Json> {
  return readItemMembers(bytesOf(text), limits);
}

/**
 * @param start of the item in the bytes, and @param end its end: that of the bytes, or a line feed
 * @throws ItemError if the text is not a JSON object; for `{"a":True}`, `it is not valid JSON at column 6: …`
 */
export function readItemMembers(json: JsonBytes, limits: ItemLimits, start?: number, end?: number): Map<string, Json> {
  let members: Map<string, Json> | undefined;
  try {
    members = readMembers(json, limits.jsonDepthMax, limits.bodyMembersMax, start, end);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new ItemError(`it is not valid JSON at column ${error.column}: ${error.message}`);
  }
  if (members === undefined) throw new ItemError('it is not a JSON object');
  return members;
}

/**
 * Finds the endpoint and the parameters of an item. The values of the parameters are not checked.
 * @param members the members of the item; they become the parameters, since a copy costs a tenth of reading an item
 * @throws ItemError if the type is missing or unknown, if a member is neither a parameter nor part of a journal line
 *   (`a report of kind check has no "pased"; did you mean passed?`), or if a parameter differs from the tag of its name
 */
export function readItem(members: Map<string, Json>, limits: ItemLimits): Item {
  const endpoint = endpointOf(members.get('type'));
  const idempotencyKey = members.get('idempotency_key');
  for (const name of members.keys()) {
    if (isParameter(endpoint, name)) continue;
    if (name === 'tags' && endpoint.parameters.some(isTag)) readTags(members.get(name)!, endpoint, members, limits);
    else if (!NO_PARAMETERS.has(name)) throw new ItemError(unknownMember(endpoint, name));
    members.delete(name);
  }
  return { endpoint, parameters: members, idempotencyKey: isAbsent(idempotencyKey) ? undefined : idempotencyKey };
}

/** Whether a parameter is not given: the member is missing, or `null`. */
export function isAbsent(value: Json | undefined): boolean {
  return value === undefined || value.kind === 'null';
}

function endpointOf(type: Json | undefined): Endpoint {
  const endpoint = type?.kind === 'string' ? findEndpoint(endpoints, stringOf(type)) : undefined;
  if (endpoint !== undefined) return endpoint;
  const found = type === undefined ? 'missing' : shownStart(type.text);
  throw new ItemError(`its "type" is ${found}; write ${endpoints.map(({ name }) => name).join(', ')}`);
}

function isParameter({ parameters }: Endpoint, name: string): boolean {
  for (const parameter of parameters) if (parameter.name === name) return true;
  return false;
}

function isTag(parameter: Parameter): boolean {
  return 'tag' in parameter;
}

/** Adds the members of `tags` to the parameters. @throws ItemError for no tag, an unknown one, or one that differs */
function readTags(value: Json, endpoint: Endpoint, parameters: Map<string, Json>, limits: ItemLimits): void {
  const known = endpoint.parameters.filter(isTag).map(({ name }) => name);
  const tags = readMembers(bytesOf(value.text), limits.jsonDepthMax, limits.bodyMembersMax) ?? new Map<string, Json>();
  if (tags.size === 0 || [...tags.keys()].some((name) => !known.includes(name))) {
    throw new ItemError(`its "tags" may only have a ${known.map((name) => JSON.stringify(name)).join(' or a ')}`);
  }
  for (const [name, tag] of tags) {
    const own = parameters.get(name);
    if (own === undefined || own.kind === 'null') parameters.set(name, tag);
    else if (tag.kind !== 'null' && (own.kind !== tag.kind || stringOf(own) !== stringOf(tag))) {
      throw new ItemError(
        `its ${name} is ${shownStart(own.text)} and its tags.${name} ${shownStart(tag.text)}; send one`,
      );
    }
  }
}

/** @returns why a report can not have a member: `a report of kind check has no "pased"; did you mean passed?` */
export function unknownMember({ name: kind, parameters }: Endpoint, name: string): string {
  const names = parameters.map((parameter) => parameter.name);
  return `a report of kind ${kind} has no ${JSON.stringify(shownStart(name))}${didYouMean(name, names)}`;
}

/** @returns the text, or its beginning with an ellipsis */
export function shownStart(text: string): string {
  return text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text;
}

const SHOWN_CHARACTERS_MAX = 100;
const NO_PARAMETERS: ReadonlySet<string> = new Set([...ignoredMembers, 'type', 'idempotency_key']);
