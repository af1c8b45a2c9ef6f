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
  /** The items of a batch as JSON; empty for a report. */
  items: string[];
  /** The separator between the items of a batch of lines; empty for an array. */
  lineEnd: string;
  /** Text before the body. */
  start: string;
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

/** Plans a report that breaks no rule, unless its idempotency key belongs to another report. */
function planReport(random: Random, key: string, tokensOf: TokensOf | undefined): Plan {
  const kind = random.pick(['materialization', 'check', 'observation']);
  const plan: Plan = {
    method: 'POST',
    path: `/report_asset_${kind}`,
    query: [],
    version: 'HTTP/1.1',
    headers: [random.pick(['Host: localhost', 'host: 127.0.0.1:3000', 'Host: [::1]'])],
    members: [],
    framing: random.pick(['none', 'sized', 'chunked']),
    ...NO_BATCH,
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
  if (random.chance(40)) give('metadata', random.pick(METADATA), '{"q":1}');
  if (random.chance(30)) give('event_time', `"${random.pick(TIMES)}"`, random.pick(TIMES));
  if (random.chance(40)) plan.headers.push(random.pick(HARMLESS));
  if (plan.framing !== 'none') plan.headers.push(random.pick(JSON_TYPES));
  if (random.chance(30)) plan.headers.push(keyHeader(random, key));
  return underDeployment(plan, random, tokensOf);
}

/** Plans a batch whose head breaks no rule; one batch in five has wrong items. */
function planBatch(random: Random, key: string, tokensOf: TokensOf | undefined): Plan {
  const isArray = random.chance(40);
  const plan: Plan = {
    method: 'POST',
    path: `/report_asset_batch${random.pick(['', '/'])}`,
    query: [],
    version: 'HTTP/1.1',
    headers: ['Host: localhost', random.pick(isArray ? JSON_TYPES : LINE_TYPES)],
    members: [],
    framing: random.pick(['sized', 'chunked']),
    items: Array.from({ length: 1 + random.below(5) }, (_, index) => goodItem(random, key, index)),
    lineEnd: isArray ? '' : random.pick(['\n', '\n', '\r\n', '\n\n', '\n\t\r\n']),
    start: random.chance(15) ? BYTE_ORDER_MARK : '',
  };
  if (random.chance(20)) insertItem(plan, random, random.pick(BAD_ITEMS));
  if (random.chance(20)) insertItem(plan, random, random.pick(plan.items));
  if (random.chance(40)) plan.headers.push(`Prefer: ${random.pick(PREFERENCES)}`);
  if (random.chance(30)) plan.headers.push(keyHeader(random, key));
  return underDeployment(plan, random, tokensOf);
}

/** @param key unique, and the prefix of the plan's idempotency keys */
export function planGood(random: Random, key: string, tokensOf: TokensOf | undefined): Plan {
  return random.chance(25) ? planBatch(random, key, tokensOf) : planReport(random, key, tokensOf);
}

/** Whether a later request can reuse an idempotency key of this one. */
export function hasKeys({ headers, items }: Plan): boolean {
  return headers.some(isKey) || items.some((item) => item.includes('idempotency_key'));
}

/** Repeats a request, or plans another with the same idempotency keys. */
export function planAgain(earlier: Plan, random: Random, key: string): Plan {
  const plan = structuredClone(earlier);
  switch (random.below(6)) {
    case 0:
      // The new item of a batch is recorded, unless another item is wrong.
      if (plan.items.length > 0) insertItem(plan, random, goodItem(random, key, 9));
      else plan.query.push('partition=other');
      break;
    case 1:
      plan.items = plan.items.map((item) => item.replace('"asset_key":[', `"asset_key":["${key}",`));
      if (plan.items.length === 0 && plan.framing !== 'none') plan.members.push('"metadata":{"a":1.00}');
      break;
    case 2:
      plan.members.reverse();
      plan.items.reverse();
      break;
    case 3:
      plan.headers = plan.headers.map((header) =>
        isKey(header) ? keyHeader(random, header.split(/[": ]+/)[1] ?? '') : header,
      );
      break;
  }
  return plan;
}

function underDeployment(plan: Plan, random: Random, tokensOf: TokensOf | undefined): Plan {
  if (tokensOf === undefined) return plan;
  const [deployment, tokens] = random.pick([...tokensOf]);
  plan.path = `/${deployment}${plan.path}`;
  plan.headers.push(`${random.pick(TOKEN_HEADERS)} ${random.pick(tokens)}`);
  return plan;
}

function goodItem(random: Random, key: string, index: number): string {
  const type = random.pick(['materialization', 'AssetObservation', 'check', 'AssetCheckEvaluation']);
  const members = [`"type":"${type}"`, `"asset_key":["${key}","${index}"]`];
  if (/check/i.test(type)) {
    members.push('"passed":false', '"check_name":"c\\t"');
    if (random.chance(30)) members.push('"severity":"WARN"');
  } else {
    if (random.chance(25)) members.push(...random.pick(DATA_VERSIONS));
    if (random.chance(20)) members.push('"description":"d"');
  }
  if (random.chance(20)) members.push('"seq":7', '"crc":"x"');
  if (random.chance(30)) members.push(`"metadata":${random.pick(METADATA)}`);
  if (random.chance(30)) members.push(`"event_time":"${random.pick(TIMES)}"`);
  if (random.chance(30)) members.push(`"idempotency_key":"${key}.${random.pick([index, 0])}"`);
  if (random.chance(50)) members.reverse();
  return `{${members.join(',')}}`;
}

function insertItem(plan: Plan, random: Random, item: string): void {
  plan.items.splice(random.below(plan.items.length + 1), 0, item);
}

function keyHeader(random: Random, key: string): string {
  const value = random.pick([key, `"${key}"`, `"${key}\\\\\\"!"`, ` \t${key} `]);
  return `${random.pick(['Idempotency-Key', 'idempotency-key'])}: ${value}`;
}

const isKey = (header: string) => /^idempotency-key:/i.test(header);
const NO_BATCH = { items: [] as string[], lineEnd: '', start: '' };
const BYTE_ORDER_MARK = '\xef\xbb\xbf';
const JSON_TYPES = ['Content-Type: application/json', 'content-type: Application/JSON; charset=utf-8'];
const LINE_TYPES = [
  'Content-Type: application/x-ndjson',
  'Content-Type: application/NDJSON;charset="utf-8"',
  'Content-Type: application/jsonl; x=y',
];
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
const DATA_VERSIONS = [
  ['"data_version":"v1"'],
  ['"tags":{"data_version":"v2"}'],
  ['"data_version":"v1"', '"tags":{"data_version":"\\u00761"}'],
  ['"data_version":null', '"tags":{"data_version":"v2"}'],
  ['"data_version":"v1"', '"tags":{"data_version":null}'],
];
/** Not every reader finds each of them wrong. */
const BAD_ITEMS = [
  ...['5', 'null', '[]', '{}', '"observation"', '{"type":"check","asset_key":"a","check_name":"c"}'],
  ...['{"type":"batch","asset_key":"a"}', '{"type":"constructor","asset_key":"a"}'],
  ...['{"type":["observation"],"asset_key":"a"}', '{"type":"observation"}'],
  ...['{"type":"observation","asset_key":null}', '{"type":"observation","asset_key":"a","uri":"x"}'],
  ...['{"type":"observation","asset_key":"a","__proto__":{}}', '{"type":"observation","asset_key":"a","tags":{}}'],
  '{"type":"observation","asset_key":"a","tags":{"owner":"x"}}',
  '{"type":"observation","asset_key":"a","data_version":"v1","tags":{"data_version":"v2"}}',
  '{"type":"observation","asset_key":"a","tags":{"data_version":7},"data_version":"7"}',
  '{"type":"check","asset_key":"a","check_name":"c","passed":true,"tags":{"data_version":"v"}}',
  '{"type":"observation","asset_key":"a","idempotency_key":"a b"}',
  '{"type":"observation","asset_key":"a","idempotency_key":7}',
  '{"type":"observation","asset_key":"a","event_time":1763650785}',
  ...['{"type":"observation","asset_key":"\\ud800"}', '{"type":"observation","asset_key":"a","metadata":[1]}'],
  ...BAD_TIMES.map((time) => `{"type":"observation","asset_key":"a","event_time":"${time}"}`),
];
const PREFERENCES = [
  ...['handling=lenient', 'HANDLING = "Lenient"', 'handling="l\\enient";x=1', 'return=minimal, handling=lenient'],
  ...[',, x="a, handling=strict" , handling=lenient', 'handling=lenient\r\nPrefer: handling=strict'],
  ...['return=minimal\r\nPrefer: handling=lenient', 'handling=strict, handling=lenient', 'handling'],
  ...['handling="lenient', 'x="handling=lenient"', 'x;handling=lenient', 'lenient'],
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
        ...['Transfer-Encoding: gzip, chunked', 'Prefer: handling=lenient', 'Idempotency-Key: a b'],
        ...['Idempotency-Key: "', 'Idempotency-Key: a, b', 'Idempotency-Key:', 'Idempotency-Key: k'],
        ...['Content-Type: application/x-ndjson', 'Content-Length: 0', 'Content-Length: 5', 'X : y', 'X: a\r\n b'],
      ]),
    );
  },
  (plan, random) => {
    plan.members.push(
      random.pick([
        ...['"asset_key":null', '"asset_key":[]', '"a":1,', '"passed":1', '"partition":3', '"metadata":[]'],
        ...['"severity":"warn"', '"__proto__":{}', '"description":"\\ud800"', '"a":NaN'],
        ...['"tags":{"data_version":"v"}', '"idempotency_key":"a b"', `"event_time":"${random.pick(BAD_TIMES)}"`],
        ...['"event_time":1763650785', '"a":"\n"', '"a":"\xff"'],
      ]),
    );
  },
  (plan, random) => {
    plan.query.push(
      random.pick([
        ...['asset_key=%FF', 'x=%zz', 'metadata=[]', 'passed=1'],
        ...[`event_time=${encodeURIComponent(random.pick(BAD_TIMES))}`, 'event_time=2026-11-20T15:19:45+01:00'],
        ...['idempotency_key=a', 'asset_key=', 'partition=a&partition=b', '%00=%00', 'asset_key=[1]'],
      ]),
    );
  },
];

/** Flaws of batches; they leave a report as it is. */
export const batchFlaws: readonly Flaw[] = [
  (plan, random) => {
    if (plan.items.length > 0) insertItem(plan, random, random.pick(BAD_ITEMS));
  },
  (plan, random) => {
    if (plan.lineEnd !== '')
      plan.lineEnd = random.pick(['\r', ',\n', '', ' ', '\xe2\x80\xa8', '\n\0\n', '\n\xef\xbb\xbf']);
  },
  (plan, random) => {
    if (plan.items.length === 0) return;
    const types = [
      ...JSON_TYPES,
      ...LINE_TYPES,
      'Content-Type: application/json-seq',
      'Content-Type: application/jsonl;charset=utf-16',
    ];
    plan.headers = plan.headers.map((header) => (/^content-type/i.test(header) ? random.pick(types) : header));
  },
  (plan, random) => {
    if (plan.items.length > 0)
      plan.start = random.pick(['\xef\xbb\xbf\xef\xbb\xbf', '[', '\0', '\n\n', '\x1e', '{}\n', '\xff']);
  },
  (plan) => {
    plan.items = plan.items.map((item) => item.replace(/"idempotency_key":"[^"]*"/, '"idempotency_key":""'));
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
  const body = bodyOf(plan, random.pick([',', ' , ']));
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

function bodyOf({ members, items, lineEnd, start }: Plan, comma: string): string {
  if (items.length === 0) return `{${members.join(comma)}}`;
  const all =
    members.length === 0 ? items : [...items.slice(0, -1), items.at(-1)?.replace(/\}$/, `,${members.join()}}`)];
  return `${start}${lineEnd === '' ? `[${all.join(comma)}]` : all.join(lineEnd)}`;
}

/** Bytes that change the meaning of a request most, for their length. */
const WORDS: readonly string[] = [
  ...['\r\n', '\n', '\r', ' ', '\t', '\0', ':', ';', ',', '/', '%00', '%', '"', '{', '}', '\\', '0', '1', 'F'],
  ...['\xff', '\r\n\r\n', '0\r\n\r\n', '#', '?', 'Transfer-Encoding: chunked\r\n', 'Content-Length: 0\r\n'],
  ...['Content-Length: 30\r\n', 'Host: localhost\r\n', 'Service-Cloud-Api-Token: prod-token-1\r\n'],
  ...['Idempotency-Key: k\r\n', 'Prefer: handling=lenient\r\n', '[', ']', '\n\n', '\xef\xbb\xbf'],
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
