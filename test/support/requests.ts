/** Requests from a grammar, good and spoiled ones, for the fuzzer. Every byte follows from the seed. */

import { randomFrom } from './random.ts';
import type { TokensOf } from './strict.ts';

/** Repeatable random choices. */
export class Random {
  readonly #next: () => number;

  constructor(seed: number) {
    this.#next = randomFrom(seed);
  }

  /** @returns an integer from 0 to `below` - 1 */
  below(below: number): number {
    return Math.floor(this.#next() * below);
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[this.below(values.length)] as Value;
  }

  chance(percent: number): boolean {
    return this.below(100) < percent;
  }
}
/** A request before it is serialized. */
export interface Plan {
  method: string;
  path: string;
  query: string[];
  version: string;
  headers: string[];
  members: string[];
  framing: 'none' | 'sized' | 'chunked';
}

const METADATA = [
  '{}',
  '{"rows":10}',
  '{"a":[1,2.5,null,{"b":"\\u00e9"}]}',
  '{"big":12345678901234567890}',
  '{"t":"\xc3\xa9"}',
];
const HARMLESS = [
  ...['X-Trace: abc', 'Accept: */*', 'User-Agent: fuzz', 'TE: trailers', 'Content_Length: 3', 'X:'],
  'Cookie: a=b; c=d',
];

/**
 * Plans a report that breaks no rule.
 * @param key unique
 */
export function planGood(random: Random, key: string, tokensOf: TokensOf | undefined): Plan {
  const kind = random.pick(['materialization', 'check', 'observation']);
  const plan: Plan = {
    method: 'POST',
    path: `/report_asset_${kind}`,
    query: [],
    version: 'HTTP/1.1',
    headers: [random.pick(['Host: localhost', 'host: 127.0.0.1:3000', 'Host: [::1]'])],
    members: [],
    framing: random.pick(['none', 'sized', 'chunked']),
  };
  const give = (name: string, json: string, text: string) => {
    if (plan.framing !== 'none' && random.chance(60)) plan.members.push(`"${name}":${json}`);
    else plan.query.push(`${name}=${encodeURIComponent(text)}`);
  };
  if (random.chance(50)) plan.path += `/${random.pick(['', 'a%2Fb/', './', '%C3%A9/'])}${key}`;
  else give('asset_key', random.pick([`"${key}"`, `["x","${key}"]`]), random.pick([key, `["y","${key}"]`]));
  if (kind === 'check') {
    give('passed', 'true', 'false');
    give('check_name', '"no_nulls"', 'fresh +1');
    if (random.chance(30)) give('severity', '"WARN"', 'ERROR');
  } else {
    if (random.chance(30)) give('data_version', '"v1"', 'v 2');
    if (random.chance(30)) give('description', '"line\\nbreak \\ud83d\\ude00"', 'é');
  }
  if (random.chance(30)) give('partition', 'null', '2026-11-20');
  if (random.chance(40)) give('metadata', random.pick(METADATA), random.pick(METADATA));
  if (random.chance(30)) give('event_time', `"${random.pick(TIMES)}"`, random.pick(TIMES));
  if (random.chance(40)) plan.headers.push(random.pick(HARMLESS));
  if (plan.framing !== 'none') plan.headers.push(random.pick(JSON_TYPES));
  return underDeployment(plan, random, tokensOf);
}

function underDeployment(plan: Plan, random: Random, tokensOf: TokensOf | undefined): Plan {
  if (tokensOf === undefined) return plan;
  const [deployment, tokens] = random.pick([...tokensOf]);
  plan.path = `/${deployment}${plan.path}`;
  plan.headers.push(`${random.pick(TOKEN_HEADERS)} ${random.pick(tokens)}`);
  return plan;
}

const JSON_TYPES = ['Content-Type: application/json', 'content-type: Application/JSON; charset=utf-8'];
const TIMES = [
  ...['2026-11-20T15:19:45Z', '2026-11-20t15:19:45.123456789z', '2026-03-01T00:00:00.10+05:30'],
  ...['2024-02-29T23:59:59-00:00', '1999-12-31T23:30:00-00:45', '0001-01-01T00:00:00Z'],
  ...['9999-12-31T23:59:59.9+23:59', '2026-11-20 16:19:45.25+01:00'],
];
const BAD_TIMES = [
  ...[
    '2026-11-20T15:19:45',
    '2026-11-20  15:19:45Z',
    '2026-11-20 15:19:45 01:00',
    '2026-02-29T00:00:00Z',
    '2026-11-31T00:00:00Z',
  ],
  ...['2026-11-20T24:00:00Z', '2016-12-31T23:59:60Z', '2026-11-20T15:19:45.Z', '2026-11-20T15:19:45.1234567890Z'],
  ...['2026-11-20T15:19:45+24:00', '2026-11-20T15:19:45+0100', '0001-01-01T00:00:00+00:01'],
  ...['9999-12-31T23:59:59-00:01', '0000-12-31T23:59:59-00:01', '1763650785', ''],
];
/** Turns a good plan into a request that might be refused, or might end the connection. */
export type Flaw = (plan: Plan, random: Random) => void;

export const flaws: readonly Flaw[] = [
  (plan, random) => {
    plan.method = random.pick(['GET', 'PUT', 'HEAD', 'DELETE', 'TRACE', 'post', 'POSTS', 'CONNECT']);
  },
  (plan, random) => {
    plan.version = random.pick(['HTTP/1.0', 'HTTP/2.0', 'HTTP/1.2', 'http/1.1']);
  },
  (plan) => {
    plan.headers = plan.headers.filter((header) => !/^host/i.test(header));
  },
  (plan) => {
    plan.headers = plan.headers.filter((header) => !/^content-type/i.test(header));
  },
  (plan, random) => {
    plan.path = random.pick([
      ...['/livez', '/readyz', '/nowhere', '/report_asset_check/', `${plan.path}/`, `${plan.path}//x`],
      ...[`${plan.path}%zz`, `http://localhost${plan.path}`, `http://evil.example${plan.path}`],
    ]);
  },
  (plan, random) => {
    plan.headers.push(
      random.pick([
        ...['Host: localhost', 'Host: evil.example', 'Origin: http://evil.example', 'Origin: http://localhost'],
        ...['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Site: none', 'Expect: 100-continue', 'Expect: dance'],
        ...['Content-Encoding: gzip', 'Content-Encoding: identity', 'Content-Type: text/plain', 'Connection: close'],
        ...['Connection: keep-alive', 'Upgrade: h2c\r\nConnection: Upgrade', 'Transfer-Encoding: chunked'],
        ...['Transfer-Encoding: gzip, chunked', 'Content-Type: application/x-ndjson'],
        ...['Content-Length: 0', 'Content-Length: 5', 'X : y', 'X: a\r\n b'],
      ]),
    );
  },
  (plan, random) => {
    plan.members.push(
      random.pick([
        ...['"asset_key":null', '"asset_key":[]', '"a":1,', '"passed":1', '"partition":3', '"metadata":[]'],
        ...['"severity":"warn"', '"__proto__":{}', '"description":"\\ud800"', '"a":NaN'],
        ...['"tags":{"data_version":"v"}', `"event_time":"${random.pick(BAD_TIMES)}"`],
        ...['"event_time":1763650785', '"a":"\n"', '"a":"\xff"'],
      ]),
    );
  },
  (plan, random) => {
    plan.query.push(
      random.pick([
        ...['asset_key=%FF', 'x=%zz', 'metadata=[]', 'passed=1'],
        ...[`event_time=${encodeURIComponent(random.pick(BAD_TIMES))}`, 'event_time=2026-11-20T15:19:45+01:00'],
        ...['asset_key=', 'partition=a&partition=b', '%00=%00', 'asset_key=[1]'],
      ]),
    );
  },
];

/** Headers, up to the token. */
const TOKEN_HEADERS = [
  'Service-Cloud-Api-Token:',
  'service-cloud-api-token:',
  'Dagster-Cloud-Api-Token:',
  'Authorization: Bearer',
  'authorization: bEARER ',
];
export const EXPIRED_TOKEN = 'expired-token';
export const TOKENS_OF: TokensOf = new Map([
  ['prod', ['prod-token-1', 'prod-token-2']],
  ['test', ['test-token-1']],
  ['prod-2', ['prod-token-2']],
]);
const isToken = (header: string) => /^((service|dagster)-cloud-api-token|authorization):/i.test(header);

/** Flaws for a service whose reports need a token of their deployment. */
export const hostedFlaws: readonly Flaw[] = [
  (plan) => {
    plan.headers = plan.headers.filter((header) => !isToken(header));
  },
  (plan, random) => {
    const token = random.pick(['', 'x', 'prod-token-', 'prod-token-1', 'prod-token-2', 'test-token-1', EXPIRED_TOKEN]);
    const end = random.pick(['', ' ', '\t', '0', ', prod-token-1', '\xe9']);
    plan.headers = plan.headers.map((header) =>
      isToken(header) ? header.replace(/(:(?: *bearer)?).*/i, `$1 ${token}${end}`) : header,
    );
  },
  (plan, random) => {
    plan.headers.push(`${random.pick(TOKEN_HEADERS)} ${random.pick(['', 'prod-token-1', 'test-token-1'])}`);
  },
  (plan) => {
    plan.headers = plan.headers.map((header) => (isToken(header) ? header.replace(/-Api/i, '_Api') : header));
  },
  (plan, random) => {
    const names = [
      ...['', 'prod', 'test', 'prod-2', 'Prod', '%70rod', '..', '.', '__proto__', 'prod%2F..', 'prod-20', 'livez'],
    ];
    plan.path = plan.path.replace(/^\/[^/]*/, () => `/${random.pick(names)}`);
  },
  (plan, random) => {
    plan.path = `${random.pick(['/', '/prod', '/test', '/..', '/test/..'])}${plan.path}`;
  },
  (plan) => {
    plan.path = plan.path.replace(/^\/[^/]*/, '');
  },
];

export function render(plan: Plan, random: Random): string {
  const target = plan.query.length > 0 ? `${plan.path}?${plan.query.join('&')}` : plan.path;
  const body = `{${plan.members.join(random.pick([',', ' , ']))}}`;
  const lines = [`${plan.method} ${target} ${plan.version}`, ...plan.headers];
  if (plan.framing === 'sized') lines.push(`Content-Length: ${body.length}`);
  if (plan.framing === 'chunked') lines.push('Transfer-Encoding: chunked');
  const head = `${lines.join('\r\n')}\r\n\r\n`;
  if (plan.framing === 'none') return head;
  if (plan.framing === 'sized') return `${head}${body}`;
  const cut = random.below(body.length - 1) + 1;
  const chunks = [body.slice(0, cut), body.slice(cut)].map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`);
  return `${head}${chunks.join('')}0\r\n${random.chance(20) ? 'X-Trailer: y\r\n' : ''}\r\n`;
}

/** Bytes that change the meaning of a request most, for their length. */
const WORDS: readonly string[] = [
  ...['\r\n', '\n', '\r', ' ', '\t', '\0', ':', ';', ',', '/', '%00', '%', '"', '{', '}', '\\', '0', '1', 'F'],
  ...['\xff', '\r\n\r\n', '0\r\n\r\n', '#', '?', 'Transfer-Encoding: chunked\r\n', 'Content-Length: 0\r\n'],
  ...['Content-Length: 30\r\n', 'Host: localhost\r\n', 'Service-Cloud-Api-Token: prod-token-1\r\n'],
  ...['[', ']', '\n\n', '\xef\xbb\xbf'],
  ...['Expect: 100-continue\r\n', 'Connection: close\r\n', 'Connection: Upgrade\r\nUpgrade: h2c\r\n'],
  ...[' HTTP/1.0\r\n', 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n'],
];

export type Spoil = (bytes: string, at: number, random: Random) => string;

export const spoils: readonly Spoil[] = [
  (bytes, at, random) => replaceAt(bytes, at, 1, String.fromCharCode(bytes.charCodeAt(at) ^ (1 << random.below(8)))),
  (bytes, at, random) => replaceAt(bytes, at, 1, random.pick(WORDS)),
  (bytes, at, random) => replaceAt(bytes, at, 1 + random.below(8), ''),
  (bytes, at, random) => replaceAt(bytes, at, 0, random.pick(WORDS)),
  (bytes, at, random) => replaceAt(bytes, at, 0, bytes.slice(at, at + 1 + random.below(40))),
  (bytes, at, random) => replaceAt(bytes, at, 0, bytes.slice(random.below(bytes.length)).slice(0, random.below(60))),
  (bytes, at) => replaceAt(bytes, Math.max(0, bytes.indexOf('\r\n', at)), 2, '\n'),
  (bytes, at) => replaceAt(bytes, Math.max(0, bytes.indexOf('\r\n', at)), 2, '\r'),
  (bytes, at, random) => replaceAt(bytes, Math.max(0, bytes.indexOf('\r\n', at)) + 2, 0, random.pick(WORDS)),
  (bytes, at) => bytes.slice(0, at),
];

function replaceAt(bytes: string, at: number, length: number, by: string): string {
  return `${bytes.slice(0, at)}${by}${bytes.slice(at + length)}`;
}
