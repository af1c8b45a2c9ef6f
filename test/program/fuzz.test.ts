/**
 * Requests by the hundred thousand, made by a grammar and then spoiled, against a service in a process of its own. A second
 * reader (`strict.ts`) says which of them are reports: nothing else may be recorded, and nothing may be answered 200 but
 * what is recorded.
 *
 * ASSETLOG_TEST_SEED is the seed: 1, so that a failure is always one that somebody just made; any other number goes elsewhere.
 * ASSETLOG_TEST_FUZZ says how many requests are sent.
 */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { rounds } from '../support/long.ts';
import { journalText, newFolder, type Running, startService } from '../support/program.ts';
import { eventText, readStream, type TokensOf } from '../support/strict.ts';

const SEED = Number(process.env['ASSETLOG_TEST_SEED'] ?? 1);
const REQUESTS = Number(process.env['ASSETLOG_TEST_FUZZ'] ?? rounds({ long: 120_000, short: 24_000 }));
/** Of them all: what is sent to a hosted service. */
const HOSTED_SHARE = 0.25;
const CLIENTS = 8;
const BURST = 60;
/** Of worse requests: some short ones, so that what is told of a failure is short. */
const SPOILED_BURST_MAX = 30;
/** From the last byte of a connection to its end. */
const END_MS = 8_000;

/** Mulberry32: small, and the same on every machine. */
class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** @returns a whole number from 0 to one less than `below` */
  below(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[this.below(values.length)] as Value;
  }

  chance(percent: number): boolean {
    return this.below(100) < percent;
  }
}

/** What is sent to: one journal for everybody, or one for each deployment. */
interface Site {
  /** Undefined where there are no deployments. */
  readonly tokensOf: TokensOf | undefined;
  /** What a good plan may lack, or have too much of. */
  readonly flaws: readonly Flaw[];
  readonly statuses: ReadonlySet<number>;
  /** The text of each event that is recorded. */
  readonly recorded: (service: Running) => string[];
}

interface Plan {
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
  'X-Trace: abc',
  'Accept: */*',
  'User-Agent: fuzz',
  'TE: trailers',
  'Content_Length: 3',
  'X:',
  'Cookie: a=b; c=d',
];

/** A report that every rule allows. */
function planGood(random: Random, key: string, tokensOf: TokensOf | undefined): Plan {
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
  if (random.chance(40)) give('metadata', random.pick(METADATA), '{"q":1}');
  if (random.chance(40)) plan.headers.push(random.pick(HARMLESS));
  if (plan.framing !== 'none')
    plan.headers.push(random.pick(['Content-Type: application/json', 'content-type: Application/JSON; charset=utf-8']));
  if (tokensOf === undefined) return plan;
  const [deployment, tokens] = random.pick([...tokensOf]);
  plan.path = `/${deployment}${plan.path}`;
  plan.headers.push(`${random.pick(TOKEN_NAMES)}: ${random.pick(tokens)}`);
  return plan;
}

/** What turns a good plan into one that may be refused, or that may end the connection. */
type Flaw = (plan: Plan, random: Random) => void;

const flaws: readonly Flaw[] = [
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
      '/livez',
      '/readyz',
      '/nowhere',
      '/report_asset_check/',
      `${plan.path}/`,
      `${plan.path}//x`,
      `${plan.path}%zz`,
      `http://localhost${plan.path}`,
      `http://evil.example${plan.path}`,
    ]);
  },
  (plan, random) => {
    plan.headers.push(
      random.pick([
        'Host: localhost',
        'Host: evil.example',
        'Origin: http://evil.example',
        'Origin: http://localhost',
        'Sec-Fetch-Site: cross-site',
        'Sec-Fetch-Site: none',
        'Expect: 100-continue',
        'Expect: dance',
        'Content-Encoding: gzip',
        'Content-Encoding: identity',
        'Content-Type: text/plain',
        'Connection: close',
        'Connection: keep-alive',
        'Upgrade: h2c\r\nConnection: Upgrade',
        'Transfer-Encoding: chunked',
        'Transfer-Encoding: gzip, chunked',
        'Content-Length: 0',
        'Content-Length: 5',
        'X : y',
        'X: a\r\n b',
      ]),
    );
  },
  (plan, random) => {
    plan.members.push(
      random.pick([
        '"asset_key":null',
        '"asset_key":[]',
        '"a":1,',
        '"passed":1',
        '"partition":3',
        '"metadata":[]',
        '"severity":"warn"',
        '"__proto__":{}',
        '"description":"\\ud800"',
        '"a":NaN',
        '"a":"\n"',
        '"a":"\xff"',
      ]),
    );
  },
  (plan, random) => {
    plan.query.push(
      random.pick([
        'asset_key=%FF',
        'x=%zz',
        'metadata=[]',
        'passed=1',
        'asset_key=',
        'partition=a&partition=b',
        '%00=%00',
        'asset_key=[1]',
      ]),
    );
  },
];

const TOKEN_NAMES = ['Service-Cloud-Api-Token', 'service-cloud-api-token', 'Dagster-Cloud-Api-Token'];
const EXPIRED_TOKEN = 'expired-token';
const TOKENS_OF: TokensOf = new Map([
  ['prod', ['prod-token-1', 'prod-token-2']],
  ['test', ['test-token-1']],
  ['prod-2', ['prod-token-2']],
]);
const isToken = (header: string) => /^(service|dagster)-cloud-api-token:/i.test(header);

/** The same, where reports need a token of their deployment. */
const hostedFlaws: readonly Flaw[] = [
  (plan) => {
    plan.headers = plan.headers.filter((header) => !isToken(header));
  },
  (plan, random) => {
    const token = random.pick(['', 'x', 'prod-token-', 'prod-token-1', 'prod-token-2', 'test-token-1', EXPIRED_TOKEN]);
    const end = random.pick(['', ' ', '\t', '0', ', prod-token-1', '\xe9']);
    plan.headers = plan.headers.map((header) => (isToken(header) ? `${header.split(':')[0]}: ${token}${end}` : header));
  },
  (plan, random) => {
    plan.headers.push(`${random.pick(TOKEN_NAMES)}: ${random.pick(['', 'prod-token-1', 'test-token-1'])}`);
  },
  (plan) => {
    plan.headers = plan.headers.map((header) => (isToken(header) ? header.replace(/-Api/i, '_Api') : header));
  },
  (plan, random) => {
    const names = [
      '',
      'prod',
      'test',
      'prod-2',
      'Prod',
      '%70rod',
      '..',
      '.',
      '__proto__',
      'prod%2F..',
      'prod-20',
      'livez',
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

function render(plan: Plan, random: Random): string {
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

/** What changes the meaning of bytes most, for its length. */
const WORDS: readonly string[] = [
  '\r\n',
  '\n',
  '\r',
  ' ',
  '\t',
  '\0',
  ':',
  ';',
  ',',
  '/',
  '%00',
  '%',
  '"',
  '{',
  '}',
  '\\',
  '0',
  '1',
  'F',
  '\xff',
  '\r\n\r\n',
  '0\r\n\r\n',
  '#',
  '?',
  'Transfer-Encoding: chunked\r\n',
  'Content-Length: 0\r\n',
  'Content-Length: 30\r\n',
  'Host: localhost\r\n',
  'Service-Cloud-Api-Token: prod-token-1\r\n',
  'Expect: 100-continue\r\n',
  'Connection: close\r\n',
  'Connection: Upgrade\r\nUpgrade: h2c\r\n',
  ' HTTP/1.0\r\n',
  'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n',
];

type Spoil = (bytes: string, at: number, random: Random) => string;

const spoils: readonly Spoil[] = [
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

interface Reply {
  readonly status: number;
  readonly body: string;
}

/** @returns the whole replies in a text, without 100 Continue, and what is left of it */
function splitReplies(text: string): { replies: Reply[]; rest: string } {
  const replies: Reply[] = [];
  let at = 0;
  for (;;) {
    const headEnd = text.indexOf('\r\n\r\n', at);
    if (headEnd === -1) break;
    const head = text.slice(at, headEnd);
    const status = Number(/^HTTP\/1\.1 ([0-9]{3}) /.exec(head)?.[1]);
    const length = Number(/\r\nContent-Length: ([0-9]+)/.exec(head)?.[1] ?? 0);
    // The reply to a HEAD tells the length of a body that it has not got.
    const hasBody = text[headEnd + 4] === '{';
    const end = headEnd + 4 + (hasBody ? length : 0);
    if (end > text.length) break;
    if (status !== 100) replies.push({ status, body: text.slice(headEnd + 4, end) });
    at = end;
  }
  return { replies, rest: text.slice(at) };
}

const STATUSES = [200, 400, 403, 404, 405, 413, 415, 417, 431, 503];

/** What is wrong with a reply by itself. */
function faultOf({ status, body }: Reply, statuses: ReadonlySet<number>): string | undefined {
  if (!statuses.has(status)) return `status ${status}`;
  if (body === '' || (status === 200 && (body === '{}' || body === '{"status":"ok"}'))) return undefined;
  const error = /^\{"error":(".*"),"request_id":"[0-9a-f-]{36}"\}$/.exec(body)?.[1];
  if (status === 200 || error === undefined) return `status ${status} with ${body}`;
  return /[\n\r]/.test(JSON.parse(error)) ? `an error of several lines: ${body}` : undefined;
}

/** Every event that there should be, how many times, and what was found wrong so far. */
class Ledger {
  readonly #site: Site;
  readonly #due = new Map<string, number>();
  /** Of connections that broke: these may be there. */
  readonly #possible = new Map<string, number>();
  readonly #sent: string[] = [];
  #worst: { fault: string; bytes: string } | undefined;
  #faults = 0;
  replies = 0;
  recorded = 0;
  refusedThoughGood = 0;

  constructor(site: Site) {
    this.#site = site;
  }

  get faults(): number {
    return this.#faults;
  }

  /** Compares the replies to a connection with the second opinion on its bytes. */
  account(bytes: string, replies: readonly Reply[], broken: boolean): void {
    this.#sent.push(bytes);
    this.replies += replies.length;
    const verdicts = readStream(bytes, this.#site.tokensOf);
    for (const [index, reply] of replies.entries()) {
      const fault = faultOf(reply, this.#site.statuses);
      if (fault !== undefined) this.blame(fault, bytes);
      const event = verdicts[index]?.event;
      if (reply.status === 200 && reply.body === '{}') {
        if (event === undefined) this.blame(`reply ${index + 1} is 200 to what is no report`, bytes);
        else add(this.#due, event);
      } else if (event !== undefined) this.refusedThoughGood += 1;
    }
    // Behind the last good request there is at most one reply, to what could not be read.
    if (replies.length > verdicts.length + 1)
      this.blame(`${replies.length} replies to ${verdicts.length} requests`, bytes);
    if (!broken) return;
    for (const { event } of verdicts.slice(replies.length)) if (event !== undefined) add(this.#possible, event);
  }

  blame(fault: string, bytes: string): void {
    this.#faults += 1;
    // Of an event whose key was sent in pieces nobody knows the connection; any other fault says more.
    const length = bytes.length || Number.POSITIVE_INFINITY;
    if (this.#worst === undefined || this.#worst.bytes === '' || length < this.#worst.bytes.length)
      this.#worst = { fault, bytes };
  }

  /** Each event of the journal needs a reply of 200 that told of it, and the other way round. */
  compare(events: readonly string[]): void {
    this.recorded = events.length;
    for (const text of events) {
      if (!take(this.#due, text) && !take(this.#possible, text)) this.#blameEvent('recorded without a 200', text);
    }
    for (const text of this.#due.keys()) this.#blameEvent('answered with 200 and not recorded', text);
  }

  #blameEvent(fault: string, text: string): void {
    const [, [...key]]: [string, string[]] = JSON.parse(text);
    const suspects = this.#sent.filter((bytes) => key.some((part) => part.length > 3 && bytes.includes(part)));
    const [shortest = ''] = suspects.sort((one, other) => one.length - other.length);
    this.blame(`${fault}: ${text}`, shortest);
  }

  check(): void {
    if (this.#worst === undefined) return;
    const { fault, bytes } = this.#worst;
    assert.fail(`seed ${SEED}: ${this.#faults} faults; the shortest: ${fault}\n${JSON.stringify(bytes)}`);
  }
}

function add(counts: Map<string, number>, text: string): void {
  counts.set(text, (counts.get(text) ?? 0) + 1);
}

function take(counts: Map<string, number>, text: string): boolean {
  const count = counts.get(text) ?? 0;
  if (count > 1) counts.set(text, count - 1);
  else counts.delete(text);
  return count > 0;
}

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true }).setEncoding('latin1');
  await once(socket, 'connect');
  return socket;
}

/** Sends bytes, closes this half, and reads to the end. */
async function exchange(port: number, bytes: string): Promise<{ text: string; broken: boolean; hangs: boolean }> {
  const socket = await open(port);
  let text = '';
  let broken = false;
  let hangs = false;
  socket.on('data', (more) => {
    text += more;
  });
  socket.on('error', () => {
    broken = true;
  });
  const late = setTimeout(() => {
    hangs = true;
    socket.destroy();
  }, END_MS);
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.end(Buffer.from(bytes, 'latin1'));
  await closed;
  clearTimeout(late);
  return { text, broken, hangs };
}

/** One client: a kept connection with good reports, and beside it connections with worse ones. */
class Client {
  readonly #random: Random;
  readonly #site: Site;
  readonly #port: number;
  readonly #ledger: Ledger;
  readonly #name: string;
  readonly #kept: Socket;
  #keptText = '';
  #count = 0;

  private constructor(name: string, seed: number, site: Site, port: number, ledger: Ledger, kept: Socket) {
    this.#name = name;
    this.#random = new Random(seed);
    this.#site = site;
    this.#port = port;
    this.#ledger = ledger;
    this.#kept = kept;
    kept.on('data', (more) => {
      this.#keptText += more;
    });
  }

  static async open(name: string, seed: number, site: Site, port: number, ledger: Ledger): Promise<Client> {
    return new Client(name, seed, site, port, ledger, await open(port));
  }

  /** @param requests how many to send at least */
  async run(requests: number): Promise<void> {
    while (this.#count < requests && this.#ledger.faults < 20) {
      await this.#sendGood();
      await this.#sendWorse(this.#make(this.#some(), 25));
      await this.#sendWorse(this.#spoil(this.#make(this.#some(), 0)));
      await this.#sendWorse(this.#spoil(this.#make(this.#some(), 15)));
    }
    this.#kept.destroy();
  }

  get count(): number {
    return this.#count;
  }

  #some(): number {
    return 1 + this.#random.below(SPOILED_BURST_MAX);
  }

  /** Reports of which so many in a hundred have a flaw. */
  #make(count: number, flawedPercent: number): string {
    let bytes = '';
    for (let index = 0; index < count; index += 1) {
      this.#count += 1;
      const plan = planGood(this.#random, `${this.#name}-${this.#count}z`, this.#site.tokensOf);
      if (this.#random.chance(flawedPercent)) this.#random.pick(this.#site.flaws)(plan, this.#random);
      bytes += render(plan, this.#random);
    }
    return bytes;
  }

  #spoil(bytes: string): string {
    let spoiled = bytes;
    for (let times = 1 + this.#random.below(3); times > 0; times -= 1) {
      spoiled = this.#random.pick(spoils)(spoiled, this.#random.below(spoiled.length), this.#random);
    }
    return spoiled;
  }

  async #sendGood(): Promise<void> {
    const bytes = this.#make(BURST, 0);
    this.#kept.write(Buffer.from(bytes, 'latin1'));
    const signal = AbortSignal.timeout(END_MS);
    let replies: Reply[] = [];
    while (replies.length < BURST) {
      try {
        await once(this.#kept, 'data', { signal });
      } catch {
        break; // told below: some replies are missing
      }
      replies = splitReplies(this.#keptText).replies;
    }
    this.#keptText = '';
    if (replies.some(({ status }) => status !== 200) || replies.length !== BURST) {
      const statuses = replies.map(({ status }) => status).join();
      this.#ledger.blame(`good reports on a kept connection are answered ${statuses}`, bytes);
    }
    this.#ledger.account(bytes, replies, false);
  }

  async #sendWorse(bytes: string): Promise<void> {
    const { text, broken, hangs } = await exchange(this.#port, bytes);
    const { replies, rest } = splitReplies(text);
    // Node tells no parse error of a request that offers an upgrade, so only the service's deadline would end it.
    if (hangs && !/upgrade:/i.test(bytes)) this.#ledger.blame('the connection does not end', bytes);
    if (rest !== '' && !broken && !hangs) this.#ledger.blame(`half a reply: ${rest}`, bytes);
    this.#ledger.account(bytes, replies, broken || hangs);
  }
}

async function fuzz(t: TestContext, service: Running, site: Site, requests: number): Promise<void> {
  t.diagnostic(`seed ${SEED}; ASSETLOG_TEST_SEED sets another`);
  const ledger = new Ledger(site);
  const clients = await Promise.all(
    Array.from({ length: CLIENTS }, (_, index) =>
      Client.open(`fuzz${index}`, SEED * CLIENTS + index, site, service.port, ledger),
    ),
  );
  await Promise.all(clients.map((client) => client.run(requests / CLIENTS)));

  ledger.compare(site.recorded(service));
  const sent = clients.reduce((sum, { count }) => sum + count, 0);
  t.diagnostic(`${sent} requests, ${ledger.replies} replies, ${ledger.recorded} events`);
  t.diagnostic(`${ledger.refusedThoughGood} were refused although the second reader takes them`);
  ledger.check();
  const end = await service.kill();
  assert.deepEqual([end.code, end.signal], [0, null], 'the service does not end in peace');
}

function eventsOf(folder: string, deployment: string): string[] {
  const lines = journalText(folder).split('\n').slice(0, -1);
  return lines.map((line) => eventText(JSON.parse(line), deployment));
}

test('whatever is sent, only reports are recorded, and exactly those that were answered 200', async (t) => {
  const service = await startService(t, { args: ['--log-level', 'error'] });
  const site: Site = {
    tokensOf: undefined,
    flaws,
    statuses: new Set(STATUSES),
    recorded: ({ data }) => eventsOf(data, ''),
  };
  await fuzz(t, service, site, REQUESTS - REQUESTS * HOSTED_SHARE);
});

test('in hosted mode each is recorded for the deployment whose token it has, and for no other', async (t) => {
  const file = join(newFolder(t), 'deployments.json');
  const entry = (token: string) => ({ name: token, sha256: createHash('sha256').update(token).digest('hex') });
  const deployments = [...TOKENS_OF].map(([name, tokens]) => ({
    name,
    tokens: [...tokens.map(entry), { ...entry(EXPIRED_TOKEN), notAfter: '2026-01-31' }],
  }));
  writeFileSync(file, JSON.stringify({ deployments }));
  const service = await startService(t, { args: ['--log-level', 'error', '--deployments', file] });
  const site: Site = {
    tokensOf: TOKENS_OF,
    flaws: [...flaws, ...hostedFlaws, ...hostedFlaws],
    statuses: new Set([...STATUSES, 401, 429]),
    recorded: ({ data }) =>
      readdirSync(data).flatMap((name) => (name.startsWith('.lock') ? [] : eventsOf(join(data, name), name))),
  };
  await fuzz(t, service, site, REQUESTS * HOSTED_SHARE);
  assert.deepEqual(
    readdirSync(service.data)
      .filter((name) => !name.startsWith('.lock'))
      .sort(),
    [...TOKENS_OF.keys()].sort(),
  );
});
