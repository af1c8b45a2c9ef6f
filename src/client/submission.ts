/** Builds the request of one report, from the options of a command or from a line of JSON. The service validates the values. */

import { type Limits, limits as standardLimits } from '../config/limits.ts';
import { didYouMean } from '../config/options.ts';
import { type Json, JsonError, readJson, readMembers, stringOf } from '../event/json.ts';
import { type Endpoint, findEndpoint } from '../event/parameters.ts';

type JsonLimits = Pick<Limits, 'jsonDepthMax' | 'bodyMembersMax'>;

export interface Submission {
  readonly endpoint: Endpoint;
  /** The body of the request, as JSON text. */
  readonly body: string;
}

/** @param parameters the JSON text of each value, by name */
export function submit(endpoint: Endpoint, parameters: ReadonlyMap<string, string>): Submission {
  return { endpoint, body: objectOf(parameters) };
}

/** @param members the JSON text of each value, by name. @returns the JSON text of an object */
export function objectOf(members: ReadonlyMap<string, string>): string {
  return `{${[...members].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
}

/**
 * Reads a line: a JSON object with the report's parameters and its `type`, the name of an endpoint (`check`) or the type of an
 * event in the journal (`AssetCheckEvaluation`). A line of a journal is accepted as well: its `tags` are read as parameters,
 * and its sequence number, id, time and checksum are ignored. Values keep their text, so numbers keep every digit.
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

/** @returns the text of a JSON object, without white space between tokens. @throws Error if it is no JSON object */
export function readObject(text: string, limits: JsonLimits = standardLimits): string {
  const value = orProblem('is', () => readJson(text, limits.jsonDepthMax));
  if (value.kind !== 'object') throw new Error(`is ${value.kind}; give a JSON object such as '{"rows": 10}'`);
  return value.text;
}

/** @returns the text of a JSON value, without white space between tokens. @throws Error if it is not JSON */
export function readValue(text: string, limits: JsonLimits = standardLimits): string {
  return orProblem('is', () => readJson(text, limits.jsonDepthMax)).text;
}

/** Adds the members of `tags` to the parameters. @param known the names of tags. @throws Error for no tag or an unknown one */
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

/** Members of a journal line that are not parameters: its type, its position in the journal and its checksum. */
const PLACE: ReadonlySet<string> = new Set(['type', 'seq', 'id', 'time', 'crc']);
