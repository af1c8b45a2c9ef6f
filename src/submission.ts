/** What is sent for one report, made of the options of a command or of a line of JSON. What its values may be, the service says. */

import { limits } from './config.ts';
import { type Json, JsonError, readJson, readMembers, stringOf } from './json.ts';
import { didYouMean } from './options.ts';

export const kinds = ['materialization', 'check', 'observation'] as const;
export type Kind = (typeof kinds)[number];

export interface Submission {
  readonly kind: Kind;
  /** JSON text. */
  readonly body: string;
}

const ASSET = ['asset_key', 'partition', 'data_version', 'description', 'metadata'];
const CHECK = ['asset_key', 'partition', 'check_name', 'passed', 'severity', 'metadata'];

export function takes(kind: Kind, parameter: string): boolean {
  return (kind === 'check' ? CHECK : ASSET).includes(parameter);
}

/** @param parameters JSON text by name */
export function submit(kind: Kind, parameters: ReadonlyMap<string, string>): Submission {
  return { kind, body: objectOf(parameters) };
}

/** @param members JSON text by name. @returns JSON text */
export function objectOf(members: ReadonlyMap<string, string>): string {
  return `{${[...members].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
}

/**
 * A line is an object with the report's parameters and its `type`: a kind, or an event as the journal names it. In a line of a
 * journal the data version is a tag, and what is about its place there is left out. Values stay as they are, digit by digit.
 * @throws Error whose message is a clause about the line
 */
export function readSubmission(line: string): Submission {
  const members = orProblem('it is', () => readMembers(line, limits.jsonDepthMax, limits.bodyMembersMax));
  if (members === undefined) throw new Error('it is not a JSON object');
  const type = members.get('type');
  const kind = type?.kind === 'string' ? KINDS.get(stringOf(type)) : undefined;
  if (kind === undefined) throw new Error(`its "type" is ${type?.text ?? 'missing'}; write ${kinds.join(', ')}`);
  const parameters = new Map<string, string>();
  for (const [name, value] of members) {
    if (PLACE.has(name)) continue;
    if (name === 'tags' && kind !== 'check') readTags(value, parameters);
    else if (takes(kind, name)) parameters.set(name, value.text);
    else {
      const known = didYouMean(name, kind === 'check' ? CHECK : ASSET);
      throw new Error(`a report of kind ${kind} has no ${JSON.stringify(name)}${known}`);
    }
  }
  return submit(kind, parameters);
}

/** @throws Error for metadata that is no JSON object. @returns its text */
export function readObject(text: string): string {
  const value = orProblem('is', () => readJson(text, limits.jsonDepthMax));
  if (value.kind !== 'object') throw new Error(`is ${value.kind}; give a JSON object such as '{"rows": 10}'`);
  return value.text;
}

/** @throws Error for what is not JSON. @returns the text of the value */
export function readValue(text: string): string {
  return orProblem('is', () => readJson(text, limits.jsonDepthMax)).text;
}

function readTags(value: Json, parameters: Map<string, string>): void {
  const tags = readMembers(value.text, limits.jsonDepthMax, limits.bodyMembersMax);
  const version = tags?.get('data_version');
  if (version === undefined || tags?.size !== 1)
    throw new Error('its "tags" hold something else than a "data_version"');
  parameters.set('data_version', version.text);
}

function orProblem<Value>(subject: string, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new Error(`${subject} not valid JSON at column ${error.column}: ${error.message}`);
  }
}

const KINDS: ReadonlyMap<string, Kind> = new Map([
  ...kinds.map((kind) => [kind, kind] as const),
  ['AssetMaterialization', 'materialization'],
  ['AssetCheckEvaluation', 'check'],
  ['AssetObservation', 'observation'],
]);

/** Members that say what the line is, and where it stands in a journal. */
const PLACE: ReadonlySet<string> = new Set(['type', 'seq', 'id', 'time', 'crc']);
