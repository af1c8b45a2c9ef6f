/**
 * Requests by the hundred thousand, made by a grammar and then spoiled, against a service in a process of its own. A second
 * reader (`strict.ts`) says which of them are reports and batches, and what the reply to each has to be: nothing else may be
 * recorded, and nothing may be answered 200 but what is recorded.
 *
 * ASSETLOG_TEST_SEED is the seed: 1, so that a failure is always due to the last change; any other number goes elsewhere.
 * ASSETLOG_TEST_FUZZ says how many requests are sent.
 */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { foldersIn } from '../../support/deployments.ts';
import { rounds } from '../../support/long.ts';
import { journalText, newFolder, type Running, startService } from '../../support/program.ts';
import {
  batchFlaws,
  EXPIRED_TOKEN,
  type Flaw,
  flaws,
  hasKeys,
  hostedFlaws,
  type Plan,
  planAgain,
  planGood,
  Random,
  render,
  spoils,
  TOKENS_OF,
} from '../../support/requests.ts';
import { readStream, type TokensOf, type Verdict } from '../../support/strict.ts';
import { textOfLine } from '../../support/strict-event.ts';
import { type Candidate, KnownKeys, lineOf, type Prediction } from '../../support/strict-keys.ts';

const SEED = Number(process.env['ASSETLOG_TEST_SEED'] ?? 1);
const REQUESTS = Number(process.env['ASSETLOG_TEST_FUZZ'] ?? rounds({ long: 120_000, short: 12_000 }));
/** Of them all: what is sent to a hosted service. */
const HOSTED_SHARE = 0.25;
const CLIENTS = 8;
const BURST = 60;
/** Of worse requests: some short ones, so that the report of a failure is short. */
const SPOILED_BURST_MAX = 30;
const EARLIER_MAX = 40;
/** From the last byte of a connection to its end. */
const END_MS = 8_000;
const UPGRADE_END_MS = 1_500;
const OFFERS_UPGRADE = /upgrade:/i;

/** What is sent to: one journal for all clients, or one for each deployment. */
interface Site {
  /** Undefined where there are no deployments. */
  readonly tokensOf: TokensOf | undefined;
  /** What a good plan may lack, or have too much of. */
  readonly flaws: readonly Flaw[];
  readonly statuses: ReadonlySet<number>;
  /** The text of each event that is recorded. */
  readonly recorded: (service: Running) => string[];
}

interface Reply {
  readonly status: number;
  readonly body: string;
  /** It has `Idempotent-Replayed: true`. */
  readonly replayed: boolean;
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
    // The reply to a HEAD has the length of a body that it has not got.
    const hasBody = /[{<]/.test(text.charAt(headEnd + 4));
    const end = headEnd + 4 + (hasBody ? length : 0);
    if (end > text.length) break;
    const replayed = head.includes('\r\nIdempotent-Replayed: true');
    if (status !== 100) replies.push({ status, body: text.slice(headEnd + 4, end), replayed });
    at = end;
  }
  return { replies, rest: text.slice(at) };
}

const STATUSES = [200, 207, 400, 403, 404, 405, 413, 415, 417, 422, 431, 503];
const HEALTHY = '{"status":"ok"}';

/** What is wrong with a reply by itself. */
function faultOf({ status, body, replayed }: Reply, statuses: ReadonlySet<number>): string | undefined {
  if (!statuses.has(status)) return `status ${status}`;
  if (replayed && (status !== 200 || body !== '{}')) return `a replay with status ${status} and ${body}`;
  if (body === '' || (status === 200 && (body === '{}' || body === HEALTHY || body.startsWith('<')))) return undefined;
  const { error, errors, request_id, ...more } = JSON.parse(body);
  if (status === 200 || status === 207) return 'recorded' in more ? undefined : `status ${status} with ${body}`;
  const isError = typeof error === 'string' && /^[0-9a-f-]{36}$/.test(request_id) && Object.keys(more).length === 0;
  if (!isError || (errors !== undefined && !Array.isArray(errors))) return `status ${status} with ${body}`;
  return /[\n\r]/.test(error) ? `an error of several lines: ${body}` : undefined;
}

/** What a reply to a report or to a batch says became of it, in the form of `summaryOf`. */
function summaryOfReply({ status, body, replayed }: Reply): string {
  const { recorded = 0, duplicates = 0, failed = 0, errors = [] } = JSON.parse(body);
  const numbers = errors.map(({ item }: { item: number }) => item);
  return JSON.stringify([status, replayed ? 1 : 0, recorded, duplicates, failed, numbers]);
}

const ERRORS_MAX = 100;

function summaryOf({ status, recorded, duplicates, wrong }: Prediction, { kind }: Candidate): string {
  if (kind === 'report') return JSON.stringify([status, duplicates, 0, 0, 0, []]);
  const failed = status === 207 ? wrong.length : 0;
  return JSON.stringify([status, 0, recorded.length + duplicates, duplicates, failed, wrong.slice(0, ERRORS_MAX)]);
}

/** Every event that there should be, how many times, and what was found wrong so far. */
class Ledger {
  readonly #site: Site;
  readonly #keys = new KnownKeys();
  readonly #due = new Map<string, number>();
  /** Of connections that broke, and of batches with keys that may be known: these may be there. */
  readonly #possible = new Map<string, number>();
  readonly #sent: string[] = [];
  #worst: { fault: string; bytes: string } | undefined;
  #faults = 0;
  replies = 0;
  recorded = 0;
  refusedThoughGood = 0;
  readonly outcomes = new Map<string, number>();

  constructor(site: Site) {
    this.#site = site;
  }

  get faults(): number {
    return this.#faults;
  }

  /**
   * Compares the replies to a connection with the second opinion on its bytes.
   * @param owner begins the idempotency keys of this client; which client was first to use another key is unknown
   * @param mayRefuse whether it may be stricter than the second reader
   */
  account(bytes: string, replies: readonly Reply[], broken: boolean, owner: string, mayRefuse = true): void {
    this.#sent.push(bytes);
    this.replies += replies.length;
    const verdicts = readStream(bytes, this.#site.tokensOf);
    this.#doubtKeys(verdicts, owner);
    for (const [index, reply] of replies.entries()) {
      const fault =
        faultOf(reply, this.#site.statuses) ?? this.#faultAgainst(reply, verdicts[index]?.candidate, mayRefuse);
      if (fault !== undefined) this.blame(`reply ${index + 1}: ${fault}`, bytes);
    }
    // After the last good request there is at most one reply, to what could not be read.
    if (replies.length > verdicts.length + 1)
      this.blame(`${replies.length} replies to ${verdicts.length} requests`, bytes);
    if (!broken) return;
    for (const { candidate } of verdicts.slice(replies.length)) {
      if (candidate === undefined) continue;
      for (const item of candidate.items) add(this.#possible, lineOf(item));
      this.#keys.doubt(candidate);
    }
  }

  /** Keys that another client may have used, and those of a batch that others on the same connection use while it is looked up. */
  #doubtKeys(verdicts: readonly Verdict[], owner: string): void {
    const candidates = verdicts.flatMap(({ candidate }) => (candidate === undefined ? [] : [candidate]));
    const users = new Map<string, Set<Candidate>>();
    for (const candidate of candidates) {
      for (const { key } of candidate.items)
        if (key !== undefined) users.set(key, (users.get(key) ?? new Set()).add(candidate));
    }
    const isShared = (key: string) => {
      const [...all] = users.get(key) ?? [];
      return all.length > 1 && all.some(({ kind }) => kind === 'batch');
    };
    for (const candidate of candidates) this.#keys.doubt(candidate, (key) => !key.startsWith(owner) || isShared(key));
  }

  #faultAgainst(reply: Reply, candidate: Candidate | undefined, mayRefuse: boolean): string | undefined {
    const { status, body } = reply;
    const records = status === 207 || (status === 200 && (body === '{}' || body.startsWith('{"recorded"')));
    if (candidate === undefined) return records || status === 422 ? `${status} to what is no report` : undefined;
    if (this.#keys.isUncertain(candidate)) {
      add(this.outcomes, 'with a key in doubt');
      if (records) this.#accept(reply, candidate);
      return undefined;
    }
    const prediction = this.#keys.predict(candidate);
    const actual = body === '' ? `${status}` : summaryOfReply(reply);
    const predicted = summaryOf(prediction, candidate);
    if (actual === predicted) {
      add(this.outcomes, `${candidate.kind} ${status}${prediction.duplicates > 0 ? ' with duplicates' : ''}`);
      if (records) this.#record(candidate, prediction.recorded);
      return undefined;
    }
    if (records || status === 422 || !mayRefuse) return `${actual}, not ${predicted}: ${body}`;
    this.refusedThoughGood += 1;
    return undefined;
  }

  /** The reply is all that says which of these were new. */
  #accept({ body, replayed }: Reply, candidate: Candidate): void {
    const { recorded = 1, duplicates = 0 } = JSON.parse(body);
    if (replayed) return;
    if (recorded - duplicates === candidate.items.length) {
      this.#record(candidate, candidate.items);
      return;
    }
    for (const item of candidate.items) add(this.#possible, lineOf(item));
    this.#keys.doubt(candidate);
  }

  #record(candidate: Candidate, items: Prediction['recorded']): void {
    for (const item of items) add(this.#due, lineOf(item));
    this.#keys.remember(candidate, items);
  }

  blame(fault: string, bytes: string): void {
    this.#faults += 1;
    // Of an event whose key was sent in pieces the connection is unknown; any other fault says more.
    const length = bytes.length || Number.POSITIVE_INFINITY;
    if (this.#worst === undefined || this.#worst.bytes === '' || length < this.#worst.bytes.length)
      this.#worst = { fault, bytes };
  }

  /** Each event of the journal needs a reply of 200 that reports it, and the other way round. */
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
  // Node reports no parse error of a request that offers an upgrade, so only the service's deadline would end it.
  const endMs = OFFERS_UPGRADE.test(bytes) ? UPGRADE_END_MS : END_MS;
  const late = setTimeout(() => {
    hangs = true;
    socket.resetAndDestroy(); // else the service waits for the rest when it stops
  }, endMs);
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
  /** What has idempotency keys, to be sent again. */
  readonly #earlier: Plan[] = [];
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
    const random = this.#random;
    const batches: Plan[] = [];
    let bytes = '';
    for (let index = 0; index < count; index += 1) {
      this.#count += 1;
      const key = `${this.#name}-${this.#count}z`;
      const again = this.#earlier.length > 0 && random.chance(15);
      const plan = again
        ? planAgain(random.pick(this.#earlier), random, key)
        : planGood(random, key, this.#site.tokensOf);
      if (hasKeys(plan)) (plan.items.length > 0 ? batches : this.#earlier).push(structuredClone(plan));
      if (random.chance(flawedPercent)) random.pick(this.#site.flaws)(plan, random);
      bytes += render(plan, random);
    }
    // What a batch is sent again beside is not decided in their order: its keys are looked up meanwhile.
    this.#earlier.push(...batches);
    this.#earlier.splice(0, this.#earlier.length - EARLIER_MAX);
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
        break; // blamed below: some replies are missing
      }
      replies = splitReplies(this.#keptText).replies;
    }
    this.#keptText = '';
    if (replies.length !== BURST) this.#ledger.blame(`${replies.length} replies on a kept connection`, bytes);
    this.#ledger.account(bytes, replies, false, this.#name, false);
  }

  async #sendWorse(bytes: string): Promise<void> {
    const { text, broken, hangs } = await exchange(this.#port, bytes);
    const { replies, rest } = splitReplies(text);
    if (hangs && !OFFERS_UPGRADE.test(bytes)) this.#ledger.blame('the connection does not end', bytes);
    if (rest !== '' && !broken && !hangs) this.#ledger.blame(`half a reply: ${rest}`, bytes);
    this.#ledger.account(bytes, replies, broken || hangs, this.#name);
  }
}

async function fuzz(t: TestContext, service: Running, site: Site, requests: number): Promise<void> {
  t.diagnostic(`seed ${SEED}; ASSETLOG_TEST_SEED sets another`);
  const ledger = new Ledger(site);
  const clients = await Promise.all(
    Array.from({ length: CLIENTS }, (_, index) =>
      Client.open(nameOf(index), SEED * CLIENTS + index, site, service.port, ledger),
    ),
  );
  await Promise.all(clients.map((client) => client.run(requests / CLIENTS)));

  ledger.compare(site.recorded(service));
  const sent = clients.reduce((sum, { count }) => sum + count, 0);
  t.diagnostic(`${sent} requests, ${ledger.replies} replies, ${ledger.recorded} events`);
  t.diagnostic(
    [...ledger.outcomes]
      .map(([outcome, count]) => `${outcome}: ${count}`)
      .sort()
      .join(', '),
  );
  t.diagnostic(`${ledger.refusedThoughGood} were refused although the second reader takes them`);
  ledger.check();
  const end = await service.kill();
  assert.deepEqual([end.code, end.signal], [0, null], 'the service does not end in peace');
}

/** So far from each other that no few changes make one of another. */
function nameOf(index: number): string {
  return 'abcdefgh'.charAt(index).repeat(6);
}

function eventsOf(folder: string, deployment: string): string[] {
  const lines = journalText(folder).split('\n').slice(0, -1);
  return lines.map((line) => textOfLine(line, deployment));
}

test('whatever is sent, only reports are recorded, and exactly those that were answered 200', async (t) => {
  const service = await startService(t, { args: ['--log-level', 'error'] });
  const site: Site = {
    tokensOf: undefined,
    flaws: [...flaws, ...batchFlaws],
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
    flaws: [...flaws, ...batchFlaws, ...hostedFlaws, ...hostedFlaws],
    statuses: new Set([...STATUSES, 401, 429]),
    recorded: ({ data }) => foldersIn(data).flatMap((name) => eventsOf(join(data, name), name)),
  };
  await fuzz(t, service, site, REQUESTS * HOSTED_SHARE);
  assert.deepEqual(foldersIn(service.data).sort(), [...TOKENS_OF.keys()].sort());
});
