/**
 * Runs the table of hostile inputs against one service, a few rows at a time, and counts every event. Then it runs the table,
 * with the rows for hosted mode, against a hosted service.
 */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../../src/config/limits.ts';
import { foldersIn } from '../../support/deployments.ts';
import {
  deployments,
  FOREIGN_FOLDER,
  hosted,
  KEY,
  local,
  type Outcome,
  type Row,
  type Style,
} from '../../support/hostile/forms.ts';
import { groupsFor, hostedGroups } from '../../support/hostile/table.ts';
import { rounds } from '../../support/long.ts';
import { journalText, newFolder, type Running, startService } from '../../support/program.ts';
import { ask, post, readFailure, Wire, type WireReply, withoutChance } from '../../support/wire.ts';

const ROWS_AT_A_TIME = 8;
/** How long a row without a reply is watched. */
const SILENCE_MS = 1_000;
const HOSTED_NAME = hosted.prefix.slice(1);

type Groups = Readonly<Record<string, readonly Row[]>>;

test('every row has a unique name, and a reason if it allows several outcomes', () => {
  for (const rows of [Object.values(groupsFor(local)).flat(), Object.values(hostedGroups()).flat()]) {
    const names = rows.map(({ name }) => name);
    assert.ok(names.length >= 160, `${names.length} rows`);
    assert.deepEqual(
      names.filter((name, index) => names.indexOf(name) !== index),
      [],
    );
    for (const { name, outcomes, reason } of rows) {
      assert.match(name, /^[A-Z0-9_].* /, 'a name is a sentence');
      assert.equal(outcomes.length > 1, reason !== undefined, name);
    }
  }
});

test('each hostile input gets its reply, and only what the table says is recorded', {
  concurrency: ROWS_AT_A_TIME,
}, async (t) => {
  const service = await startService(t);
  await runTable(t, groupsFor(local), {
    service,
    style: local,
    ledger: new Ledger((key) => recordedIn(service.data, key)),
    addressOf: () => undefined,
  });
});

const withoutAddresses = process.platform !== 'linux' && 'only Linux lets every address of 127.0.0.0/8 connect';

test('in hosted mode each hostile input gets its reply, and only what the table says is recorded', {
  concurrency: ROWS_AT_A_TIME,
  skip: withoutAddresses,
}, async (t) => {
  const folder = newFolder(t);
  const [data, file] = [join(folder, 'data'), join(folder, 'deployments.json')];
  mkdirSync(join(data, FOREIGN_FOLDER), { recursive: true });
  writeFileSync(file, deploymentsFile());
  const service = await startService(t, { data, args: ['--deployments', file, '--log-level', 'debug'] });
  const ledger = new Ledger((key) => recordedByAll(data, key));
  // An address that fails too often gets 429, so each row has its own address.
  const addressOf = (count: number) => `127.1.${count >> 8}.${count & 255}`;
  await runTable(t, chosenRows(hostedGroups()), { service, style: hosted, ledger, addressOf });

  assert.equal(ledger.unknown.size, 1, [...ledger.unknown].join('\n'));
  const reported = ledger.expected().map((recorded) => recorded.split(' in ')[1] ?? HOSTED_NAME);
  assert.deepEqual(foldersIn(data).sort(), [...new Set([FOREIGN_FOLDER, ...reported])].sort());
  assert.deepEqual(readdirSync(join(data, FOREIGN_FOLDER)), []);
  const { code, stderr } = await service.kill();
  assert.equal(code, 0);
  for (const { tokens } of deployments) for (const { token } of tokens) assert.ok(!stderr.includes(token), stderr);
});

function deploymentsFile(): string {
  const digest = (token: string) => createHash('sha256').update(token).digest('hex');
  const entries = deployments.map(({ name, tokens }) => ({
    name,
    tokens: tokens.map(({ token, ...more }, index) => ({ name: `token ${index}`, sha256: digest(token), ...more })),
  }));
  return JSON.stringify({ deployments: entries });
}

/** @returns the keys of the lines in the journal of a folder that contain a text */
function recordedIn(folder: string, text: string): string[] {
  // A slash inside a part becomes a bar, so that one part and two parts look different.
  // The last line might still be on its way to the disk, for another row.
  const lines = journalText(folder).split('\n').slice(0, -1);
  const having = lines.filter((line) => line.includes(text)); // parsing all lines for each row would be slow
  return having.map((line) => {
    const { asset_key: parts }: { asset_key: string[] } = JSON.parse(line);
    return parts.map((part) => part.replaceAll('/', '|')).join('/');
  });
}

/** Like `recordedIn`, for all folders. */
function recordedByAll(data: string, text: string): string[] {
  return foldersIn(data).flatMap((name) =>
    recordedIn(join(data, name), text).map((recorded) => (name === HOSTED_NAME ? recorded : `${recorded} in ${name}`)),
  );
}

/** The expected events in the journal, by the key of a row. */
class Ledger {
  readonly #recorded: (text: string) => string[];
  readonly #expected = new Map<string, readonly string[]>();
  /** The keys of rows with a known defect, whose events are not counted. */
  readonly #uncounted = new Set<string>();
  /** The 401 replies, without their dates. */
  readonly unknown = new Set<string>();

  constructor(recorded: (text: string) => string[]) {
    this.#recorded = recorded;
  }

  expect(key: string, recorded: readonly string[], defect: boolean): void {
    this.#expected.set(key, recorded);
    if (defect) this.#uncounted.add(key);
  }

  recordedBy(key: string): string[] {
    return this.#recorded(key).filter((recorded) => recorded.startsWith(key));
  }

  expected(): string[] {
    return [...this.#expected].flatMap(([key, recorded]) => (this.#uncounted.has(key) ? [] : recorded));
  }

  /** Checks that the journal has exactly the events of the rows: no late ones, and none under another name. */
  checkTotal(rows: number): void {
    assert.equal(this.#expected.size, rows, 'some rows did not end');
    const counted = this.#recorded('').filter((recorded) => !this.#uncounted.has(recorded.slice(0, KEY.length)));
    assert.deepEqual(counted.sort(), this.expected().sort());
  }
}

interface Trial {
  readonly service: Running;
  readonly style: Style;
  readonly ledger: Ledger;
  /** @returns the client address of a row */
  readonly addressOf: (count: number) => string | undefined;
}

/** In its short form, the hosted run has all rows about tokens, and every third row of the local run. */
function chosenRows(groups: Groups): Groups {
  const step = rounds({ long: 1, short: 3 });
  const chosen = Object.entries(groups).map(
    ([group, rows]) => [group, group === 'tokens' ? rows : rows.filter((_, index) => index % step === 0)] as const,
  );
  return Object.fromEntries(chosen);
}

async function runTable(t: TestContext, groups: Groups, trial: Trial): Promise<void> {
  let count = 0;
  const running: Promise<void>[] = [];
  for (const [group, rows] of Object.entries(groups)) {
    t.diagnostic(`${group}: ${rows.length} rows`);
    for (const row of rows) {
      count += 1;
      const key = `key-${count.toString(36).padStart(3, '0')}`;
      const address = trial.addressOf(count);
      assert.equal(key.length, KEY.length);
      running.push(
        t.test(`${group}: ${row.name}`, async (t) => {
          const held = runRow(t, trial, row, key, address);
          if (row.defect === undefined) return held;
          // Not a `todo`: the test has to notice a version of Node that fixes the defect.
          await assert.rejects(
            held,
            { code: 'ERR_ASSERTION' },
            `the row passes, so the defect is fixed: ${row.defect}`,
          );
        }),
      );
    }
  }
  await Promise.all(running);
  t.diagnostic(`${count} rows`);
  trial.ledger.checkTotal(count);
}

async function runRow(
  t: TestContext,
  { service, style, ledger }: Trial,
  row: Row,
  key: string,
  address: string | undefined,
): Promise<void> {
  const wire = await Wire.open(service.port, '127.0.0.1', address);
  t.after(() => wire.close());
  const keyed = (text: string) => text.replaceAll(KEY, key);
  const good = (what: string) =>
    post(`${style.prefix}/report_asset_materialization/${key}/${what}`, undefined, style.headers);
  // The events of the row are counted even if the row fails early.
  ledger.expect(key, [], row.defect !== undefined);
  await send(wire, keyed(row.bytes), row.pieceBytes);
  if (row.half) wire.socket.end();

  const { outcome, last } = await readReplies(wire, row, ledger);
  const recorded = outcome.replies.flatMap(({ records = [] }) => [records].flat().map(keyed));
  const kept = outcome.afterwards === 'kept' && !row.half;
  const expected = [...recorded, ...(kept ? [`${key}/kept`] : []), `${key}/control`];
  ledger.expect(key, expected, row.defect !== undefined);

  if (kept) await checkKept(wire, good('kept'), last);
  else if (outcome.afterwards === 'open') await checkOpen(wire);
  else await checkEnds(wire, good('late'), outcome, last, row.half === true);

  assert.equal((await ask(service.port, good('control'))).status, 200, 'another client is disturbed');
  assert.deepEqual(ledger.recordedBy(key).sort(), expected.sort());
}

async function send(wire: Wire, bytes: string, pieceBytes = bytes.length): Promise<void> {
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    wire.send(bytes.slice(at, at + pieceBytes));
    if (pieceBytes < bytes.length) await new Promise(setImmediate); // otherwise the pieces would share a packet
  }
}

/** Reads replies until one of the possible outcomes is complete. */
async function readReplies(
  wire: Wire,
  { outcomes, bodiless = false }: Row,
  ledger: Ledger,
): Promise<{ outcome: Outcome; last: WireReply | undefined }> {
  let possible = outcomes;
  let last: WireReply | undefined;
  for (let index = 0; index < (possible[0]?.replies.length ?? 0); index += 1) {
    last = await wire.reply(bodiless);
    const wanted = possible.map(({ replies }) => replies[index]?.status).join(' or ');
    const what = `reply ${index + 1} should be ${wanted}, and is ${last?.status}: ${last?.body}`;
    possible = possible.filter(({ replies }) => replies[index]?.status === last?.status);
    const wantedReply = possible[0]?.replies[index];
    assert.ok(wantedReply !== undefined && last !== undefined, what);
    checkReply(last, bodiless, wantedReply.reads === true);
    assert.equal(last.headers.get('idempotent-replayed'), wantedReply.replayed && 'true');
    if (last.status === 401 && !bodiless) ledger.unknown.add(withoutChance(last));
  }
  const [outcome] = possible;
  assert.ok(outcome !== undefined);
  return { outcome, last };
}

const GOOD_BODY =
  /^(\{\}|\{"status":"ok"\}|\{"recorded":\d+(,"duplicates":\d+)?\}|\{"seq":0,"id":null(,"gzip":true,"origins":true)?\})$/;

const GOOD_READING = /^(\{"(events|assets|refusals)":\[.*\](,"next_after_seq":\d+)?\}|(\{"seq":\d+,.*\}\n)*)$/;

/** Checks the properties of every reply. */
function checkReply({ status, headers, body }: WireReply, bodiless: boolean, reads: boolean): void {
  if (status === 100) return;
  if (reads) assert.match(headers.get('content-type') ?? '', /^application\/(json|x-ndjson)$/);
  else assert.equal(headers.get('content-type'), 'application/json');
  assert.match(headers.get('date') ?? '', / GMT$/);
  for (const name of headers.keys()) assert.doesNotMatch(name, /^access-control-/);
  assert.equal(headers.has('allow'), status === 405);
  assert.equal(headers.has('www-authenticate'), status === 401 || status === 429);
  assert.equal(/^([1-9]|[1-5][0-9]|60)$/.test(headers.get('retry-after') ?? ''), status === 429);
  if (bodiless) return;
  if (reads) {
    assert.match(body, GOOD_READING);
    return;
  }
  if (status === 200 || status === 207) {
    assert.match(body, status === 200 ? GOOD_BODY : /^\{"recorded":\d+,"failed":\d+,"errors":\[\{/);
    return;
  }
  assert.ok(readFailure(body), body);
}

async function checkKept(wire: Wire, good: string, last: WireReply | undefined): Promise<void> {
  assert.equal(last?.headers.get('connection'), 'keep-alive');
  wire.send(good);
  const next = await wire.reply();
  assert.equal(next?.status, 200, `the next reply on the connection is ${next?.status}: ${next?.body}`);
}

async function checkOpen(wire: Wire): Promise<void> {
  const first = await Promise.race([wire.reply(), sleep(SILENCE_MS, 'nothing')]);
  assert.equal(first, 'nothing', 'bytes arrived, although none are expected');
  assert.equal(wire.ended, false);
  wire.close();
}

/** Checks that the connection ends, announced unless the client closed first, and that further requests are not served. */
async function checkEnds(
  wire: Wire,
  good: string,
  outcome: Outcome,
  last: WireReply | undefined,
  half: boolean,
): Promise<void> {
  if (last !== undefined) {
    assert.equal(last.headers.get('connection'), outcome.afterwards === 'closed' ? 'close' : 'keep-alive');
  }
  if (!half) {
    wire.send(good);
    wire.socket.end();
  }
  assert.equal(await wire.ends(limits.discardMs - 500), true, 'the connection does not end, or further bytes arrived');
}
