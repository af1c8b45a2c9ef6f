/**
 * The three endpoints, as pure functions from a request to the event it reports. Parameters are looked at in the order of
 * the specification's tables (section 4), so that a request with two mistakes always gets the same answer.
 */

import { limits } from './config.ts';
import { type Event, type Severity, severities } from './event.ts';
import { type Json, readJson, stringOf, stringsOf } from './json.ts';
import { accepted, type Handler, type Outcome, Refusal, type Request, shown } from './message.ts';
import { orMalformedJson, percentDecode } from './request.ts';

/** What each endpoint knows, in the order in which it is looked at, and whether a report has to have it. */
export const assetParameters = {
  asset_key: true,
  metadata: false,
  data_version: false,
  description: false,
  partition: false,
} as const;
export const checkParameters = {
  asset_key: true,
  passed: true,
  check_name: true,
  metadata: false,
  severity: false,
  // Not in the specification's table; the reference takes it since 1.13.
  partition: false,
} as const;

/** POST /report_asset_materialization/ → AssetMaterialization. @throws Refusal 400 */
export const reportMaterialization: Handler = (request) => reportAsset('AssetMaterialization', request);

/** POST /report_asset_observation/ → AssetObservation. @throws Refusal 400 */
export const reportObservation: Handler = (request) => reportAsset('AssetObservation', request);

/** POST /report_asset_check/ → AssetCheckEvaluation. @throws Refusal 400 */
export const reportCheck: Handler = (request) => {
  const key = readKey(request);
  const event: Event = {
    type: 'AssetCheckEvaluation',
    assetKey: key.parts,
    passed: readPassed(request),
    checkName: readCheckName(request),
    metadata: readMetadata(request),
    severity: readSeverity(request),
    partition: readString(request, 'partition'),
  };
  return outcome(request, key, event, CHECK_PARAMETERS);
};

const ASSET_PARAMETERS: ReadonlySet<string> = new Set(Object.keys(assetParameters));
const CHECK_PARAMETERS: ReadonlySet<string> = new Set(Object.keys(checkParameters));

function reportAsset(type: 'AssetMaterialization' | 'AssetObservation', request: Request): Outcome {
  const key = readKey(request);
  const event: Event = {
    type,
    assetKey: key.parts,
    metadata: readMetadata(request),
    dataVersion: readString(request, 'data_version'),
    description: readString(request, 'description'),
    partition: readString(request, 'partition'),
  };
  return outcome(request, key, event, ASSET_PARAMETERS);
}

function outcome({ body, query }: Request, { hidden }: Key, event: Event, known: ReadonlySet<string>): Outcome {
  let unknown: string[] | undefined;
  for (const names of [body, query]) {
    if (names === undefined || names.size === 0) continue;
    for (const name of names.keys()) {
      if (known.has(name)) continue;
      unknown ??= [];
      unknown.push(name);
    }
  }
  return { reply: accepted, event, hiddenKey: hidden, unknown };
}

interface Key {
  readonly parts: readonly string[];
  /** A different key that the request also gave, and that the one in its path won over. */
  readonly hidden?: string;
}

/** Path, then body, then query (specification section 4). */
function readKey({ keyPath, body, query }: Request): Key {
  const inBody = body?.get('asset_key');
  const inQuery = query.get('asset_key');
  if (keyPath !== undefined) {
    const parts = keyInPath(keyPath);
    if (inBody === undefined && inQuery === undefined) return { parts };
    // A null in the body means "not given", and so hides what the query says before the path does.
    const others = inBody?.kind === 'null' ? [] : [inBody && textOf(inBody), inQuery];
    const hidden = others.find((other) => other !== undefined && !sameKey(parts, other));
    return hidden === undefined ? { parts } : { parts, hidden };
  }
  if (inBody !== undefined && inBody.kind !== 'null') return { parts: keyInBody(inBody) };
  if (inBody === undefined && inQuery !== undefined) return { parts: keyInQuery(inQuery) };
  throw new Refusal(400, 'asset_key is missing: put it in the path (/warehouse/orders), the JSON body or the query');
}

function keyInPath(path: string): string[] {
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
  return checkKey(parts, path, 'in the path');
}

function keyInBody(value: Json): readonly string[] {
  const parts = value.kind === 'string' ? [stringOf(value)] : value.kind === 'array' ? stringsOf(value) : undefined;
  if (parts === undefined) throw wrongType('asset_key', value, 'a string or an array of strings');
  return checkKey(parts, value.text, 'in the body');
}

function keyInQuery(text: string): readonly string[] {
  if (!text.startsWith('[')) return checkKey([text], text, 'in the query');
  const value = orMalformedJson('asset_key in the query begins with [ and', () => readJson(text, limits.jsonDepthMax));
  const parts = stringsOf(value);
  if (parts === undefined) {
    throw new Refusal(400, `asset_key in the query is ${shown(text)}; a JSON array must hold strings only`);
  }
  return checkKey(parts, text, 'in the query');
}

/** A key in the body as it would stand in a query. */
function textOf(value: Json): string {
  return value.kind === 'string' ? stringOf(value) : value.text;
}

/** Lenient about the other key: it is not used, so it may as well be malformed. */
function sameKey(parts: readonly string[], other: string): boolean {
  if (parts.length === 1 && parts[0] === other) return true;
  try {
    return JSON.stringify(parts) === JSON.stringify(JSON.parse(other));
  } catch {
    return false; // not JSON, so not an array that says the same
  }
}

/** What holds for every key, wherever it came from. */
function checkKey(parts: string[], sent: string, where: string): string[] {
  if (parts.length === 0) throw new Refusal(400, `asset_key ${where} is an empty array; give at least one part`);
  let characters = parts.length - 1;
  for (const part of parts) {
    if (part === '') {
      throw new Refusal(400, `asset_key ${where} has an empty part: ${shown(sent)}; every part needs a name`);
    }
    if (CONTROL.test(part)) {
      throw new Refusal(400, `asset_key ${where} has a control character: ${shown(sent)}; remove it`);
    }
    if (!part.isWellFormed()) throw loneSurrogate(`asset_key ${where}`, sent);
    characters += part.length;
  }
  if (characters * UTF8_BYTES_MAX > limits.keyBytesMax) checkKeyBytes(parts, sent, where);
  return parts;
}

function checkKeyBytes(parts: readonly string[], sent: string, where: string): void {
  const bytes = Buffer.byteLength(parts.join('/'));
  if (bytes > limits.keyBytesMax) {
    throw new Refusal(
      400,
      `asset_key ${where} has ${bytes} bytes: ${shown(sent)}; at most ${limits.keyBytesMax} are taken`,
    );
  }
}

/** For one UTF-16 code unit. */
const UTF8_BYTES_MAX = 3;
const CONTROL = /[\u0000-\u001f\u007f]/;

/** Where a parameter's value stands: presence in the body decides, even as null, which means "not given". */
function find(
  { body, query }: Request,
  name: string,
): { from: 'body'; value: Json } | { from: 'query'; text: string } | undefined {
  const value = body?.get(name);
  if (value !== undefined) return value.kind === 'null' ? undefined : { from: 'body', value };
  const text = query.get(name);
  return text === undefined ? undefined : { from: 'query', text };
}

function readString(request: Request, name: string): string | undefined {
  const found = find(request, name);
  if (found === undefined) return undefined;
  if (found.from === 'query') return found.text;
  if (found.value.kind !== 'string') throw wrongType(name, found.value, 'a JSON string');
  const text = stringOf(found.value);
  if (!text.isWellFormed()) throw loneSurrogate(name, found.value.text);
  return text;
}

function readPassed(request: Request): boolean {
  const found = find(request, 'passed');
  if (found === undefined) {
    throw new Refusal(
      400,
      'passed is missing: send true or false as a JSON boolean in the body, or passed=true in the query',
    );
  }
  if (found.from === 'body') {
    if (found.value.kind !== 'boolean') throw wrongType('passed', found.value, 'the JSON boolean true or false');
    return found.value.text === 'true';
  }
  if (found.text !== 'true' && found.text !== 'false') {
    throw new Refusal(400, `passed in the query is ${shown(found.text)}; send true or false`);
  }
  return found.text === 'true';
}

function readCheckName(request: Request): string {
  const name = readString(request, 'check_name');
  if (name === undefined) throw new Refusal(400, 'check_name is missing: send the name of the check as a string');
  if (name === '') throw new Refusal(400, 'check_name is ""; send the name of the check');
  return name;
}

function readSeverity(request: Request): Severity {
  const text = readString(request, 'severity');
  if (text === undefined) return 'ERROR';
  const severity = severities.find((known) => known === text);
  if (severity === undefined) {
    const wanted = severities.join(' or ');
    throw new Refusal(400, `severity is ${shown(text)}; send ${wanted}, or leave it out for ERROR`);
  }
  return severity;
}

/** @returns the JSON text of an object, as it was sent */
function readMetadata(request: Request): string | undefined {
  const found = find(request, 'metadata');
  if (found === undefined) return undefined;
  const value =
    found.from === 'body'
      ? found.value
      : orMalformedJson('metadata in the query', () => readJson(found.text, limits.jsonDepthMax));
  if (value.kind === 'null') return undefined;
  if (value.kind !== 'object') throw wrongType('metadata', value, 'a JSON object such as {"rows":10}');
  return value.text;
}

function wrongType(name: string, value: Json, wanted: string): Refusal {
  const article = value.kind === 'array' || value.kind === 'object' ? 'an' : 'a';
  return new Refusal(400, `${name} is ${shown(value.text)} (${article} ${value.kind}); send ${wanted}`);
}

function loneSurrogate(what: string, sent: string): Refusal {
  return new Refusal(400, `${what} has half of a surrogate pair: ${shown(sent)}; send whole characters`);
}
