/** Builds the request of one report, from the options of a command or from a line of JSON. The service validates the values. */

import { type Limits, limits as standardLimits } from '../config/limits.ts';
import { didYouMean } from '../config/options.ts';
import { type Json, JsonError, readJson, readMembers, stringOf } from '../event/json.ts';
import { type Endpoint, findEndpoint } from '../event/parameters.ts';

type LineLimits = Pick<Limits, 'jsonDepthMax' | 'bodyMembersMax'>;

/** One report to send: the endpoint, and the body of its request. */
export interface Submission {
  readonly endpoint: Endpoint;
  /** JSON text, such as `{"asset_key":["warehouse","orders"],"partition":"2026-11-20"}`. */
  readonly body: string;
}

/**
 * Builds a submission from parameters.
 * @param parameters the JSON text of each value by the name of the parameter, such as `partition` → `"2026-11-20"`
 */
export function submit(endpoint: Endpoint, parameters: ReadonlyMap<string, string>): Submission {
  return { endpoint, body: objectOf(parameters) };
}

/** Writes an object. @param members `rows` → `10`: the JSON text of each value, by name. @returns JSON text: `{"rows":10}` */
export function objectOf(members: ReadonlyMap<string, string>): string {
  return `{${[...members].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
}

/**
 * Reads a line: a JSON object with the report's parameters and its `type`, the name of an endpoint (`check`) or the type of an
 * event in the journal (`AssetCheckEvaluation`). A line of a journal is accepted as well: its `tags` are read as parameters,
 * and its sequence number, id, time and checksum are ignored. Values keep their text, so numbers keep every digit.
 * @param line such as `{"type":"observation","asset_key":"orders"}`, without its line end
 * @throws Error whose message is a clause about the line: `it is not a JSON object`
 */
export function readSubmission(
  line: string,
  endpoints: readonly Endpoint[],
  limits: LineLimits = standardLimits,
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
    if (NOT_SENT.has(name)) continue;
    if (name === 'tags' && tags.length > 0) readTags(value, tags, parameters, limits);
    else if (names.includes(name)) parameters.set(name, value.text);
    else {
      const known = didYouMean(name, names);
      throw new Error(`a report of kind ${endpoint.name} has no ${JSON.stringify(name)}${known}`);
    }
  }
  return submit(endpoint, parameters);
}

/**
 * Reads the value of `--metadata-json`.
 * @returns the text of a JSON object without white space between tokens: `{"rows":10}`
 * @throws Error whose message completes `"…" is`, if the text is no JSON object
 */
export function readObject(text: string, limits: LineLimits = standardLimits): string {
  const value = orProblem('is', () => readJson(text, limits.jsonDepthMax));
  if (value.kind !== 'object') throw new Error(`is ${value.kind}; give a JSON object such as '{"rows": 10}'`);
  return value.text;
}

/**
 * Reads the value of `--metadata NAME:=JSON`.
 * @returns the text of a JSON value without white space between tokens, such as `[1,2]`
 * @throws Error whose message completes `"…" is`, if the text is not JSON
 */
export function readValue(text: string, limits: LineLimits = standardLimits): string {
  return orProblem('is', () => readJson(text, limits.jsonDepthMax)).text;
}

/** Adds the members of `tags` to the parameters. @param known the names of tags. @throws Error for no tag or an unknown one */
function readTags(value: Json, known: readonly string[], parameters: Map<string, string>, limits: LineLimits): void {
  const tags = readMembers(value.text, limits.jsonDepthMax, limits.bodyMembersMax) ?? new Map<string, Json>();
  if (tags.size === 0 || [...tags.keys()].some((name) => !known.includes(name))) {
    throw new Error(`its "tags" may only have a ${known.map((name) => JSON.stringify(name)).join(' or a ')}`);
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

/** Members of a journal line that are not parameters: its type, its position in the journal, its origin and its checksum. */
const NOT_SENT: ReadonlySet<string> = new Set([
  'type',
  'seq',
  'id',
  'time',
  'idempotency_key',
  'from',
  'recorded',
  'crc',
]);
