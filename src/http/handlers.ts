/**
 * The handlers of the endpoints: pure functions from a request to its event. Parameters are checked in the order of the table in
 * `parameters.ts`, so a request with two mistakes always gets the same error.
 */

import type { Limits } from '../config/limits.ts';
import { encodeEvent, type Fragment, lineOrder, quote, quoteAll } from '../event/encoded.ts';
import type { Event } from '../event/event.ts';
import { eventTimeForm, readEventTime } from '../event/event-time.ts';
import { unknownMember } from '../event/item.ts';
import { type Json, readJson, stringOf, stringsOf } from '../event/json.ts';
import { indexesExcept, knownNames, type Members } from '../event/members.ts';
import { didYouMean, nearestName } from '../event/nearest.ts';
import type { Endpoint, KeyParameter, Parameter } from '../event/parameters.ts';
import type { RecordedResult } from '../event/record-result.ts';
import { shownCharactersMax } from '../event/shown.ts';
import { keyConflict, replayedReply } from './idempotency.ts';
import {
  accepted,
  type HandlerRequest,
  quotingRefusal,
  type RecordHandled,
  Refusal,
  type Reply,
  shown,
  shownJson,
  WITHHELD,
} from './message.ts';
import { bodyReader, orMalformedJson, percentDecode, type Query, readQuery } from './request.ts';

/**
 * @param strict why a parameter that the endpoint does not have is refused, for the error; undefined if it is ignored
 * @returns the handler of an endpoint. It throws Refusal 400 for the first mistake: in the body, then the query, then the
 * parameters
 */
export function reportTo(
  endpoint: Endpoint,
  limits: Limits,
  strict?: string,
): (request: HandlerRequest) => RecordHandled {
  const readBody = bodyReader(limits);
  const readReport = reportReader(endpoint, limits);
  const names = endpoint.parameters.map(({ name }) => name);
  const foreign = indexesExcept(names);
  return ({ keyPath, body, query, idempotencyKey }) => {
    const members = readBody(body);
    const parameters = readQuery(query);
    const { event, hidesKey } = readReport(keyPath, members, parameters, idempotencyKey);
    const hasNoUnknown = parameters.size === 0 && (members === undefined || hasNone(members, foreign));
    const unknown = hasNoUnknown ? undefined : unknownIn(members, parameters, names);
    if (strict !== undefined && unknown?.[0] !== undefined) throw unknownParameter(endpoint, unknown, strict);
    const misspelt = unknown && misspeltIn(unknown, names);
    return {
      kind: 'record',
      events: [event],
      onConflict: 'refuse all',
      replyTo: accept,
      conflictReply: keyConflict,
      hidesKey,
      unknown,
      misspelt,
    };
  };
}

/** @param unknown at least one name; a name close to a parameter's name is reported first */
function unknownParameter(endpoint: Endpoint, unknown: readonly string[], strict: string): Refusal {
  const names = endpoint.parameters.map(({ name }) => name);
  const name = unknown.find((one) => didYouMean(one, names) !== '') ?? unknown[0] ?? '';
  // The name is too long to be compared with the tokens, so the log must not get its start.
  const logged = name.length > shownCharactersMax ? { logged: unknownMember(endpoint, WITHHELD) } : {};
  return new Refusal(400, `${unknownMember(endpoint, name)} (${strict})`, logged);
}

function accept({ replayed }: RecordedResult): Reply {
  return replayed === undefined ? accepted : replayedReply;
}

export interface Report {
  readonly event: Event;
  /** See `hidesKey` of `RecordHandled`. */
  readonly hidesKey: boolean;
}

/**
 * Reads the parameters of one report, each from the first place that has it: path, body, query.
 * @throws Refusal 400 for the first missing or malformed parameter
 */
export type ReadReport = (
  keyPath: string | undefined,
  body: Members | undefined,
  query: Query,
  idempotencyKey: string | undefined,
) => Report;

/** @returns the function that reads the reports of an endpoint */
export function reportReader({ type, parameters }: Endpoint, limits: Limits): ReadReport {
  const names = parameters.map(({ name }) => name);
  const slots = parameters.filter((parameter) => parameter.kind !== 'key').map((one) => slotOf(one, limits));
  const keys = new KeyReader(limits);

  return (keyPath, body, query, idempotencyKey) => {
    const fragments: (Fragment | undefined)[] = NO_FRAGMENTS.slice();
    const key = keys.read(keyPath, body, query);
    if (key === undefined) throw missing(KEY, unknownIn(body, query, names) ?? []);
    fragments[0] = key.fragment;
    for (const slot of slots) {
      const value = readParameter(slot, body, query) ?? slot.fallback;
      if (value === undefined && slot.required) throw missing(slot, unknownIn(body, query, names) ?? []);
      fragments[slot.at] = value;
    }
    const encoded = encodeEvent(type, fragments, idempotencyKey);
    return { event: { type, encoded, idempotencyKey, origin: undefined }, hidesKey: key.hidesOther };
  };
}

/** Checks a parameter in the query. @throws Refusal 400 if it has different values there */
function checkOnce(name: string, query: Query): void {
  const others = query.others?.get(name);
  if (others === undefined) return;
  const values = JSON.stringify([...others, query.get(name)]);
  const problem = (sent: string) =>
    name === 'asset_key'
      ? `asset_key has different values in the query; send one, or for a key of several parts asset_key=${sent}`
      : `${name} has different values in the query: ${sent}; send one`;
  throw quotingRefusal(400, shownJson(values), 'withheld', problem);
}

const ASSET_KEY = knownNames.indexOf('asset_key');
const NO_FRAGMENTS: readonly undefined[] = lineOrder.map(() => undefined);

/** A parameter prepared for the handler. All slots have the same members and so one hidden class, which V8 reads fastest. */
interface Slot {
  readonly name: string;
  /** The index of the name in `knownNames`. */
  readonly known: number;
  /** The index of the name in `lineOrder`. */
  readonly at: number;
  readonly kind: Exclude<Parameter, KeyParameter>['kind'];
  readonly required: boolean;
  readonly what: string;
  readonly choices: readonly string[];
  readonly standard: string | undefined;
  /** `standard` as JSON. */
  readonly fallback: string | undefined;
  /** The greatest depth of its JSON in a query. */
  readonly depthMax: number;
}

function slotOf(parameter: Exclude<Parameter, KeyParameter>, limits: Limits): Slot {
  const { name, kind, required } = parameter;
  return {
    name,
    known: knownNames.indexOf(name),
    at: (lineOrder as readonly string[]).indexOf(name),
    kind,
    required,
    what: kind === 'metadata' ? name : parameter.what,
    choices: kind === 'one of' ? parameter.choices : [],
    standard: kind === 'one of' ? parameter.standard : undefined,
    fallback: kind === 'one of' ? quote(parameter.standard) : undefined,
    depthMax: limits.jsonDepthMax,
  };
}

function hasNone({ known, others }: Members, foreign: readonly number[]): boolean {
  for (const index of foreign) if (known[index] !== undefined) return false;
  return others === undefined;
}

/** @returns the names in a request that are not parameters of its endpoint; undefined if there are none */
function unknownIn(
  body: Members | undefined,
  query: ReadonlyMap<string, string>,
  names: readonly string[],
): string[] | undefined {
  const unknown = [...(body?.names() ?? []), ...query.keys()].filter((name) => !names.includes(name));
  return unknown.length === 0 ? undefined : unknown;
}

/** @returns the names that are one edit away from a parameter; undefined if there are none */
function misspeltIn(unknown: readonly string[], names: readonly string[]): RecordHandled['misspelt'] {
  const found = unknown.flatMap((name) => {
    const meant = nearestName(name, names);
    return meant === undefined ? [] : [{ name, meant }];
  });
  return found.length === 0 ? undefined : found;
}

interface RequestKey {
  /** The parts of the key, as JSON. */
  readonly fragment: Fragment;
  /** Whether the key is in the path and overrides a different key in the same request. */
  readonly hidesOther: boolean;
}

/** Reads the asset key of a request (specification section 4). */
class KeyReader {
  readonly #limits: Limits;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /**
   * Reads the key from the first of path, body and query that has it.
   * @returns undefined if it is missing
   * @throws Refusal 400
   */
  read(keyPath: string | undefined, body: Members | undefined, query: Query): RequestKey | undefined {
    const inBody = body?.known[ASSET_KEY];
    if (query.others !== undefined && keyPath === undefined && inBody === undefined) checkOnce('asset_key', query);
    const inQuery = query.size === 0 ? undefined : query.get('asset_key');
    if (keyPath !== undefined) {
      const parts = this.#inPath(keyPath);
      // A null in the body means "not given" and overrides the query, so the path does not override the key in the query.
      const others = inBody?.kind === 'null' ? [] : [inBody && textOf(inBody), inQuery];
      const hidesOther = others.some((other) => other !== undefined && !sameKey(parts, other));
      return { fragment: quoteAll(parts), hidesOther };
    }
    if (inBody !== undefined && inBody.kind !== 'null') return { fragment: this.#inBody(inBody), hidesOther: false };
    if (inBody !== undefined || inQuery === undefined) return undefined;
    return { fragment: quoteAll(this.#inQuery(inQuery)), hidesOther: false };
  }

  #inPath(path: string): string[] {
    const parts = path.split('/').map((part) => {
      const decoded = percentDecode(part);
      if (decoded !== undefined) return decoded;
      const problem = (value: string) =>
        `asset_key in the path holds ${value}, which is not percent-encoded UTF-8; write % as %25`;
      throw quotingRefusal(400, shown(part), 'logged', problem);
    });
    this.#check(parts, path, 'in the path');
    return parts;
  }

  #inBody(value: Json): Fragment {
    if (value.end - value.start <= this.#limits.keyBytesMax && PLAIN_KEY.test(value.text)) return value; // nearly all keys are
    const parts = value.kind === 'string' ? [stringOf(value)] : value.kind === 'array' ? stringsOf(value) : undefined;
    if (parts === undefined) throw wrongType('asset_key', value, 'a string or an array of strings');
    this.#check(parts, value.text, 'in the body');
    return value.kind === 'array' && !value.hasEscape ? value : quoteAll(parts);
  }

  #inQuery(text: string): readonly string[] {
    if (!text.startsWith('[')) {
      this.#check([text], text, 'in the query');
      return [text];
    }
    const { jsonDepthMax } = this.#limits;
    const value = orMalformedJson('asset_key in the query starts with [ and', () => readJson(text, jsonDepthMax));
    const parts = stringsOf(value);
    if (parts === undefined) {
      const problem = (value: string) => `asset_key in the query is ${value}; a JSON array must hold strings only`;
      throw quotingRefusal(400, shown(text), 'withheld', problem);
    }
    this.#check(parts, text, 'in the query');
    return parts;
  }

  /** The checks of every key, from path, body or query. @throws Refusal 400 */
  #check(parts: readonly string[], sent: string, from: KeyOrigin): void {
    const { keyBytesMax } = this.#limits;
    if (parts.length === 0) throw new Refusal(400, `asset_key ${from} is an empty array; give at least one part`);
    let characters = parts.length - 1;
    for (const part of parts) {
      if (part === '') throw badKey(sent, from, 'an empty part', 'every part needs a name');
      if (CONTROL.test(part)) throw badKey(sent, from, 'a control character', 'remove it');
      if (!part.isWellFormed()) throw badKey(sent, from, HALF, WHOLE);
      characters += part.length;
    }
    if (characters * UTF8_BYTES_MAX <= keyBytesMax) return;
    const bytes = Buffer.byteLength(parts.join('/'));
    if (bytes > keyBytesMax) throw badKey(sent, from, `${bytes} bytes`, `at most ${keyBytesMax} are allowed`);
  }
}

/** @returns a key in a body in the form of a query */
function textOf(value: Json): string {
  return value.kind === 'string' ? stringOf(value) : value.text;
}

/** Whether two keys are equal. The other key is not recorded, so it is no error if that key is malformed. */
function sameKey(parts: readonly string[], other: string): boolean {
  if (parts.length === 1 && parts[0] === other) return true;
  try {
    return JSON.stringify(parts) === JSON.stringify(JSON.parse(other));
  } catch {
    return false; // not JSON, so it is not an array with the same parts
  }
}

/** @param has the mistake, such as `an empty part` */
function badKey(sent: string, from: KeyOrigin, has: string, advice: string): Refusal {
  const quote = from === 'in the body' ? shownJson(sent) : shown(sent);
  const problem = (key: string) => `asset_key ${from} has ${has}: ${key}; ${advice}`;
  return quotingRefusal(400, quote, from === 'in the query' ? 'withheld' : 'logged', problem);
}

const HALF = 'half of a surrogate pair';
const WHOLE = 'send whole characters';

type KeyOrigin = 'in the path' | 'in the body' | 'in the query';

/** The most UTF-8 bytes of one UTF-16 code unit. */
const UTF8_BYTES_MAX = 3;
const CONTROL = /[\u0000-\u001f\u007f]/;
/** The JSON of an array of valid parts without escapes. */
const PLAIN_KEY = /^\["[^"\\\u007f]+"(?:,"[^"\\\u007f]+")*\]$/;

/**
 * Reads a parameter from the body, or from the query if the body does not have it. A null in the body means "not given".
 * @returns its value as JSON; undefined if it is not given
 * @throws Refusal 400
 */
function readParameter(slot: Slot, body: Members | undefined, query: Query): Fragment | undefined {
  const inBody = slot.known === -1 ? body?.get(slot.name) : body?.known[slot.known];
  if (inBody !== undefined) return inBody.kind === 'null' ? undefined : readInBody(slot, inBody);
  if (query.others !== undefined) checkOnce(slot.name, query);
  const inQuery = query.size === 0 ? undefined : query.get(slot.name);
  return inQuery === undefined ? undefined : readInQuery(slot, inQuery);
}

function readInBody(slot: Slot, value: Json): Fragment {
  const { name, kind } = slot;
  if (kind === 'metadata') return checkMetadata(name, value);
  if (kind === 'boolean') {
    if (value.kind !== 'boolean') throw wrongType(name, value, 'the JSON boolean true or false');
    return value;
  }
  if (value.kind !== 'string') {
    const ambiguous = kind === 'time' && value.kind === 'number' ? ': a number could mean seconds or milliseconds' : '';
    throw wrongType(name, value, `${kind === 'time' ? eventTimeForm : 'a JSON string'}${ambiguous}`);
  }
  // A string without an escape has no control character and no lone surrogate, so it is recorded as sent.
  if (!value.hasEscape && (kind === 'string' || (kind === 'non-empty string' && value.end - value.start > 2)))
    return value;
  const text = stringOf(value);
  if (!text.isWellFormed()) {
    const problem = (sent: string) => `${name} has ${HALF}: ${sent}; ${WHOLE}`;
    throw quotingRefusal(400, shownJson(value.text), 'logged', problem);
  }
  return quote(checkText(slot, text, 'logged'));
}

function readInQuery(slot: Slot, text: string): Fragment | undefined {
  const { name, kind } = slot;
  if (kind === 'metadata') {
    const value = orMalformedJson(`${name} in the query`, () => readJson(text, slot.depthMax));
    return value.kind === 'null' ? undefined : checkMetadata(name, value);
  }
  if (kind === 'boolean') {
    if (text === 'true' || text === 'false') return text;
    const problem = (sent: string) => `${name} in the query is ${sent}; send true or false`;
    throw quotingRefusal(400, shown(text), 'withheld', problem);
  }
  return quote(checkText(slot, text, 'withheld'));
}

/** @returns the value. @throws Refusal 400 if it is not an object */
function checkMetadata(name: string, value: Json): Json {
  if (value.kind !== 'object') throw wrongType(name, value, 'a JSON object such as {"rows":10}');
  return value;
}

/** @param inLog whether an error in the log can quote the text */
function checkText({ name, kind, what, choices, standard }: Slot, text: string, inLog: 'logged' | 'withheld'): string {
  if (kind === 'time') {
    const time = readEventTime(text);
    if (time.kind === 'time') return time.utc;
    throw quotingRefusal(400, shown(text), inLog, (sent) => `${name} is ${sent}: ${time.problem}`);
  }
  if (kind === 'non-empty string' && text === '') throw new Refusal(400, `${name} is ""; send the ${what}`);
  if (kind === 'one of' && !choices.includes(text)) {
    const wanted = choices.join(' or ');
    const problem = (sent: string) => `${name} is ${sent}; send ${wanted}, or leave it out for ${standard}`;
    throw quotingRefusal(400, shown(text), inLog, problem);
  }
  return text;
}

/** @param unknown unknown names in the request; one might be a misspelling of the missing parameter */
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
  const error = `${name} is missing: ${wanted}`;
  const misspelt = unknown.find((one) => nearestName(one, [name]) !== undefined);
  if (misspelt === undefined) return new Refusal(400, error);
  const problem = (sent: string) => `${error}; the request has ${sent}, did you mean ${name}?`;
  return quotingRefusal(400, shown(misspelt), 'logged', problem);
}

const KEY = { name: 'asset_key', kind: 'key', what: '' } as const;

function wrongType(name: string, value: Json, wanted: string): Refusal {
  const article = value.kind === 'array' || value.kind === 'object' ? 'an' : 'a';
  const inLog = name === 'metadata' ? 'withheld' : 'logged';
  const problem = (sent: string) => `${name} is ${sent} (${article} ${value.kind}); send ${wanted}`;
  return quotingRefusal(400, shownJson(value.text), inLog, problem);
}
