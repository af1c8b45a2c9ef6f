/**
 * Checks the lines of a reply against the schema that its route publishes before a command shows them, since any server might be at
 * a URL.
 */

import { type AssetJson, assetSchema } from '../../assets/asset-json.ts';
import { isObject, type JsonObject, readObject } from '../../config/json-file.ts';
import { integerFrom, keyPartSchema, objectSchema, TIME } from '../../event/schema.ts';
import { readForm } from '../../journal/line/chain.ts';
import { eventSchema } from '../../journal/line/line-schema.ts';
import { Line } from '../../journal/look/reading.ts';
import { type SourceState, sourceSchema } from '../../journal/look/source-state.ts';
import type { GoneRange } from '../../journal/segments.ts';

/** @returns a line of a journal whose members have their types; its crc is not verified. Undefined for anything else */
export function readLine(bytes: Buffer, start: number, end: number): Line | undefined {
  const seq = readForm(bytes, start, end)?.seq;
  if (seq === undefined) return undefined;
  const line = new Line(bytes, start, end, seq);
  try {
    JSON.parse(line.text); // including its metadata, which `event` leaves out
    return line.event.seq === seq && matches(line.event, EVENT) ? line : undefined;
  } catch {
    return undefined;
  }
}

/** @param text a line of `GET /assets` @returns undefined for anything else */
export function readAsset(text: string): AssetJson | undefined {
  const json = readObject(text);
  return matches(json, ASSET) ? (json as unknown as AssetJson) : undefined;
}

/** @param text a line of `GET /sources` @returns undefined for anything else */
export function readSourceState(text: string): SourceState | undefined {
  const json = readObject(text);
  return matches(json, SOURCE) ? (json as unknown as SourceState) : undefined;
}

/** @param text the data of an event `gap` @returns undefined for anything else */
export function readGap(text: string): GoneRange | undefined {
  const json = readObject(text);
  if (!matches(json, RANGE)) return undefined;
  const { first, last } = json as unknown as GoneRange;
  return first <= last ? { first, last } : undefined;
}

/** The keywords of a schema that are checked. A later version might send other members and other values of an `enum`. */
interface Form {
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'boolean' | 'null';
  readonly properties?: Readonly<Record<string, Form>>;
  readonly required?: readonly string[];
  readonly items?: Form;
  readonly minItems?: number;
  readonly minimum?: number;
  readonly pattern?: string;
  readonly anyOf?: readonly Form[];
  /** Refers only to the schema of a key. */
  readonly $ref?: string;
}

/** @param value parsed from JSON */
function matches(value: unknown, form: Form): boolean {
  const { type, anyOf, items = {}, minItems = 0, pattern } = form;
  if (form.$ref !== undefined) return matches(value, KEY);
  if (anyOf !== undefined) return anyOf.some((one) => matches(value, one));
  if (type === undefined) return true;
  if (type === 'null') return value === null;
  if (type === 'integer')
    return Number.isSafeInteger(value) && (value as number) >= (form.minimum ?? Number.MIN_SAFE_INTEGER);
  if (type === 'array') {
    return Array.isArray(value) && value.length >= minItems && value.every((one) => matches(one, items));
  }
  if (type === 'object') return isObject(value) && hasMembers(value, form);
  return typeof value === type && (pattern === undefined || new RegExp(pattern).test(value as string));
}

function hasMembers(value: JsonObject, { properties = {}, required = [] }: Form): boolean {
  if (required.some((name) => value[name] === undefined && !NEWER.includes(name))) return false;
  for (const name in properties) {
    if (value[name] !== undefined && !matches(value[name], properties[name]!)) return false;
  }
  return true;
}

/** @returns the schema of `Line.event`, which can have any type and has no crc */
function recordedForm(): Form {
  const [asset, check] = eventSchema()['oneOf'] as readonly [Form, Form];
  const properties: Form['properties'] = { ...asset.properties, ...check.properties, time: TIME };
  return { ...asset, properties, required: asset.required!.filter((name) => name !== 'crc') };
}

/** Required members that an older service does not send. */
const NEWER = ['alive', 'failing', 'through', 'state', 'reason', 'missing_events'];
const KEY: Form = { type: 'array', items: keyPartSchema(), minItems: 1 };
const EVENT = recordedForm();
const ASSET: Form = assetSchema();
const SOURCE: Form = sourceSchema();
const RANGE: Form = objectSchema({ first: integerFrom(1), last: integerFrom(1) });
