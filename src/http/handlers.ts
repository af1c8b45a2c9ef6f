/**
 * The handlers of the endpoints: pure functions from a request to the event that it reports. Parameters are checked in the
 * order of the table in `parameters.ts`, so that a request with two mistakes always gets the same error.
 */

import type { Limits } from '../config/limits.ts';
import type { Event, EventOrigin } from '../event/event.ts';
import { eventTimeForm, readEventTime } from '../event/event-time.ts';
import { unknownMember } from '../event/item.ts';
import { type Json, readJson, stringOf, stringsOf } from '../event/json.ts';
import { didYouMean, nearestName } from '../event/nearest.ts';
import type { Endpoint, KeyParameter, Parameter, Reported } from '../event/parameters.ts';
import type { RecordedResult } from '../event/record-result.ts';
import { keyConflict, replayedReply } from './idempotency.ts';
import {
  accepted,
  type HandlerRequest,
  quotingRefusal,
  type RecordOutcome,
  Refusal,
  type Reply,
  type ShownLimits,
  shown,
  shownJson,
} from './message.ts';
import { orMalformedJson, percentDecode, readBody, readQuery } from './request.ts';

/** The limits of the parameters of a report. */
export type ParameterLimits = Pick<Limits, 'keyBytesMax' | 'jsonDepthMax'> & ShownLimits;

/**
 * @param strict whether a parameter that the endpoint does not know is refused
 * @returns the handler of an endpoint. It throws Refusal 400 for what is malformed first: the body, the query, a parameter
 */
export function reportTo(
  endpoint: Endpoint,
  limits: ParameterLimits & Pick<Limits, 'bodyMembersMax'>,
  strict = false,
): (request: HandlerRequest) => RecordOutcome {
  const read = reportReader(endpoint, limits);
  const conflictReply: RecordOutcome['conflictReply'] = (conflicts) => keyConflict(conflicts, limits);
  return ({ keyPath, body, query, idempotencyKey }) => {
    const { event, hiddenKey, unknown, misspelt } = read(keyPath, readBody(body, limits), readQuery(query, limits));
    if (strict && unknown?.[0] !== undefined) throw unknownParameter(endpoint, unknown);
    event.idempotencyKey = idempotencyKey;
    return {
      kind: 'record',
      events: [event],
      onConflict: 'refuse all',
      replyTo: accept,
      conflictReply,
      hiddenKey,
      unknown,
      misspelt,
    };
  };
}

/** @param unknown at least one name; one that is nearly that of a parameter is reported first */
function unknownParameter(endpoint: Endpoint, unknown: readonly string[]): Refusal {
  const names = endpoint.parameters.map(({ name }) => name);
  const name = unknown.find((one) => didYouMean(one, names) !== '') ?? unknown[0] ?? '';
  return new Refusal(400, unknownMember(endpoint, name));
}

function accept({ replayed }: RecordedResult): Reply {
  return replayed === undefined ? accepted : replayedReply;
}

/** What the parameters of one report say. */
export interface Report {
  readonly event: Event & { idempotencyKey?: string | undefined; origin?: EventOrigin | undefined };
  /** These three as in `RecordOutcome`. */
  readonly hiddenKey: RecordOutcome['hiddenKey'];
  readonly unknown: RecordOutcome['unknown'];
  readonly misspelt: RecordOutcome['misspelt'];
}

/**
 * Reads the parameters of one report, each from the first that has it: path, body, query.
 * @throws Refusal 400 for the first parameter that is missing or malformed
 */
export type ReadReport = (
  keyPath: string | undefined,
  body: ReadonlyMap<string, Json> | undefined,
  query: ReadonlyMap<string, string>,
) => Report;

/** @returns the function that reads the reports of an endpoint */
export function reportReader({ type, parameters }: Endpoint, limits: ParameterLimits): ReadReport {
  const names = parameters.map(({ name }) => name);
  const known: ReadonlySet<string> = new Set(names);
  const slots = parameters.filter((parameter) => parameter.kind !== 'key').map(slotOf);
  const blank = blankEvent(type, slots);

  return (keyPath, body, query) => {
    const bodyCount = body === undefined ? 0 : body.size;
    const queryCount = query.size;
    const keyInBody = body?.get('asset_key');
    const keyInQuery = queryCount === 0 ? undefined : query.get('asset_key');
    const key = readKey(keyPath, keyInBody, keyInQuery, limits);
    if (key === undefined) throw missing(KEY, unknownIn(body, query, known), limits);
    const event = { ...blank };
    event['assetKey'] = key.parts;
    // The known parameters are counted, so that names are compared only if the request also has an unknown one.
    let found = (keyInBody === undefined ? 0 : 1) + (keyInQuery === undefined ? 0 : 1);
    for (const slot of slots) {
      const inBody = body?.get(slot.name);
      const inQuery = queryCount === 0 ? undefined : query.get(slot.name);
      if (inBody !== undefined) found += 1;
      if (inQuery !== undefined) found += 1;
      const value = readParameter(slot, inBody, inQuery, limits);
      if (value === undefined && slot.required) throw missing(slot, unknownIn(body, query, known), limits);
      if (value !== undefined) event[slot.member] = value;
    }
    const unknown = found === bodyCount + queryCount ? undefined : unknownIn(body, query, known);
    const misspelt = unknown && misspeltIn(unknown, names);
    return { event: event as Reported, hiddenKey: key.hidden, unknown, misspelt };
  };
}

/** A parameter as the handler reads it. All slots have the same members and so one hidden class, which V8 reads fastest. */
interface Slot {
  readonly name: string;
  readonly member: string;
  readonly kind: Exclude<Parameter, KeyParameter>['kind'];
  readonly required: boolean;
  readonly what: string;
  readonly choices: readonly string[];
  readonly standard: string | undefined;
}

function slotOf(parameter: Exclude<Parameter, KeyParameter>): Slot {
  const { name, member, kind, required } = parameter;
  return {
    name,
    member,
    kind,
    required,
    what: kind === 'metadata' ? name : parameter.what,
    choices: kind === 'one of' ? parameter.choices : [],
    standard: kind === 'one of' ? parameter.standard : undefined,
  };
}

/**
 * @returns an event with default values, to be copied for each report. JSON.parse creates all members as in-object properties,
 * like an object literal; copying an object that Object.fromEntries created takes more memory and time. It has every member that
 * an event may get: one that is added to a copy gives each copy a hidden class of its own, which costs 4 µs a report.
 */
function blankEvent(type: Event['type'], slots: readonly Slot[]): Readonly<Record<string, unknown>> {
  const further = ['idempotencyKey', 'origin'].map((member) => ({ member, standard: undefined }));
  const members = [...slots, ...further];
  const nulls = members.map(({ member }) => [member, null]);
  const blank = JSON.parse(JSON.stringify({ type, assetKey: null, ...Object.fromEntries(nulls) }));
  for (const { member, standard } of members) blank[member] = standard;
  return blank;
}

function unknownIn(
  body: ReadonlyMap<string, Json> | undefined,
  query: ReadonlyMap<string, string>,
  known: ReadonlySet<string>,
): string[] {
  return [...(body?.keys() ?? []), ...query.keys()].filter((name) => !known.has(name));
}

/** @returns the names that are one edit away from a parameter, or undefined if there is none */
function misspeltIn(unknown: readonly string[], names: readonly string[]): RecordOutcome['misspelt'] {
  const found = unknown.flatMap((name) => {
    const meant = nearestName(name, names);
    return meant === undefined ? [] : [{ name, meant }];
  });
  return found.length === 0 ? undefined : found;
}

interface RequestKey {
  readonly parts: readonly string[];
  /** A different key in the same request that the key in the path overrides. */
  readonly hidden?: string;
}

/**
 * Reads the asset key from the first of path, body and query that has it (specification section 4).
 * @returns undefined if it is missing
 */
function readKey(
  keyPath: string | undefined,
  inBody: Json | undefined,
  inQuery: string | undefined,
  limits: ParameterLimits,
): RequestKey | undefined {
  if (keyPath !== undefined) {
    const parts = keyInPath(keyPath, limits);
    if (inBody === undefined && inQuery === undefined) return { parts };
    // A null in the body means "not given" and overrides the query, so the query's key is not reported as overridden by the path.
    const others = inBody?.kind === 'null' ? [] : [inBody && textOf(inBody), inQuery];
    const hidden = others.find((other) => other !== undefined && !sameKey(parts, other));
    return hidden === undefined ? { parts } : { parts, hidden };
  }
  if (inBody !== undefined && inBody.kind !== 'null') return { parts: keyInBody(inBody, limits) };
  if (inBody === undefined && inQuery !== undefined) return { parts: keyInQuery(inQuery, limits) };
  return undefined;
}

function keyInPath(path: string, limits: ParameterLimits): string[] {
  const parts = path.split('/').map((part) => {
    const decoded = percentDecode(part);
    if (decoded !== undefined) return decoded;
    const problem = (value: string) =>
      `asset_key in the path holds ${value}, which is not percent-encoded UTF-8; write % as %25`;
    throw quotingRefusal(400, shown(part, limits), 'logged', problem);
  });
  return checkKey(parts, path, 'in the path', limits);
}

function keyInBody(value: Json, limits: ParameterLimits): readonly string[] {
  const parts = value.kind === 'string' ? [stringOf(value)] : value.kind === 'array' ? stringsOf(value) : undefined;
  if (parts === undefined) throw wrongType('asset_key', value, 'a string or an array of strings', limits);
  return checkKey(parts, value.text, 'in the body', limits);
}

function keyInQuery(text: string, limits: ParameterLimits): readonly string[] {
  if (!text.startsWith('[')) return checkKey([text], text, 'in the query', limits);
  const value = orMalformedJson('asset_key in the query begins with [ and', () => readJson(text, limits.jsonDepthMax));
  const parts = stringsOf(value);
  if (parts === undefined) {
    const problem = (value: string) => `asset_key in the query is ${value}; a JSON array must hold strings only`;
    throw quotingRefusal(400, shown(text, limits), 'withheld', problem);
  }
  return checkKey(parts, text, 'in the query', limits);
}

/** @returns the key in a body in the form that it has in a query */
function textOf(value: Json): string {
  return value.kind === 'string' ? stringOf(value) : value.text;
}

/** Whether two keys are equal. The other key is not used, so a malformed one is not an error. */
function sameKey(parts: readonly string[], other: string): boolean {
  if (parts.length === 1 && parts[0] === other) return true;
  try {
    return JSON.stringify(parts) === JSON.stringify(JSON.parse(other));
  } catch {
    return false; // not JSON, so not an array with the same parts
  }
}

/** The checks of every key, from path, body or query. @throws Refusal 400 */
function checkKey(parts: string[], sent: string, from: KeyOrigin, limits: ParameterLimits): string[] {
  const { keyBytesMax } = limits;
  if (parts.length === 0) throw new Refusal(400, `asset_key ${from} is an empty array; give at least one part`);
  let characters = parts.length - 1;
  for (const part of parts) {
    if (part === '') throw badKey(sent, from, 'an empty part', 'every part needs a name', limits);
    if (CONTROL.test(part)) throw badKey(sent, from, 'a control character', 'remove it', limits);
    if (!part.isWellFormed()) throw badKey(sent, from, HALF, WHOLE, limits);
    characters += part.length;
  }
  if (characters * UTF8_BYTES_MAX <= keyBytesMax) return parts;
  const bytes = Buffer.byteLength(parts.join('/'));
  if (bytes > keyBytesMax) throw badKey(sent, from, `${bytes} bytes`, `at most ${keyBytesMax} are taken`, limits);
  return parts;
}

/** @param has what is wrong with the key */
function badKey(sent: string, from: KeyOrigin, has: string, advice: string, limits: ParameterLimits): Refusal {
  const quote = from === 'in the body' ? shownJson(sent, limits) : shown(sent, limits);
  const problem = (key: string) => `asset_key ${from} has ${has}: ${key}; ${advice}`;
  return quotingRefusal(400, quote, from === 'in the query' ? 'withheld' : 'logged', problem);
}

const HALF = 'half of a surrogate pair';
const WHOLE = 'send whole characters';

type KeyOrigin = 'in the path' | 'in the body' | 'in the query';

/** Most bytes in UTF-8 for one UTF-16 code unit. */
const UTF8_BYTES_MAX = 3;
const CONTROL = /[\u0000-\u001f\u007f]/;

type Value = string | Buffer | boolean | undefined;

/**
 * Reads a parameter from the body if it is there, else from the query. A null in the body means "not given".
 * @returns undefined if the parameter is not given
 * @throws Refusal 400
 */
function readParameter(
  slot: Slot,
  inBody: Json | undefined,
  inQuery: string | undefined,
  limits: ParameterLimits,
): Value {
  if (inBody === undefined) return inQuery === undefined ? undefined : readInQuery(slot, inQuery, limits);
  return inBody.kind === 'null' ? undefined : readInBody(slot, inBody, limits);
}

function readInBody(slot: Slot, value: Json, limits: ParameterLimits): Value {
  const { name, kind } = slot;
  if (kind === 'metadata') return readMetadata(name, value, limits);
  if (kind === 'boolean') {
    if (value.kind !== 'boolean') throw wrongType(name, value, 'the JSON boolean true or false', limits);
    return value.text === 'true';
  }
  if (value.kind !== 'string') {
    const ambiguous = kind === 'time' && value.kind === 'number' ? ': a number may mean seconds or milliseconds' : '';
    throw wrongType(name, value, `${kind === 'time' ? eventTimeForm : 'a JSON string'}${ambiguous}`, limits);
  }
  const text = stringOf(value);
  if (!text.isWellFormed()) {
    const problem = (sent: string) => `${name} has ${HALF}: ${sent}; ${WHOLE}`;
    throw quotingRefusal(400, shownJson(value.text, limits), 'logged', problem);
  }
  return checkText(slot, text, 'logged', limits);
}

function readInQuery(slot: Slot, text: string, limits: ParameterLimits): Value {
  const { name, kind } = slot;
  if (kind === 'metadata') {
    const value = orMalformedJson(`${name} in the query`, () => readJson(text, limits.jsonDepthMax));
    return value.kind === 'null' ? undefined : readMetadata(name, value, limits);
  }
  if (kind === 'boolean') {
    if (text === 'true' || text === 'false') return text === 'true';
    const problem = (sent: string) => `${name} in the query is ${sent}; send true or false`;
    throw quotingRefusal(400, shown(text, limits), 'withheld', problem);
  }
  return checkText(slot, text, 'withheld', limits);
}

/** @returns the object, as it was sent. @throws Refusal 400 if the value is not an object */
function readMetadata(name: string, value: Json, limits: ParameterLimits): string | Buffer {
  if (value.kind !== 'object') throw wrongType(name, value, 'a JSON object such as {"rows":10}', limits);
  return value.sent;
}

/** @param inLog whether the log may have the text */
function checkText(
  { name, kind, what, choices, standard }: Slot,
  text: string,
  inLog: 'logged' | 'withheld',
  limits: ParameterLimits,
): string {
  if (kind === 'time') {
    const time = readEventTime(text);
    if (time.kind === 'time') return time.utc;
    throw quotingRefusal(400, shown(text, limits), inLog, (sent) => `${name} is ${sent}: ${time.problem}`);
  }
  if (kind === 'non-empty string' && text === '') throw new Refusal(400, `${name} is ""; send the ${what}`);
  if (kind === 'one of' && !choices.includes(text)) {
    const wanted = choices.join(' or ');
    const problem = (sent: string) => `${name} is ${sent}; send ${wanted}, or leave it out for ${standard}`;
    throw quotingRefusal(400, shown(text, limits), inLog, problem);
  }
  return text;
}

/** @param unknown the names in the request that are no parameters, of which one may be a misspelling of the missing one */
function missing(
  { name, kind, what }: Pick<Slot, 'name' | 'what'> & { kind: Parameter['kind'] },
  unknown: readonly string[],
  limits: ParameterLimits,
): Refusal {
  const wanted =
    kind === 'key'
      ? 'put it in the path (/warehouse/orders), the JSON body or the query'
      : kind === 'boolean'
        ? `send true or false as a JSON boolean in the body, or ${name}=true in the query`
        : `send the ${what} as a string`;
  const error = `${name} is missing: ${wanted}`;
  const misspelt = unknown.find((one) => nearestName(one, [name]) !== undefined);
  if (misspelt === undefined) return new Refusal(400, error);
  const problem = (sent: string) => `${error}; the request has ${sent}, did you mean ${name}?`;
  return quotingRefusal(400, shown(misspelt, limits), 'logged', problem);
}

const KEY = { name: 'asset_key', kind: 'key', what: '' } as const;

function wrongType(name: string, value: Json, wanted: string, limits: ParameterLimits): Refusal {
  const article = value.kind === 'array' || value.kind === 'object' ? 'an' : 'a';
  const inLog = name === 'metadata' ? 'withheld' : 'logged';
  const problem = (sent: string) => `${name} is ${sent} (${article} ${value.kind}); send ${wanted}`;
  return quotingRefusal(400, shownJson(value.text, limits), inLog, problem);
}
