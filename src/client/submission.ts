/** Builds the request of one report, from the options of a command or from a line of JSON. The service validates the values. */

import { type Limits, limits as standardLimits } from '../config/limits.ts';
import { readEventTime } from '../event/event-time.ts';
import { ItemError, readItem, readItemText } from '../event/item.ts';
import { type Json, JsonError, readJson, stringOf } from '../event/json.ts';
import type { Endpoint } from '../event/parameters.ts';

type LineLimits = Pick<Limits, 'jsonDepthMax' | 'bodyMembersMax'>;

/** One report to send: the endpoint, and the body of its request, such as `{"asset_key":["warehouse","orders"]}`. */
export interface Submission {
  readonly endpoint: Endpoint;
  /** JSON text, such as `{"asset_key":["warehouse","orders"],"partition":"2026-11-20"}`. */
  readonly body: string;
  /** Identifies the report: sent again with the same key, it is recorded once. Visible ASCII, such as `load-17/1`. */
  readonly idempotencyKey?: string | undefined;
}

/**
 * Builds a submission from parameters.
 * @param parameters the JSON text of each value by the name of the parameter, such as `partition` → `"2026-11-20"`
 * @returns a submission whose body is then `{"partition":"2026-11-20"}`
 */
export function submit(endpoint: Endpoint, parameters: ReadonlyMap<string, string>): Submission {
  return { endpoint, body: objectOf(parameters) };
}

/** Writes a JSON object. @param members the JSON text of each value, by name: `rows` → `10`. @returns JSON text: `{"rows":10}` */
export function objectOf(members: ReadonlyMap<string, string>): string {
  return `{${[...members].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
}

/**
 * Reads a line, an item as `event/item.ts` describes it. Values keep their text, so numbers keep every digit. The `time` of a
 * line of a journal becomes its `event_time`, unless it has one or an idempotency key: with the key it must be the event as it
 * was recorded.
 * @param line such as `{"type":"observation","asset_key":"orders"}`, without its line end
 * @returns a submission whose body is then `{"asset_key":"orders"}`
 * @throws ItemError whose message is a clause about the line: `it is not a JSON object`
 */
export function readSubmission(
  line: string,
  endpoints: readonly Endpoint[],
  limits: LineLimits = standardLimits,
): Submission {
  const members = readItemText(line, limits);
  const time = members.get('time');
  const { endpoint, parameters, idempotencyKey: key } = readItem(members, endpoints, limits);
  const texts = new Map<string, string>();
  for (const [name, { text }] of parameters) texts.set(name, text);
  const idempotencyKey = key === undefined ? undefined : readKey(key);
  if (key === undefined && time?.kind === 'string' && !texts.has('event_time') && isTime(time)) {
    texts.set('event_time', time.text);
  }
  return { ...submit(endpoint, texts), idempotencyKey };
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

function readKey(key: Json): string {
  const text = key.kind === 'string' ? stringOf(key) : '';
  if (!/^[\x21-\x7e]+$/.test(text)) {
    throw new ItemError(`its "idempotency_key" is ${shownStart(key.text)}; write a string of visible ASCII characters`);
  }
  return text;
}

function shownStart(text: string): string {
  return text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text;
}

/** Other lines may have a member `time` of another form, which is ignored. */
function isTime(value: Json): boolean {
  return readEventTime(stringOf(value)).kind === 'time';
}

const SHOWN_CHARACTERS_MAX = 100;

function orProblem<Value>(subject: string, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new Error(`${subject} not valid JSON at column ${error.column}: ${error.message}`);
  }
}
