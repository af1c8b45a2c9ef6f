/** What is sent for one report, made of the options of a command or of a line of JSON. What its values may be, the service says. */

import { type Limits, limits as standardLimits } from '../config/limits.ts';
import { didYouMean } from '../config/options.ts';
import { type Json, JsonError, readJson, readMembers, stringOf } from '../event/json.ts';
import { type Endpoint, findEndpoint } from '../event/parameters.ts';

type JsonLimits = Pick<Limits, 'jsonDepthMax' | 'bodyMembersMax'>;

export interface Submission {
  readonly endpoint: Endpoint;
  /** JSON text. */
  readonly body: string;
}

/** @param parameters JSON text by name */
export function submit(endpoint: Endpoint, parameters: ReadonlyMap<string, string>): Submission {
  return { endpoint, body: objectOf(parameters) };
}

/** @param members JSON text by name. @returns JSON text */
export function objectOf(members: ReadonlyMap<string, string>): string {
  return `{${[...members].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
}

/**
 * A line is an object with the report's parameters and its `type`: the name of an endpoint, or an event as the journal names
 * it. In a line of a journal some parameters are tags, and what is about its place there is left out. Values stay as they
 * are, digit by digit.
 * @throws Error whose message is a clause about the line
 */
export function readSubmission(
  line: string,
  endpoints: readonly Endpoint[],
  limits: JsonLimits = standardLimits,
): Submission {
  const members = orProblem('it is', () => readMembers(line, limits.jsonDepthMax, limits.bodyMembersMax));
  if (members === undefined) throw new Error('it is not a JSON object');
  const type = members.get('type');
  const endpoint = type?.kind === 'string' ? findEndpoint(endpoints, stringOf(type)) : undefined;
  if (endpoint === undefined) {
    throw new Error(`its "type" is ${type?.text ?? 'missing'}; write ${endpoints.map(({ name }) => name).join(', ')}`);
  }
  const names = endpoint.parameters.map(({ name }) => name);
  const tags = endpoint.parameters.filter((parameter) => 'tag' in parameter).map(({ name }) => name);
  const parameters = new Map<string, string>();
  for (const [name, value] of members) {
    if (PLACE.has(name)) continue;
    if (name === 'tags' && tags.length > 0) readTags(value, tags, parameters, limits);
    else if (names.includes(name)) parameters.set(name, value.text);
    else {
      const known = didYouMean(name, names);
      throw new Error(`a report of kind ${endpoint.name} has no ${JSON.stringify(name)}${known}`);
    }
  }
  return submit(endpoint, parameters);
}

/** @throws Error for metadata that is no JSON object. @returns its text */
export function readObject(text: string, limits: JsonLimits = standardLimits): string {
  const value = orProblem('is', () => readJson(text, limits.jsonDepthMax));
  if (value.kind !== 'object') throw new Error(`is ${value.kind}; give a JSON object such as '{"rows": 10}'`);
  return value.text;
}

/** @throws Error for what is not JSON. @returns the text of the value */
export function readValue(text: string, limits: JsonLimits = standardLimits): string {
  return orProblem('is', () => readJson(text, limits.jsonDepthMax)).text;
}

/** @param known the names of tags */
function readTags(value: Json, known: readonly string[], parameters: Map<string, string>, limits: JsonLimits): void {
  const tags = readMembers(value.text, limits.jsonDepthMax, limits.bodyMembersMax) ?? new Map<string, Json>();
  if (tags.size === 0 || [...tags.keys()].some((name) => !known.includes(name))) {
    throw new Error(
      `its "tags" hold something else than a ${known.map((name) => JSON.stringify(name)).join(' or a ')}`,
    );
  }
  for (const [name, { text }] of tags) parameters.set(name, text);
}

function orProblem<Value>(subject: string, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new Error(`${subject} not valid JSON at column ${error.column}: ${error.message}`);
  }
}

/** Members that say what the line is, and where it stands in a journal. */
const PLACE: ReadonlySet<string> = new Set(['type', 'seq', 'id', 'time', 'crc']);
