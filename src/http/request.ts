/** Validates and parses the head, the query and the body of a request. It is stricter than `node:http`. */

import { isUtf8 } from 'node:buffer';
import type { Limits } from '../config/limits.ts';
import { JsonBytes, type JsonLimits } from '../event/json-bytes.ts';
import { isUtf16, JsonError } from '../event/json-mistakes.ts';
import { type Members, readMembers } from '../event/members.ts';
import type { HeaderFields } from './headers.ts';
import { type Head, type Incoming, quotingRefusal, Refusal, shown, shownJson } from './message.ts';
import type { Route } from './router.ts';

type BodyLimits = Pick<Limits, 'bodyBytesMax'>;

/**
 * @param tokenHeaders a request can have a bearer token and one other of these headers, each once
 * @returns a function that checks the syntax and framing of a request's head (RFC 9112). It throws Refusal 400 or 431, which closes
 *   the connection, because the start of the next request is not certain
 */
export function headReader(tokenHeaders: TokenHeaders, limits: Limits): (incoming: Incoming) => Head {
  return (incoming) => {
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
      fields,
      authority: target.authority ?? fields.host,
      navigates: fields.fetchMode === 'navigate' && fields.fetchDest === 'document',
      // RFC 9110 section 10.1.1
      expect: httpVersion === '1.0' ? undefined : fields.expect,
      token,
      bodyBytes,
    };
  };
}

/** Checks the header Expect (RFC 9110 section 10.1.1). @throws Refusal 417 unless it is `100-continue` */
export function checkExpect({ expect }: Head): void {
  if (expect === undefined || expect.toLowerCase() === '100-continue') return;
  const problem = (value: string) => `Expect: ${value} cannot be met; send 100-continue or no Expect`;
  throw quotingRefusal(417, shown(expect), 'logged', problem);
}

/**
 * Checks the headers that describe a body. Only for a request with a body.
 * @throws Refusal 413, 415 or 400, checked in this order
 */
export function checkBodyHeaders(
  { fields }: Head,
  bytes: number,
  { bodyTypes, acceptsGzip = false }: Pick<Route<unknown>, 'bodyTypes' | 'acceptsGzip'>,
  limits: BodyLimits,
): void {
  if (bytes > limits.bodyBytesMax) throw bodyTooLarge(limits);
  checkEncoding(fields, acceptsGzip);
  if (fields.contentType !== bodyTypes[0]) checkType(fields.contentType, bodyTypes);
}

/** @throws Refusal 415 */
function checkEncoding(fields: HeaderFields, acceptsGzip: boolean): void {
  const { contentEncoding: encoding } = fields;
  if (encoding === undefined || /^(?:identity)?$/i.test(encoding) || (acceptsGzip && isGzip(fields))) return;
  const advice = CHARSET.test(encoding)
    ? 'is a charset; leave the header out, a charset belongs in Content-Type'
    : `is not read${acceptsGzip ? ', only gzip once' : ''}; send the body unencoded and without this header`;
  const problem = (value: string) => `Content-Encoding ${value} ${advice}`;
  throw quotingRefusal(415, shown(encoding), 'logged', problem, acceptsGzip ? ACCEPT_GZIP : {});
}

/** @throws Refusal 400 */
function checkType(type: string | undefined, types: readonly string[]): void {
  const wanted = types.join(' or ');
  if (type === undefined) throw new Refusal(400, `a body needs the header Content-Type: ${wanted}`);
  const parsed = MEDIA_TYPE.exec(type);
  if (parsed === null || !types.includes(parsed[1]!.toLowerCase())) {
    const [media = '', ...parameters] = type.split(';').map((part) => part.trim());
    const stray = types.includes(media.toLowerCase()) ? parameters.find((one) => !/^[^\s=]+=\S/.test(one)) : undefined;
    const problem = (value: string) =>
      stray === undefined
        ? `Content-Type is ${value}; a body needs ${wanted}`
        : `Content-Type is ${value}, and ${shown(stray)} is not a parameter; write charset=utf-8 or leave it out`;
    throw quotingRefusal(400, shown(type), 'logged', problem);
  }
  for (const [, name = '', quoted, token] of (parsed[2] ?? '').matchAll(PARAMETER)) {
    const charset = wordOf(quoted, token);
    if (name.toLowerCase() === 'charset' && !/^utf-?8$/i.test(charset)) {
      const problem = (value: string) => `charset ${value} is not read; send UTF-8`;
      throw quotingRefusal(400, shown(charset), 'logged', problem);
    }
  }
}

/** Whether a body is compressed with gzip, and with nothing else (RFC 9110 section 8.4). */
export function isGzip({ contentEncoding }: Pick<HeaderFields, 'contentEncoding'>): boolean {
  return contentEncoding !== undefined && /^gzip$/i.test(contentEncoding);
}

/** @returns whether a Content-Type that `checkBodyHeaders` accepted is JSON */
export function isJson(contentType: string | undefined): boolean {
  return contentType !== undefined && /^application\/json[ \t]*(?:;|$)/i.test(contentType);
}

/** Whether Accept names HTML, as in browsers. A client that accepts anything, such as curl by default, gets JSON. */
export function acceptsHtml(accept = ''): boolean {
  return accept.split(',').some((range) => /^\s*text\/html\s*(?:;(?!.*\bq=0(?:\.0*)?\s*$)|$)/i.test(range));
}

/** @returns the value of a quoted string or a token (RFC 9110 section 5.6): `wordOf('a\\"b', undefined)` is `a"b` */
export function wordOf(quoted: string | undefined, token: string | undefined): string {
  return quoted?.replace(/\\(.)/g, '$1') ?? token ?? '';
}

/** @returns a 431 that closes the connection */
export function headTooLarge({ headBytesMax }: Limits): Refusal {
  const problem = `request line and headers are over ${headBytesMax} bytes; move parameters into the body`;
  return new Refusal(431, problem, CLOSE);
}

/** @returns a 413 that closes the connection */
export function tooManyPieces({ bodyPieceBytes }: Limits): Refusal {
  const problem = `too many pieces of bodies have less than ${bodyPieceBytes} bytes; send larger chunks, or Content-Length`;
  return new Refusal(413, problem, CLOSE);
}

/** @param what the body, compressed or decompressed */
export function bodyTooLarge({ bodyBytesMax }: BodyLimits, what = 'the body'): Refusal {
  return new Refusal(413, `${what} is larger than ${bodyBytesMax} bytes; send less metadata or split the report`);
}

/** Parses the JSON object in a body. @returns its members; undefined for an empty body. @throws Refusal 400 */
export type ReadBody = (bytes: Buffer) => Members | undefined;

export function bodyReader(limits: JsonLimits): ReadBody {
  return (bytes) => {
    if (bytes.length === 0) return undefined;
    const json = readUtf8(bytes, limits);
    const members = orMalformedJson('the body', () => readMembers(json));
    if (members !== undefined) return members;
    const problem = (value: string) =>
      `the body must be a JSON object such as {"asset_key":["warehouse","orders"]}, got ${value}`;
    throw quotingRefusal(400, shownJson(json.text().trim()), 'withheld', problem);
  };
}

/** @param isLines whether the body is NDJSON @returns the body without a byte order mark @throws Refusal 400 if not UTF-8 */
export function readUtf8(bytes: Buffer, limits: JsonLimits, isLines = false): JsonBytes {
  if (isUtf16(bytes)) throw new Refusal(400, 'the body is UTF-16; send it as UTF-8');
  if (!isUtf8(bytes)) {
    throw new Refusal(400, `the body is not UTF-8: byte ${firstBadByte(bytes) + 1} does not start a valid character`);
  }
  return new JsonBytes(startsWithBom(bytes) ? bytes.subarray(3) : bytes, limits, isLines);
}

/** Runs a parser of a client's JSON text. @throws Refusal 400 with line, column and problem */
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
 * @param repeated whether a repeated name is refused; reports accept it, since the body or the path might override it
 * @throws Refusal 400 for a malformed percent-encoding, or a repeated name that is refused
 */
export function readQuery(query: string, repeated: 'kept' | 'refused' = 'kept'): Query {
  if (query === '') return NO_PARAMETERS;
  const parameters: Map<string, string> & { others?: Map<string, string[]> } = new Map();
  for (const pair of query.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = formDecode(equals === -1 ? pair : pair.slice(0, equals));
    const value = equals === -1 ? '' : pair.slice(equals + 1);
    if (repeated === 'refused' && parameters.has(name)) {
      const problem = (quote: string) => `the query has ${quote} twice; send it once`;
      throw quotingRefusal(400, shown(name), 'withheld', problem);
    }
    const last = formDecode(value);
    const before = parameters.get(name);
    if (before !== undefined && before !== last) {
      parameters.others ??= new Map();
      const others = parameters.others.get(name);
      if (others === undefined) parameters.others.set(name, [before]);
      else others.push(before);
    }
    parameters.set(name, last);
  }
  return parameters;
}

/** The last value of each name in a query. */
export type Query = ReadonlyMap<string, string> & {
  /** The values before the last one, for names with different values. */
  readonly others?: ReadonlyMap<string, readonly string[]>;
};

const NO_PARAMETERS: Query = new Map();

/** @returns the text, percent-decoded once as UTF-8; undefined if it is malformed */
export function percentDecode(text: string): string | undefined {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined; // decodeURIComponent throws only for a malformed text
  }
}

/**
 * Bytes of the request line in addition to method and target (spaces, version, line end), plus the empty line after the
 * headers.
 */
const REQUEST_LINE_EXTRA_BYTES = ' '.length + ' HTTP/1.1\r\n'.length + '\r\n'.length;

/** RFC 9110 section 7.2 and RFC 3986 section 3.2.2: a name or an address, an optional port, never user information. */
const AUTHORITY = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(?::[0-9]*)?$/;
/** Visible ASCII without `#`: a fragment is never sent to a server. */
const TARGET = /^[\x21\x22\x24-\x7e]+$/;
const ABSOLUTE_TARGET = /^https?:\/\/([^/?]*)(.*)$/i;

/**
 * RFC 9110 section 8.3.1: type, then parameters whose values are tokens or quoted strings. White space matches in one way only:
 * ambiguity causes catastrophic backtracking on a long header of semicolons and spaces.
 */
export const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const MEDIA_TYPE = new RegExp(
  `^(${TOKEN}/${TOKEN})[ \\t]*((?:;[ \\t]*(?:${TOKEN}=(?:"(?:[^"\\\\]|\\\\.)*"|${TOKEN})[ \\t]*)?)*)$`,
);
const PARAMETER = new RegExp(`;[ \\t]*(${TOKEN})=(?:"((?:[^"\\\\]|\\\\.)*)"|(${TOKEN}))`, 'g');

/** RFC 9110 section 15.5.16 */
const ACCEPT_GZIP = { headers: ['Accept-Encoding', 'gzip'] };
const CHARSET = /^(?:utf|us-ascii|iso-8859|latin|windows-)/i;

/** @throws Refusal 431 */
function checkSize({ raw, bytes }: HeaderFields, requestLineBytes: number, limits: Limits): void {
  if (raw.length > limits.headersMax * 2) {
    throw new Refusal(431, `${raw.length / 2} headers; at most ${limits.headersMax} are read`, CLOSE);
  }
  if (bytes + requestLineBytes > limits.headBytesMax) throw headTooLarge(limits);
}

/** The headers for tokens by their names in lower case. Their value is the token, `Bearer` and the token, or either. */
export type TokenHeaders = ReadonlyMap<string, 'token' | 'bearer' | 'either'>;

/** Another token header wins over a bearer token, which might be for a proxy. @throws Refusal 400 for two headers of one kind */
function readToken({ raw }: HeaderFields, tokenHeaders: TokenHeaders): string | undefined {
  let token: string | undefined;
  let bearer: string | undefined;
  for (let at = 0; at < raw.length; at += 2) {
    const form = tokenHeaders.get(raw[at]!.toLowerCase());
    if (form === undefined) continue;
    const value = raw[at + 1]!;
    const credentials = form === 'token' ? undefined : bearerIn(value);
    if (credentials === undefined && form === 'bearer') continue;
    if ((credentials === undefined ? token : bearer) !== undefined)
      throw malformed('more than one token header; send one');
    if (credentials === undefined) token = value;
    else bearer = credentials;
  }
  return token ?? bearer;
}

/**
 * @returns the token of `Bearer TOKEN` (RFC 6750 section 2.1); undefined for another scheme, such as the scheme of a
 * proxy
 */
function bearerIn(credentials: string): string | undefined {
  const [match, token = ''] = /^bearer(?: +(.*))?$/i.exec(credentials) ?? [];
  return match === undefined ? undefined : token;
}

function checkHost({ host, hosts }: HeaderFields, httpVersion: string): void {
  if (host === undefined) {
    if (httpVersion === '1.0') return;
    throw malformed('the Host header is missing; HTTP/1.1 needs one');
  }
  if (hosts > 1) throw malformed('more than one Host header; send one');
  if (AUTHORITY.test(host)) return;
  const problem = (value: string) => `Host ${value} is not a name or an address with an optional port`;
  throw quotingRefusal(400, shown(host), 'logged', problem, CLOSE);
}

/**
 * RFC 9112 section 6. Ambiguous framing is refused, since it allows request smuggling.
 * @returns the size of the body in bytes; undefined for a chunked body
 */
function readFraming(fields: HeaderFields, httpVersion: string): number | undefined {
  const { transferEncoding, contentLength } = fields;
  if (transferEncoding === undefined) return contentLength === undefined ? 0 : Number(contentLength);
  if (httpVersion === '1.0')
    throw malformed('Transfer-Encoding is not part of HTTP/1.0; use HTTP/1.1 or Content-Length');
  if (contentLength !== undefined) throw malformed('both Transfer-Encoding and Content-Length; send one of them');
  if (transferEncoding.toLowerCase() === 'chunked') return undefined;
  const problem = (value: string) => `Transfer-Encoding ${value} is not read; use chunked`;
  throw quotingRefusal(400, shown(transferEncoding), 'logged', problem, CLOSE);
}

/** RFC 9112 section 3.2: origin-form, or absolute-form, whose authority replaces Host. */
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

const CLOSE = { close: true };

function malformed(error: string): Refusal {
  return new Refusal(400, error, CLOSE);
}

/** The target contains the query, so the log gets neither. */
function malformedTarget(url: string, problem: string): Refusal {
  return quotingRefusal(400, shown(url), 'withheld', (target) => `target ${target} ${problem}`, CLOSE);
}

function formDecode(text: string): string {
  const decoded = percentDecode(text.includes('+') ? text.replaceAll('+', ' ') : text);
  if (decoded !== undefined) return decoded;
  const problem = (value: string) => `the query holds ${value}, which is not percent-encoded UTF-8; write % as %25`;
  throw quotingRefusal(400, shown(text), 'withheld', problem);
}

function startsWithBom(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

/** @returns the offset of the first byte that does not start a valid character. The bytes must not be valid UTF-8 */
function firstBadByte(bytes: Buffer): number {
  const text = bytes.toString('utf8');
  let offset = 0;
  let from = 0;
  for (;;) {
    // Decoding replaces invalid bytes by U+FFFD, but the client might also have sent U+FFFD itself, as EF BF BD.
    const at = text.indexOf('\ufffd', from);
    offset += Buffer.byteLength(text.slice(from, at));
    if (bytes[offset] !== 0xef || bytes[offset + 1] !== 0xbf || bytes[offset + 2] !== 0xbd) return offset;
    offset += 3;
    from = at + 1;
  }
}
