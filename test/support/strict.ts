/**
 * A second opinion: the reports in a stream of bytes, read independently by RFC 9110 and 9112 and the README, slowly, without
 * node:http and without any file of the service. It stops if the border between two requests is in doubt.
 */

import {
  type EventText,
  type Given,
  NO_MEMBERS,
  readEvent,
  readMembers,
  require,
  TYPES,
  Unfit,
} from './strict-event.ts';

/** A well-framed request, and its event; none if any rule refuses the request. */
export interface Verdict {
  readonly event: EventText | undefined;
}

/** The valid tokens of a hosted service by deployment. A local service needs none. */
export type TokensOf = ReadonlyMap<string, readonly string[]>;

/** @param bytes as latin1 */
export function readStream(bytes: string, tokensOf?: TokensOf): Verdict[] {
  const verdicts: Verdict[] = [];
  let rest = bytes;
  for (;;) {
    rest = rest.replace(/^[\r\n]+/, '');
    const taken = takeRequest(rest, tokensOf);
    if (taken === undefined) return verdicts;
    verdicts.push({ event: taken.event });
    if (taken.last) return verdicts;
    rest = taken.rest;
  }
}

type Headers = ReadonlyMap<string, readonly string[]>;

interface Taken {
  readonly event: EventText | undefined;
  /** The request ends the connection. */
  readonly last: boolean;
  readonly rest: string;
}

/** RFC 9112 section 3 lets a receiver split the line at any white space, so several spaces are one. */
const REQUEST_LINE = /^([A-Z-]+) +([\x21\x22\x24-\x7e]+) +HTTP\/1\.([01])$/;
const HEADER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*$/;

function takeRequest(bytes: string, tokensOf: TokensOf | undefined): Taken | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const [first = '', ...lines] = bytes.slice(0, headEnd).split('\r\n');
  const [, method = '', target = '', minor] = REQUEST_LINE.exec(first) ?? [];
  const headers = readHeaders(lines);
  if (method === '' || headers === undefined) return undefined;
  const body = takeBody(bytes.slice(headEnd + 4), headers, minor === '0');
  if (body === undefined) return undefined;
  const options = (headers.get('connection') ?? [])
    .join()
    .toLowerCase()
    .split(/[, \t]+/);
  const last =
    options.includes('close') || (minor === '0' && !options.includes('keep-alive')) || headers.has('upgrade');
  const event = method === 'POST' ? readPost(target, headers, minor === '0', body.text, tokensOf) : undefined;
  return { event, last, rest: body.rest };
}

function readHeaders(lines: readonly string[]): Headers | undefined {
  const headers = new Map<string, string[]>();
  for (const line of lines) {
    const [, name, value = ''] = HEADER.exec(line) ?? [];
    if (name === undefined) return undefined;
    const before = headers.get(name.toLowerCase());
    if (before === undefined) headers.set(name.toLowerCase(), [value]);
    else before.push(value);
  }
  return headers;
}

function takeBody(bytes: string, headers: Headers, isOld: boolean): { text: string; rest: string } | undefined {
  const codings = headers.get('transfer-encoding');
  const lengths = headers.get('content-length');
  if (codings !== undefined) {
    const plain = codings.length === 1 && codings[0]?.toLowerCase() === 'chunked';
    return plain && lengths === undefined && !isOld ? takeChunks(bytes) : undefined;
  }
  if (lengths === undefined) return { text: '', rest: bytes };
  if (lengths.length !== 1 || !/^[0-9]{1,15}$/.test(lengths[0] ?? '')) return undefined;
  const length = Number(lengths[0]);
  return length > bytes.length ? undefined : { text: bytes.slice(0, length), rest: bytes.slice(length) };
}

function takeChunks(bytes: string): { text: string; rest: string } | undefined {
  let text = '';
  let rest = bytes;
  for (;;) {
    const [line = '', digits = ''] = /^([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n/.exec(rest) ?? [];
    if (line === '') return undefined;
    const size = Number.parseInt(digits, 16);
    rest = rest.slice(line.length);
    if (size === 0) break;
    if (rest.slice(size, size + 2) !== '\r\n') return undefined;
    text += rest.slice(0, size);
    rest = rest.slice(size + 2);
  }
  const end = `\r\n${rest}`.indexOf('\r\n\r\n');
  const trailers = rest
    .slice(0, end)
    .split('\r\n')
    .filter((line) => line !== '');
  if (end === -1 || readHeaders(trailers) === undefined) return undefined;
  return { text, rest: rest.slice(end + 2) };
}

/** @returns undefined if any rule of the README refuses the request */
function readPost(
  target: string,
  headers: Headers,
  isOld: boolean,
  body: string,
  tokensOf: TokensOf | undefined,
): EventText | undefined {
  const [, authority, whole = '', query = ''] =
    /^(?:https?:\/\/([^/?]+)(?=\/))?(\/[^?]*)(?:\?(.*))?$/i.exec(target) ?? [];
  if (!mayReport(headers, isOld, authority)) return undefined;
  const { deployment, path } = tokensOf === undefined ? { deployment: '', path: whole } : split(whole);
  if (tokensOf !== undefined && !hasToken(headers, tokensOf.get(deployment) ?? [])) return undefined;
  try {
    // Unknown names have to be decodable too, so the whole query is read.
    const parameters = readQuery(query);
    const [, kind = '', keyPath = ''] =
      /^\/report_asset_(materialization|check|observation)(?:\/(.*))?$/.exec(path) ?? [];
    if (TYPES[kind] === undefined) return undefined;
    const members = body === '' ? NO_MEMBERS : readMembers(readBody(headers, body));
    const given: Given = { keyPath, members, query: parameters.values, repeated: parameters.repeated };
    return readEvent(kind, given, deployment);
  } catch (error) {
    if (error instanceof Unfit || error instanceof SyntaxError || error instanceof URIError) return undefined;
    throw error;
  }
}

/** @returns the first component of a path, and the rest */
function split(path: string): { deployment: string; path: string } {
  const [, deployment = '', ...rest] = path.split('/');
  return { deployment, path: rest.length > 0 ? `/${rest.join('/')}` : '' };
}

/** README, hosted mode: one header of either name, or otherwise a bearer token. */
function hasToken(headers: Headers, good: readonly string[]): boolean {
  const sent = ['service-cloud-api-token', 'dagster-cloud-api-token'].flatMap((name) => headers.get(name) ?? []);
  const credentials = (headers.get('authorization') ?? []).filter(
    (one) => one.toLowerCase().split(' ')[0] === 'bearer',
  );
  const bearers = credentials.map((one) => one.slice('bearer'.length).replace(/^ +/, ''));
  return sent.length < 2 && bearers.length < 2 && good.includes(sent[0] ?? bearers[0] ?? '');
}

function mayReport(headers: Headers, isOld: boolean, authority: string | undefined): boolean {
  const hosts = headers.get('host') ?? [];
  if (hosts.length > 1 || (hosts.length === 0 && !isOld)) return false;
  const ours = /^(localhost|127\.0\.0\.1|\[::1\])(:[0-9]*)?$/i;
  const meant = authority ?? hosts[0];
  if (meant !== undefined && !ours.test(meant)) return false;
  if (hosts[0] !== undefined && !/^[!-~]+$/.test(hosts[0])) return false;
  if ((headers.get('content-type') ?? []).length > 1) return false;
  const origins = headers.get('origin') ?? [];
  if (origins.length > 0 && origins.join().toLowerCase() !== `http://${meant?.toLowerCase()}`) return false;
  if (headers.has('sec-fetch-site') && !/^(none|same-origin)$/.test((headers.get('sec-fetch-site') ?? []).join()))
    return false;
  const expect = headers.get('expect');
  return expect === undefined || isOld || expect.join().toLowerCase() === '100-continue';
}

/** @returns the text of a non-empty body, without a byte order mark */
function readBody(headers: Headers, body: string): string {
  require(body !== '');
  const coding = (headers.get('content-encoding') ?? ['identity']).join().toLowerCase();
  require(coding === 'identity' || coding === '');
  const type = (headers.get('content-type') ?? []).join();
  const [, essence = '', parameters = ''] = /^([^; \t]+)[ \t]*(.*)$/.exec(type) ?? [];
  require(essence.toLowerCase() === 'application/json');
  require(/^(;[ \t]*([!#$%&'*+.^_`|~0-9a-z-]+=([!#$%&'*+.^_`|~0-9a-z-]+|"utf-8"))?[ \t]*)*$/i.test(parameters));
  for (const [, charset = ''] of type.matchAll(/;[ \t]*charset="?([^"; \t]*)/gi)) require(/^utf-?8$/i.test(charset));
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(body, 'latin1'));
  } catch {
    throw new Unfit();
  }
}

/** @returns the last value of each name, and the names that have different values */
function readQuery(query: string): { values: ReadonlyMap<string, string>; repeated: ReadonlySet<string> } {
  const pairs = query.split('&').filter((pair) => pair !== '');
  const read = pairs.map(readPair);
  const values = new Map<string, string>();
  const repeated = new Set<string>();
  for (const [name, value] of read) {
    if ((values.get(name) ?? value) !== value) repeated.add(name);
    values.set(name, value);
  }
  return { values, repeated };
}

function readPair(pair: string): [name: string, value: string] {
  const [name = '', ...value] = pair.split('=').map((part) => part.replaceAll('+', ' '));
  return [decodeURIComponent(name), decodeURIComponent(value.join('='))];
}
