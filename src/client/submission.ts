/** Builds the request of one report, from the options of a command or from a line of JSON. The service validates the values. */

import { type Limits, limits as standardLimits } from '../config/limits.ts';
import { readItem, readItemText } from '../event/item.ts';
import { JsonError, readJson } from '../event/json.ts';
import type { Endpoint } from '../event/parameters.ts';

type LineLimits = Pick<Limits, 'jsonDepthMax' | 'bodyMembersMax'>;

/** One report to send: the endpoint, and the body of its request, such as `{"asset_key":["warehouse","orders"]}`. */
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
 * Reads a line, an item as `event/item.ts` describes it. Values keep their text, so numbers keep every digit.
 * @param line such as `{"type":"observation","asset_key":"orders"}`, without its line end
 * @throws ItemError whose message is a clause about the line: `it is not a JSON object`
 */
export function readSubmission(
  line: string,
  endpoints: readonly Endpoint[],
  limits: LineLimits = standardLimits,
): Submission {
  const { endpoint, parameters } = readItem(readItemText(line, limits), endpoints, limits);
  return submit(endpoint, new Map([...parameters].map(([name, { text }]) => [name, text])));
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

function orProblem<Value>(subject: string, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new Error(`${subject} not valid JSON at column ${error.column}: ${error.message}`);
  }
}
