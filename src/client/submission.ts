/** Builds the request of one report, from the options of a command or from a line of JSON. The service validates the values. */

import { readEventTime } from '../event/event-time.ts';
import { ItemError, readItem, readItemText } from '../event/item.ts';
import { type Json, readJson, stringOf } from '../event/json.ts';
import type { JsonLimits } from '../event/json-bytes.ts';
import { JsonError } from '../event/json-mistakes.ts';
import type { Endpoint } from '../event/parameters.ts';
import { shownStart } from '../event/shown.ts';

export interface Submission {
  readonly endpoint: Endpoint;
  /** JSON text of an object. */
  readonly body: string;
  /** Identifies the report: if it is sent again with the same key, it is recorded once. Visible ASCII. */
  readonly idempotencyKey?: string | undefined;
  /** Whether the report comes from a journal line whose `time` is not sent, and has no `event_time`. */
  readonly isWithoutTime?: boolean;
}

/** @param parameters the JSON text of each value, by the name of the parameter */
export function submit(endpoint: Endpoint, parameters: ReadonlyMap<string, string>): Submission {
  return { endpoint, body: objectOf(parameters) };
}

/** @param members the JSON text of each value, by name @returns JSON text */
export function objectOf(members: ReadonlyMap<string, string>): string {
  return `{${[...members].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
}

/**
 * Reads a line in the form of an item: see `event/item.ts`. Values keep their text, so numbers keep every digit. The `time` of a
 * journal line becomes its `event_time`, unless it has one; if the line has an idempotency key, this is done only with
 * `keepTimes`, because a service that has the event under this key recognizes it only without that `event_time`.
 * @throws ItemError whose message is a clause about the line: `it is not a JSON object`
 */
export function readSubmission(line: string, limits: JsonLimits, keepTimes = false): Submission {
  const members = readItemText(line, limits);
  const time = members.get('time');
  const { endpoint, idempotencyKey: key } = readItem(members);
  const texts = new Map<string, string>();
  for (const { name } of endpoint.parameters) {
    const value = members.get(name);
    if (value !== undefined) texts.set(name, value.text);
  }
  const idempotencyKey = key === undefined ? undefined : readKey(key);
  const isTimed = time?.kind === 'string' && !texts.has('event_time') && isTime(stringOf(time));
  const isWithoutTime = isTimed && key !== undefined && !keepTimes;
  if (isTimed && !isWithoutTime) texts.set('event_time', time.text);
  return { ...submit(endpoint, texts), idempotencyKey, isWithoutTime };
}

/**
 * Reads the value of `--metadata-json`.
 * @returns the text without white space between tokens
 * @throws Error whose message completes `"…" is`, if the text is not a JSON object
 */
export function readJsonObject(text: string, limits: JsonLimits): string {
  const value = explainJsonError(() => readJson(text, limits.jsonDepthMax));
  if (value.kind !== 'object') throw new Error(`is ${value.kind}; give a JSON object such as '{"rows": 10}'`);
  return value.text;
}

/**
 * Reads the value of `--metadata NAME:=JSON`.
 * @returns the text without white space between tokens
 * @throws Error whose message completes `"…" is`, if the text is not JSON
 */
export function readValue(text: string, limits: JsonLimits): string {
  return explainJsonError(() => readJson(text, limits.jsonDepthMax)).text;
}

function readKey(key: Json): string {
  const text = key.kind === 'string' ? stringOf(key) : '';
  if (!/^[\x21-\x7e]+$/.test(text)) {
    throw new ItemError(`its "idempotency_key" is ${shownStart(key.text)}; write a string of visible ASCII characters`);
  }
  return text;
}

/** Whether the `time` of a line can be an event time. Lines can have a time in another format, which is ignored. */
export function isTime(text: string): boolean {
  return readEventTime(text).kind === 'time';
}

function explainJsonError<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new Error(`is not valid JSON at column ${error.column}: ${error.message}`);
  }
}
