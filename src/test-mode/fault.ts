/**
 * A fault is a failure that the service causes on purpose for some reports, so that a test can check how its client copes. This
 * file reads faults from a JSON value, and refuses misspelt and contradictory members.
 */

import { isObject } from '../config/json-file.ts';
import { readKey } from '../event/asset-key.ts';
import { didYouMean } from '../event/nearest.ts';
import { endpoints, findEndpoint } from '../event/parameters.ts';
import { shown } from '../http/message.ts';

/** Thrown for invalid faults: `faults[0].then.stauts is unknown; did you mean status?`. */
export class FaultsError extends Error {}

/** Which reports a fault can meet; `{}` for all. */
export type Match = Readonly<Partial<Compared>>;

/** The members of a report that a fault can compare, under their names in a line; null if the report does not have the member. */
export interface Compared {
  readonly type: string;
  readonly asset_key: readonly string[];
  readonly partition: string | null;
  readonly check_name: string | null;
}

export interface Effect {
  readonly status?: number;
  /** Body of a reply with `status`: text, or an object that is sent as JSON. */
  readonly body?: unknown;
  /** The header `Retry-After`: seconds, or a text such as a date. */
  readonly retry_after?: number | string;
  /** Further headers of a reply with `status`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether the body is HTML, like the error of a proxy: without `body`, a page like nginx's. */
  readonly html?: boolean;
  /** Smallest and largest delay of the reply, in milliseconds. */
  readonly delay_ms?: readonly [number, number];
  /** Smallest and largest delay of the second half of the body, in milliseconds. */
  readonly body_delay_ms?: readonly [number, number];
  /** Closes the connection: before the request is handled, instead of the reply, or in the middle of its body. */
  readonly drop?: 'request' | 'reply' | 'half';
  readonly recorded: boolean;
}

export interface ParsedFault {
  /** The JSON value from which it was read. */
  readonly given: object;
  readonly match: Match;
  /** The most reports that it meets. */
  readonly times: number;
  /** The chance that it meets a report, from 0 to 1. */
  readonly probability: number;
  /** Number of matching reports that pass before it meets one. */
  readonly after: number;
  readonly effect: Effect;
}

/** The parsed body of `PUT /test/faults`. Without a seed, a random one is used. */
export interface FaultList {
  readonly seed: number | undefined;
  readonly faults: readonly ParsedFault[];
}

export interface FaultLimits {
  readonly faultsMax: number;
  readonly faultDelayMsMax: number;
}

/**
 * @param value such as `{ seed: 7, faults: [{ match: { type: 'check' }, times: 2, then: { status: 503 } }] }`
 * @throws FaultsError with the path of the first wrong member
 */
export function readFaults(value: unknown, limits: FaultLimits): FaultList {
  const list = (faults: unknown, path: string) => {
    if (!Array.isArray(faults)) throw wrong(path, faults, 'an array of faults');
    if (faults.length > limits.faultsMax) throw wrong(path, faults.length, `at most ${limits.faultsMax} faults`);
    return faults.map((fault, index) => readFault(fault, `${path}[${index}]`, limits));
  };
  const { seed, faults } = readMembers(value, '', { seed: integer(0, SEED_MAX), faults: list });
  if (faults === undefined)
    throw new FaultsError('faults is missing; send {"faults":[{"match":{},"then":{"status":503}}]}');
  return { seed, faults };
}

export const SEED_MAX = 2 ** 32 - 1;

/** @param path of the fault, for errors: `faults[0]`. @throws FaultsError */
export function readFault(value: unknown, path: string, limits: FaultLimits): ParsedFault {
  const read = readMembers(value, path, {
    match: readMatch,
    times: integer(1, Number.MAX_SAFE_INTEGER),
    probability: readProbability,
    after: integer(0, Number.MAX_SAFE_INTEGER),
    // biome-ignore lint/suspicious/noThenProperty: the name in the JSON; its value is no function that could be called
    then: (given, at) => readEffect(given, at, limits),
  });
  const { match = {}, times = Number.POSITIVE_INFINITY, probability = 1, after = 0, then: effect } = read;
  if (effect === undefined) throw new FaultsError(`${path}.then is missing; send what happens, such as {"status":503}`);
  const isCheck = match.type === undefined || match.type === 'AssetCheckEvaluation';
  if (!isCheck && match.check_name !== undefined)
    throw contradicts(`${path}.match.check_name`, 'the type: only a check has one');
  return { given: JSON.parse(JSON.stringify(value)), match, times, probability, after, effect };
}

function readMatch(value: unknown, path: string): Match {
  const { method: _, ...match } = readMembers(value, path, {
    type: (given, at) => {
      const found = typeof given === 'string' ? findEndpoint(endpoints, given) : undefined;
      if (found === undefined) throw wrong(at, given, endpoints.map(({ name }) => name).join(', '));
      return found.type;
    },
    asset_key: (given, at) => {
      const parts: readonly unknown[] = typeof given === 'string' ? partsOf(given) : Array.isArray(given) ? given : [];
      if (parts.length > 0 && parts.every((part) => typeof part === 'string')) return parts as readonly string[];
      throw wrong(at, given, 'warehouse/orders, or an array of the parts');
    },
    partition: (given, at) => (given === null ? null : readText(given, at)),
    check_name: readText,
    method: oneOf('POST'),
  });
  return match;
}

/** @returns the parts of a key, split like the filter `key` of `GET /events`; none if the text is not a key */
function partsOf(text: string): readonly string[] {
  try {
    return readKey([text]);
  } catch {
    return [];
  }
}

function readEffect(value: unknown, path: string, { faultDelayMsMax }: FaultLimits): Effect {
  const readDelay = (given: unknown, at: string): readonly [number, number] => {
    const [least, most, ...more]: unknown[] = Array.isArray(given) ? given : [given, given];
    const wanted = `milliseconds up to ${faultDelayMsMax}, or a range such as [500, 3000]`;
    if (more.length > 0 || !isInteger(least, 0, faultDelayMsMax) || !isInteger(most, least, faultDelayMsMax))
      throw wrong(at, given, wanted);
    return [least, most];
  };
  const { recorded, ...effect } = readMembers(value, path, {
    status: integer(200, 599),
    body: (given, at) => {
      if (typeof given === 'string' || (typeof given === 'object' && given !== null)) return given;
      throw wrong(at, given, 'text or an object');
    },
    retry_after: (given, at) => (typeof given === 'string' ? readHeader(given, at) : integer(0, 86_400)(given, at)),
    headers: readHeaders,
    html: readBoolean,
    delay_ms: readDelay,
    body_delay_ms: readDelay,
    drop: oneOf('request', 'reply', 'half'),
    recorded: readBoolean,
  });
  checkEffect(effect, recorded, path);
  const records = effect.status === undefined && effect.drop !== 'request';
  return { ...effect, recorded: recorded ?? records };
}

/** @throws FaultsError for members that contradict each other or change nothing */
function checkEffect(effect: Omit<Effect, 'recorded'>, recorded: boolean | undefined, path: string): void {
  const { status, body, html, drop } = effect;
  const isGiven = (name: keyof typeof effect) => effect[name] !== undefined;
  const alone = (['body', 'html', 'headers', 'retry_after'] as const).find(isGiven);
  if (status === undefined && alone !== undefined) throw new FaultsError(`${path}.${alone} needs a status as well`);
  const ofBody = (['body', 'html', 'body_delay_ms'] as const).find(isGiven);
  if (statusesWithoutBody.includes(status ?? 0) && ofBody !== undefined)
    throw contradicts(`${path}.${ofBody}`, `status ${status}, whose reply has no body`);
  if (drop !== undefined && isGiven('body_delay_ms'))
    throw contradicts(`${path}.body_delay_ms`, 'drop: the rest of the body is not sent');
  if (html === true && typeof body === 'object') throw contradicts(`${path}.html`, 'a body that is JSON');
  if (status !== undefined && (drop === 'request' || drop === 'reply'))
    throw contradicts(`${path}.status`, `drop: no reply is sent; leave one of them out`);
  if (drop === 'request' && recorded === true) throw contradicts(`${path}.recorded`, 'drop: the request is not read');
  if (status !== undefined || drop !== undefined) return;
  if (recorded === false)
    throw new FaultsError(`${path}.recorded is false, but the reply would be a 200; add status or drop`);
  if (!isGiven('delay_ms') && !isGiven('body_delay_ms'))
    throw new FaultsError(`${path} changes nothing; add status, delay_ms or drop`);
}

/** Replies with these statuses have no body (RFC 9110 section 15). */
export const statusesWithoutBody: readonly number[] = [204, 205, 304];

/** The headers that the service itself sets, since they frame a reply. */
const FRAMING = /^(?:connection|content-length|date|keep-alive|trailer|transfer-encoding|upgrade)$/i;

function readHeaders(value: unknown, path: string): Readonly<Record<string, string>> {
  if (!isObject(value)) throw wrong(path, value, 'an object such as {"Location":"/login"}');
  for (const [name, text] of Object.entries(value)) {
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name))
      throw new FaultsError(`${path} has ${shown(name)}, which is not the name of a header`);
    if (FRAMING.test(name)) throw new FaultsError(`${path}.${name} is set by the service; leave it out`);
    readHeader(text, `${path}.${name}`);
  }
  return value as Readonly<Record<string, string>>;
}

function readHeader(value: unknown, path: string): string {
  if (typeof value === 'string' && /^[ -~]*$/.test(value)) return value;
  throw wrong(path, value, 'a text in ASCII without control characters');
}

type Check<Value> = (value: unknown, path: string) => Value;

/** @returns the members of the object, each as the result of its check. @throws FaultsError for an unknown member */
function readMembers<Values extends object>(
  value: unknown,
  path: string,
  checks: { readonly [Name in keyof Values]: Check<Values[Name]> },
): { -readonly [Name in keyof Values]?: Values[Name] } {
  if (!isObject(value)) throw wrong(path, value, 'an object');
  const read: { -readonly [Name in keyof Values]?: Values[Name] } = {};
  for (const [name, member] of Object.entries(value)) {
    const at = path === '' ? name : `${path}.${name}`;
    if (!Object.hasOwn(checks, name)) {
      const names = Object.keys(checks);
      throw new FaultsError(
        `${at} is unknown${didYouMean(name, names) || `; the known members are ${names.join(', ')}`}`,
      );
    }
    if (member !== undefined) read[name as keyof Values] = checks[name as keyof Values](member, at);
  }
  return read;
}

function integer(min: number, max: number): Check<number> {
  const wanted =
    max === Number.MAX_SAFE_INTEGER ? `a whole number from ${min}` : `a whole number from ${min} to ${max}`;
  return (value, path) => {
    if (!isInteger(value, min, max)) throw wrong(path, value, wanted);
    return value;
  };
}

function isInteger(value: unknown, min: unknown, max: number): value is number {
  return Number.isInteger(value) && (value as number) >= (min as number) && (value as number) <= max;
}

function readProbability(value: unknown, path: string): number {
  if (typeof value === 'number' && value >= 0 && value <= 1) return value;
  throw wrong(path, value, 'a number from 0 to 1');
}

function readText(value: unknown, path: string): string {
  if (typeof value === 'string') return value;
  throw wrong(path, value, 'a string');
}

function readBoolean(value: unknown, path: string): boolean {
  if (typeof value === 'boolean') return value;
  throw wrong(path, value, 'true or false');
}

function oneOf<Word extends string>(...words: readonly Word[]): Check<Word> {
  return (value, path) => {
    const found = words.find((word) => word === value);
    if (found === undefined) throw wrong(path, value, words.map((word) => JSON.stringify(word)).join(' or '));
    return found;
  };
}

function wrong(path: string, value: unknown, wanted: string): FaultsError {
  const sent = typeof value === 'string' ? shown(value) : shownValue(value);
  return new FaultsError(`${path || 'the body'} is ${sent}; send ${wanted}`);
}

function shownValue(value: unknown): string {
  return Array.isArray(value) ? 'an array' : typeof value === 'object' && value !== null ? 'an object' : String(value);
}

function contradicts(path: string, what: string): FaultsError {
  return new FaultsError(`${path} contradicts ${what}`);
}
