/**
 * The handlers of the endpoints: pure functions from a request to the event that it reports. Parameters are checked in the
 * order of the table in `parameters.ts`, so that a request with two mistakes always gets the same error.
 */

import { type Limits, limits as standardLimits } from '../config/limits.ts';
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
  type RecordOutcome,
  Refusal,
  type Reply,
  shown,
  shownJson,
  WITHHELD,
} from './message.ts';
import { orMalformedJson, percentDecode, readBody, readQuery } from './request.ts';

/** The limits of parameters, bytes of a key and nesting depth of JSON: `{ keyBytesMax: 4_096, jsonDepthMax: 128 }`. */
export type ParameterLimits = Pick<Limits, 'keyBytesMax' | 'jsonDepthMax'>;

/**
 * @returns the handler of an endpoint: for `check`, the path `orders` and the query `passed=true&check_name=no_nulls` it returns
 *   `{ kind: 'record', events: [{ type: 'AssetCheckEvaluation', assetKey: ['orders'], passed: true, … }], … }`. It throws
 *   Refusal 400 for what is malformed first: the body, the query, a parameter
 */
export function reportTo(
  endpoint: Endpoint,
  limits: ParameterLimits & Pick<Limits, 'bodyMembersMax'> = standardLimits,
): (request: HandlerRequest) => RecordOutcome {
  const read = reportReader(endpoint, limits);
  return ({ keyPath, body, query, idempotencyKey }) => {
    const { event, hiddenKey, unknown, misspelt } = read(keyPath, readBody(body, limits), readQuery(query));
    event.idempotencyKey = idempotencyKey;
    return {
      kind: 'record',
      events: [event],
      onConflict: 'refuse all',
      replyTo: accept,
      conflictReply: keyConflict,
      hiddenKey,
      unknown,
      misspelt,
    };
  };
}

/** As `reportTo`; the handler throws Refusal 400 for a parameter that the endpoint does not know. */
export function reportStrictlyTo(
  endpoint: Endpoint,
  limits: Parameters<typeof reportTo>[1],
): ReturnType<typeof reportTo> {
  const report = reportTo(endpoint, limits);
  const names = endpoint.parameters.map((parameter) => parameter.name);
  return (request) => {
    const outcome = report(request);
    const { unknown = [] } = outcome;
    const name = unknown.find((one) => didYouMean(one, names) !== '') ?? unknown[0];
    if (name !== undefined) throw new Refusal(400, unknownMember(endpoint, name));
    return outcome;
  };
}

function accept({ replayed }: RecordedResult): Reply {
  return replayed === undefined ? accepted : replayedReply;
}

/** What the parameters of one report say: `{ event: { type: 'AssetObservation', … }, unknown: ['colour'], … }`. */
export interface Report {
  readonly event: Event & { idempotencyKey?: string | undefined; origin?: EventOrigin | undefined };
  /** These three as in `RecordOutcome`. */
  readonly hiddenKey: RecordOutcome['hiddenKey'];
  readonly unknown: RecordOutcome['unknown'];
  readonly misspelt: RecordOutcome['misspelt'];
}

/**
 * Reads the parameters of one report, each from the first that has it: path, body, query.
 * @param keyPath as in `HandlerRequest`: `warehouse/orders`
 * @param body the members of the body, undefined without a body: `Map { 'passed' => { kind: 'boolean', text: 'true' } }`
 * @param query the parameters of the query, decoded: `Map { 'partition' => '2026-11-20' }`
 * @throws Refusal 400 for the first parameter that is missing or malformed
 */
export type ReadReport = (
  keyPath: string | undefined,
  body: ReadonlyMap<string, Json> | undefined,
  query: ReadonlyMap<string, string>,
) => Report;

/**
 * @returns the function that reads the reports of an endpoint; it throws Refusal 400, see `ReadReport`. For `observation`,
 *   `read('orders', undefined, new Map())` has the event `{ type: 'AssetObservation', assetKey: ['orders'], … }`
 */
export function reportReader({ type, parameters }: Endpoint, limits: ParameterLimits = standardLimits): ReadReport {
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
    if (key === undefined) throw missing(KEY, unknownIn(body, query, known));
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
      if (value === undefined && slot.required) throw missing(slot, unknownIn(body, query, known));
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
    if (decoded === undefined) {
      throw new Refusal(
        400,
        `asset_key in the path holds ${shown(part)}, which is not percent-encoded UTF-8; write % as %25`,
      );
    }
    return decoded;
  });
  return checkKey(parts, path, 'in the path', limits);
}

function keyInBody(value: Json, limits: ParameterLimits): readonly string[] {
  const parts = value.kind === 'string' ? [stringOf(value)] : value.kind === 'array' ? stringsOf(value) : undefined;
  if (parts === undefined) throw wrongType('asset_key', value, 'a string or an array of strings');
  return checkKey(parts, value.text, 'in the body', limits);
}

function keyInQuery(text: string, limits: ParameterLimits): readonly string[] {
  if (!text.startsWith('[')) return checkKey([text], text, 'in the query', limits);
  const value = orMalformedJson('asset_key in the query begins with [ and', () => readJson(text, limits.jsonDepthMax));
  const parts = stringsOf(value);
  if (parts === undefined) {
    throw inQueryRefused((value) => `asset_key in the query is ${value}; a JSON array must hold strings only`, text);
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

/**
 * The checks of every key, from path, body or query.
 * @param sent the key as it was sent, ready to be shown
 * @throws Refusal 400
 */
function checkKey(parts: string[], sent: string, where: KeySource, { keyBytesMax }: ParameterLimits): string[] {
  if (parts.length === 0) throw new Refusal(400, `asset_key ${where} is an empty array; give at least one part`);
  let characters = parts.length - 1;
  for (const part of parts) {
    if (part === '') {
      throw keyRefused(
        (value) => `asset_key ${where} has an empty part: ${value}; every part needs a name`,
        sent,
        where,
      );
    }
    if (CONTROL.test(part)) {
      throw keyRefused((value) => `asset_key ${where} has a control character: ${value}; remove it`, sent, where);
    }
    if (!part.isWellFormed()) throw loneSurrogate(`asset_key ${where}`, shownKey(sent, where));
    characters += part.length;
  }
  if (characters * UTF8_BYTES_MAX > keyBytesMax) checkKeyBytes(parts, sent, where, keyBytesMax);
  return parts;
}

function checkKeyBytes(parts: readonly string[], sent: string, where: KeySource, bytesMax: number): void {
  const bytes = Buffer.byteLength(parts.join('/'));
  if (bytes > bytesMax) {
    const problem = (value: string) => `asset_key ${where} has ${bytes} bytes: ${value}; at most ${bytesMax} are taken`;
    throw keyRefused(problem, sent, where);
  }
}

/** @param problem the error, made of the key as it is shown. A key of the query is not logged. */
function keyRefused(problem: (value: string) => string, sent: string, where: KeySource): Refusal {
  const logged = where === 'in the query' ? { logged: problem(WITHHELD) } : {};
  return new Refusal(400, problem(shownKey(sent, where)), logged);
}

function shownKey(sent: string, where: KeySource): string {
  return where === 'in the body' ? shownJson(sent) : shown(sent);
}

type KeySource = 'in the path' | 'in the body' | 'in the query';

/** @param problem the error, from the value as it is shown. The value is not logged. */
function inQueryRefused(problem: (value: string) => string, text: string): Refusal {
  return new Refusal(400, problem(shown(text)), { logged: problem(WITHHELD) });
}

/** Most bytes in UTF-8 for one UTF-16 code unit. */
const UTF8_BYTES_MAX = 3;
const CONTROL = /[\u0000-\u001f\u007f]/;

type Value = string | boolean | undefined;

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
  return inBody.kind === 'null' ? undefined : readInBody(slot, inBody);
}

function readInBody(slot: Slot, value: Json): Value {
  const { name, kind } = slot;
  if (kind === 'metadata') return readMetadata(name, value);
  if (kind === 'boolean') {
    if (value.kind !== 'boolean') throw wrongType(name, value, 'the JSON boolean true or false');
    return value.text === 'true';
  }
  if (value.kind !== 'string') {
    const ambiguous = kind === 'time' && value.kind === 'number' ? ': a number may mean seconds or milliseconds' : '';
    throw wrongType(name, value, `${kind === 'time' ? eventTimeForm : 'a JSON string'}${ambiguous}`);
  }
  const text = stringOf(value);
  if (!text.isWellFormed()) throw loneSurrogate(name, shownJson(value.text));
  return checkText(slot, text);
}

function readInQuery(slot: Slot, text: string, limits: ParameterLimits): Value {
  const { name, kind } = slot;
  if (kind === 'metadata') {
    const value = orMalformedJson(`${name} in the query`, () => readJson(text, limits.jsonDepthMax));
    return value.kind === 'null' ? undefined : readMetadata(name, value);
  }
  if (kind === 'boolean') {
    if (text === 'true' || text === 'false') return text === 'true';
    throw inQueryRefused((value) => `${name} in the query is ${value}; send true or false`, text);
  }
  return checkText(slot, text, true);
}

/** @returns the JSON text of the object, as it was sent. @throws Refusal 400 if the value is not an object */
function readMetadata(name: string, value: Json): string {
  if (value.kind !== 'object') throw wrongType(name, value, 'a JSON object such as {"rows":10}');
  return value.text;
}

/**
 * @param inQuery whether the text is from the query, which is never logged
 * @returns the text to record
 */
function checkText({ name, kind, what, choices, standard }: Slot, text: string, inQuery = false): string {
  if (kind === 'time') {
    const time = readEventTime(text);
    if (time.kind === 'time') return time.utc;
    const problem = (value: string) => `${name} is ${value}: ${time.problem}`;
    throw inQuery ? inQueryRefused(problem, text) : new Refusal(400, problem(shown(text)));
  }
  if (kind === 'non-empty string' && text === '') throw new Refusal(400, `${name} is ""; send the ${what}`);
  if (kind === 'one of' && !choices.includes(text)) {
    const wanted = choices.join(' or ');
    const problem = (value: string) => `${name} is ${value}; send ${wanted}, or leave it out for ${standard}`;
    throw inQuery ? inQueryRefused(problem, text) : new Refusal(400, problem(shown(text)));
  }
  return text;
}

/** @param unknown the names in the request that are no parameters, of which one may be a misspelling of the missing one */
function missing(
  { name, kind, what }: Pick<Slot, 'name' | 'what'> & { kind: Parameter['kind'] },
  unknown: readonly string[],
): Refusal {
  const wanted =
    kind === 'key'
      ? 'put it in the path (/warehouse/orders), the JSON body or the query'
      : kind === 'boolean'
        ? `send true or false as a JSON boolean in the body, or ${name}=true in the query`
        : `send the ${what} as a string`;
  const misspelt = unknown.find((one) => nearestName(one, [name]) !== undefined);
  const hint = misspelt === undefined ? '' : `; the request has ${shown(misspelt)}, did you mean ${name}?`;
  return new Refusal(400, `${name} is missing: ${wanted}${hint}`);
}

const KEY = { name: 'asset_key', kind: 'key', what: '' } as const;

function wrongType(name: string, value: Json, wanted: string): Refusal {
  const article = value.kind === 'array' || value.kind === 'object' ? 'an' : 'a';
  const problem = (sent: string) => `${name} is ${sent} (${article} ${value.kind}); send ${wanted}`;
  // Metadata is never logged.
  return new Refusal(400, problem(shownJson(value.text)), name === 'metadata' ? { logged: problem(WITHHELD) } : {});
}

function loneSurrogate(what: string, sent: string): Refusal {
  return new Refusal(400, `${what} has half of a surrogate pair: ${sent}; send whole characters`);
}
