/** Runs the table of hostile inputs against one service, a few rows at a time, and counts every event. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { groups, KEY, type Outcome, type Row } from './hostile.ts';
import { journalText, type Running, startService } from './program.ts';
import { ask, post, Wire, type WireReply } from './wire.ts';

const ROWS_AT_A_TIME = 8;
/** What a row that gets no reply is watched for. */
const SILENCE_MS = 1_000;
const PATH = '/report_asset_materialization/';

test('every row has a name of its own, and a reason where it allows several outcomes', () => {
  const names = Object.values(groups).flatMap((rows) => rows.map(({ name }) => name));
  assert.ok(names.length >= 160, `${names.length} rows`);
  assert.deepEqual(
    names.filter((name, index) => names.indexOf(name) !== index),
    [],
  );
  for (const { name, outcomes, reason } of Object.values(groups).flat()) {
    assert.match(name, /^[A-Z0-9_].* /, 'a name is a sentence');
    assert.equal(outcomes.length > 1, reason !== undefined, name);
  }
});

test('hostile inputs', { concurrency: ROWS_AT_A_TIME }, async (t) => {
  const service = await startService(t);
  const ledger = new Ledger(service);
  let count = 0;
  const running: Promise<void>[] = [];
  for (const [group, rows] of Object.entries(groups)) {
    t.diagnostic(`${group}: ${rows.length} rows`);
    for (const row of rows) {
      count += 1;
      const key = `key-${String(count).padStart(3, '0')}`;
      assert.equal(key.length, KEY.length);
      const todo = row.defect === undefined ? {} : { todo: row.defect };
      running.push(t.test(`${group}: ${row.name}`, todo, (t) => runRow(t, service, ledger, row, key)));
    }
  }
  await Promise.all(running);
  t.diagnostic(`${count} rows`);
  ledger.checkTotal(Object.values(groups).flat().length);
});

/** What ought to be in the journal, by the key of a row. */
class Ledger {
  readonly #service: Running;
  readonly #expected = new Map<string, readonly string[]>();
  /** Of rows that found a defect: what they leave is not counted. */
  readonly #uncounted = new Set<string>();

  constructor(service: Running) {
    this.#service = service;
  }

  expect(key: string, recorded: readonly string[], defect: boolean): void {
    this.#expected.set(key, recorded);
    if (defect) this.#uncounted.add(key);
  }

  recordedBy(key: string): string[] {
    return this.#recorded().filter((recorded) => recorded.startsWith(key));
  }

  /** Exactly what the rows say is there, and nothing else at all: not late, not under another name. */
  checkTotal(rows: number): void {
    assert.equal(this.#expected.size, rows, 'some rows came to no end');
    const counted = this.#recorded().filter((recorded) => !this.#uncounted.has(recorded.slice(0, KEY.length)));
    const expected = [...this.#expected].flatMap(([key, recorded]) => (this.#uncounted.has(key) ? [] : recorded));
    assert.deepEqual(counted.sort(), expected.sort());
  }

  #recorded(): string[] {
    // A slash inside a part becomes a bar, so that one part and two parts look different.
    // The last line may be on its way to the disk, for another row.
    const lines = journalText(this.#service.data).split('\n').slice(0, -1);
    return lines.map((line) => {
      const { asset_key: parts }: { asset_key: string[] } = JSON.parse(line);
      return parts.map((part) => part.replaceAll('/', '|')).join('/');
    });
  }
}

async function runRow(t: TestContext, service: Running, ledger: Ledger, row: Row, key: string): Promise<void> {
  const wire = await Wire.open(service.port);
  t.after(() => wire.close());
  const keyed = (text: string) => text.replaceAll(KEY, key);
  // Whatever the row leaves is counted, also when the row fails before its end.
  ledger.expect(key, [], row.defect !== undefined);
  await send(wire, keyed(row.bytes), row.pieceBytes);
  if (row.half) wire.socket.end();

  const { outcome, last } = await readReplies(wire, row.outcomes);
  const recorded = outcome.replies.flatMap(({ records }) => (records === undefined ? [] : [keyed(records)]));
  const control = `${key}/control`;
  const kept = outcome.afterwards === 'kept' && !row.half;
  const expected = [...recorded, ...(kept ? [`${key}/kept`] : []), control];
  ledger.expect(key, expected, row.defect !== undefined);

  if (kept) await checkKept(wire, key, last);
  else if (outcome.afterwards === 'open') await checkOpen(wire);
  else await checkEnds(wire, key, outcome, last, row.half === true);

  assert.equal((await ask(service.port, post(`${PATH}${control}`))).status, 200, 'another client is disturbed');
  assert.deepEqual(ledger.recordedBy(key).sort(), expected.sort());
}

async function send(wire: Wire, bytes: string, pieceBytes = bytes.length): Promise<void> {
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    wire.send(bytes.slice(at, at + pieceBytes));
    if (pieceBytes < bytes.length) await new Promise(setImmediate); // without a pause the pieces would share a packet
  }
}

/** Reads as many replies as the outcome has that comes true. */
async function readReplies(
  wire: Wire,
  outcomes: readonly Outcome[],
): Promise<{ outcome: Outcome; last: WireReply | undefined }> {
  let possible = outcomes;
  let last: WireReply | undefined;
  for (let index = 0; index < (possible[0]?.replies.length ?? 0); index += 1) {
    last = await wire.reply();
    const wanted = possible.map(({ replies }) => replies[index]?.status).join(' or ');
    const what = `reply ${index + 1} should be ${wanted}, and is ${last?.status}: ${last?.body}`;
    possible = possible.filter(({ replies }) => replies[index]?.status === last?.status);
    assert.ok(possible.length > 0 && last !== undefined, what);
    checkReply(last);
  }
  const [outcome] = possible;
  assert.ok(outcome !== undefined);
  return { outcome, last };
}

/** What holds for every reply, whatever was asked. */
function checkReply({ status, headers, body }: WireReply): void {
  if (status === 100) return;
  assert.equal(headers.get('content-type'), 'application/json');
  assert.match(headers.get('date') ?? '', / GMT$/);
  for (const name of headers.keys()) assert.doesNotMatch(name, /^access-control-/);
  if (status === 200) {
    assert.match(body, /^(\{\}|\{"status":"ok"\})$/);
    return;
  }
  const parsed: Record<string, unknown> = JSON.parse(body);
  assert.deepEqual(Object.keys(parsed), ['error']);
  assert.match(String(parsed['error']), /^.+$/, 'an error is one line');
  assert.equal(headers.has('allow'), status === 405);
}

async function checkKept(wire: Wire, key: string, last: WireReply | undefined): Promise<void> {
  assert.equal(last?.headers.get('connection'), 'keep-alive');
  wire.send(post(`${PATH}${key}/kept`));
  const next = await wire.reply();
  assert.equal(next?.status, 200, `the next reply on the connection is ${next?.status}: ${next?.body}`);
}

async function checkOpen(wire: Wire): Promise<void> {
  const first = await Promise.race([wire.reply(), sleep(SILENCE_MS, 'nothing')]);
  assert.equal(first, 'nothing', 'something came where nothing should');
  assert.equal(wire.ended, false);
  wire.close();
}

/** The end comes, it was announced unless the client closed first, and nothing that is sent now is served. */
async function checkEnds(
  wire: Wire,
  key: string,
  outcome: Outcome,
  last: WireReply | undefined,
  half: boolean,
): Promise<void> {
  if (last !== undefined) {
    assert.equal(last.headers.get('connection'), outcome.afterwards === 'closed' ? 'close' : 'keep-alive');
  }
  if (!half) {
    wire.send(post(`${PATH}${key}/late`));
    wire.socket.end();
  }
  assert.equal(await wire.ends(3_000), true, 'the connection does not end, or more came than should');
}
