/**
 * Reads one item of a batch: a JSON object with the parameters of one report and its `type`. A journal line is also an item. The
 * batch endpoint and `assetlog report --from` read the same form.
 */

import { type Json, stringOf } from './json.ts';
import { type JsonBytes, type JsonLimits, jsonBytesOf } from './json-bytes.ts';
import { JsonError } from './json-mistakes.ts';
import { ignoredMembers, indexesExcept, knownNames, Members, readMembers } from './members.ts';
import { didYouMean } from './nearest.ts';
import { type Endpoint, endpoints, findEndpoint, type Parameter } from './parameters.ts';
import { shownStart } from './shown.ts';

/** The path of the batch endpoint, without its trailing slash. */
export const batchPath = '/report_asset_batch';

export interface Item {
  readonly endpoint: Endpoint;
  /** The member `idempotency_key` of the item, not checked; undefined if it is absent or null. */
  readonly idempotencyKey: Json | undefined;
}

/** A malformed item. `message` is a clause about the item, such as `its "type" is missing; write check`. */
export class ItemError extends Error {}

/** Like `readItemMembers`, for a whole text. @throws ItemError */
export function readItemText(text: string, limits: JsonLimits): Members {
  return readItemMembers(jsonBytesOf(text, limits));
}

/**
 * @param start offset of the item
 * @param end the end of the bytes, or the offset of a line feed
 * @throws ItemError if the text is not a JSON object; for `{"a":True}`, `it is not valid JSON at column 6: …`
 */
export function readItemMembers(json: JsonBytes, start?: number, end?: number): Members {
  let members: Members | undefined;
  try {
    members = readMembers(json, start, end);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    const problem = `it is not valid JSON at column ${error.column}: ${error.message}`;
    throw new ItemError(`${problem}${adviceFor(json.text(start, end))}`);
  }
  if (members === undefined) throw new ItemError(`it is not a JSON object${adviceFor(json.text(start, end))}`);
  return members;
}

/**
 * @returns advice for a line that is an array, or that is the first line of JSON spread over several lines; empty for any
 * other line
 */
export function adviceFor(line: string): string {
  const [start, array] = /^\s*(?:(\[)|\{\s*$)/.exec(line) ?? [];
  if (start === undefined) return '';
  return `; write each report on its own line, as jq -c ${array === undefined ? '.' : "'.[]'"} does`;
}

/**
 * Finds the endpoint of an item. Afterwards `members` holds its parameters, including those in its tags. Their values are not
 * checked.
 * @param members the members of the item; each tag is added under its own name
 * @throws ItemError if the type is missing or unknown, if a member is neither a parameter nor part of a journal line
 *   (`a report of kind check has no "pased"; did you mean passed?`), or if a parameter differs from the tag of the same name
 */
export function readItem(members: Members): Item {
  const { known, others } = members;
  const endpoint = endpointOf(known[TYPE]);
  for (const index of FOREIGN.get(endpoint)!) {
    if (known[index] === undefined) continue;
    if (index !== TAGS || !endpoint.parameters.some(isTag))
      throw new ItemError(unknownMember(endpoint, knownNames.names[index]!));
    readTags(known[TAGS]!, endpoint, members);
  }
  if (others !== undefined) throw new ItemError(unknownMember(endpoint, [...others.keys()][0]!));
  const idempotencyKey = known[KEY];
  return { endpoint, idempotencyKey: isAbsent(idempotencyKey) ? undefined : idempotencyKey };
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

function isTag(parameter: Parameter): boolean {
  return 'tag' in parameter;
}

/**
 * Adds the members of `tags` to the parameters. @throws ItemError if `tags` is not an object of tags, for an unknown tag, or
 * for a tag that differs from its parameter
 */
function readTags(value: Json, endpoint: Endpoint, members: Members): void {
  const known = endpoint.parameters.filter(isTag).map(({ name }) => name);
  const tags = tagsIn(value);
  const names = tags.names();
  if (names.length === 0 || names.some((name) => !known.includes(name))) {
    throw new ItemError(`its "tags" can only have a ${known.map((name) => JSON.stringify(name)).join(' or a ')}`);
  }
  for (const name of names) {
    const [own, tag] = [members.get(name), tags.get(name)!];
    if (own === undefined || own.kind === 'null') members.set(name, tag);
    else if (tag.kind !== 'null' && (own.kind !== tag.kind || stringOf(own) !== stringOf(tag))) {
      throw new ItemError(
        `its ${name} is ${shownStart(own.text)} and its tags.${name} ${shownStart(tag.text)}; send one`,
      );
    }
  }
}

/** @returns no members for a value that is not an object, or has more members than an object may have */
function tagsIn({ text, source }: Json): Members {
  try {
    return readMembers(jsonBytesOf(text, source.limits)) ?? new Members();
  } catch (error) {
    if (error instanceof JsonError) return new Members();
    throw error;
  }
}

/** @returns why a report cannot have a member: `a report of kind check has no "pased"; did you mean passed?` */
export function unknownMember({ name: kind, parameters }: Endpoint, name: string): string {
  const names = parameters.map((parameter) => parameter.name);
  return `a report of kind ${kind} has no ${JSON.stringify(shownStart(name))}${didYouMean(name, names)}`;
}

const TYPE = knownNames.indexOf('type');
const KEY = knownNames.indexOf('idempotency_key');
const TAGS = knownNames.indexOf('tags');
/** The members that items of each endpoint must not have, by their indexes in `knownNames`. */
const FOREIGN: ReadonlyMap<Endpoint, readonly number[]> = new Map(
  endpoints.map((endpoint) => {
    const names = endpoint.parameters.map(({ name }) => name);
    return [endpoint, indexesExcept(['type', 'idempotency_key', ...ignoredMembers, ...names])];
  }),
);
