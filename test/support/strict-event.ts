/**
 * The second reader's part of a report: its parameters, read independently, by the specification and the README, without any file of
 * the service.
 */

import type { JournalLine } from '../world/journal-line.ts';

/** Thrown for a well-framed request that is not a report. */
export class Unfit extends Error {}

export function require(fit: boolean): asserts fit {
  if (!fit) throw new Unfit();
}

/** The members of a JSON object: parsed, and as written, less the white space between tokens. */
export interface Members {
  readonly values: Readonly<Record<string, unknown>>;
  readonly written: ReadonlyMap<string, string>;
}

/** The sources of one report's parameters; missing ones are empty. */
export interface Given {
  readonly keyPath: string;
  readonly members: Members;
  readonly query: ReadonlyMap<string, string>;
  /** The names in the query that have different values. */
  readonly repeated?: ReadonlySet<string>;
}

export const NO_MEMBERS: Members = { values: {}, written: new Map() };

/** The type of event by the name of the endpoint. */
export const TYPES: Readonly<Record<string, string>> = {
  materialization: 'AssetMaterialization',
  check: 'AssetCheckEvaluation',
  observation: 'AssetObservation',
};

/** A recorded event as a text, without what the service adds. */
export type EventText = string;

/** @param deployment the deployment of the journal */
export function textOfLine({ report, metadata }: JournalLine, deployment: string): EventText {
  return textOf({ ...report, data_version: report.tags?.data_version, metadata }, deployment);
}

function textOf(event: Readonly<Record<string, unknown>>, deployment: string): EventText {
  const { type, asset_key, partition, description, data_version, metadata, check_name, passed, severity } = event;
  const parts = [type, asset_key, partition, description, data_version, metadata, check_name, passed, severity];
  return JSON.stringify([...parts, event['event_time'], deployment]);
}

/** @throws Unfit or SyntaxError if the text is not a JSON object */
export function readMembers(json: string): Members {
  const values: unknown = JSON.parse(json);
  require(typeof values === 'object' && values !== null && !Array.isArray(values));
  const written = new Map<string, string>();
  for (const part of partsOf(json)) {
    const [name = ''] = /^"(?:[^"\\]|\\.)*"/.exec(part) ?? [];
    written.set(JSON.parse(name), part.slice(name.length + 1));
  }
  return { values: values as Record<string, unknown>, written };
}

/** The members of an object, or the elements of an array, as written, less the white space between tokens. */
export function partsOf(json: string): string[] {
  const compact = json.replace(/("(?:[^"\\]|\\.)*")|[ \t\r\n]+/g, '$1');
  const parts: string[] = [];
  let depth = 0;
  let start = 1;
  for (const { 0: token, index } of compact.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},]/g)) {
    if (token === '[' || token === '{') depth += 1;
    if (token === ']' || token === '}') depth -= 1;
    const ends = (token === ',' && depth === 1) || (depth === 0 && index > start);
    if (!ends) continue;
    parts.push(compact.slice(start, index));
    start = index + 1;
  }
  return parts;
}

/**
 * @param kind `check`, for example
 * @returns the event that the journal should have
 * @throws Unfit, SyntaxError or URIError if any rule of the README refuses the report
 */
export function readEvent(
  kind: string,
  { keyPath, members, query: given, repeated }: Given,
  deployment: string,
): EventText {
  const { values, written } = members;
  const isInBody = (name: string) => Object.hasOwn(values, name);
  const query = {
    get: (name: string) => {
      require(repeated?.has(name) !== true || (name === 'asset_key' && keyPath !== ''));
      return given.get(name);
    },
  };
  const find = (name: string) => (isInBody(name) ? values[name] : query.get(name));
  const event: Record<string, unknown> = {
    type: TYPES[kind],
    asset_key: readKey(keyPath, find('asset_key'), isInBody),
  };
  const texts =
    kind === 'check' ? ['check_name', 'severity', 'partition'] : ['data_version', 'description', 'partition'];
  for (const name of texts) event[name] = text(find(name));
  event['metadata'] = readMetadata(isInBody('metadata') ? written.get('metadata') : query.get('metadata'));
  if (kind === 'check') {
    const words: Readonly<Record<string, boolean>> = { true: true, false: false };
    checkCheck(event, isInBody('passed') ? values['passed'] : words[query.get('passed') ?? '']);
  }
  event['event_time'] = readTime(text(find('event_time')));
  return textOf(event, deployment);
}

function readKey(path: string, given: unknown, isInBody: (name: string) => boolean): readonly string[] {
  let key = given;
  if (path !== '') key = path.split('/').map(decodeURIComponent);
  else if (!isInBody('asset_key') && typeof given === 'string' && given.startsWith('[')) key = JSON.parse(given);
  const parts: unknown[] = Array.isArray(key) ? key : [key];
  require(parts.length > 0);
  for (const part of parts)
    require(typeof part === 'string' && /^[^\x00-\x1f\x7f]+$/.test(part) && part.isWellFormed());
  require(Buffer.byteLength(parts.join('/')) <= 4_096);
  return parts as string[];
}

function text(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  require(typeof value === 'string' && value.isWellFormed());
  return value;
}

/** @returns the metadata as recorded: token by token as sent, with line breaks escaped */
function readMetadata(json: string | undefined): string | undefined {
  if (json === undefined) return undefined;
  const value: unknown = JSON.parse(json);
  if (value === null) return undefined;
  require(typeof value === 'object' && !Array.isArray(value));
  const breaks = { '\u0085': '\\u0085', '\u2028': '\\u2028', '\u2029': '\\u2029' };
  const whole = partsOf(`[${json}]`).join();
  return whole.replace(/[\u0085\u2028\u2029]/g, (character) => breaks[character as keyof typeof breaks]);
}

function checkCheck(event: Record<string, unknown>, passed: unknown): void {
  require(typeof passed === 'boolean');
  require(event['check_name'] !== undefined && event['check_name'] !== '');
  event['severity'] ??= 'ERROR';
  require(event['severity'] === 'WARN' || event['severity'] === 'ERROR');
  event['passed'] = passed;
}

const TIME = /^(\d{4})-(\d\d)-(\d\d)[t ](\d\d):(\d\d):(\d\d)(\.\d{1,9})?(z|[+-]\d\d:\d\d)$/i;

/** @returns the time in UTC, by the calendar of Date, with years from 0 */
function readTime(sent: string | undefined): string | undefined {
  if (sent === undefined) return undefined;
  const [whole, year, month, day, hour, minute, second, fraction = '', zone = ''] = TIME.exec(sent) ?? [];
  require(whole !== undefined);
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  date.setUTCHours(Number(hour), Number(minute), Number(second));
  // Date changes a day or time that does not exist to another one.
  const fields = [date.getUTCMonth() + 1, date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes()];
  require(fields.join() === [month, day, hour, minute].map(Number).join() && date.getUTCSeconds() === Number(second));
  if (!/z/i.test(zone)) {
    const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(4))];
    require(hours < 24 && minutes < 60);
    date.setTime(date.getTime() - Number(`${zone[0]}1`) * (hours * 60 + minutes) * 60_000);
  }
  require(date.getUTCFullYear() >= 1 && date.getUTCFullYear() <= 9999);
  return `${date.toISOString().slice(0, 19)}${fraction}Z`;
}
