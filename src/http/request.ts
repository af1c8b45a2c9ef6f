/** Validates and parses the head, the query and the body of a request. Stricter than `node:http`. */

import { isUtf8 } from 'node:buffer';
import { type Limits, limits as standardLimits } from '../config/limits.ts';
import { type Json, JsonError, readMembers } from '../event/json.ts';
import { type HeaderFields, type Incoming, Refusal, shown, shownJson, WITHHELD } from './message.ts';

/** The head of a request: `{ method: 'POST', path: '/report_asset_check/', query: 'passed=true', bodyBytes: 2, … }`. */
export interface Head {
  readonly method: string;
  /** As sent, neither percent-decoded nor normalised: `/report_asset_check/a%2Fb`. */
  readonly path: string;
  /** As sent, without the question mark; empty if there is no query. */
  readonly query: string;
  /** Host and port that the client addressed, such as `localhost:3000`. Undefined only for HTTP/1.0 without Host. */
  readonly authority: string | undefined;
  readonly origin: string | undefined;
  /** The value of `Sec-Fetch-Site`: `same-origin`. */
  readonly fetchSite: string | undefined;
  /** Whether a browser opens what is requested in a tab or a window, as it says in `Sec-Fetch-Mode` and `Sec-Fetch-Dest`. */
  readonly navigates: boolean;
  /** The value of `Idempotency-Key`, as sent. */
  readonly idempotencyKey: string | undefined;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  /** All `Prefer` headers, joined with a comma. */
  readonly prefer: string | undefined;
  /** All `Accept` headers, joined with a comma. */
  readonly accept: string | undefined;
  readonly lastEventId: string | undefined;
  /** All headers as they were sent: name, value, name, value … */
  readonly raw: readonly string[];
  readonly expect: string | undefined;
  /** Value of the token header; undefined if there is none or the service uses no tokens. */
  readonly token: string | undefined;
  /** Size of the body, 0 without one. Undefined for a chunked body, whose size is known only at its end. */
  readonly bodyBytes: number | undefined;
}

type HeadLimits = Pick<Limits, 'headBytesMax' | 'headersMax'>;
type BodyLimits = Pick<Limits, 'bodyBytesMax'>;
type JsonLimits = Pick<Limits, 'jsonDepthMax' | 'bodyMembersMax'>;

const JSON_ONLY = ['application/json'] as const;
const NO_NAMES: ReadonlySet<string> = new Set();
const NO_PARAMETERS: ReadonlyMap<string, string> = new Map();

/**
 * Checks the syntax and framing of a request's head (RFC 9112). The target `/report_asset_check?passed=true` becomes the path
 * `/report_asset_check` and the query `passed=true`.
 * @param tokenHeaders names of the headers that may hold a token, in lower case; a request may have one of them, once
 * @throws Refusal 400 or 431, which closes the connection, because the start of the next request on it is not certain
 */
export function readHead(
  incoming: Incoming,
  tokenHeaders: ReadonlySet<string> = NO_NAMES,
  limits: HeadLimits = standardLimits,
): Head {
  const { method = '', url = '', httpVersion, fields } = incoming;
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    throw malformed(`HTTP/${httpVersion} is not served; use HTTP/1.1`);

  checkSize(fields, method.length + url.length + REQUEST_LINE_EXTRA_BYTES, limits);
  checkHost(fields, httpVersion);
  const bodyBytes = readFraming(fields, httpVersion);
  if (fields.contentTypes > 1) throw malformed('more than one Content-Type; send one');
  const token = tokenHeaders.size === 0 ? undefined : readToken(fields, tokenHeaders);

  const target = readTarget(url);
  return {
    method,
    path: target.path,
    query: target.query,
    authority: target.authority ?? fields.host,
    origin: fields.origin,
    fetchSite: fields.fetchSite,
    navigates: fields.fetchMode === 'navigate' && fields.fetchDest === 'document',
    idempotencyKey: fields.idempotencyKey,
    contentType: fields.contentType,
    contentEncoding: fields.contentEncoding,
    prefer: fields.prefer,
    accept: fields.accept,
    lastEventId: fields.lastEventId,
    raw: fields.raw,
    // An expectation in an HTTP/1.0 request is ignored (RFC 9110 section 10.1.1).
    expect: httpVersion === '1.0' ? undefined : fields.expect,
    token,
    bodyBytes,
  };
}

/** Checks the header Expect (RFC 9110 section 10.1.1). @throws Refusal 417 for any but `100-continue`, such as `200-ok` */
export function checkExpect(head: Head): void {
  if (head.expect !== undefined && head.expect.toLowerCase() !== '100-continue') {
    throw new Refusal(417, `Expect: ${shown(head.expect)} can not be met; send 100-continue or no Expect`);
  }
}

/**
 * Checks the headers that describe a body, for a request that has one: takes `application/json; charset=utf-8`.
 * @param bytes the size of the body, at least 1
 * @param types the media types that are taken, in lower case, the commonest first
 * @throws Refusal 413, 415 or 400, checked in this order: `Content-Type is "text/plain"; a body needs application/json`
 */
export function checkBodyHeaders(
  head: Head,
  bytes: number,
  types: readonly string[] = JSON_ONLY,
  limits: BodyLimits = standardLimits,
): void {
  if (bytes > limits.bodyBytesMax) throw bodyTooLarge(limits);
  const encoding = head.contentEncoding;
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new Refusal(415, `Content-Encoding ${shown(encoding)} is not read; send the body unencoded`);
  }
  const type = head.contentType;
  if (type === types[0]) return;
  const wanted = types.join(' or ');
  if (type === undefined) throw badContentType(`a body needs the header Content-Type: ${wanted}`);
  const parsed = MEDIA_TYPE.exec(type);
  if (parsed === null || !types.includes(parsed[1]!.toLowerCase())) {
    throw badContentType(`Content-Type is ${shown(type)}; a body needs ${wanted}`);
  }
  for (const [, name = '', quoted, token] of (parsed[2] ?? '').matchAll(PARAMETER)) {
    const value = wordOf(quoted, token);
    if (name.toLowerCase() === 'charset' && !/^utf-?8$/i.test(value)) {
      throw badContentType(`charset ${shown(value)} is not read; send UTF-8`);
    }
  }
}

/** @returns whether a Content-Type that `checkBodyHeaders` took is JSON: true for `application/json; charset=utf-8` */
export function isJson(contentType: string | undefined): boolean {
  return contentType !== undefined && /^application\/json[ \t]*(?:;|$)/i.test(contentType);
}

/** @returns the value of a parameter that is a quoted string or a token (RFC 9110 section 5.6): `wordOf('a\\"b', undefined)` is `a"b` */
export function wordOf(quoted: string | undefined, token: string | undefined): string {
  return quoted?.replace(/\\(.)/g, '$1') ?? token ?? '';
}

/** @returns a 431 that closes the connection: `request line and headers are over 16384 bytes; …` */
export function headTooLarge({ headBytesMax }: HeadLimits): Refusal {
  const problem = `request line and headers are over ${headBytesMax} bytes; move parameters into the body`;
  return new Refusal(431, problem, { close: true });
}

/** @returns a 413: `the body is larger than 1048576 bytes; …` */
export function bodyTooLarge({ bodyBytesMax }: BodyLimits): Refusal {
  return new Refusal(413, `the body is larger than ${bodyBytesMax} bytes; send less metadata or split the report`);
}

/**
 * Parses the JSON object in a body.
 * @param bytes the whole body
 * @returns its members, for `{"passed":true}` `Map { 'passed' => { kind: 'boolean', text: 'true' } }`; undefined if it is empty
 * @throws Refusal 400 if the body is not UTF-8 or not a JSON object
 */
export function readBody(
  bytes: Buffer,
  { jsonDepthMax, bodyMembersMax }: JsonLimits = standardLimits,
): Map<string, Json> | undefined {
  if (bytes.length === 0) return undefined;
  const text = readText(bytes);
  const members = orMalformedJson('the body', () => readMembers(text, jsonDepthMax, bodyMembersMax));
  if (members === undefined) {
    const problem = 'the body must be a JSON object such as {"asset_key":["warehouse","orders"]}, got ';
    throw new Refusal(400, `${problem}${shownJson(text.trim())}`, { logged: `${problem}${WITHHELD}` });
  }
  return members;
}

/**
 * @returns the text of a body, without its byte order mark: `{}` for the bytes `EF BB BF 7B 7D`
 * @throws Refusal 400 if it is not UTF-8: `the body is not UTF-8: byte 2 begins no valid character`
 */
export function readText(bytes: Buffer): string {
  if (!isUtf8(bytes)) {
    throw new Refusal(400, `the body is not UTF-8: byte ${firstBadByte(bytes) + 1} begins no valid character`);
  }
  return bytes.toString('utf8', startsWithBom(bytes) ? 3 : 0);
}

/**
 * Runs a parser of JSON text that a client sent: `orMalformedJson('the body', () => readJson(text, 128))`.
 * @returns what the parser returned
 * @throws Refusal 400 with line, column and problem: `the body is not valid JSON at line 1, column 6: True is not …`
 */
export function orMalformedJson<Value>(what: string, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    const problem = `${what} is not valid JSON at line ${error.line}, column ${error.column}`;
    throw new Refusal(400, `${problem}: ${error.message}`, { logged: problem });
  }
}

/**
 * Parses a query as `application/x-www-form-urlencoded`: `+` is a space.
 * @param repeated whether the last value of a repeated name is used, as in a report, or the query is refused
 * @returns for `description=nightly+load`, `Map { 'description' => 'nightly load' }`
 * @throws Refusal 400 for a malformed percent-encoding
 */
export function readQuery(query: string, repeated: 'last' | 'refused' = 'last'): ReadonlyMap<string, string> {
  if (query === '') return NO_PARAMETERS;
  const parameters = new Map<string, string>();
  for (const pair of query.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = equals === -1 ? pair : pair.slice(0, equals);
    const value = equals === -1 ? '' : pair.slice(equals + 1);
    const decoded = formDecode(name);
    if (repeated === 'refused' && parameters.has(decoded)) {
      const problem = (name: string) => `the query has ${name} twice; send it once`;
      throw new Refusal(400, problem(shown(decoded)), { logged: problem(WITHHELD) });
    }
    parameters.set(decoded, formDecode(value));
  }
  return parameters;
}

/** @returns the text with its percent-encoding decoded once as UTF-8: `a/b` for `a%2Fb`; undefined if malformed, as in `50%` */
export function percentDecode(text: string): string | undefined {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined; // decodeURIComponent throws only for a malformed text
  }
}

/** Bytes of the request line besides method and target (spaces, version, line end), and of the empty line after the headers. */
const REQUEST_LINE_EXTRA_BYTES = ' '.length + ' HTTP/1.1\r\n'.length + '\r\n'.length;
const HEADER_EXTRA_BYTES = ': '.length + '\r\n'.length;

/** RFC 9110 section 7.2 and RFC 3986 section 3.2.2: a name or an address, an optional port, never user information. */
const AUTHORITY = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(?::[0-9]*)?$/;
/** Visible ASCII without `#`: a fragment is never sent to a server. */
const TARGET = /^[\x21\x22\x24-\x7e]+$/;
const ABSOLUTE_TARGET = /^https?:\/\/([^/?]*)(.*)$/i;

/**
 * RFC 9110 section 8.3.1: type, then parameters whose values are tokens or quoted strings. No white space can be matched in
 * two ways: such ambiguity causes catastrophic backtracking on a long header of semicolons and spaces.
 */
export const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const MEDIA_TYPE = new RegExp(
  `^(${TOKEN}/${TOKEN})[ \\t]*((?:;[ \\t]*(?:${TOKEN}=(?:"(?:[^"\\\\]|\\\\.)*"|${TOKEN})[ \\t]*)?)*)$`,
);
const PARAMETER = new RegExp(`;[ \\t]*(${TOKEN})=(?:"((?:[^"\\\\]|\\\\.)*)"|(${TOKEN}))`, 'g');

/**
 * Collects the headers that the service uses.
 * @param raw name, value, name, value …: `['Host', 'localhost']`
 * @returns `{ raw, bytes: 17, host: 'localhost', hosts: 1, contentTypes: 0 }`
 */
export function readFields(raw: readonly string[]): HeaderFields {
  const fields: HeaderFields = { raw, bytes: 0, hosts: 0, contentTypes: 0 };
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at]!;
    const value = raw[at + 1]!;
    fields.bytes += name.length + value.length + HEADER_EXTRA_BYTES;
    switch (name.toLowerCase()) {
      case 'host':
        fields.host = value;
        fields.hosts += 1;
        break;
      case 'transfer-encoding':
        fields.transferEncoding = join(fields.transferEncoding, value);
        break;
      case 'content-length':
        fields.contentLength = join(fields.contentLength, value);
        break;
      case 'content-type':
        fields.contentType = value;
        fields.contentTypes += 1;
        break;
      case 'content-encoding':
        fields.contentEncoding = join(fields.contentEncoding, value);
        break;
      case 'prefer':
        fields.prefer = join(fields.prefer, value);
        break;
      case 'accept':
        fields.accept = join(fields.accept, value);
        break;
      case 'last-event-id':
        fields.lastEventId = join(fields.lastEventId, value);
        break;
      case 'expect':
        fields.expect = join(fields.expect, value);
        break;
      case 'upgrade':
        fields.upgrade = join(fields.upgrade, value);
        break;
      case 'origin':
        fields.origin = join(fields.origin, value);
        break;
      case 'sec-fetch-site':
        fields.fetchSite = join(fields.fetchSite, value);
        break;
      case 'sec-fetch-mode':
        fields.fetchMode = join(fields.fetchMode, value);
        break;
      case 'sec-fetch-dest':
        fields.fetchDest = join(fields.fetchDest, value);
        break;
      case 'idempotency-key':
        fields.idempotencyKey = join(fields.idempotencyKey, value);
        break;
    }
  }
  return fields;
}

/** @throws Refusal 431 */
function checkSize({ raw, bytes }: HeaderFields, requestLineBytes: number, limits: HeadLimits): void {
  if (raw.length > limits.headersMax * 2) {
    throw new Refusal(431, `${raw.length / 2} headers; at most ${limits.headersMax} are read`, { close: true });
  }
  if (bytes + requestLineBytes > limits.headBytesMax) throw headTooLarge(limits);
}

/** @throws Refusal 400 for more than one token header */
function readToken({ raw }: HeaderFields, tokenHeaders: ReadonlySet<string>): string | undefined {
  let token: string | undefined;
  for (let at = 0; at < raw.length; at += 2) {
    if (!tokenHeaders.has(raw[at]!.toLowerCase())) continue;
    if (token !== undefined) throw malformed('more than one token header; send one');
    token = raw[at + 1]!;
  }
  return token;
}

function join(before: string | undefined, value: string): string {
  return before === undefined ? value : `${before}, ${value}`;
}

function checkHost({ host, hosts }: HeaderFields, httpVersion: string): void {
  if (host === undefined) {
    if (httpVersion === '1.0') return;
    throw malformed('the Host header is missing; HTTP/1.1 needs one');
  }
  if (hosts > 1) throw malformed('more than one Host header; send one');
  if (!AUTHORITY.test(host)) throw malformed(`Host ${shown(host)} is not a name or an address with an optional port`);
}

/**
 * RFC 9112 section 6. Ambiguous framing is refused, since it allows request smuggling.
 * @returns the size of the body in bytes, undefined for a chunked body
 */
function readFraming({ transferEncoding, contentLength }: HeaderFields, httpVersion: string): number | undefined {
  if (transferEncoding === undefined) return contentLength === undefined ? 0 : Number(contentLength);
  if (httpVersion === '1.0')
    throw malformed('Transfer-Encoding is not part of HTTP/1.0; use HTTP/1.1 or Content-Length');
  if (contentLength !== undefined) throw malformed('both Transfer-Encoding and Content-Length; send one of them');
  if (transferEncoding.toLowerCase() !== 'chunked') {
    throw malformed(`Transfer-Encoding ${shown(transferEncoding)} is not read; use chunked`);
  }
  return undefined;
}

/** RFC 9112 section 3.2: origin-form, or absolute-form, whose authority then replaces Host. */
function readTarget(url: string): { authority: string | undefined; path: string; query: string } {
  if (!TARGET.test(url)) throw malformedTarget(url, 'has a fragment or a character outside ASCII; percent-encode it');
  if (url.startsWith('/')) return { authority: undefined, ...splitTarget(url) };
  const [, authority, rest] = ABSOLUTE_TARGET.exec(url) ?? [];
  if (authority === undefined || rest === undefined || !AUTHORITY.test(authority)) {
    throw malformedTarget(url, 'is neither a path nor an http URL');
  }
  return { authority, ...splitTarget(rest.startsWith('/') ? rest : `/${rest}`) };
}

function splitTarget(target: string): { path: string; query: string } {
  const mark = target.indexOf('?');
  if (mark === -1) return { path: target, query: '' };
  return { path: target.slice(0, mark), query: target.slice(mark + 1) };
}

function malformed(error: string): Refusal {
  return new Refusal(400, error, { close: true });
}

/** The target holds the query, so the log has neither. */
function malformedTarget(url: string, problem: string): Refusal {
  return new Refusal(400, `target ${shown(url)} ${problem}`, { close: true, logged: `target ${WITHHELD} ${problem}` });
}

function badContentType(error: string): Refusal {
  return new Refusal(400, error);
}

function formDecode(text: string): string {
  const decoded = percentDecode(text.includes('+') ? text.replaceAll('+', ' ') : text);
  if (decoded !== undefined) return decoded;
  const problem = (value: string) => `the query holds ${value}, which is not percent-encoded UTF-8; write % as %25`;
  throw new Refusal(400, problem(shown(text)), { logged: problem(WITHHELD) });
}

function startsWithBom(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

/** @returns the offset of the first byte that begins no valid character; the bytes must not be valid UTF-8 */
function firstBadByte(bytes: Buffer): number {
  const text = bytes.toString('utf8');
  let offset = 0;
  let from = 0;
  for (;;) {
    // Decoding replaces invalid bytes by U+FFFD, but the client may also have sent U+FFFD itself, as EF BF BD.
    const at = text.indexOf('\ufffd', from);
    offset += Buffer.byteLength(text.slice(from, at));
    if (bytes[offset] !== 0xef || bytes[offset + 1] !== 0xbf || bytes[offset + 2] !== 0xbd) return offset;
    offset += 3;
    from = at + 1;
  }
}
